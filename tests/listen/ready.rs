//! Start: what is said, when, and how it fails.

use std::time::Duration;

use pullhook::listen::{End, FatalKind, Notice, Since, What};
use serde_json::json;

use crate::app::App;
use crate::fake::{Fake, error, issue};
use crate::rig::{checkpoint, options, start};

#[tokio::test]
async fn ready_is_said_once_after_the_first_poll() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    relay.state().sources.push(source("github", "https://relay.example.com/api/webhooks/github"));
    let mut running = start(options(&relay.url(), Some(&app.target("/hooks"))));
    let ready = running.ready().await;
    assert!(!relay.state().polls.is_empty());
    assert_eq!(ready.forward_to, Some(format!("http://localhost:{}/hooks", app.port)));
    assert_eq!(ready.ingress["github"], "https://relay.example.com/api/webhooks/github");
    assert_eq!((ready.ordered, ready.max_in_flight, ready.waiting), (false, 10, Some(0)));
    let (told, summary) = running.stop().await;
    assert_eq!(summary.end, End::Stopped);
    assert_eq!(told.iter().filter(|what| matches!(what, What::Ready(_))).count(), 1);
    assert_eq!(relay.state().closes, [ready.listener_id]);
}

#[tokio::test]
async fn no_ready_while_the_relay_cannot_be_reached() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut options = options(&format!("http://127.0.0.1:{port}").parse().unwrap(), Some("3000"));
    options.max_connect_attempts = Some(3);
    let (told, summary) = start(options).end().await;
    assert_eq!(summary.end.exit_code(), 16);
    assert!(!told.iter().any(|what| matches!(what, What::Ready(_))));
    let causes: Vec<String> = told
        .iter()
        .filter_map(|what| match what {
            What::Reconnecting { cause, .. } => Some(cause.to_string()),
            What::Fatal(fatal) => Some(fatal.message.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(causes, vec![format!("connection refused by 127.0.0.1:{port}"); 3]);
}

#[tokio::test]
async fn the_relay_may_come_later() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    relay.down();
    let mut running = start(options(&relay.url(), Some(&app.target("/"))));
    let tried = |what: &What| matches!(what, What::Reconnecting { tries: 2.., .. }).then_some(());
    running.until("a failed try", tried).await;
    relay.up().await;
    running.ready().await;
    relay.publish("a.b", b"{}");
    running.ended().await;
    running.stop().await;
}

#[tokio::test]
async fn refusals_that_will_not_change_end_it() {
    for (status, code, kind, exit) in [
        (401, "unauthorized", FatalKind::Unauthorised, 10),
        (403, "forbidden", FatalKind::Forbidden, 11),
        (404, "not_found", FatalKind::NotFound, 12),
        (422, "webhook_listener_limit_reached", FatalKind::ListenerLimit, 17),
        (422, "backlog_too_large", FatalKind::BacklogRefused, 17),
        (400, "invalid_request", FatalKind::Refused, 2),
    ] {
        let relay = Fake::ours().await;
        relay.state().refusals.push_back((status, error(code)));
        let (told, summary) = start(options(&relay.url(), None)).end().await;
        assert_eq!(summary.end, End::Fatal(kind));
        assert_eq!(summary.end.exit_code(), exit);
        assert!(matches!(&told[0], What::Fatal(fatal) if fatal.message.contains(code)), "{told:?}");
        assert!(matches!(told.last(), Some(What::Summary(_))));
    }
}

#[tokio::test]
async fn too_many_requests_is_tried_again_and_has_its_own_exit_code() {
    let relay = Fake::ours().await;
    let limited = || (429, error("rate_limited"));
    relay.state().refusals.extend([limited(), limited()]);
    let mut running = start(options(&relay.url(), None));
    running.ready().await;
    running.stop().await;
    relay.state().refusals.extend([limited(), limited()]);
    let mut options = options(&relay.url(), None);
    options.max_connect_attempts = Some(2);
    let (_, summary) = start(options).end().await;
    assert_eq!(summary.end.exit_code(), 14);
}

#[tokio::test]
async fn a_target_elsewhere_is_refused_before_anything_runs() {
    let relay = Fake::ours().await;
    let (told, summary) = start(options(&relay.url(), Some("http://10.1.2.3:80/"))).end().await;
    assert_eq!(summary.end.exit_code(), 2);
    let says = |hint: &Option<String>| hint.as_ref().is_some_and(|hint| hint.contains("--allow-remote"));
    assert!(matches!(&told[0], What::Fatal(fatal) if says(&fatal.hint)), "{told:?}");
    assert!(relay.state().opens.is_empty());
}

#[tokio::test]
async fn a_dead_process_leaves_no_listener_behind_and_what_was_missed_is_said() {
    let (relay, app) = (Fake::ours().await, App::held().await);
    let mut first = start(options(&relay.url(), Some(&app.target("/"))));
    let ready = first.ready().await;
    relay.publish("a.b", b"1");
    app.until(1).await;
    first.handle.stop_now();
    let (told, summary) = first.end().await;
    assert_eq!(summary.end.exit_code(), 130);
    assert!(relay.state().closes.is_empty(), "left open for --since last");
    relay.publish("a.b", b"2");
    relay.publish("a.b", b"3");

    let mut again = options(&relay.url(), None);
    again.previous = checkpoint(&told);
    let mut second = start(again.clone());
    let now = second.ready().await;
    assert_eq!(relay.state().closes, std::slice::from_ref(&ready.listener_id));
    assert_eq!(now.missed.map(|missed| missed.count), Some(2));
    let (told, _) = second.stop().await;
    assert!(told.iter().any(|what| matches!(what, What::Notice(Notice::Missed(_)))));
    assert!(!told.iter().any(|what| matches!(what, What::Received(_))), "nothing is handed out unasked");

    // What was said is still true after the run that said it.
    again.previous = checkpoint(&told);
    again.since = Since::Last;
    let mut third = start(again);
    let mut bodies = Vec::new();
    for _ in 0..3 {
        bodies.push(third.ended().await.received.body.clone());
    }
    assert_eq!(bodies, [&b"1"[..], b"2", b"3"], "the first one was never acked");
    assert_eq!(relay.state().opens.last().unwrap()["continues"], json!(ready.listener_id));
    third.stop().await;
}

#[tokio::test]
async fn what_is_stored_is_handed_out_when_asked_for_oldest_first() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    for n in 0..5 {
        relay.publish("a.b", format!("{n}").as_bytes());
    }
    let mut options = options(&relay.url(), Some(&app.target("/")));
    (options.since, options.ordered) = (Since::At("beginning".to_owned()), true);
    let mut running = start(options);
    for _ in 0..5 {
        running.ended().await;
    }
    let bodies: Vec<_> = app.seen().iter().map(|seen| seen.body.clone()).collect();
    assert_eq!(bodies, ["0", "1", "2", "3", "4"]);
    let open = relay.state().opens[0].clone();
    assert_eq!((&open["since"], &open["max_backlog"]), (&json!("beginning"), &json!(1000)));
    running.stop().await;
}

