//! The real binary, command by command: stdout, stderr and exit code, whole.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod app;
mod architecture;
mod basics;
mod config;
#[cfg(unix)]
mod demo;
mod docs;
#[cfg(unix)]
mod elsewhere;
mod embedded;
#[cfg(unix)]
mod events;
mod harness;
#[cfg(unix)]
mod install;
mod keys;
#[cfg(unix)]
mod listen;
mod relay;
#[cfg(unix)]
mod replay;
mod running;
mod scrub;
#[cfg(unix)]
mod serve;
mod sources;
#[cfg(unix)]
mod status;
#[cfg(target_os = "linux")]
mod terminal;
#[path = "../support/store.rs"]
#[cfg(unix)]
#[allow(
    unreachable_pub,
    dead_code,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "shared by tests"
)]
mod test_store;
#[cfg(unix)]
mod trigger;
