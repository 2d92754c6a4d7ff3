//! While nothing listens, nothing is wasted.

use std::time::Duration;

use pullhook::listen::{Gate, Hint, Notice, Outcome, What};
use pullhook::target::Route;

use crate::app::App;
use crate::fake::{Fake, Manners};
use crate::rig::{Running, options, start};

async fn gate(running: &mut Running, open: bool) -> Gate {
    running
        .until("a gate", |what| match what {
            What::Gate(gate) if gate.open == open => Some(gate.clone()),
            _ => None,
        })
        .await
}

#[tokio::test]
async fn nothing_is_claimed_while_the_port_is_closed_and_all_of_it_arrives_in_order() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    app.down().await;
    let mut running = start(options(&relay.url(), Some(&app.target("/"))));
    running.ready().await;
    let closed = gate(&mut running, false).await;
    assert_eq!(closed.target, format!("localhost:{}", app.port));
    assert_eq!(closed.tried, [format!("127.0.0.1:{}", app.port), format!("[::1]:{}", app.port)]);
    assert_eq!(closed.waiting, Some(0));
    for n in 0..30 {
        relay.publish("a.b", format!("{n}").as_bytes());
    }
    relay.until("polls that claim nothing", |state| state.polls.iter().any(|poll| poll["limit"] == 0)).await;
    assert_eq!(relay.state().handed_out(), 0);
    app.up().await;
    gate(&mut running, true).await;
    for _ in 0..30 {
        assert_eq!(running.ended().await.outcome, Outcome::Delivered);
    }
    let mut bodies: Vec<usize> =
        app.seen().iter().map(|seen| std::str::from_utf8(&seen.body).unwrap().parse().unwrap()).collect();
    assert_eq!(bodies[0], 0, "oldest first");
    bodies.sort_unstable();
    assert_eq!(bodies, (0..30).collect::<Vec<_>>());
    running.stop().await;
    assert_eq!(relay.state().most_attempts(), 1);
}

#[tokio::test]
async fn a_delivery_claimed_as_the_app_goes_down_is_kept_and_goes_out_first() {
    let lease = Duration::from_millis(200);
    let relay = Fake::start(Manners { ext: true, idle_polls: true, lease }).await;
    let app = App::ok().await;
    let mut running = start(options(&relay.url(), Some(&app.target("/"))));
    running.ready().await;
    app.down().await;
    let first = relay.publish("a.b", b"first");
    gate(&mut running, false).await;
    relay.publish("a.b", b"second");
    relay.until("extended leases", |state| state.polls.iter().any(|poll| !poll["extend"].is_null())).await;
    app.up().await;
    let ended = running.ended().await;
    assert_eq!((ended.outcome, ended.received.event_id.as_str()), (Outcome::Delivered, first.as_str()));
    running.ended().await;
    let (told, summary) = running.stop().await;
    assert_eq!((summary.delivered, summary.failed), (2, 0));
    let closings = told.iter().filter(|what| matches!(what, What::Gate(gate) if !gate.open)).count();
    assert_eq!(closings, 1, "one line");
}

#[tokio::test]
async fn each_target_has_its_own_gate() {
    let (relay, open, closed) = (Fake::ours().await, App::ok().await, App::ok().await);
    closed.down().await;
    let mut options = options(&relay.url(), Some(&open.target("/")));
    options.routes = vec![Route::parse(&format!("type:b.*=:{}/", closed.port)).unwrap()];
    options.max_in_flight = 2;
    let mut running = start(options);
    running.ready().await;
    for kind in ["b.c", "a.b", "a.b", "b.c", "a.b"] {
        relay.publish(kind, b"{}");
    }
    for _ in 0..2 {
        assert_eq!(running.ended().await.received.event_type, "a.b");
    }
    // What is kept has reached the limit: nothing more is claimed, not even for the open one.
    let idle = |poll: &serde_json::Value| poll["limit"] == 0 && poll["wait_ms"] != 0;
    relay.until("idle polls", |state| state.polls.iter().any(idle)).await;
    assert_eq!(relay.state().handed_out(), 4);
    closed.up().await;
    for _ in 0..3 {
        assert_eq!(running.ended().await.outcome, Outcome::Delivered);
    }
    running.stop().await;
}

#[tokio::test]
async fn without_a_gate_a_refusal_is_final() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    app.down().await;
    let mut options = options(&relay.url(), Some(&app.target("/")));
    (options.gate, options.in_container) = (false, true);
    let mut running = start(options);
    running.ready().await;
    relay.publish("a.b", b"{}");
    let ended = running.ended().await;
    let both = format!("connection refused on 127.0.0.1:{} and [::1]:{}", app.port, app.port);
    assert_eq!((ended.outcome, ended.error), (Outcome::Failed, Some(both)));
    assert_eq!(ended.hint, Some(Hint::Container));
    relay.publish("a.b", b"{}");
    assert_eq!(running.ended().await.hint, None, "said once");
    running.stop().await;
}

#[tokio::test]
async fn in_a_container_a_closed_localhost_is_explained_once() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    app.down().await;
    let mut options = options(&relay.url(), Some(&app.target("/")));
    options.in_container = true;
    let mut running = start(options);
    running.ready().await;
    // Whichever is told first.
    let first = running.until("a line about the port", |what| match what {
        What::Gate(_) | What::Notice(Notice::Hint(_)) => Some(what.clone()),
        _ => None,
    });
    assert!(matches!(first.await, What::Gate(_)));
    let hint = running.until("the hint", |what| match what {
        What::Notice(Notice::Hint(hint)) => Some(hint.clone()),
        _ => None,
    });
    let hint = hint.await;
    assert_eq!(hint, Hint::Container);
    assert!(hint.to_string().starts_with("if your app runs outside this container, "));
    app.up().await;
    gate(&mut running, true).await;
    app.down().await;
    relay.publish("a.b", b"{}");
    gate(&mut running, false).await;
    let (told, summary) = running.stop().await;
    let hints =
        told.iter().filter(|what| matches!(what, What::Notice(Notice::Hint(Hint::Container)))).count();
    assert_eq!(hints, 1, "said once");
    assert!(told.iter().any(|what| matches!(what, What::Notice(Notice::NotSent { count: 1 }))));
    assert_eq!(summary.failed, 0, "never posted, so never failed");
}
