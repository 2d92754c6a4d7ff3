//! One story, told by every renderer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use insta::assert_snapshot;

use super::*;
use crate::clock::Timestamp;
use crate::headers::Headers;
use crate::listen::{
    Cause, Checkpoint, End, Ended, Fatal, FatalKind, Gate, Hint, Missed, Notice, Outcome, Ready, Received,
    Sent, Skip, Summary, What,
};

fn received(kind: &str, body: &'static [u8]) -> Arc<Received> {
    Arc::new(Received {
        event_id: "evt_01k7aaaaaaaaaaaaaaaaaaaaaa".to_owned(),
        delivery_id: "whlisdel_01k7bbbbbbbbbbbbbbbbbbbbbb".to_owned(),
        event_type: kind.to_owned(),
        source: Some("shop".to_owned()),
        attempt: 1,
        replay: kind == "replayed",
        redelivery: false,
        created_at: Timestamp::from_millis(1_760_000_000_000),
        method: "POST".to_owned(),
        path: String::new(),
        query: None,
        headers: Some(
            [("content-type", "application/json"), ("x-evil", "\u{1b}[31m")].into_iter().collect::<Headers>(),
        ),
        body: Bytes::from_static(body),
        sequence: Some(1),
        occurrence: Some(1),
    })
}

fn ended(kind: &str, outcome: Outcome, status: Option<u16>, error: Option<&str>, hint: Option<Hint>) -> What {
    What::Ended(Ended {
        received: received(kind, b"{}"),
        outcome,
        status,
        error: error.map(str::to_owned),
        duration: Duration::from_millis(23),
        url: (!matches!(outcome, Outcome::Skipped(_))).then(|| "http://localhost:3000/webhooks".to_owned()),
        hint,
        sent: Some(Arc::new(Sent { method: "POST".to_owned(), headers: http::HeaderMap::new() })),
        answer: Bytes::new(),
    })
}

fn fatal() -> What {
    let (message, hint) = ("the relay does not know this key", "pullhook keys create");
    What::Fatal(Fatal {
        kind: FatalKind::Unauthorised,
        message: message.to_owned(),
        hint: Some(hint.to_owned()),
    })
}

fn story() -> Vec<What> {
    let refused = "connection refused on 127.0.0.1:3000 and [::1]:3000";
    vec![
        What::Reconnecting {
            cause: Cause::Refused { address: "127.0.0.1:4750".to_owned() },
            next: Duration::from_millis(250),
            tries: 1,
        },
        What::Ready(Ready {
            listener_id: "whlis_01k7cccccccccccccccccccccc".to_owned(),
            relay_url: "http://127.0.0.1:4750/".to_owned(),
            forward_to: Some("http://localhost:3000/webhooks".to_owned()),
            ingress: [("shop".to_owned(), "http://127.0.0.1:4750/api/webhooks/shop".to_owned())].into(),
            ordered: false,
            max_in_flight: 10,
            waiting: Some(2),
            missed: Some(Missed { count: 12, more: false }),
        }),
        What::Notice(Notice::Missed(Missed { count: 12, more: false })),
        What::Notice(Notice::OthersOpen(1)),
        What::Notice(Notice::UnknownType("invoice.piad".to_owned())),
        What::Checkpoint(Checkpoint::default()),
        What::Received(received("invoice.paid", b"{\"a\":\n\x1b[2J1}")),
        ended("invoice.paid", Outcome::Delivered, Some(200), None, None),
        What::Received(received("replayed", b"\xff\xfe")),
        ended(
            "replayed",
            Outcome::Failed,
            Some(405),
            None,
            Some(Hint::Method { method: "POST".into(), allow: None }),
        ),
        ended("a\u{1b}]0;b", Outcome::Failed, None, Some(refused), None),
        ended("x.y", Outcome::Skipped(Skip::Events), None, None, None),
        What::Gate(Gate {
            open: false,
            target: "localhost:3000".to_owned(),
            tried: vec!["127.0.0.1:3000".to_owned()],
            waiting: Some(3),
        }),
        What::Gate(Gate {
            open: true,
            target: "localhost:3000".to_owned(),
            tried: Vec::new(),
            waiting: Some(3),
        }),
        What::Fenced { event_id: "evt_1".to_owned(), delivery_id: "whlisdel_1".to_owned() },
        What::Reconnected { down: Duration::from_secs(42), waited: Some(7), lost: Some(0) },
        fatal(),
        What::Summary(Summary {
            received: 4,
            delivered: 1,
            failed: 2,
            skipped: 1,
            fenced: 1,
            end: End::Stopped,
        }),
    ]
}

fn told(format: Format, detail: bool) -> String {
    let look = Look {
        secret: Some("Your webhook signing secret is whsec_MDEy….".to_owned()),
        embedded: true,
        body: detail,
        headers: detail,
        ..Look::default()
    };
    let at = Timestamp::from_millis(1_760_000_000_000);
    let mut renderer = renderer(format, look);
    let lines = story().into_iter().flat_map(|what| renderer.render(&Event { at, what }));
    // Local times differ from machine to machine.
    lines.map(|line| format!("{line:?}\n").replace(&at.local(), "2025-10-09 08:53:20")).collect()
}

#[test]
fn human() {
    assert_snapshot!(told(Format::Human, false));
    assert_snapshot!(told(Format::Human, true));
}

#[test]
fn compact() {
    assert_snapshot!(told(Format::Compact, false));
}

#[test]
fn quiet() {
    assert_snapshot!(told(Format::Quiet, false));
}

#[test]
fn json() {
    assert_snapshot!(told(Format::Json, false));
    assert_snapshot!(told(Format::Json, true));
}

#[test]
fn after_an_error_at_the_start_there_is_nothing_to_total() {
    let end = End::Fatal(FatalKind::Unauthorised);
    let nothing = Summary { received: 0, delivered: 0, failed: 0, skipped: 0, fenced: 0, end };
    assert_eq!(people::totals(&nothing), None);
    assert!(people::totals(&Summary { received: 1, failed: 1, ..nothing }).is_some());
    assert!(people::totals(&Summary { end: End::Stopped, ..nothing }).is_some(), "asked to end, all is told");
}
