//! `/v1/events`: made here, listed by what is asked, waited for, shown whole.

use std::time::Duration;

use pullhook::protocol::error::Code;
use pullhook::relay::Settings;
use serde_json::{Value, json};

use crate::harness::{TestRelay, ack_with, ids};
use crate::on_both_engines;

impl TestRelay {
    /// Six events of three types and two sources, a second apart; the first was delivered, the second failed.
    pub async fn six(&self) -> Vec<String> {
        self.source("one", "none").await;
        self.source("two", "none").await;
        let listener = self.open(json!({ "sources": ["one"] })).await;
        let mut events = Vec::new();
        for (index, kind) in ["a.x", "a.y", "b", "a.x", "a.y", "b"].into_iter().enumerate() {
            let source = if index < 3 { "one" } else { "two" };
            let body = format!("{{\"type\":\"{kind}\",\"n\":\"needle-{index}\"}}");
            events.push(self.ingest(source, body.as_bytes()).await);
            self.advance(Duration::from_secs(1));
        }
        let polled = self.poll(&listener, json!({ "limit": 2 })).await;
        let acks = [200, 500].iter().zip(polled["deliveries"].as_array().unwrap());
        let acks: Vec<Value> = acks.map(|(code, d)| ack_with(d, json!({ "status_code": code }))).collect();
        self.poll(&listener, json!({ "acks": acks, "limit": 0 })).await;
        events
    }
}

on_both_engines!(a_list_is_newest_first_and_filtered_by_what_is_asked, async |relay: TestRelay| {
    let events = relay.six().await;
    for (query, want) in [
        ("", &[5, 4, 3, 2, 1, 0][..]),
        ("?order=asc", &[0, 1, 2, 3, 4, 5]),
        ("?type=a.x", &[3, 0]),
        ("?type=a.*", &[4, 3, 1, 0]),
        ("?type=*", &[5, 4, 3, 2, 1, 0]),
        ("?type=a", &[]),
        ("?source=two", &[5, 4, 3]),
        ("?source=two&type=*y", &[4]),
        ("?source=nobody", &[]),
        ("?status=delivered", &[0]),
        ("?status=failed", &[1]),
        ("?status=pending", &[2]),
        ("?status=none&order=asc", &[3, 4, 5]),
        ("?status=skipped", &[]),
        ("?from=2025-10-09T08:53:23Z", &[5, 4, 3]),
        ("?to=2025-10-09T08:53:23Z", &[2, 1, 0]),
        ("?from=2025-10-09T08:53:22Z&to=2025-10-09T10:53:24%2B02:00", &[3, 2]),
        ("?q=needle-4", &[4]),
        ("?q=needle&type=b&source=one", &[2]),
        ("?q=%22type%22:%22b%22", &[5, 2]),
        ("?q=nowhere", &[]),
    ] {
        let want: Vec<String> = want.iter().map(|index| events[*index].clone()).collect();
        assert_eq!(relay.listed(query).await, want, "{query}");
    }
    assert_eq!(relay.stranger().await.listed("").await, Vec::<String>::new());
});

on_both_engines!(lists_page_by_the_last_id, async |relay: TestRelay| {
    let events = relay.six().await;
    for (filter, want) in [("", 6), ("&type=a.*", 4), ("&q=needle", 6), ("&order=asc", 6)] {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let page = relay.get(&format!("/v1/events?limit=2{filter}&after={after}")).await.expect(200);
            assert_eq!(page["object"], "list");
            let got = ids(&page["data"]);
            assert!(got.len() == 2);
            after = got[1].clone();
            seen.extend(got);
            assert_eq!(page["has_more"], json!(seen.len() < want), "{filter}");
            if page["has_more"] == json!(false) {
                break;
            }
        }
        assert_eq!(seen.len(), want);
        let mut sorted = seen.clone();
        sorted.sort_by_key(|id| events.iter().position(|event| event == id));
        if !filter.contains("asc") {
            sorted.reverse();
        }
        assert_eq!(seen, sorted);
    }
    let foreign = relay.stranger().await.get(&format!("/v1/events?after={}", events[0])).await;
    assert_eq!(foreign.refused(Code::NotFound)["param"], "after");
});

on_both_engines!(a_page_holds_fifty_unless_asked_and_a_hundred_at_most, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    for _ in 0..101 {
        relay.webhook("raw", &[], "x").await.accepted();
    }
    for (query, count, more) in [("", 50, true), ("?limit=100", 100, true), ("?limit=1", 1, true)] {
        let page = relay.get(&format!("/v1/events{query}")).await.expect(200);
        assert_eq!((page["data"].as_array().unwrap().len(), &page["has_more"]), (count, &json!(more)));
    }
    relay.ingest("raw", b"x").await;
    let seen = relay.listed("?order=asc&limit=100").await;
    assert_eq!(relay.listed(&format!("?order=asc&after={}", seen[99])).await.len(), 2);
});

