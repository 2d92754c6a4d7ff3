//! Any server of the public contract: none of our fields, `limit: 0` refused.

use std::time::Duration;

use pullhook::listen::{End, Notice, Outcome, What};
use serde_json::{Value, json};
use wiremock::matchers::{header, method, path, path_regex};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use crate::app::App;
use crate::fake::{Fake, issue};
use crate::rig::{options, start};

fn listener() -> Value {
    json!({"object": "webhook_listener", "id": "L/1", "api_version": "2026-10-10", "event_types": [],
           "description": null, "expires_at": "2026-01-01T00:10:00.000Z",
           "created_at": "2026-01-01T00:00:00.000Z", "news": true})
}

/// The plainest server there is: polls come one after the other, each checked as the contract says.
fn poll(request: &Request) -> ResponseTemplate {
    let ask: Value = request.body_json().unwrap();
    if ask["limit"] == 0 {
        return ResponseTemplate::new(400).set_body_json(issue("limit"));
    }
    assert!(ask["wait_ms"].as_u64().is_none_or(|wait| wait <= 25_000));
    let acked = ask["acks"].as_array().map_or(0, Vec::len);
    let delivery = json!({"object": "webhook_listener_delivery", "id": "D 1", "ack_token": "t", "event_id": "E.1",
        "event_type": "invoice.paid", "attempt": 1, "body": "{\"a\":1}",
        "created_at": "2026-01-01T00:00:00.000Z"});
    let first = ask["acks"].is_null();
    let deliveries = if first { json!([delivery]) } else { json!([]) };
    ResponseTemplate::new(200)
        .set_body_json(json!({"object": "webhook_listener_poll", "listener": listener(),
        "acknowledged": acked, "deliveries": deliveries}))
}

#[tokio::test]
async fn a_plain_mock_of_the_contract_is_enough() {
    let (server, app) = (MockServer::start().await, App::ok().await);
    let opening = Mock::given(method("POST")).and(path("/v1/webhook_listeners"));
    let opening = opening.and(header("authorization", "Bearer key_test"));
    opening.respond_with(ResponseTemplate::new(201).set_body_json(listener())).expect(1).mount(&server).await;
    let polling = Mock::given(method("POST")).and(path_regex("^/v1/webhook_listeners/L%2F1/poll$"));
    polling.respond_with(poll).mount(&server).await;
    Mock::given(method("DELETE"))
        .and(path("/v1/webhook_listeners/L%2F1"))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({"id": "L/1", "deleted": true})))
        .expect(1)
        .mount(&server)
        .await;
    let mut options = options(&server.uri().parse().unwrap(), Some(&app.target("/hooks")));
    options.until = Some(1);
    let mut running = start(options);
    let ready = running.ready().await;
    assert_eq!((ready.waiting, ready.missed, ready.ingress.len()), (None, None, 0));
    let ended = running.ended().await;
    assert_eq!((ended.outcome, ended.received.source.as_deref()), (Outcome::Delivered, None));
    let (_, summary) = running.end().await;
    assert_eq!((summary.end, summary.received), (End::Until, 1));
    let seen = app.seen().pop().unwrap();
    assert_eq!(
        (seen.header("webhook-id"), seen.header("content-type")),
        (Some("E.1"), Some("application/json"))
    );
    assert_eq!((&seen.body[..], seen.target.as_str()), (&b"{\"a\":1}"[..], "/hooks"));
}

#[tokio::test]
async fn acks_travel_with_the_next_poll() {
    let (relay, app) = (Fake::foreign().await, App::ok().await);
    let mut options = options(&relay.url(), Some(&app.target("/")));
    options.timing.poll_wait = Duration::from_millis(50);
    let mut running = start(options);
    running.ready().await;
    for _ in 0..20 {
        relay.publish("a.b", b"{}");
    }
    for _ in 0..20 {
        running.ended().await;
    }
    relay.until("every ack", |state| state.done() == 20).await;
    let (_, summary) = running.stop().await;
    assert_eq!((summary.delivered, summary.fenced), (20, 0));
    let state = relay.state();
    let refused = state.polls.iter().filter(|poll| poll["limit"] == 0).count();
    assert!(refused <= 1, "asked once, not again");
    assert!(state.polls.iter().all(|poll| poll["extend"].is_null()));
}

