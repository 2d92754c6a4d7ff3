//! The real binary, command by command: stdout, stderr and exit code, whole.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod architecture;
mod basics;
mod config;
mod docs;
mod harness;
#[cfg(unix)]
mod install;
mod keys;