on_both_engines!(a_list_item_holds_no_content_and_an_event_all_of_it, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let id = relay.webhook("raw/x?y=1", &[("x-a", "b")], r#"{"type":"t"}"#).await.accepted();
    let item = relay.get("/v1/events").await.expect(200)["data"][0].clone();
    assert_eq!(
        item,
        json!({
            "object": "event", "id": id, "type": "t", "source": "raw", "sequence": 1, "size_bytes": 12,
            "occurrences": 1, "status": "none", "created_at": "2025-10-09T08:53:20.000Z",
        })
    );
    relay.dispatch().await;
    let delivery = relay.poll(&listener, json!({})).await["deliveries"][0]["id"].clone();
    let event = relay.event(&id).await;
    assert_eq!(
        (&event["method"], &event["path"], &event["query"]),
        (&json!("POST"), &json!("/x"), &json!("y=1"))
    );
    assert_eq!((&event["body"], &event["status"]), (&json!(r#"{"type":"t"}"#), &json!("pending")));
    assert!(event["headers"].as_array().unwrap().contains(&json!(["x-a", "b"])));
    assert_eq!(
        event["deliveries"],
        json!([{
            "object": "webhook_listener_delivery", "id": delivery, "listener_id": listener, "occurrence": 1,
            "replay": false, "redelivery": false, "status": "leased", "attempt": 1, "status_code": null,
            "error": null, "duration_ms": null, "created_at": "2025-10-09T08:53:20.000Z", "finished_at": null,
        }])
    );
    relay.stranger().await.get(&format!("/v1/events/{id}")).await.refused(Code::NotFound);
});

on_both_engines!(
    a_list_waits_for_newer_events,
    Settings { fallback_poll: Duration::from_secs(3600), ..Settings::default() },
    async |relay: TestRelay| {
        relay.source("raw", "none").await;
        let first = relay.ingest("raw", br#"{"type":"a"}"#).await;
        // What is there is answered at once, oldest first.
        assert_eq!(relay.listed("?wait_ms=25000").await, std::slice::from_ref(&first));
        let (peer, path) = (relay.clone(), format!("/v1/events?after={first}&wait_ms=25000&type=b"));
        let tail = relay.parked(async move { peer.get(&path).await }).await;
        relay.ingest("raw", br#"{"type":"a"}"#).await;
        let wanted = relay.ingest("raw", br#"{"type":"b"}"#).await;
        assert_eq!(ids(&tail.answer().await.expect(200)["data"]), std::slice::from_ref(&wanted));
        let (peer, path) = (relay.clone(), format!("/v1/events?after={wanted}&wait_ms=1000"));
        let tail = relay.parked(async move { peer.get(&path).await }).await;
        relay.advance(Duration::from_secs(1));
        assert_eq!(tail.answer().await.expect(200)["data"], json!([]));
    }
);

on_both_engines!(an_event_made_here_travels_in_an_envelope, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let ask = json!({ "type": "invoice.paid", "data": { "id": "in_1", "n": 1.50 }, "source": "raw",
        "occurred_at": "2025-10-09T10:00:00+02:00" });
    let made = relay.post("/v1/events", ask).await.expect(202);
    assert_eq!(
        (&made["object"], &made["source"], &made["type"]),
        (&json!("event"), &json!("raw"), &json!("invoice.paid"))
    );
    relay.dispatch().await;
    let polled = relay.poll(&listener, json!({})).await;
    let delivery = &polled["deliveries"][0];
    let body: Value = serde_json::from_str(delivery["body"].as_str().unwrap()).unwrap();
    assert_eq!(
        body,
        json!({
            "id": made["id"], "object": "event", "type": "invoice.paid", "api_version": "2026-10-10",
            "created_at": "2025-10-09T08:53:20.000Z",
            "data": { "id": "in_1", "n": 1.5, "occurred_at": "2025-10-09T08:00:00.000Z" },
        })
    );
    assert_eq!(
        (&delivery["headers"], &delivery["source"]),
        (&json!([["content-type", "application/json"]]), &json!("raw"))
    );
    // Without a source it has a stream of its own.
    let bare = relay.post("/v1/events", json!({ "type": "a", "data": {} })).await.expect(202);
    assert_eq!((&bare["source"], &bare["sequence"]), (&json!(null), &json!(1)));
    let gone = relay.post("/v1/events", json!({ "type": "a", "data": {}, "source": "nobody" })).await;
    assert_eq!(gone.refused(Code::NotFound)["param"], "source");
});

on_both_engines!(a_raw_body_is_sent_as_it_is, async |relay: TestRelay| {
    let listener = relay.open(json!({})).await;
    let body = " {\"a\" :1, \"a\":2}\n\u{0}\u{1f60a}";
    let made = relay.post("/v1/events", json!({ "type": "a", "body": body })).await.expect(202);
    relay.dispatch().await;
    let polled = relay.poll(&listener, json!({})).await;
    assert_eq!(polled["deliveries"][0]["body"], json!(body));
    assert_eq!(relay.event(made["id"].as_str().unwrap()).await["body"], json!(body));
});

on_both_engines!(a_test_event_is_a_sample_with_data_merged_over_it, async |relay: TestRelay| {
    let all = relay.open(json!({})).await;
    relay.open(json!({ "event_types": ["invoice.*"] })).await;
    relay.open(json!({ "sources": ["raw"] })).await;
    relay.stranger().await.open(json!({})).await;
    let plain = relay.post("/v1/webhook_events/test", json!({ "type": "parcel.lost" })).await.expect(200);
    assert_eq!(
        (&plain["object"], &plain["listeners"], &plain["endpoints"]),
        (&json!("webhook_test_event"), &json!(1), &json!(0))
    );
    assert_eq!(plain["event"]["data"]["object"], "parcel");
    let more = json!({ "type": "parcel.lost", "data": { "object": { "deep": 1 }, "extra": [1] } });
    let merged = relay.post("/v1/webhook_events/test", more).await.expect(200);
    let data = &merged["event"]["data"];
    assert_eq!(
        (&data["object"], &data["extra"], &data["id"]),
        (&json!({ "deep": 1 }), &json!([1]), &plain["event"]["data"]["id"])
    );
    relay.dispatch().await;
    let polled = relay.poll(&all, json!({})).await;
    let bodies: Vec<Value> = polled["deliveries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|delivery| serde_json::from_str(delivery["body"].as_str().unwrap()).unwrap())
        .collect();
    assert_eq!(
        bodies,
        [plain["event"].clone(), merged["event"].clone()],
        "sent like a real event, and not marked"
    );
});
