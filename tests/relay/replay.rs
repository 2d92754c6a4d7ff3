//! `POST /v1/events/replay`: a late delivery of stored events, by id or range.

use pullhook::protocol::error::Code;
use serde_json::json;

use crate::harness::{TestRelay, ack_with, event_ids};
use crate::on_both_engines;

on_both_engines!(a_replay_reaches_the_running_listener, async |relay: TestRelay| {
    let events = relay.six().await;
    let listener = relay.open(json!({ "event_types": ["nothing"] })).await;
    let ask = json!({ "event_ids": [events[4], events[0], events[4]] });
    let replayed = relay.post("/v1/events/replay", ask).await.expect(200);
    assert_eq!(
        replayed,
        json!({ "object": "event_replay", "count": 2, "event_ids": [events[0], events[4]],
        "listeners": 2, "has_more": false })
    );
    // A person asked for it: what the listener subscribed to doesn't matter.
    let polled = relay.poll(&listener, json!({})).await;
    assert_eq!(event_ids(&polled), [events[0].clone(), events[4].clone()]);
    let first = &polled["deliveries"][0];
    assert_eq!(
        (&first["replay"], &first["redelivery"], &first["occurrence"], &first["attempt"]),
        (&json!(true), &json!(false), &json!(2), &json!(1))
    );
    assert_eq!(relay.event(&events[0]).await["status"], "pending");
    relay.poll(&listener, json!({ "acks": [ack_with(first, json!({}))], "limit": 0 })).await;
    let shown = relay.event(&events[0]).await;
    let statuses: Vec<_> =
        shown["deliveries"].as_array().unwrap().iter().map(|d| d["status"].clone()).collect();
    assert_eq!(statuses, ["delivered", "waiting", "delivered"]);
    assert_eq!((&shown["occurrences"], &shown["status"]), (&json!(2), &json!("delivered")));
});

on_both_engines!(a_late_outcome_of_an_earlier_hand_out_does_not_hide_the_replay, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let event = relay.ingest("raw", b"{}").await;
    let first = relay.poll(&listener, json!({})).await["deliveries"][0].clone();
    relay.post("/v1/events/replay", json!({ "event_ids": [event] })).await.expect(200);
    relay.poll(&listener, json!({ "acks": [ack_with(&first, json!({}))], "limit": 0 })).await;
    assert_eq!(relay.event(&event).await["status"], "pending");
    let second = relay.poll(&listener, json!({})).await["deliveries"][0].clone();
    relay.poll(&listener, json!({ "acks": [ack_with(&second, json!({ "status_code": 500 }))] })).await;
    assert_eq!(relay.event(&event).await["status"], "failed");
});

on_both_engines!(a_range_is_replayed_oldest_first_and_only_as_asked, async |relay: TestRelay| {
    let events = relay.six().await;
    let listener = relay.open(json!({})).await;
    let from = "2025-10-09T08:53:20Z";
    for (ask, want, more) in [
        (json!({ "from": from }), &[0, 1, 2, 3, 4, 5][..], false),
        (json!({ "from": "2025-10-09T08:53:22Z", "to_time": "2025-10-09T08:53:24Z" }), &[2, 3], false),
        (json!({ "from": "2025-10-09T08:53:22Z", "to": "2025-10-09T08:53:24Z" }), &[2, 3], false),
        (json!({ "to_time": "2025-10-09T08:53:22Z" }), &[0, 1], false),
        (json!({ "from": from, "type": "a.*", "source": "two" }), &[3, 4], false),
        (json!({ "from": from, "type": "*" , "limit": 2 }), &[0, 1], true),
        (json!({ "from": from, "status": "failed" }), &[1], false),
        (json!({ "from": "2030-01-01T00:00:00Z" }), &[], false),
    ] {
        let want: Vec<String> = want.iter().map(|index| events[*index].clone()).collect();
        let mut dry = ask.clone();
        dry["dry_run"] = json!(true);
        let shown = relay.post("/v1/events/replay", dry).await.expect(200);
        assert_eq!(
            (&shown["event_ids"], &shown["has_more"], &shown["listeners"]),
            (&json!(want), &json!(more), &json!(2))
        );
    }
    assert_eq!(
        event_ids(&relay.poll(&listener, json!({})).await),
        Vec::<String>::new(),
        "a dry run makes nothing"
    );
    let ask = json!({ "from": from, "status": "failed", "to": "listeners" });
    assert_eq!(relay.post("/v1/events/replay", ask).await.expect(200)["count"], 1);
    assert_eq!(event_ids(&relay.poll(&listener, json!({})).await), [events[1].clone()]);
});

on_both_engines!(a_replay_may_name_its_listener, async |relay: TestRelay| {
    let events = relay.six().await;
    let (one, two) = (relay.open(json!({})).await, relay.open(json!({})).await);
    let ask = |to: &str| json!({ "event_ids": [events[0]], "to": { "listener": to } });
    assert_eq!(relay.post("/v1/events/replay", ask(&two)).await.expect(200)["listeners"], 1);
    assert_eq!(event_ids(&relay.poll(&one, json!({})).await).len(), 0);
    assert_eq!(event_ids(&relay.poll(&two, json!({})).await).len(), 1);
    relay.delete(&format!("/v1/webhook_listeners/{two}")).await.expect(200);
    let foreign = relay.stranger().await.open(json!({})).await;
    for gone in [&two, &foreign, "whlis_nobody"] {
        for dry in [false, true] {
            let mut ask = ask(gone);
            ask["dry_run"] = json!(dry);
            assert_eq!(
                relay.post("/v1/events/replay", ask).await.refused(Code::NotFound)["param"],
                "to.listener"
            );
        }
    }
});

on_both_engines!(a_replay_to_nobody_says_so, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let event = relay.ingest("raw", b"{}").await;
    let error =
        relay.post("/v1/events/replay", json!({ "event_ids": [event] })).await.refused(Code::NoOpenListener);
    assert!(error["hint"].as_str().unwrap().contains("pullhook listen"));
    let dry =
        relay.post("/v1/events/replay", json!({ "event_ids": [event], "dry_run": true })).await.expect(200);
    assert_eq!((&dry["count"], &dry["listeners"]), (&json!(1), &json!(0)));
    relay.open(json!({})).await;
    let unknown = json!({ "event_ids": [event, "evt_nobody"] });
    assert_eq!(
        relay.post("/v1/events/replay", unknown).await.refused(Code::NotFound)["param"],
        "event_ids.1"
    );
    let many = json!({ "event_ids": [event, event], "limit": 1 });
    assert_eq!(
        relay.post("/v1/events/replay", many).await.refused(Code::ReplayTooLarge)["param"],
        "event_ids"
    );
    let foreign = relay.stranger().await;
    foreign.open(json!({})).await;
    foreign.post("/v1/events/replay", json!({ "event_ids": [event] })).await.refused(Code::NotFound);
    assert_eq!(relay.event(&event).await["occurrences"], 1);
});
