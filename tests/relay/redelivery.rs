//! Repeats: of a provider's id, of bytes, of both.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{B1, SA, TestRelay, ack, borrow, event_ids, github, pairs, signed};
use crate::on_both_engines;

impl TestRelay {
    async fn push(&self, delivery: &str, body: &'static [u8]) -> Value {
        self.webhook("gh", &borrow(&github(delivery, body)), body).await.expect(202)
    }
}

on_both_engines!(a_repeat_is_the_same_event_again_and_is_handed_on_marked, async |relay: TestRelay| {
    relay.source("gh", "github").await;
    let listener = relay.open(json!({})).await;
    let first = relay.push("d1", B1).await;
    relay.dispatch().await;
    let polled = relay.poll(&listener, json!({})).await;
    let delivery = &polled["deliveries"][0];
    assert_eq!((&delivery["redelivery"], &delivery["replay"]), (&json!(false), &json!(false)));
    relay.poll(&listener, json!({ "acks": [ack(delivery)] })).await;

    relay.advance(Duration::from_secs(10));
    let second = relay.push("d1", B1).await;
    assert_eq!((&second["event_id"], &second["duplicate"]), (&first["event_id"], &json!(true)));
    relay.dispatch().await;
    let polled = relay.poll(&listener, json!({})).await;
    let again = &polled["deliveries"][0];
    assert_eq!((&again["event_id"], &again["redelivery"]), (&first["event_id"], &json!(true)));
    assert_eq!(
        (&again["occurrence"], &again["attempt"], &again["sequence"]),
        (&json!(2), &json!(1), &json!(2))
    );
    assert_ne!(again["id"], delivery["id"]);
    assert_eq!(relay.listed("").await.len(), 1);
    let event = relay.event(first["event_id"].as_str().unwrap()).await;
    assert_eq!((&event["occurrences"], event["deliveries"].as_array().unwrap().len()), (&json!(2), 2));
    assert_eq!(event["provider_event_id"], "d1");
});

on_both_engines!(where_repeats_are_dropped_they_are_counted_only, async |relay: TestRelay| {
    relay.source_with("gh", "github", json!({ "dedupe": "drop" })).await;
    let listener = relay.open(json!({})).await;
    let first = relay.push("d1", B1).await;
    let second = relay.push("d1", B1).await;
    assert_eq!((&second["event_id"], &second["duplicate"]), (&first["event_id"], &json!(true)));
    relay.dispatch().await;
    assert_eq!(event_ids(&relay.poll(&listener, json!({})).await).len(), 1);
    assert_eq!(relay.event(first["event_id"].as_str().unwrap()).await["occurrences"], 2);
});

on_both_engines!(the_same_id_with_other_bytes_is_a_new_event_flagged, async |relay: TestRelay| {
    relay.source_with("gh", "github", json!({ "dedupe": "drop" })).await;
    let first = relay.push("d1", B1).await;
    let other = relay.push("d1", b"other bytes").await;
    assert_eq!(other["duplicate"], json!(false));
    assert_ne!(other["event_id"], first["event_id"]);
    let event = relay.event(other["event_id"].as_str().unwrap()).await;
    assert_eq!(event["conflicting"], json!(true));
    assert_eq!(relay.event(first["event_id"].as_str().unwrap()).await.get("conflicting"), None);
    // Each is remembered with its own bytes.
    assert_eq!(relay.push("d1", b"other bytes").await["event_id"], other["event_id"]);
    assert_eq!(relay.push("d1", B1).await["event_id"], first["event_id"]);
});

on_both_engines!(equal_bytes_alone_are_no_repeat, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    relay.source("gh", "github").await;
    let listener = relay.open(json!({})).await;
    for _ in 0..3 {
        assert_eq!(relay.webhook("raw", &[("webhook-id", "same")], "").await.expect(202)["duplicate"], false);
    }
    assert_eq!(relay.push("d1", B1).await["duplicate"], false);
    assert_eq!(relay.push("d2", B1).await["duplicate"], false);
    relay.dispatch().await;
    assert_eq!(event_ids(&relay.poll(&listener, json!({})).await).len(), 5);
    assert_eq!(relay.listed("").await.len(), 5);
});

on_both_engines!(an_id_is_remembered_for_its_window_and_in_its_source, async |relay: TestRelay| {
    relay.source_with("gh", "github", json!({ "dedupe_window_s": 600 })).await;
    relay.source("gh2", "github").await;
    let first = relay.push("d1", B1).await;
    let elsewhere = relay.webhook("gh2", &borrow(&github("d1", B1)), B1).await.expect(202);
    assert_eq!(elsewhere["duplicate"], json!(false));
    relay.advance(Duration::from_secs(600));
    assert_eq!(relay.push("d1", B1).await["event_id"], first["event_id"]);
    relay.advance(Duration::from_secs(1));
    let later = relay.push("d1", B1).await;
    assert_eq!(later["duplicate"], json!(false));
    assert_eq!(relay.event(later["event_id"].as_str().unwrap()).await.get("conflicting"), None);
});

on_both_engines!(a_hundred_copies_at_once_are_one_event, async |relay: TestRelay| {
    relay.source("std", "standard-webhooks").await;
    let headers = signed("standard-webhooks", SA, "msg_1", relay.now(), B1);
    let headers = pairs(&headers);
    let copies = (0..100).map(|_| relay.webhook("std", &headers, B1));
    let answers = futures_util::future::join_all(copies).await;
    let answers: Vec<Value> = answers.into_iter().map(|answer| answer.expect(202)).collect();
    let fresh: Vec<&Value> = answers.iter().filter(|answer| answer["duplicate"] == false).collect();
    assert_eq!(fresh.len(), 1);
    assert!(answers.iter().all(|answer| answer["event_id"] == fresh[0]["event_id"]));
    assert_eq!(relay.listed("").await.len(), 1);
    assert_eq!(relay.event(fresh[0]["event_id"].as_str().unwrap()).await["occurrences"], 100);
});
