//! L07: the laptop sleeps, past the lease and past the listener's life.

use crate::harness::log::until;
use crate::harness::{App, Hold, Relay, Reply, Signal};

/// A relay whose leases and listeners end soon, and a listener that knows.
const RELAY: &str = "lease = \"1s\"\nlistener_life = \"2s\"\n";
const LISTEN: &str = r#"{"lease_ms":1000,"listener_life_ms":2000,"poll_wait_ms":300,"watch_ms":50,"jump_ms":400,
    "backoff_base_ms":20,"backoff_cap_ms":60}"#;

/// Asleep past its life, the relay restarted meanwhile: what arrived is posted once, without a restart.
#[test]
fn it_wakes_up_past_the_listeners_life() {
    let mut relay = Relay::with(RELAY);
    let app = App::new();
    let mut listen = relay.listen(&["-f", &app.target()]).timing(LISTEN).spawn();
    listen.next("ready");
    let before = relay.post("before");
    listen.next("result");
    listen.signal(Signal::STOP);
    relay.stop();
    relay.start();
    let meanwhile = relay.post("meanwhile");
    until("the end of the listener's life", || relay.api().listeners().is_empty().then_some(()));
    listen.signal(Signal::CONT);
    let result = listen.next("result");
    assert_eq!((&result["event_id"], &result["outcome"]), (&(*meanwhile).into(), &"delivered".into()));
    let after = relay.post("after");
    listen.next_where("result", |line| line["event_id"] == *after);
    let ended = listen.stop();
    let ids: Vec<_> = app.requests.all().iter().map(|r| r.header("webhook-id").to_owned()).collect();
    assert_eq!(ids, [before, meanwhile, after], "each exactly once");
    assert_eq!(ended.all("reconnected").len(), 1);
    assert_eq!(ended.all("reconnected")[0]["lost"], 0);
    assert_eq!(ended.err.iter().filter(|line| line.contains("reconnected after")).count(), 1, "{ended:#?}");
}

/// Asleep with a POST open, past its lease: that POST stays the only one, and its answer counts.
#[test]
fn it_wakes_up_with_a_post_open_past_its_lease() {
    let relay = Relay::with(RELAY);
    let hold = Hold::default();
    let waits = hold.clone();
    let app = App::new().answers(move |_| {
        waits.wait();
        Reply::status(201)
    });
    let mut listen = relay.listen(&["-f", &app.target()]).timing(LISTEN).spawn();
    listen.next("ready");
    let event = relay.post("{}");
    app.got(1);
    listen.signal(Signal::STOP);
    until("the end of the listener's life", || relay.api().listeners().is_empty().then_some(()));
    listen.signal(Signal::CONT);
    listen.next("reconnected");
    hold.release(10);
    assert_eq!(listen.next("result")["status"], 201);
    listen.stop();
    assert_eq!(app.requests.len(), 1, "one POST");
    let deliveries = relay.api().event(&event)["deliveries"].clone();
    let deliveries = deliveries.as_array().unwrap();
    let newest = deliveries.last().unwrap();
    assert_eq!(
        (&newest["status"], &newest["status_code"]),
        (&"delivered".into(), &201.into()),
        "{deliveries:?}"
    );
}
