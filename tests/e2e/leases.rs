//! F11: a breakpoint outlasts the lease, whatever the relay's lease is.

use pullhook::clock::Timestamp;

use crate::harness::log::until;
use crate::harness::{App, Hold, Relay, Reply};

/// When the only listener was polled last, on the relay's clock.
fn polled_at(relay: &Relay) -> Timestamp {
    Timestamp::parse(relay.api().listeners()[0]["last_polled_at"].as_str().unwrap()).unwrap()
}

/// More than five leases pass, which would be all the hand-outs that there are.
#[test]
fn a_breakpoint_for_many_leases_is_one_post() {
    let relay = Relay::with("lease = \"2s\"");
    let hold = Hold::default();
    let waits = hold.clone();
    let app = App::new().answers(move |request| {
        if request.text() == "slow" {
            waits.wait();
        }
        Reply::status(200)
    });
    let mut listen = relay.listen(&["-f", &app.target(), "--timeout", "0"]).spawn();
    listen.next("ready");
    let slow = relay.post("slow");
    app.got(1);
    let quick = relay.post("quick");
    assert_eq!(listen.next("result")["event_id"], *quick, "the next ones flow");
    let over = polled_at(&relay) + std::time::Duration::from_secs(11);
    until("more than five leases to pass", || (polled_at(&relay) > over).then_some(()));
    hold.release(1);
    let result = listen.next("result");
    assert_eq!((&result["event_id"], &result["status"]), (&(*slow).into(), &200.into()), "{result}");
    let summary = listen.stop().summary();
    assert_eq!((summary["delivered"].as_i64(), summary["fenced"].as_i64()), (Some(2), Some(0)));
    assert_eq!(app.requests.len(), 2);
    let delivery = &relay.api().event(&slow)["deliveries"][0];
    assert_eq!((&delivery["status"], &delivery["attempt"]), (&"delivered".into(), &1.into()), "{delivery}");
}
