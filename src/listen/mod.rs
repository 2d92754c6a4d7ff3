//! The pull loop of `pullhook listen`: open a listener, long-poll it, POST each delivery once, ack the outcome.
//!
//! It tells what happens as typed [`Event`]s, takes its clock, dice and numbers from [`ListenOptions`], and knows
//! nothing of command lines, files or terminals. It speaks the public listener contract and uses what is **ext**
//! only where a server shows that it has it.

#![allow(dead_code, reason = "the loop itself lands with the next commit")]

mod cause;
mod control;
mod destination;
mod event;
mod hint;
mod options;
mod timing;

pub use cause::Cause;
pub use control::{Command, Control, Handle, control};
pub use destination::Destination;
pub use event::{
    Checkpoint, End, Ended, Event, Fatal, FatalKind, Gate, Missed, Notice, Outcome, Ready, Received,
    ReopenedFrom, Sent, Skip, Summary, What,
};
pub use hint::Hint;
pub use options::{BadHeader, ListenOptions, Relocate, Route, RouteOn, SignAs, Since, UserHeader};
pub use timing::Timing;
