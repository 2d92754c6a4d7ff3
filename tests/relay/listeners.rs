//! Listeners: open, list, show, close; who receives what, for how long they live.

use std::time::Duration;

use pullhook::protocol::error::Code;
use pullhook::relay::Settings;
use serde_json::json;

use crate::harness::{TestRelay, ack, event_ids, ids};
use crate::on_both_engines;

const LISTENERS: &str = "/v1/webhook_listeners";

on_both_engines!(an_event_is_handed_out_once_acked_and_gone, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let event = relay.ingest("raw", br#"{"type":"invoice.paid"}"#).await;
    let polled = relay.poll(&listener, json!({})).await;
    let delivery = &polled["deliveries"][0];
    assert_eq!(delivery["event_id"], json!(event));
    assert_eq!(delivery["event_type"], json!("invoice.paid"));
    assert_eq!(delivery["body"], json!(r#"{"type":"invoice.paid"}"#));
    assert_eq!((&delivery["attempt"], &delivery["sequence"]), (&json!(1), &json!(1)));
    assert_eq!(polled["waiting"], json!(0));
    let after = relay.poll(&listener, json!({ "acks": [ack(delivery)] })).await;
    assert_eq!((&after["acknowledged"], &after["deliveries"]), (&json!(1), &json!([])));
    relay.advance(Duration::from_secs(121));
    assert_eq!(relay.poll(&listener, json!({})).await["deliveries"], json!([]));
    let shown = relay.event(&event).await;
    assert_eq!(
        (&shown["status"], &shown["deliveries"][0]["status_code"]),
        (&json!("delivered"), &json!(200))
    );
});

on_both_engines!(opening_answers_the_contract_and_ours_beside_it, async |relay: TestRelay| {
    // An empty body, and fields that nobody knows, are fine.
    relay.send(http::Method::POST, LISTENERS, &[], axum::body::Body::empty()).await.expect(201);
    let ask = json!({ "event_types": ["invoice.*", "ping"], "description": "Zoë's laptop", "news": [1],
        "sources": ["gh"], "ordered": true, "api_version": "2026-10-10" });
    let open = relay.post(LISTENERS, ask).await.expect(201);
    let id = open["id"].as_str().unwrap();
    assert!(id.starts_with("whlis_"));
    assert_eq!(
        open,
        json!({
            "object": "webhook_listener", "id": id, "api_version": "2026-10-10",
            "event_types": ["invoice.*", "ping"], "description": "Zoë's laptop",
            "expires_at": "2025-10-09T09:03:20.000Z", "created_at": "2025-10-09T08:53:20.000Z",
            "sources": ["gh"], "ordered": true, "backlog": 0, "others_open": 1,
        })
    );
    let shown = relay.get(&format!("{LISTENERS}/{id}")).await.expect(200);
    assert_eq!((&shown["id"], &shown["waiting"]), (&json!(id), &json!(0)));
    assert_eq!(
        relay.post(LISTENERS, json!({ "description": null })).await.expect(201)["description"],
        json!(null)
    );
    let events: Vec<_> = relay.trail().await;
    assert_eq!(events.iter().filter(|(kind, _)| kind == "webhook_listener.created").count(), 3);
    assert!(events.contains(&("webhook_listener.created".to_owned(), id.to_owned())));
});

on_both_engines!(the_sixth_hears_when_the_next_one_frees_up, async |relay: TestRelay| {
    let mut open = Vec::new();
    for _ in 0..5 {
        open.push(relay.open(json!({})).await);
        relay.advance(Duration::from_secs(1));
    }
    let error = relay.post(LISTENERS, json!({})).await.refused(Code::ListenerLimitReached);
    // The oldest was opened 5 s ago and lives for 600 s.
    assert!(error["message"].as_str().unwrap().contains("595 s"), "{error}");
    assert_eq!(ids(&relay.get(LISTENERS).await.expect(200)["data"]), open);
    relay.stranger().await.open(json!({})).await;
    relay.delete(&format!("{LISTENERS}/{}", open[2])).await.expect(200);
    open.push(relay.open(json!({})).await);
    relay.post(LISTENERS, json!({})).await.refused(Code::ListenerLimitReached);
    relay.advance(Duration::from_secs(595));
    open.push(relay.open(json!({})).await);
});

on_both_engines!(closing_is_soft_and_shown, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let event = relay.ingest("raw", b"1").await;
    relay.poll(&listener, json!({})).await;
    let path = format!("{LISTENERS}/{listener}");
    let closed = relay.delete(&path).await.expect(200);
    assert_eq!(closed, json!({ "object": "webhook_listener", "id": listener, "deleted": true }));
    relay.delete(&path).await.refused(Code::NotFound);
    relay.get(&path).await.refused(Code::NotFound);
    relay.try_poll(&listener, json!({})).await.refused(Code::NotFound);
    assert_eq!(relay.get(LISTENERS).await.expect(200)["data"], json!([]));
    assert_eq!(relay.event(&event).await["deliveries"][0]["status"], "dropped");
    // Nobody is left to fan out to.
    let later = relay.ingest("raw", b"2").await;
    assert_eq!(relay.event(&later).await["deliveries"], json!([]));
});

on_both_engines!(a_listener_lives_ten_minutes_past_its_last_poll, async |relay: TestRelay| {
    let listener = relay.open(json!({})).await;
    relay.advance(Duration::from_millis(599_999));
    let polled = relay.poll(&listener, json!({})).await;
    assert_eq!(polled["listener"]["expires_at"], "2025-10-09T09:13:19.999Z");
    assert_eq!(polled["listener"]["last_polled_at"], "2025-10-09T09:03:19.999Z");
    relay.advance(Duration::from_secs(600));
    relay.try_poll(&listener, json!({})).await.refused(Code::NotFound);
    relay.get(&format!("{LISTENERS}/{listener}")).await.refused(Code::NotFound);
});

on_both_engines!(anothers_listener_is_not_found_and_untouched, async |relay: TestRelay| {
    let listener = relay.open(json!({})).await;
    let stranger = relay.stranger().await;
    let path = format!("{LISTENERS}/{listener}");
    stranger.get(&path).await.refused(Code::NotFound);
    stranger.delete(&path).await.refused(Code::NotFound);
    relay.advance(Duration::from_secs(1));
    stranger.try_poll(&listener, json!({})).await.refused(Code::NotFound);
    stranger.try_poll("whlis_nobody", json!({})).await.refused(Code::NotFound);
    let shown = relay.get(&path).await.expect(200);
    assert_eq!(shown["expires_at"], "2025-10-09T09:03:20.000Z");
    assert_eq!(shown.get("last_polled_at"), None);
    assert_eq!(stranger.get(LISTENERS).await.expect(200)["data"], json!([]));
});

on_both_engines!(an_event_goes_to_every_open_listener_that_subscribed, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    relay.source("other", "none").await;
    let subscriptions = [
        json!({}),
        json!({ "event_types": ["invoice.*"] }),
        json!({ "event_types": ["invoice"] }),
        json!({ "sources": ["other"] }),
        json!({ "event_types": ["x", "*"], "sources": ["raw", "nobody"] }),
    ];
    let mut listeners = Vec::new();
    for ask in subscriptions {
        listeners.push(relay.open(ask).await);
    }
    let event = relay.ingest("raw", br#"{"type":"invoice.paid.late"}"#).await;
    let stranger = relay.stranger().await.open(json!({})).await;
    let mut got = Vec::new();
    for listener in &listeners {
        got.push(event_ids(&relay.poll(listener, json!({})).await).len());
    }
    assert_eq!(got, [1, 1, 0, 0, 1]);
    assert_eq!(relay.event(&event).await["deliveries"].as_array().unwrap().len(), 3);
    let other = relay.stranger().await;
    assert_eq!(event_ids(&other.poll(&stranger, json!({})).await).len(), 0);
});

on_both_engines!(listeners_go_a_day_after_their_end_with_what_they_held, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let event = relay.ingest("raw", b"1").await;
    relay.advance(Duration::from_secs(600 + 86_400));
    while relay.relay.purge().await.unwrap() > 0 {}
    assert_eq!(relay.event(&event).await["deliveries"][0]["listener_id"], json!(listener));
    relay.advance(Duration::from_millis(1));
    while relay.relay.purge().await.unwrap() > 0 {}
    assert_eq!(relay.event(&event).await["deliveries"], json!([]));
});

