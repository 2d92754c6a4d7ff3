//! Polls that wait: holding nothing, ended by news, by a lease that runs out, by the end of their wait or the
//! relay's.

use std::time::Duration;

use pullhook::protocol::error::Code;
use pullhook::relay::Settings;
use serde_json::json;

use crate::harness::{Parked, TestRelay, ack, event_ids, held};
use crate::on_both_engines;

const WAIT: &str = "wait_ms";

fn patient() -> Settings {
    // Whoever sleeps on the fallback sleeps through these tests.
    Settings { fallback_poll: Duration::from_secs(3600), ..Settings::default() }
}

on_both_engines!(an_event_ends_a_wait_at_once, patient(), async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let parked = relay.park(&listener, json!({ WAIT: 25_000 })).await;
    // It says for how long, and waits no longer.
    assert_eq!(relay.clock.awaited(), [relay.now() + Duration::from_secs(25)]);
    let event = relay.ingest("raw", b"{}").await;
    let polled = parked.answer().await.expect(200);
    assert_eq!((event_ids(&polled), &polled["deliveries"][0]["attempt"]), (vec![event], &json!(1)));
});

on_both_engines!(an_idle_wait_ends_empty_and_by_itself, patient(), async |relay: TestRelay| {
    let listener = relay.open(json!({})).await;
    for (body, seconds) in
        [(json!({}), 20), (json!({ WAIT: 1500 }), 1), (json!({ "limit": 0, WAIT: 25_000 }), 25)]
    {
        let parked = relay.park(&listener, body).await;
        relay.advance(Duration::from_secs(seconds));
        if seconds == 1 {
            assert!(!parked.is_over());
            relay.advance(Duration::from_millis(500));
        }
        let polled = parked.answer().await.expect(200);
        assert_eq!((&polled["deliveries"], &polled["acknowledged"]), (&json!([]), &json!(0)));
    }
});

on_both_engines!(acks_are_recorded_before_any_waiting, patient(), async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let event = relay.ingest("raw", b"{}").await;
    let delivery = relay.poll(&listener, json!({})).await["deliveries"][0].clone();
    let parked = relay.park(&listener, json!({ "acks": [ack(&delivery)] })).await;
    assert_eq!(relay.event(&event).await["status"], "delivered");
    let other = relay.ingest("raw", b"{}").await;
    let polled = parked.answer().await.expect(200);
    assert_eq!((&polled["acknowledged"], event_ids(&polled)), (&json!(1), vec![other]));
});

on_both_engines!(
    a_lease_that_runs_out_wakes_who_waits,
    Settings { lease: Duration::from_secs(5), ..patient() },
    async |relay: TestRelay| {
        relay.source("raw", "none").await;
        let listener = relay.open(json!({})).await;
        let event = relay.ingest("raw", b"{}").await;
        let delivery = relay.poll(&listener, json!({})).await["deliveries"][0].clone();
        relay.advance(Duration::from_secs(1));
        let parked = relay.park(&listener, json!({ WAIT: 25_000 })).await;
        assert_eq!(relay.clock.awaited(), [relay.now() + Duration::from_secs(4)]);
        relay.advance(Duration::from_secs(4));
        let polled = parked.answer().await.expect(200);
        assert_eq!((event_ids(&polled), &polled["deliveries"][0]["attempt"]), (vec![event], &json!(2)));
        // The first consumer comes back too late.
        let late = relay.poll(&listener, json!({ "acks": [ack(&delivery)] })).await;
        assert_eq!(late["stale_acks"], json!([delivery["id"]]));
    }
);

on_both_engines!(
    a_prefetched_batch_stays_with_who_extends_it,
    Settings { lease: Duration::from_secs(10), ..patient() },
    async |relay: TestRelay| {
        relay.source("raw", "none").await;
        let listener = relay.open(json!({})).await;
        for _ in 0..10 {
            relay.ingest("raw", b"{}").await;
        }
        let polled = relay.poll(&listener, json!({})).await;
        let mut left = polled["deliveries"].as_array().unwrap().clone();
        let idle = relay.park(&listener, json!({ WAIT: 25_000 })).await;
        // Three seconds each, one after the other, 30 s in all.
        while !left.is_empty() {
            relay.advance(Duration::from_secs(3) - Duration::from_millis(500));
            let done = left.remove(0);
            let extend: Vec<_> = left.iter().map(held).collect();
            let after =
                relay.poll(&listener, json!({ "acks": [ack(&done)], "extend": extend, "limit": 0 })).await;
            assert_eq!(
                (&after["acknowledged"], after["extended"].as_array().unwrap().len()),
                (&json!(1), left.len())
            );
        }
        let polled = idle.answer().await.expect(200);
        assert_eq!(polled["deliveries"], json!([]));
    }
);

