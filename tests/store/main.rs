//! The store's conformance suite: the same stories on SQLite and on PostgreSQL, over the query functions.
#![allow(unreachable_pub, missing_debug_implementations, reason = "a test binary has no outside")]
#![allow(dead_code, reason = "what tests/support offers to others")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "tests"
)]

mod acks;
mod append;
mod claims;
mod continues;
mod engine;
mod fanout;
mod full_disk;
mod harness;
mod lists;
mod model;
mod opening;
mod ordered;
mod plans;
mod replay;
mod retention;
mod rows;
mod schema;
mod storm;
#[path = "../support/store.rs"]
mod support;
mod wake;
mod walk;
