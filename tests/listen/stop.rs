//! The end: what is open is finished and acked, or cut off and said.

use std::time::Duration;

use pullhook::listen::{self, End, Notice, Outcome, What};
use serde_json::json;
use tokio::sync::mpsc;

use crate::app::App;
use crate::fake::{Fake, State};
use crate::rig::{options, start};

#[tokio::test]
async fn what_is_open_ends_and_is_acked_and_nothing_more_is_claimed() {
    let (relay, app) = (Fake::ours().await, App::held().await);
    let mut running = start(options(&relay.url(), Some(&app.target("/"))));
    let listener = running.ready().await.listener_id;
    let id = relay.publish("a.b", b"1");
    app.until(1).await;
    let claims = |state: &State| state.polls.iter().filter(|poll| poll["limit"] != 0).count();
    relay.until("the hanging poll", |state| claims(state) == 3).await;
    running.handle.stop();
    app.let_answer(1);
    let (told, summary) = running.end().await;
    assert_eq!((summary.end, summary.delivered), (End::Stopped, 1));
    assert!(matches!(told.last(), Some(What::Summary(_))));
    let state = relay.state();
    assert_eq!(state.acked(&id).unwrap()["status_code"], 200);
    assert_eq!((claims(&state), &state.closes[..]), (3, &[listener][..]));
    assert!(crate::rig::checkpoint(&told).unwrap().closed);
}

#[tokio::test]
async fn what_the_drain_cuts_off_is_acked_as_interrupted_and_said() {
    let (relay, app) = (Fake::ours().await, App::held().await);
    let mut options = options(&relay.url(), Some(&app.target("/")));
    options.drain = Duration::from_millis(50);
    let mut running = start(options);
    running.ready().await;
    let id = relay.publish("a.b", b"1");
    app.until(1).await;
    let (told, summary) = running.stop().await;
    assert_eq!((summary.end.exit_code(), summary.failed), (0, 1));
    assert!(told.iter().any(|what| matches!(what, What::Notice(Notice::Interrupted { count: 1 }))));
    let failed = told.iter().find_map(|what| match what {
        What::Ended(ended) => Some((ended.outcome, ended.error.clone())),
        _ => None,
    });
    assert_eq!(failed, Some((Outcome::Failed, Some("interrupted".to_owned()))));
    assert_eq!(relay.state().acked(&id).unwrap()["error"], json!("interrupted"));
}

#[tokio::test]
async fn asked_twice_it_ends_at_once_and_leaves_the_listener() {
    let (relay, app) = (Fake::ours().await, App::held().await);
    let mut running = start(options(&relay.url(), Some(&app.target("/"))));
    running.ready().await;
    let id = relay.publish("a.b", b"1");
    app.until(1).await;
    running.handle.stop();
    running.handle.stop_now();
    let (_, summary) = running.end().await;
    assert_eq!(summary.end.exit_code(), 130);
    assert!(relay.state().acked(&id).is_none() && relay.state().closes.is_empty());
}

#[tokio::test]
async fn a_failure_ends_it_when_asked_to() {
    let (relay, app) = (Fake::ours().await, App::status(500).await);
    let mut options = options(&relay.url(), Some(&app.target("/")));
    options.exit_on_failure = true;
    let mut running = start(options);
    running.ready().await;
    let id = relay.publish("a.b", b"1");
    let (_, summary) = running.end().await;
    assert_eq!(summary.end.exit_code(), 20);
    assert_eq!(relay.state().acked(&id).unwrap()["status_code"], 500);
}

#[tokio::test]
async fn idle_time_does_not_run_while_a_post_is_open() {
    let (relay, app) = (Fake::ours().await, App::held().await);
    let mut options = options(&relay.url(), Some(&app.target("/")));
    options.idle_timeout = Some(Duration::from_millis(300));
    let mut running = start(options);
    running.ready().await;
    relay.publish("a.b", b"1");
    app.until(1).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    app.let_answer(1);
    let (_, summary) = running.end().await;
    assert_eq!((summary.delivered, summary.end.exit_code()), (1, 7));
}

#[tokio::test]
async fn nobody_reading_is_a_stop() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    let (_handle, control) = listen::control();
    let (to, events) = mpsc::channel(8);
    let task = tokio::spawn(listen::run(options(&relay.url(), Some(&app.target("/"))), to, control));
    drop(events);
    let summary = tokio::time::timeout(Duration::from_secs(20), task).await.unwrap().unwrap();
    assert_eq!(summary.end, End::Stopped);
}

#[tokio::test]
async fn it_ends_although_the_relay_is_gone() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    let mut options = options(&relay.url(), Some(&app.target("/")));
    options.timing.close = Duration::from_millis(100);
    let mut running = start(options);
    running.ready().await;
    relay.publish("a.b", b"1");
    running.ended().await;
    relay.down();
    let (_, summary) = running.stop().await;
    assert_eq!((summary.end, summary.delivered), (End::Stopped, 1));
}