#[tokio::test]
async fn the_gate_works_by_not_polling_and_what_was_claimed_is_kept() {
    let (relay, app) = (Fake::foreign().await, App::ok().await);
    app.down().await;
    let mut running = start(options(&relay.url(), Some(&app.target("/"))));
    running.until("a note", |what| matches!(what, What::Notice(Notice::NoIdlePolls)).then_some(())).await;
    running.ready().await;
    running.until("a gate", |what| matches!(what, What::Gate(gate) if !gate.open).then_some(())).await;
    relay.publish("a.b", b"1");
    let polls = relay.state().polls.len();
    app.up().await;
    running.until("a gate", |what| matches!(what, What::Gate(gate) if gate.open).then_some(())).await;
    assert_eq!(running.ended().await.outcome, Outcome::Delivered);
    assert!(polls <= 2, "one that was refused, one that said the listener is there");
    running.stop().await;
}

#[tokio::test]
async fn the_listener_is_kept_alive_without_idle_polls() {
    let (relay, app) = (Fake::foreign().await, App::ok().await);
    app.down().await;
    let mut options = options(&relay.url(), Some(&app.target("/")));
    options.timing.listener_life = Duration::from_millis(100);
    let mut running = start(options);
    running.ready().await;
    relay.publish("a.b", b"1");
    relay.until("a poll that keeps it alive", |state| state.handed_out() == 1).await;
    let last = relay.state().polls.last().unwrap().clone();
    assert_eq!((&last["limit"], &last["wait_ms"]), (&json!(1), &json!(0)));
    app.up().await;
    assert_eq!(running.ended().await.outcome, Outcome::Delivered);
    running.stop().await;
}

#[tokio::test]
async fn what_a_closed_port_holds_back_fails_before_its_lease_ends() {
    let (relay, app) = (Fake::foreign().await, App::ok().await);
    let mut options = options(&relay.url(), Some(&app.target("/")));
    options.timing.keep = Duration::from_millis(100);
    let mut running = start(options);
    running.ready().await;
    app.down().await;
    let id = relay.publish("a.b", b"1");
    let ended = running.ended().await;
    assert_eq!(ended.outcome, Outcome::Failed);
    assert!(ended.error.unwrap().starts_with("connection refused on 127.0.0.1:"));
    running.stop().await;
    assert!(relay.state().acked(&id).is_some());
}

#[tokio::test]
async fn a_lease_that_ran_out_is_adopted_and_posted_once() {
    let (relay, app) = (Fake::foreign().await, App::held().await);
    let mut options = options(&relay.url(), Some(&app.target("/")));
    options.timing.poll_wait = Duration::from_millis(30);
    let mut running = start(options);
    running.ready().await;
    let id = relay.publish("a.b", b"1");
    app.until(1).await;
    relay.end_leases();
    relay.until("a second hand-out", |state| state.most_attempts() == 2).await;
    app.let_answer(1);
    relay.until("the ack", |state| state.acked(&id).is_some()).await;
    running.stop().await;
    assert_eq!(app.seen().len(), 1);
}

#[tokio::test]
async fn what_was_lost_is_unknown_and_a_forgotten_listener_starts_from_now() {
    let relay = Fake::foreign().await;
    let mut options = options(&relay.url(), None);
    options.timing.poll_wait = Duration::from_millis(30);
    let mut running = start(options);
    running.ready().await;
    relay.publish("a.b", b"1");
    running.ended().await;
    relay.forget_listeners();
    let gap = running
        .until("reconnected", |what| match what {
            What::Reconnected { waited, lost, .. } => Some((*waited, *lost)),
            _ => None,
        })
        .await;
    assert_eq!(gap, (None, None));
    relay.publish("a.b", b"2");
    running.ended().await;
    let (_, summary) = running.stop().await;
    assert_eq!(summary.delivered, 2);
}
