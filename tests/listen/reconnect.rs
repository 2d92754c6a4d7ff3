//! Gaps: the relay goes away, the machine sleeps, the listener is forgotten; nothing is lost and nothing posted twice.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pullhook::clock::{Clock, ManualClock};
use pullhook::listen::{Cause, Notice, Relocate, ReopenedFrom, What};
use serde_json::json;

use crate::app::App;
use crate::fake::{Fake, Fault, error};
use crate::rig::{Running, options, start};

struct Gap {
    down: Duration,
    waited: Option<u64>,
    lost: Option<u64>,
}

async fn reconnected(running: &mut Running) -> Gap {
    running
        .until("reconnected", |what| match *what {
            What::Reconnected { down, waited, lost } => Some(Gap { down, waited, lost }),
            _ => None,
        })
        .await
}

async fn reconnecting(running: &mut Running) -> Cause {
    running
        .until("reconnecting", |what| match what {
            What::Reconnecting { cause, .. } => Some(cause.clone()),
            _ => None,
        })
        .await
}

#[tokio::test]
async fn what_came_meanwhile_waits_and_nothing_is_lost() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    let mut running = start(options(&relay.url(), Some(&app.target("/"))));
    running.ready().await;
    relay.publish("a.b", b"1");
    running.ended().await;
    relay.down();
    reconnecting(&mut running).await;
    relay.publish("a.b", b"2");
    relay.publish("a.b", b"3");
    relay.up().await;
    let gap = reconnected(&mut running).await;
    assert_eq!((gap.waited, gap.lost), (Some(2), Some(0)));
    running.ended().await;
    running.ended().await;
    let (_, summary) = running.stop().await;
    assert_eq!((summary.delivered, app.seen().len()), (3, 3));
}

#[tokio::test]
async fn what_never_came_is_counted_from_the_sequences() {
    let relay = Fake::ours().await;
    let mut running = start(options(&relay.url(), None));
    running.ready().await;
    relay.publish("a.b", b"1");
    running.ended().await;
    relay.down();
    reconnecting(&mut running).await;
    relay.lose(3);
    relay.publish("a.b", b"5");
    relay.up().await;
    let gap = reconnected(&mut running).await;
    assert_eq!((gap.waited, gap.lost), (Some(1), Some(3)));
    let lost = |what: &What| match what {
        What::Notice(Notice::Lost { source, from, to }) => Some((source.clone(), *from, *to)),
        _ => None,
    };
    assert_eq!(running.until("what was lost", lost).await, ("raw".to_owned(), 2, 4));
    running.stop().await;
}

#[tokio::test]
async fn a_cut_answer_costs_nothing_because_the_next_claim_says_what_is_held() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    let mut running = start(options(&relay.url(), Some(&app.target("/"))));
    running.ready().await;
    relay.until("the hanging poll", |state| state.polls.len() >= 2).await;
    // The poll that hangs takes this one; the next claim's answer is cut.
    relay.fault(Fault::CutClaim);
    relay.publish("a.b", b"1");
    running.ended().await;
    relay.publish("a.b", b"2");
    relay.publish("a.b", b"3");
    running.ended().await;
    running.ended().await;
    let (_, summary) = running.stop().await;
    assert_eq!((summary.delivered, app.seen().len()), (3, 3));
    let state = relay.state();
    let holding = state.polls.iter().filter(|poll| !poll["holding"].is_null()).count();
    assert_eq!((holding, state.most_attempts()), (1, 2), "only after a cut, and long before the lease's end");
}

#[tokio::test]
async fn a_poll_has_a_hard_deadline() {
    let relay = Fake::ours().await;
    let mut options = options(&relay.url(), None);
    (options.timing.poll_wait, options.timing.poll_slack) =
        (Duration::from_millis(20), Duration::from_millis(200));
    let mut running = start(options);
    running.ready().await;
    relay.fault(Fault::Stall);
    let cause = reconnecting(&mut running).await;
    assert!(matches!(cause, Cause::TimedOut { .. }), "{cause:?}");
    reconnected(&mut running).await;
    relay.publish("a.b", b"1");
    running.ended().await;
    running.stop().await;
}

#[tokio::test]
async fn after_a_sleep_the_relay_is_asked_at_once() {
    let relay = Fake::ours().await;
    let clock = ManualClock::at(pullhook::system::SystemClock.now());
    let mut options = options(&relay.url(), None);
    options.clock = Arc::new(clock.clone());
    options.timing.watch = Duration::from_millis(10);
    let mut running = start(options);
    running.ready().await;
    relay.until("the hanging poll", |state| state.polls.len() >= 2).await;
    clock.advance(Duration::from_secs(3600));
    let cause = reconnecting(&mut running).await;
    assert!(
        matches!(cause, Cause::Slept { for_about } if for_about >= Duration::from_secs(3500)),
        "{cause:?}"
    );
    let gap = reconnected(&mut running).await;
    assert!(gap.down >= Duration::from_secs(3500));
    assert_eq!((gap.waited, gap.lost), (Some(0), Some(0)));
    relay.publish("a.b", b"1");
    running.ended().await;
    let (_, summary) = running.stop().await;
    assert_eq!(summary.delivered, 1);
}

