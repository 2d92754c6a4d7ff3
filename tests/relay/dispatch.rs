//! The dispatcher: serial and in order within a stream, again and again where it fails, once where it was done.

use std::time::Duration;

use futures_util::future::join_all;
use pullhook::relay::Settings;
use serde_json::{Value, json};

use crate::harness::{Engine, Peer, TestRelay, event_ids};
use crate::on_both_engines;

impl TestRelay {
    /// From here on nothing of 13 bytes fans out.
    async fn poison(&self) {
        match self.engine() {
            Engine::Sqlite => {
                self.sql(
                    "CREATE TRIGGER poison BEFORE INSERT ON listener_deliveries WHEN NEW.size_bytes = 13
                     BEGIN SELECT RAISE(ABORT, 'poisoned'); END",
                )
                .await;
            }
            Engine::Postgres => {
                self.sql("ALTER TABLE listener_deliveries ADD CONSTRAINT poison CHECK (size_bytes <> 13)")
                    .await;
            }
        }
    }

    async fn cure(&self) {
        match self.engine() {
            Engine::Sqlite => self.sql("DROP TRIGGER poison").await,
            Engine::Postgres => self.sql("ALTER TABLE listener_deliveries DROP CONSTRAINT poison").await,
        }
    }

    /// How many streams failed and how many wait for their next try.
    async fn tick(&self) -> (u64, u64, u64) {
        let report = self.relay.tick().await.unwrap();
        (report.dispatched, report.failed, report.waiting)
    }
}

impl Peer {
    /// Everything that waits for a listener, in the order in which it is handed out.
    async fn drain(&self, listener: &str) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let polled = self.poll(listener, json!({ "limit": 50 })).await;
            let deliveries = polled["deliveries"].as_array().unwrap();
            if deliveries.is_empty() {
                return all;
            }
            all.extend(deliveries.clone());
        }
    }
}

on_both_engines!(a_stream_is_numbered_and_handed_out_without_gaps, async |relay: TestRelay| {
    relay.source("a", "none").await;
    relay.source("b", "none").await;
    let listener = relay.open(json!({})).await;
    for index in 0..150 {
        relay.webhook("a", &[], format!("a{index}")).await.accepted();
        if index % 3 == 0 {
            relay.webhook("b", &[], format!("b{index}")).await.accepted();
        }
    }
    // More than one transaction's worth of one stream.
    let (first, ..) = relay.tick().await;
    assert!(first < 200, "{first}");
    relay.dispatch().await;
    let all = relay.drain(&listener).await;
    for (source, count) in [("a", 150), ("b", 50)] {
        let of = all.iter().filter(|delivery| delivery["source"] == source);
        let sequences: Vec<u64> = of.map(|delivery| delivery["sequence"].as_u64().unwrap()).collect();
        assert_eq!(sequences, (1..=count).collect::<Vec<_>>());
    }
});

on_both_engines!(a_failed_head_holds_its_stream_and_no_other, async |relay: TestRelay| {
    relay.source("sick", "none").await;
    relay.source("well", "none").await;
    let listener = relay.open(json!({})).await;
    relay.poison().await;
    let sick = [
        relay.webhook("sick", &[], "thirteen byte").await.accepted(),
        relay.webhook("sick", &[], "behind").await.accepted(),
    ];
    let well = relay.webhook("well", &[], "flows").await.accepted();
    assert_eq!(relay.tick().await, (1, 1, 0));
    let polled = relay.poll(&listener, json!({})).await;
    assert_eq!(event_ids(&polled), [well]);
    relay
        .poll(&listener, json!({ "acks": [crate::harness::ack(&polled["deliveries"][0])], "limit": 0 }))
        .await;
    // Half of the delay is fixed: before that nothing is tried. All of it is 2 s at first.
    relay.advance(Duration::from_millis(999));
    assert_eq!(relay.tick().await, (0, 0, 1));
    relay.advance(Duration::from_millis(1001));
    assert_eq!(relay.tick().await, (0, 1, 0));
    relay.advance(Duration::from_millis(1999));
    assert_eq!(relay.tick().await, (0, 0, 1), "the second delay is twice the first");
    // Without limit, and never more than five minutes apart.
    for _ in 0..20 {
        relay.poll(&listener, json!({ "limit": 0 })).await;
        relay.advance(Duration::from_secs(300));
        assert_eq!(relay.tick().await, (0, 1, 0));
    }
    relay.cure().await;
    relay.poll(&listener, json!({ "limit": 0 })).await;
    relay.advance(Duration::from_secs(300));
    assert_eq!(relay.tick().await, (2, 0, 0));
    assert_eq!(event_ids(&relay.poll(&listener, json!({})).await), sick);
});

on_both_engines!(a_failed_head_holds_its_stream_across_a_restart, async |relay: TestRelay| {
    relay.source("sick", "none").await;
    let listener = relay.open(json!({})).await;
    relay.poison().await;
    let sick = [
        relay.webhook("sick", &[], "thirteen byte").await.accepted(),
        relay.webhook("sick", &[], "behind").await.accepted(),
    ];
    assert_eq!(relay.tick().await, (0, 1, 0));
    let again = relay.beside(Settings::default()).await.relay;
    let report = again.tick().await.unwrap();
    assert_eq!((report.dispatched, report.failed), (0, 1));
    relay.cure().await;
    relay.advance(Duration::from_secs(300));
    assert_eq!(again.tick().await.unwrap().dispatched, 2);
    assert_eq!(event_ids(&relay.poll(&listener, json!({})).await), sick);
});

on_both_engines!(a_fan_out_that_is_repeated_makes_nothing_twice, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    for body in ["1", "2", "3"] {
        relay.webhook("raw", &[], body).await.accepted();
    }
    relay.dispatch().await;
    let delivery = relay.poll(&listener, json!({ "limit": 1 })).await["deliveries"][0].clone();
    relay.poll(&listener, json!({ "acks": [crate::harness::ack(&delivery)], "limit": 0 })).await;
    // As if the note that it was done had been lost.
    relay.sql("UPDATE streams SET dispatched = 0").await;
    assert_eq!(relay.tick().await, (3, 0, 0));
    let polled = relay.poll(&listener, json!({})).await;
    assert_eq!((event_ids(&polled).len(), &polled["waiting"]), (2, &json!(0)));
    assert_eq!(relay.event(delivery["event_id"].as_str().unwrap()).await["status"], "delivered");
});

#[tokio::test]
async fn two_dispatchers_on_one_database_do_it_once_and_in_order() {
    let Some(relay) = TestRelay::with(Engine::Postgres, Settings::default()).await else { return };
    let other = relay.beside(Settings::default()).await;
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let here = join_all((0..150).map(|_| relay.webhook("raw", &[], "x")));
    let there = join_all((0..150).map(|_| other.webhook("raw", &[], "y")));
    let rounds = async {
        for _ in 0..20 {
            tokio::join!(relay.dispatch(), other.dispatch());
        }
    };
    let (here, there, ()) = tokio::join!(here, there, rounds);
    assert!(here.iter().chain(&there).all(|answer| answer.status == 202));
    tokio::join!(relay.dispatch(), other.dispatch());
    let all = relay.drain(&listener).await;
    let sequences: Vec<u64> = all.iter().map(|delivery| delivery["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, (1..=300).collect::<Vec<_>>());
    assert!(all.iter().all(|delivery| delivery["attempt"] == 1));
}
