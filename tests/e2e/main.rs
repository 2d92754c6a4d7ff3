//! Whole stories over real processes: the binary as people run it, a provider that posts, an app that answers, a
//! network that cuts and stalls. Each test has a home, ports and processes of its own; it waits for what happens (a
//! line, a request, an end) and never for time to pass.

#![cfg(unix)]
#![allow(unreachable_pub, missing_debug_implementations, reason = "a test binary has no outside")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "tests"
)]

mod durable;
mod embedded;
mod ending;
mod exits;
mod flags;
mod forward;
mod harness;
mod headers;
mod large;
mod leases;
mod network;
mod readme;
mod ready;
mod secrets;
mod shared;
mod sleep;
#[path = "../support/store.rs"]
#[allow(dead_code, reason = "only PostgreSQL is taken from it here")]
mod store;