on_both_engines!(
    a_purged_event_takes_its_deliveries_along,
    Settings {
        event_retention: Duration::from_secs(600),
        dedupe_window: Duration::from_secs(600),
        ..Settings::default()
    },
    async |relay: TestRelay| {
        relay.source("raw", "none").await;
        let listener = relay.open(json!({})).await;
        let [old, held] = [relay.ingest("raw", b"old").await, relay.ingest("raw", b"held").await];
        let lease = relay.poll(&listener, json!({ "limit": 1 })).await["deliveries"][0].clone();
        relay.advance(Duration::from_secs(300));
        let young = relay.ingest("raw", b"young").await;
        assert_eq!(relay.poll(&listener, json!({ "limit": 0 })).await["waiting"], 3);
        relay.advance(Duration::from_secs(300));
        assert_eq!(relay.relay.purge().await.unwrap(), 0);
        // What nobody had the chance to see stays, however old.
        relay.source("slow", "none").await;
        let undispatched = relay.webhook("slow", &[], "x").await.accepted();
        relay.advance(Duration::from_millis(1));
        assert_eq!(relay.relay.purge().await.unwrap(), 2);
        for gone in [&old, &held] {
            relay.get(&format!("/v1/events/{gone}")).await.refused(Code::NotFound);
        }
        let polled = relay.poll(&listener, json!({ "acks": [ack(&lease)] })).await;
        assert_eq!((event_ids(&polled), &polled["waiting"]), (vec![young], &json!(0)));
        assert_eq!(polled["acknowledged"], 0);
        relay.advance(Duration::from_secs(3600));
        relay.relay.purge().await.unwrap();
        assert_eq!(relay.listed("").await, [undispatched]);
    }
);
