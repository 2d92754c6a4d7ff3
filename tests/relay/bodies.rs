//! Bodies at ingress: capped while they stream, never cut, never changed, never waited for without end.

use std::time::Duration;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use pullhook::protocol::error::Code;
use pullhook::relay::Settings;
use serde_json::json;

use crate::harness::{B1, JSON, TestRelay};
use crate::on_both_engines;

type Chunk = Result<Bytes, std::io::Error>;

fn chunked(chunks: impl Stream<Item = Chunk> + Send + 'static) -> Body {
    Body::from_stream(chunks)
}

fn quick() -> Settings {
    Settings {
        body_stall: Duration::from_millis(20),
        body_deadline: Duration::from_millis(60),
        ..Settings::default()
    }
}

on_both_engines!(the_cap_holds_to_the_byte_announced_or_not, async |relay: TestRelay| {
    relay.source_with("raw", "none", json!({ "max_body_bytes": 10 })).await;
    let pieces =
        |size: usize| chunked(stream::iter(vec![b'x'; size]).map(|byte| Ok(Bytes::from(vec![byte]))));
    let id = relay.webhook("raw", &[], "0123456789").await.accepted();
    assert_eq!(relay.event(&id).await["body"], "0123456789");
    relay.webhook("raw", &[], pieces(10)).await.accepted();
    for (length, body) in
        [("", pieces(11)), ("11", Body::from("01234567890")), ("99999999999", Body::from("x"))]
    {
        let error =
            relay.webhook("raw", &[("content-length", length)], body).await.refused(Code::BodyTooLarge);
        assert!(error["message"].as_str().unwrap().contains("10 bytes"), "{error}");
    }
    assert_eq!(relay.listed("").await.len(), 2);
});

on_both_engines!(a_body_that_trickles_is_refused, quick(), async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let silent = chunked(stream::once(async { Ok(Bytes::from("x")) }).chain(stream::pending()));
    relay.webhook("raw", &[], silent).await.refused(Code::RequestTimeout);
    // A byte now and then keeps within each stall, not within the whole.
    let drip = chunked(stream::repeat(()).then(|()| async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(Bytes::from("x"))
    }));
    relay.webhook("raw", &[], drip).await.refused(Code::RequestTimeout);
    assert_eq!(relay.listed("").await, Vec::<String>::new());
});

on_both_engines!(a_body_that_breaks_off_is_not_stored, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let broken = stream::iter([Ok(Bytes::from("half")), Err(std::io::Error::other("gone"))]);
    relay.webhook("raw", &[], chunked(broken)).await.refused(Code::InvalidRequest);
    assert_eq!(relay.listed("").await, Vec::<String>::new());
});

on_both_engines!(an_empty_body_stays_empty, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    relay.source("gh", "github").await;
    let listener = relay.open(json!({})).await;
    relay.webhook("raw", &[JSON[0], ("content-length", "0")], Body::empty()).await.accepted();
    let of_nothing = "sha256=7fe3e03409f26466f52e59bc2c8349417fb1d1e5473ab4b115a34e2af85045bd";
    relay.webhook("gh", &[JSON[0], ("x-hub-signature-256", of_nothing)], Body::empty()).await.accepted();
    let of_braces = "sha256=1f3df8953045613000518497099931ae4e79fcb16a25c37144c17a567f2bb5f5";
    let trap = relay.webhook("gh", &[JSON[0], ("x-hub-signature-256", of_braces)], Body::empty()).await;
    trap.refused(Code::InvalidSignature);
    relay.dispatch().await;
    let polled = relay.poll(&listener, json!({})).await;
    for delivery in polled["deliveries"].as_array().unwrap() {
        assert_eq!((&delivery["body"], delivery.get("body_base64")), (&json!(""), None));
    }
    assert_eq!(polled["deliveries"].as_array().unwrap().len(), 2);
});

on_both_engines!(bytes_that_are_not_utf8_verify_and_survive, async |relay: TestRelay| {
    relay.source("gh", "github").await;
    let body = b"{\"a\":\"\xff\"}";
    let signature = "sha256=243b2367bae4fd8a6376ad0780e2f313f1f10659b2775b0d5a98ff48a2b0eac7";
    let id = relay.webhook("gh", &[("x-hub-signature-256", signature)], &body[..]).await.accepted();
    let event = relay.event(&id).await;
    assert_eq!((&event["body"], &event["body_base64"]), (&json!(""), &json!("eyJhIjoi/yJ9")));
});

on_both_engines!(a_large_text_full_of_escapes_travels_as_base64, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let body = vec![0x01; (4 << 20) + 1];
    let id = relay.ingest("raw", &body).await;
    let polled = relay.poll(&listener, json!({})).await;
    for shown in [&polled["deliveries"][0], &relay.event(&id).await] {
        assert_eq!(shown["body"], "");
        assert!(STANDARD.decode(shown["body_base64"].as_str().unwrap()).unwrap() == body);
    }
});

on_both_engines!(a_sources_cap_is_never_above_the_relays, async |relay: TestRelay| {
    relay.source_with("raw", "none", json!({ "max_body_bytes": 10 })).await;
    let beside = relay.beside(Settings { max_body_bytes: 9, ..Settings::default() }).await;
    let error = beside.webhook("raw", &[], "0123456789").await.refused(Code::BodyTooLarge);
    assert!(error["message"].as_str().unwrap().contains("9 bytes"), "{error}");
});

on_both_engines!(an_event_of_no_recognisable_type_is_unknown_and_untouched, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    for body in ["", "not JSON", "[1]", "{\"type\":7}", "{\"type\":\"\"}"] {
        let id = relay.webhook("raw", JSON, body).await.accepted();
        let event = relay.event(&id).await;
        assert_eq!((&event["type"], &event["body"]), (&json!("unknown"), &json!(body)));
    }
    let id = relay.webhook("raw", JSON, B1).await.accepted();
    assert_eq!(relay.event(&id).await["type"], "invoice.paid");
});