on_both_engines!(the_end_of_the_relay_answers_early_and_empty, patient(), async |relay: TestRelay| {
    let listener = relay.open(json!({})).await;
    let polls = [relay.park(&listener, json!({})).await, relay.park(&listener, json!({ "limit": 0 })).await];
    let peer = relay.clone();
    let tail = relay.parked(async move { peer.get("/v1/events?wait_ms=25000").await }).await;
    relay.relay.stop();
    for poll in polls {
        assert_eq!(poll.answer().await.expect(200)["deliveries"], json!([]));
    }
    assert_eq!(tail.answer().await.expect(200)["data"], json!([]));
    // Who comes now is answered at once.
    relay.post(&format!("/v1/webhook_listeners/{listener}/poll"), json!({})).await.expect(200);
});

on_both_engines!(a_listener_that_closes_ends_its_waits, patient(), async |relay: TestRelay| {
    let listener = relay.open(json!({})).await;
    let parked = relay.park(&listener, json!({})).await;
    relay.delete(&format!("/v1/webhook_listeners/{listener}")).await.expect(200);
    parked.answer().await.refused(Code::NotFound);
});

on_both_engines!(who_hangs_up_holds_nothing, patient(), async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    relay.park(&listener, json!({})).await.hang_up().await;
    let event = relay.ingest("raw", b"{}").await;
    let polled = relay.poll(&listener, json!({})).await;
    assert_eq!((event_ids(&polled), &polled["deliveries"][0]["attempt"]), (vec![event], &json!(1)));
});

on_both_engines!(
    many_waits_hold_no_connection_and_one_of_them_gets_it,
    patient(),
    async |relay: TestRelay| {
        relay.source("raw", "none").await;
        let listener = relay.open(json!({})).await;
        let mut parked = Vec::new();
        for _ in 0..20 {
            parked.push(relay.park(&listener, json!({ WAIT: 25_000 })).await);
        }
        let event = relay.ingest("raw", b"{}").await;
        while !parked.iter().any(Parked::is_over) {
            tokio::task::yield_now().await;
        }
        relay.advance(Duration::from_secs(25));
        let mut got = Vec::new();
        for poll in parked {
            got.extend(event_ids(&poll.answer().await.expect(200)));
        }
        assert_eq!(got, [event]);
    }
);

on_both_engines!(
    limit_zero_hands_out_nothing_and_answers_when_more_or_less_waits,
    patient(),
    async |relay: TestRelay| {
        relay.source("raw", "none").await;
        let listener = relay.open(json!({})).await;
        let gate = relay.park(&listener, json!({ "limit": 0 })).await;
        relay.ingest("raw", b"{}").await;
        let polled = gate.answer().await.expect(200);
        assert_eq!((&polled["waiting"], &polled["deliveries"]), (&json!(1), &json!([])));
        // One waits already: that alone is no news, its hand-out is.
        let gate = relay.park(&listener, json!({ "limit": 0 })).await;
        relay.poll(&listener, json!({})).await;
        assert_eq!(gate.answer().await.expect(200)["waiting"], 0);
        // A lease that ends makes one more.
        let gate = relay.park(&listener, json!({ "limit": 0, WAIT: 25_000 })).await;
        relay.advance(Duration::from_secs(24));
        assert!(!gate.is_over());
        relay.advance(Duration::from_secs(1));
        assert_eq!(gate.answer().await.expect(200)["waiting"], 0);
        relay.advance(Duration::from_secs(94));
        let gate = relay.park(&listener, json!({ "limit": 0, WAIT: 25_000 })).await;
        relay.advance(Duration::from_secs(1));
        assert_eq!(gate.answer().await.expect(200)["waiting"], 1);
    }
);

on_both_engines!(
    a_poll_keeps_its_listener_alive_while_it_waits,
    Settings { lease: Duration::from_secs(1), listener_life: Duration::from_secs(10), ..patient() },
    async |relay: TestRelay| {
        relay.source("raw", "none").await;
        let listener = relay.open(json!({})).await;
        let parked = relay.park(&listener, json!({ WAIT: 25_000 })).await;
        relay.advance(Duration::from_secs(9));
        let event = relay.ingest("raw", b"{}").await;
        assert_eq!(event_ids(&parked.answer().await.expect(200)), [event]);
        relay.advance(Duration::from_secs(10) - Duration::from_millis(1));
        relay.poll(&listener, json!({})).await;
    }
);
