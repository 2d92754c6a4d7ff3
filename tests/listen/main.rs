//! `listen` against servers that aren't ours: one with none of our fields, one with all of them, and scripted ones.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod app;
mod fake;
mod rig;

mod acks;
mod filters;
mod flow;
mod foreign;
mod forward;
mod gate;
mod keep_alive;
mod ready;
mod reconnect;
mod stop;
mod tls;
