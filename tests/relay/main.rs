//! The relay in process: its router, on both engines, with a clock that stands until a test moves it.
#![allow(unreachable_pub, missing_debug_implementations, reason = "a test binary has no outside")]
#![allow(dead_code, reason = "shared helpers serve some tests only")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    reason = "tests"
)]

mod answer;
mod bodies;
mod common;
mod dispatch;
mod events;
mod failing_commit;
mod fields;
mod harness;
mod idempotency;
mod ingress;
mod listeners;
mod log;
mod polls;
mod redelivery;
mod refusals;
mod replay;
mod secrets;
mod service;
mod sockets;
mod sources;
#[path = "../support/store.rs"]
mod store;
mod takeover;
mod unreachable;
mod waits;
