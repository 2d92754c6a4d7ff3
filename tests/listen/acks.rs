//! Acks: prompt, valid, fenced, and never the same refused body again.

use std::time::Duration;

use pullhook::listen::{Notice, What};
use serde_json::json;

use crate::app::App;
use crate::fake::{Fake, Fault, Manners, error, issue};
use crate::rig::{options, start};

#[tokio::test]
async fn an_ack_does_not_wait_for_the_hanging_poll() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    let mut running = start(options(&relay.url(), Some(&app.target("/"))));
    running.ready().await;
    let id = relay.publish("a.b", b"{}");
    relay.until("the ack", |state| state.acked(&id).is_some()).await;
    let carrier = relay.state().polls.iter().find(|poll| !poll["acks"].is_null()).unwrap().clone();
    assert_eq!((&carrier["wait_ms"], &carrier["limit"]), (&json!(0), &json!(0)));
    let ack = &carrier["acks"][0];
    assert_eq!((&ack["status_code"], &ack["error"]), (&json!(200), &json!(null)));
    assert!(ack["duration_ms"].is_u64());
    running.stop().await;
}

#[tokio::test]
async fn a_delivery_handed_out_again_while_open_is_posted_once_and_acked_with_the_new_token() {
    let (relay, app) = (Fake::ours().await, App::held().await);
    let mut running = start(options(&relay.url(), Some(&app.target("/"))));
    running.ready().await;
    let id = relay.publish("a.b", b"{}");
    app.until(1).await;
    relay.end_leases();
    relay.until("a second hand-out", |state| state.most_attempts() == 2).await;
    app.let_answer(1);
    relay.until("the ack", |state| state.acked(&id).is_some()).await;
    let (told, summary) = running.stop().await;
    assert_eq!((app.seen().len(), summary.received, summary.delivered), (1, 1, 1));
    assert!(!told.iter().any(|what| matches!(what, What::Fenced { .. })));
}

#[tokio::test]
async fn an_ack_that_came_too_late_is_told_and_sent_again_with_the_next_token() {
    let relay = Fake::start(Manners { ext: true, idle_polls: true, lease: Duration::from_secs(120) }).await;
    let app = App::held().await;
    let mut running = start(options(&relay.url(), Some(&app.target("/"))));
    running.ready().await;
    relay.publish("a.b", b"{}");
    app.until(1).await;
    // The hand-out whose answer is lost supersedes the token; nobody here knows of it.
    relay.fault(Fault::CutAnswer);
    relay.end_leases();
    relay.until("a lost hand-out", |state| state.most_attempts() >= 2).await;
    app.let_answer(1);
    relay.until("the ack", |state| state.done() == 1).await;
    running.stop().await;
    assert_eq!(app.seen().len(), 1);
}

#[tokio::test]
async fn slow_posts_keep_their_lease_however_short_the_relay_says_it_is() {
    let lease = Duration::from_millis(120);
    let relay = Fake::start(Manners { ext: true, idle_polls: true, lease }).await;
    let app = App::held().await;
    let mut running = start(options(&relay.url(), Some(&app.target("/"))));
    running.ready().await;
    relay.publish("a.b", b"{}");
    app.until(1).await;
    let extended =
        |state: &crate::fake::State| state.polls.iter().filter(|poll| !poll["extend"].is_null()).count();
    relay.until("three extensions", |state| extended(state) >= 3).await;
    relay.publish("a.b", b"{}");
    app.until(2).await;
    app.let_answer(2);
    running.ended().await;
    running.ended().await;
    running.stop().await;
    assert_eq!(relay.state().most_attempts(), 1);
}

#[tokio::test]
async fn a_refused_ack_is_named_and_the_others_are_recorded() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    let mut options = options(&relay.url(), Some(&app.target("/")));
    // All three acks gather for one poll.
    options.timing.ack_delay = Duration::from_millis(300);
    let mut running = start(options);
    running.ready().await;
    let ids = ["1", "2", "3"].map(|body| relay.publish("a.b", body.as_bytes()));
    for _ in &ids {
        running.ended().await;
    }
    relay.fault(Fault::Answer(400, issue("acks.1.status_code")));
    let refused = running
        .until("a refused ack", |what| match what {
            What::Notice(Notice::AckRefused { event_id, message, .. }) => {
                Some((event_id.clone(), message.clone()))
            }
            _ => None,
        })
        .await;
    assert_eq!(refused.1, "acks.1.status_code is wrong");
    relay.until("the others", |state| state.done() == 2).await;
    assert!(ids.contains(&refused.0) && relay.state().acked(&refused.0).is_none());
    let bodies: Vec<_> =
        relay.state().polls.iter().map(|poll| poll["acks"].clone()).filter(|acks| !acks.is_null()).collect();
    assert_eq!(bodies.len(), 2, "one refused, one without the ack at fault: {bodies:?}");
    running.stop().await;
}

#[tokio::test]
async fn a_refusal_that_names_nothing_costs_no_ack_that_is_good() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    let mut options = options(&relay.url(), Some(&app.target("/")));
    options.timing.ack_delay = Duration::from_millis(300);
    // No second poll: the acks travel with the one that claims.
    options.max_in_flight = 1;
    let mut running = start(options);
    running.ready().await;
    relay.publish("a.b", b"1");
    running.ended().await;
    relay.fault(Fault::Answer(413, error("body_too_large")));
    relay.until("the ack", |state| state.done() == 1).await;
    let (told, _) = running.stop().await;
    assert!(!told.iter().any(|what| matches!(what, What::Notice(Notice::AckRefused { .. }))));
}

#[tokio::test]
async fn an_impossible_status_is_told_as_an_error() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        let _read = stream.read(&mut request).await.unwrap();
        stream.write_all(b"HTTP/1.1 700 Odd\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    });
    let relay = Fake::ours().await;
    let mut running = start(options(&relay.url(), Some(&format!("127.0.0.1:{port}/"))));
    running.ready().await;
    let id = relay.publish("a.b", b"{}");
    running.ended().await;
    relay.until("the ack", |state| state.acked(&id).is_some()).await;
    let ack = relay.state().acked(&id).unwrap().clone();
    assert_eq!((&ack["status_code"], &ack["error"]), (&json!(null), &json!("status 700")));
    running.stop().await;
}
