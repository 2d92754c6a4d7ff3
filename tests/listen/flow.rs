//! How much is open and claimed at once.

use crate::app::App;
use crate::fake::Fake;
use crate::rig::{options, start};

#[tokio::test]
async fn no_more_posts_are_open_than_allowed_and_no_more_is_claimed() {
    let (relay, app) = (Fake::ours().await, App::held().await);
    let mut options = options(&relay.url(), Some(&app.target("/")));
    options.max_in_flight = 3;
    let mut running = start(options);
    running.ready().await;
    for n in 0..8 {
        relay.publish("a.b", format!("{n}").as_bytes());
    }
    app.until(3).await;
    assert_eq!(relay.state().handed_out(), 3, "permits come before claims");
    app.let_answer(8);
    for _ in 0..8 {
        running.ended().await;
    }
    running.stop().await;
    assert_eq!(app.most_open(), 3);
}

#[tokio::test]
async fn posts_start_in_order_of_arrival_and_ordered_ones_one_by_one() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    let mut options = options(&relay.url(), Some(&app.target("/")));
    options.ordered = true;
    let mut running = start(options);
    assert!(running.ready().await.ordered);
    assert_eq!(relay.state().opens[0]["ordered"], true);
    for n in 0..40 {
        relay.publish("a.b", format!("{n:02}").as_bytes());
    }
    for _ in 0..40 {
        running.ended().await;
    }
    running.stop().await;
    let bodies: Vec<_> = app.seen().iter().map(|seen| seen.body.clone()).collect();
    assert!(bodies.is_sorted(), "{bodies:?}");
    assert_eq!(app.most_open(), 1);
}

#[tokio::test]
async fn a_burst_is_forwarded_whole_and_each_event_once() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    let mut running = start(options(&relay.url(), Some(&app.target("/"))));
    running.ready().await;
    for n in 0..500 {
        relay.publish("a.b", format!("{n}").as_bytes());
    }
    for _ in 0..500 {
        running.ended().await;
    }
    relay.until("every ack", |state| state.done() == 500).await;
    let (_, summary) = running.stop().await;
    assert_eq!((summary.delivered, app.seen().len()), (500, 500));
    assert_eq!(relay.state().most_attempts(), 1);
    assert!(app.most_open() <= 10);
    let polls = relay.state().polls.len();
    assert!(polls < 250, "{polls} polls for 500 events: not one for each");
}

#[tokio::test]
async fn until_claims_no_more_than_it_needs() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    let mut options = options(&relay.url(), Some(&app.target("/")));
    options.until = Some(3);
    let mut running = start(options);
    running.ready().await;
    for _ in 0..10 {
        relay.publish("a.b", b"{}");
    }
    let (_, summary) = running.end().await;
    assert_eq!((summary.delivered, summary.end.exit_code()), (3, 0));
    let state = relay.state();
    assert_eq!((app.seen().len(), state.handed_out(), state.done()), (3, 3, 3));
}

#[tokio::test]
async fn a_pause_claims_nothing_until_it_ends() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    let mut options = options(&relay.url(), Some(&app.target("/")));
    options.timing.poll_wait = std::time::Duration::from_millis(10);
    let mut running = start(options);
    running.ready().await;
    running.handle.pause(true).await;
    let before = relay.state().polls.len();
    relay.until("the claiming poll's end", |state| state.polls.len() > before + 3).await;
    let id = relay.publish("a.b", b"{}");
    let before = relay.state().polls.len();
    relay.until("more polls", |state| state.polls.len() > before + 3).await;
    assert_eq!(relay.state().handed_out(), 0);
    running.handle.pause(false).await;
    running.ended().await;
    assert_eq!(running.handle.last_event().await, Some(id));
    running.stop().await;
}
