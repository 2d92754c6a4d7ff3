//! Listeners: open, poll, ack, close.

use std::time::Duration;

use serde_json::json;

use crate::harness::ack;
use crate::on_both_engines;

on_both_engines! {
    async fn an_event_is_handed_out_once_acked_and_gone(relay: TestRelay) {
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
        let shown = relay.get(&format!("/v1/events/{event}")).await.expect(200);
        assert_eq!((&shown["status"], &shown["deliveries"][0]["status_code"]), (&json!("delivered"), &json!(200)));
    }
}
