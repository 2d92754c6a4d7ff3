//! What `listen` tells: typed events, which renderers turn into lines for people or for programs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;

use super::cause::Cause;
use super::hint::Hint;
use crate::clock::Timestamp;
use crate::headers::Headers;

/// One thing that happened, and when.
#[derive(Clone, Debug)]
pub struct Event {
    /// When, on the injected clock.
    pub at: Timestamp,
    /// What.
    pub what: What,
}

/// What happened. All but the last three variants of the table in cli.md carry exactly its fields.
#[derive(Clone, Debug)]
pub enum What {
    /// The first poll was accepted: first, and once.
    Ready(Ready),
    /// A delivery was handed out for the first time; it will be forwarded, skipped or only shown.
    Received(Arc<Received>),
    /// How a delivery ended.
    Ended(Ended),
    /// A target's port closed or opened.
    Gate(Gate),
    /// An ack came too late: the relay had handed the delivery out again.
    Fenced {
        /// The event.
        event_id: String,
        /// The delivery whose ack changed nothing.
        delivery_id: String,
    },
    /// The relay can't be reached, or the machine slept; tried again after `next`. Comes before `ready` too.
    Reconnecting {
        /// Why.
        cause: Cause,
        /// How long until the next try.
        next: Duration,
        /// Failed tries in a row, this one counted; 0 when nothing failed (the machine slept).
        tries: u32,
    },
    /// A poll was accepted after a gap.
    Reconnected {
        /// How long the gap was.
        down: Duration,
        /// How many deliveries waited; `None` when the server doesn't say.
        waited: Option<u64>,
        /// How many events never came, from the sequences of their sources; `None` when the server has none.
        lost: Option<u64>,
    },
    /// Something a person should know; no line of its own in JSON output.
    Notice(Notice),
    /// What to remember for the next start (the state directory is the CLI's).
    Checkpoint(Checkpoint),
    /// It can't go on.
    Fatal(Fatal),
    /// The end: last, and once.
    Summary(Summary),
}

/// The listener is open and polled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The listener.
    pub listener_id: String,
    /// The relay.
    pub relay_url: String,
    /// The exact URL that is posted to; `None` = print only, or routes alone.
    pub forward_to: Option<String>,
    /// Source name to the URL its provider posts to; empty on a server that doesn't tell.
    pub ingress: BTreeMap<String, String>,
    /// Whether one source has one POST open at most.
    pub ordered: bool,
    /// POSTs open at most.
    pub max_in_flight: usize,
    /// Deliveries that wait; `None` when the server doesn't say.
    pub waiting: Option<u64>,
    /// Events that arrived since the last listener ended and are not handed out; `None` = unknown.
    pub missed: Option<Missed>,
}

/// A count that may have been cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// How many were counted.
    pub count: u64,
    /// Whether there are more than that.
    pub more: bool,
}

/// A delivery as it was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The event.
    pub event_id: String,
    /// The delivery.
    pub delivery_id: String,
    /// Its type.
    pub event_type: String,
    /// Its source, where the server says.
    pub source: Option<String>,
    /// Which hand-out this is, from 1.
    pub attempt: u32,
    /// Whether somebody replayed it.
    pub replay: bool,
    /// Whether the provider sent it again.
    pub redelivery: bool,
    /// When the event arrived at the relay.
    pub created_at: Timestamp,
    /// The method with which it arrived.
    pub method: String,
    /// The path below the source; empty when there is none.
    pub path: String,
    /// The query, without its question mark.
    pub query: Option<String>,
    /// The headers as they came; `None` on a server that doesn't hand them out.
    pub headers: Option<Headers>,
    /// The exact bytes.
    pub body: Bytes,
    /// Its number in its source's stream.
    pub sequence: Option<u64>,
    /// 1 = the first arrival; a redelivery or a replay is a further one.
    pub occurrence: Option<u64>,
}

/// How a delivery ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The delivery.
    pub received: Arc<Received>,
    /// The outcome.
    pub outcome: Outcome,
    /// What the app answered.
    pub status: Option<u16>,
    /// Why it failed, when the status alone doesn't say.
    pub error: Option<String>,
    /// From the first byte sent to the answer read.
    pub duration: Duration,
    /// The URL that was posted to; `None` when nothing was.
    pub url: Option<String>,
    /// The likely cause of a failure, checked.
    pub hint: Option<Hint>,
    /// What was sent, for `copy as curl`; `None` when nothing was.
    pub sent: Option<Arc<Sent>>,
    /// What the app answered, at most 64 KiB of it.
    pub answer: Bytes,
}

/// The request line and the headers of a forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The method.
    pub method: String,
    /// The headers, without framing.
    pub headers: HeaderMap,
}

/// The three ways to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The app answered 2xx, or there was nothing to post to.
    Delivered,
    /// Anything else; final, replayable.
    Failed,
    /// A filter held it back, or no route takes it.
    Skipped(Skip),
}

impl Outcome {
    /// The wire text.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Skipped(_) => "skipped",
        }
    }
}

/// Why a delivery was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// Its type isn't among `--events`.
    Events,
    /// Its type is among `--exclude`.
    Exclude,
    /// Its source isn't among `--source`.
    Source,
    /// A `--filter` doesn't hold.
    Filter,
    /// No route takes it and there is no `--forward-to`.
    Route,
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Events => "not among --events",
            Self::Exclude => "among --exclude",
            Self::Source => "not among --source",
            Self::Filter => "--filter does not hold",
            Self::Route => "no route takes it",
        })
    }
}