#[tokio::test]
async fn a_forgotten_listener_is_reopened_and_what_was_open_is_not_posted_again() {
    let (relay, app) = (Fake::ours().await, App::held().await);
    let mut running = start(options(&relay.url(), Some(&app.target("/"))));
    let first = running.ready().await.listener_id;
    let id = relay.publish("a.b", b"1");
    app.until(1).await;
    relay.forget_listeners();
    let missed = relay.publish("a.b", b"2");
    let reopened = |what: &What| match what {
        What::Notice(Notice::Reopened { from, listener_id }) => Some((from.clone(), listener_id.clone())),
        _ => None,
    };
    let (from, second) = running.until("a reopening", reopened).await;
    assert_eq!(from, ReopenedFrom::Continued);
    assert_ne!(first, second);
    assert_eq!(relay.state().opens[1]["continues"], json!(first));
    let gap = reconnected(&mut running).await;
    assert_eq!(gap.lost, Some(0));
    app.until(2).await;
    app.let_answer(2);
    running.ended().await;
    running.ended().await;
    relay.until("both acks", |state| state.acked(&id).is_some() && state.acked(&missed).is_some()).await;
    let (_, summary) = running.stop().await;
    assert_eq!((summary.received, summary.delivered, app.seen().len()), (2, 2, 2));
}

#[tokio::test]
async fn a_listener_that_cannot_be_continued_goes_on_after_the_last_event() {
    let relay = Fake::ours().await;
    let mut running = start(options(&relay.url(), None));
    running.ready().await;
    let last = relay.publish("a.b", b"1");
    running.ended().await;
    relay.state().refusals.push_back((404, error("not_found")));
    relay.forget_listeners();
    relay.publish("a.b", b"2");
    let ended = running.ended().await;
    assert_eq!(&ended.received.body[..], b"2");
    assert_eq!(relay.state().opens[2]["since"], json!(last));
    running.stop().await;
}

#[tokio::test]
async fn too_large_a_backlog_never_ends_a_running_process() {
    let relay = Fake::ours().await;
    let mut running = start(options(&relay.url(), None));
    running.ready().await;
    relay.publish("a.b", b"1");
    running.ended().await;
    let mut refusal = error("backlog_too_large");
    refusal["error"]["message"] = json!("2,345 events are stored from there on, over max_backlog 1000");
    relay.state().refusals.push_back((422, refusal));
    relay.forget_listeners();
    let skipped = |what: &What| match what {
        What::Notice(Notice::BacklogSkipped { count, replay, .. }) => Some((*count, replay.clone())),
        _ => None,
    };
    let (count, replay) = running.until("what was skipped", skipped).await;
    assert_eq!(count, Some(2345));
    assert_eq!(replay, "pullhook replay --from 2026-01-01T00:00:00.000Z");
    let gap = reconnected(&mut running).await;
    assert_eq!(gap.lost, Some(2345));
    relay.publish("a.b", b"2");
    running.ended().await;
    running.stop().await;
}

#[tokio::test]
async fn errors_of_the_relay_are_waited_out_and_a_revoked_key_ends_it() {
    let relay = Fake::ours().await;
    let mut options = options(&relay.url(), None);
    options.timing.poll_wait = Duration::from_millis(10);
    let mut running = start(options);
    running.ready().await;
    relay.fault(Fault::Answer(503, error("unavailable")));
    let cause = reconnecting(&mut running).await;
    assert_eq!(cause.to_string(), "the relay answered 503: because unavailable");
    reconnected(&mut running).await;
    relay.fault(Fault::Answer(401, error("unauthorized")));
    let (told, summary) = running.end().await;
    assert_eq!(summary.end.exit_code(), 10);
    assert!(told.iter().any(|what| matches!(what, What::Fatal(_))));
}

#[tokio::test]
async fn a_relay_that_asks_for_ages_gets_minutes() {
    let relay = Fake::ours().await;
    for (asked, limit) in [("18446744073709551615", 300), ("Fri, 31 Dec 9999 23:59:59 GMT", 1)] {
        let mut running = start(options(&relay.url(), None));
        running.ready().await;
        relay.state().retry_after = Some(asked.to_owned());
        relay
            .until("the hanging poll", |state| state.polls.last().is_some_and(|poll| poll["wait_ms"] != 0))
            .await;
        relay.fault(Fault::Answer(503, error("unavailable")));
        relay.publish("a.b", b"1");
        let next = running
            .until("reconnecting", |what| match what {
                What::Reconnecting { next, .. } => Some(*next),
                _ => None,
            })
            .await;
        assert!(next <= Duration::from_secs(limit), "{asked}: {next:?}");
        running.handle.stop_now();
        running.end().await;
        relay.state().polls.clear();
    }
}

#[derive(Debug)]
struct Moves(Mutex<Option<url::Url>>);

impl Relocate for Moves {
    fn relay_url(&self) -> Option<url::Url> {
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn a_relay_that_moved_is_found_again() {
    let (old, new) = (Fake::ours().await, Fake::ours().await);
    let moves = Arc::new(Moves(Mutex::new(None)));
    let mut options = options(&old.url(), None);
    options.relocate = Some(moves.clone());
    let mut running = start(options);
    running.ready().await;
    *moves.0.lock().unwrap() = Some(new.url());
    old.down();
    running
        .until("a reopening", |what| matches!(what, What::Notice(Notice::Reopened { .. })).then_some(()))
        .await;
    reconnected(&mut running).await;
    new.publish("a.b", b"1");
    running.ended().await;
    running.stop().await;
}
