//! For programs: one JSON object a line on stdout, version 1. Fields are added, never changed or taken away.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::{Line, Look, Render, people};
use crate::cli::error::CliError;
use crate::clock::Timestamp;
use crate::headers::Headers;
use crate::listen::{Ended, Event, Gate, Outcome, Ready, Received, Skip, Summary, What};

/// `--output json`.
#[derive(Debug)]
pub(super) struct Json {
    look: Look,
    ready: bool,
}

/// The version of these lines.
const VERSION: u8 = 1;

#[derive(Serialize)]
struct Record<'a> {
    v: u8,
    #[serde(rename = "type")]
    kind: &'static str,
    at: Timestamp,
    #[serde(flatten)]
    body: Body<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Ready(ReadyBody<'a>),
    Event(EventBody<'a>),
    Result(ResultBody<'a>),
    Gate(GateBody<'a>),
    Fenced { event_id: &'a str, delivery_id: &'a str },
    Reconnecting { cause: String, next_ms: u64 },
    Reconnected { down_ms: u64, waited: Option<u64>, lost: Option<u64> },
    Fatal { code: &'a str, message: &'a str, hint: Option<&'a str>, exit: u8 },
    Summary(SummaryBody),
}

#[derive(Serialize)]
struct ReadyBody<'a> {
    listener_id: &'a str,
    relay_url: &'a str,
    forward_to: Option<&'a str>,
    ingress: &'a BTreeMap<String, String>,
    ordered: bool,
    max_in_flight: usize,
    waiting: Option<u64>,
    missed: Option<u64>,
    /// Only there when `missed` was cut short.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    missed_more: bool,
}

#[derive(Serialize)]
struct EventBody<'a> {
    event_id: &'a str,
    delivery_id: &'a str,
    event_type: &'a str,
    source: Option<&'a str>,
    attempt: u32,
    replay: bool,
    bytes: usize,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<&'a Headers>,
}

#[derive(Serialize)]
struct ResultBody<'a> {
    event_id: &'a str,
    delivery_id: &'a str,
    outcome: &'static str,
    status: Option<u16>,
    error: Option<&'a str>,
    duration_ms: u64,
    url: Option<&'a str>,
    hint: Option<String>,
    /// Only there when skipped: what held it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

#[derive(Serialize)]
struct GateBody<'a> {
    state: &'static str,
    target: &'a str,
    tried: &'a [String],
    waiting: Option<u64>,
}

#[derive(Serialize)]
struct SummaryBody {
    received: u64,
    delivered: u64,
    failed: u64,
    skipped: u64,
    fenced: u64,
    exit: u8,
}

impl Json {
    pub(super) fn new(look: Look) -> Self {
        Self { look, ready: false }
    }

    fn body<'a>(&self, what: &'a What) -> Option<(&'static str, Body<'a>)> {
        Some(match what {
            What::Ready(ready) => ("ready", Body::Ready(self::ready(ready))),
            What::Received(received) => ("event", Body::Event(self.event(received))),
            What::Ended(ended) => ("result", Body::Result(result(ended))),
            What::Gate(gate) => ("gate", Body::Gate(self::gate(gate))),
            What::Fenced { event_id, delivery_id } => ("fenced", Body::Fenced { event_id, delivery_id }),
            What::Reconnecting { cause, next, .. } => {
                ("reconnecting", Body::Reconnecting { cause: cause.to_string(), next_ms: millis(*next) })
            }
            What::Reconnected { down, waited, lost } => {
                ("reconnected", Body::Reconnected { down_ms: millis(*down), waited: *waited, lost: *lost })
            }
            What::Fatal(fatal) => {
                let (code, hint) = (fatal.kind.text(), fatal.hint.as_deref());
                ("fatal", Body::Fatal { code, message: &fatal.message, hint, exit: fatal.kind.exit_code() })
            }
            What::Summary(summary) => ("summary", Body::Summary(self::summary(summary))),
            What::Notice(_) | What::Checkpoint(_) => return None,
        })
    }

    fn event<'a>(&self, received: &'a Received) -> EventBody<'a> {
        EventBody {
            event_id: &received.event_id,
            delivery_id: &received.delivery_id,
            event_type: &received.event_type,
            source: received.source.as_deref(),
            attempt: received.attempt,
            replay: received.replay,
            bytes: received.body.len(),
            created_at: received.created_at,
            body_base64: self.look.body.then(|| STANDARD.encode(&received.body)),
            headers: received.headers.as_ref().filter(|_| self.look.headers),
        }
    }
}