/// A target's port closed or opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Whether something listens there now.
    pub open: bool,
    /// `localhost:3000`, or the socket's path.
    pub target: String,
    /// The addresses that refused; empty when it opened.
    pub tried: Vec<String>,
    /// How many deliveries wait, those kept here included; `None` when the server doesn't say.
    pub waiting: Option<u64>,
}

/// What to remember between runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The newest listener.
    pub listener_id: Option<String>,
    /// Whether that listener was closed in order.
    pub closed: bool,
    /// The listener that `--since last` goes on from; an older one while what was missed at start is not passed by.
    pub resume: Option<String>,
    /// The newest event that was seen, or that existed when the listener opened.
    pub last_event_id: Option<String>,
}

/// Something a person should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Events arrived while nothing listened, and are not handed out: `--since last` does that.
    Missed(Missed),
    /// Other listeners of this environment are open; each gets its own copy.
    OthersOpen(u64),
    /// No event of a type that matches this pattern was ever stored.
    UnknownType(String),
    /// The relay had forgotten the listener; a new one took over.
    Reopened {
        /// The new listener.
        listener_id: String,
        /// What it was opened with.
        from: ReopenedFrom,
    },
    /// A reopened listener would have brought too many events: it starts from now.
    BacklogSkipped {
        /// How many, when the relay says.
        count: Option<u64>,
        /// The event after which they came.
        after: Option<String>,
        /// The command that hands them out.
        replay: String,
    },
    /// Events of this source never came, seen from a gap in its sequence.
    Lost {
        /// The source.
        source: String,
        /// The first missing number.
        from: u64,
        /// The last missing number.
        to: u64,
    },
    /// The relay refused an ack; it is not sent again.
    AckRefused {
        /// The event.
        event_id: String,
        /// The delivery.
        delivery_id: String,
        /// What the relay said.
        message: String,
    },
    /// The server refuses `limit: 0`: claims stop by not polling, acks travel with the next poll.
    NoIdlePolls,
    /// A delivery's body or headers can't be used; it is acked as failed.
    Undecodable {
        /// The event.
        event_id: String,
        /// What is wrong.
        message: String,
    },
    /// The drain ended these POSTs; they are acked as failed, `interrupted`.
    Interrupted {
        /// How many.
        count: usize,
    },
    /// Claimed, and not posted when the end came: left for `--since last`.
    NotSent {
        /// How many.
        count: usize,
    },
    /// The relay could not be told how these ended before the end: it may hand them out again.
    NotAcked {
        /// How many.
        count: usize,
    },
    /// `--since last`, and nothing is known of an earlier run.
    NothingRemembered,
    /// Claiming was paused, or goes on.
    Paused(bool),
    /// The likely cause of a closed port; once.
    Hint(Hint),
}

/// From where a reopened listener goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReopenedFrom {
    /// It took over what the old one left.
    Continued,
    /// The last event that was seen.
    Event(String),
    /// Now.
    Now,
}

/// Why it can't go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fatal {
    /// The kind, which decides the exit code.
    pub kind: FatalKind,
    /// For people.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

/// The kinds of fatal errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FatalKind {
    /// The key is wrong.
    Unauthorised,
    /// The key may not.
    Forbidden,
    /// The relay, the listener or the event named by `--since` isn't there.
    NotFound,
    /// Too many requests, for as many tries as were allowed.
    RateLimited,
    /// No connection in as many tries as were allowed.
    Unreachable,
    /// `--since` would bring more than `--max-backlog`.
    BacklogRefused,
    /// Five listeners are open.
    ListenerLimit,
    /// The target can't be used.
    Target,
    /// The relay refused what it was asked.
    Refused,
    /// A mistake of ours.
    Internal,
}

impl FatalKind {
    /// The `code` of the JSON line.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Unauthorised => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::RateLimited => "rate_limited",
            Self::Unreachable => "relay_unreachable",
            Self::BacklogRefused => "backlog_too_large",
            Self::ListenerLimit => "webhook_listener_limit_reached",
            Self::Target => "invalid_target",
            Self::Refused => "invalid_request",
            Self::Internal => "internal_error",
        }
    }

    /// The exit code of cli.md.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Internal => 1,
            Self::Target | Self::Refused => 2,
            Self::Unauthorised => 10,
            Self::Forbidden => 11,
            Self::NotFound => 12,
            Self::RateLimited => 14,
            Self::Unreachable => 16,
            Self::BacklogRefused | Self::ListenerLimit => 17,
        }
    }
}

/// Why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was asked to stop, and drained.
    Stopped,
    /// `--until` was reached.
    Until,
    /// `--idle-timeout` ran out.
    Idle,
    /// `--exit-on-failure`, and a forward failed.
    ForwardFailed,
    /// It couldn't go on.
    Fatal(FatalKind),
    /// It was asked twice: nothing acked, the listener left open.
    Forced,
}

impl End {
    /// The exit code of cli.md.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Stopped | Self::Until => 0,
            Self::Idle => 7,
            Self::ForwardFailed => 20,
            Self::Fatal(kind) => kind.exit_code(),
            Self::Forced => 130,
        }
    }
}

/// The totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Deliveries handed out, each counted once.
    pub received: u64,
    /// Answered 2xx.
    pub delivered: u64,
    /// Failed.
    pub failed: u64,
    /// Held back.
    pub skipped: u64,
    /// Acks that came too late.
    pub fenced: u64,
    /// Why it ended.
    pub end: End,
}