#[tokio::test]
async fn an_event_that_is_not_there_is_not_found() {
    let relay = Fake::ours().await;
    relay.state().refusals.push_back((400, issue("since")));
    let mut options = options(&relay.url(), None);
    options.since = Since::At("evt_nowhere".to_owned());
    let (_, summary) = start(options).end().await;
    assert_eq!(summary.end.exit_code(), 12);
}

#[tokio::test]
async fn since_last_with_nothing_remembered_says_so() {
    let relay = Fake::ours().await;
    let mut options = options(&relay.url(), None);
    options.since = Since::Last;
    let mut running = start(options);
    let said = |what: &What| matches!(what, What::Notice(Notice::NothingRemembered)).then_some(());
    running.until("a notice", said).await;
    running.ready().await;
    running.stop().await;
}

#[tokio::test]
async fn others_that_listen_and_types_never_seen_are_named() {
    let relay = Fake::ours().await;
    relay.state().others_open = 1;
    relay.publish("invoice.paid", b"{}");
    let mut options = options(&relay.url(), None);
    options.events = ["invoice.*", "invoice.piad", "*"].map(str::to_owned).to_vec();
    let mut running = start(options);
    running.until("others", |what| matches!(what, What::Notice(Notice::OthersOpen(1))).then_some(())).await;
    let unknown = running
        .until("an unknown type", |what| match what {
            What::Notice(Notice::UnknownType(pattern)) => Some(pattern.clone()),
            _ => None,
        })
        .await;
    assert_eq!(unknown, "invoice.piad");
    running.stop().await;
}

#[tokio::test]
async fn idle_time_runs_before_ready_too() {
    let relay = Fake::ours().await;
    relay.down();
    let mut options = options(&relay.url(), None);
    options.idle_timeout = Some(Duration::from_millis(30));
    let (_, summary) = start(options).end().await;
    assert_eq!(summary.end.exit_code(), 7);
}

fn source(name: &str, url: &str) -> serde_json::Value {
    json!({"object": "source", "id": "src_1", "name": name, "scheme": "github", "ingress_url": url,
           "secrets": 1, "dedupe": "mark", "dedupe_window_s": 1, "max_body_bytes": 1, "enabled": true,
           "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z"})
}