impl Render for Json {
    fn render(&mut self, event: &Event) -> Vec<Line> {
        self.ready |= matches!(event.what, What::Ready(_));
        // `ready` comes first; before it, trying to connect is something for people.
        let early = !self.ready && matches!(event.what, What::Reconnecting { .. } | What::Reconnected { .. });
        let body = self.body(&event.what).filter(|_| !early);
        let record = body.map(|(kind, body)| line(&Record { v: VERSION, kind, at: event.at, body }));
        let mut lines: Vec<Line> = record.map(Line::Out).into_iter().collect();
        match &event.what {
            What::Ready(ready) => {
                lines.push(Line::Note(people::ready(ready, &self.look)));
                lines.extend(people::below_ready(ready, &self.look).into_iter().map(Line::Note));
            }
            What::Summary(summary) => {
                lines.extend(people::ending(summary));
                lines.extend(people::totals(summary).map(Line::Note));
            }
            other => lines.extend(people::say(other)),
        }
        lines
    }
}

/// The `fatal` line of an error that came before anything ran.
pub fn fatal_line(error: &CliError, at: Timestamp) -> String {
    let hint = error.hints().first().map(String::as_str);
    let body =
        Body::Fatal { code: error.kind().code(), message: error.message(), hint, exit: error.exit().code() };
    line(&Record { v: VERSION, kind: "fatal", at, body })
}

fn line(record: &Record<'_>) -> String {
    // Maps with text keys and plain values: nothing in them can fail to serialise.
    serde_json::to_string(record).unwrap_or_default()
}

fn ready(ready: &Ready) -> ReadyBody<'_> {
    ReadyBody {
        listener_id: &ready.listener_id,
        relay_url: &ready.relay_url,
        forward_to: ready.forward_to.as_deref(),
        ingress: &ready.ingress,
        ordered: ready.ordered,
        max_in_flight: ready.max_in_flight,
        waiting: ready.waiting,
        missed: ready.missed.map(|missed| missed.count),
        missed_more: ready.missed.is_some_and(|missed| missed.more),
    }
}

fn result(ended: &Ended) -> ResultBody<'_> {
    let reason = |skip| match skip {
        Skip::Events => "events",
        Skip::Exclude => "exclude",
        Skip::Source => "source",
        Skip::Filter => "filter",
        Skip::Route => "route",
    };
    ResultBody {
        event_id: &ended.received.event_id,
        delivery_id: &ended.received.delivery_id,
        outcome: ended.outcome.text(),
        status: ended.status,
        error: ended.error.as_deref(),
        duration_ms: millis(ended.duration),
        url: ended.url.as_deref(),
        hint: ended.hint.as_ref().map(ToString::to_string),
        reason: match ended.outcome {
            Outcome::Skipped(skip) => Some(reason(skip)),
            Outcome::Delivered | Outcome::Failed => None,
        },
    }
}

fn gate(gate: &Gate) -> GateBody<'_> {
    let state = if gate.open { "open" } else { "closed" };
    GateBody { state, target: &gate.target, tried: &gate.tried, waiting: gate.waiting }
}

fn summary(summary: &Summary) -> SummaryBody {
    let Summary { received, delivered, failed, skipped, fenced, end } = *summary;
    SummaryBody { received, delivered, failed, skipped, fenced, exit: end.exit_code() }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
