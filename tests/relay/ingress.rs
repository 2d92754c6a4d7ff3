//! `POST /api/webhooks/{slug}`: the order of its steps, the receipt, what is kept and what isn't.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use bytes::Bytes;
use http::Method;
use pullhook::protocol::error::Code;
use serde_json::{Value, json};

use crate::harness::{B1, JSON, TestRelay, ack, borrow, event_ids, github, ids};
use crate::{log, on_both_engines};

/// A body that notes whether anybody looked at it.
fn watched() -> (Body, Arc<AtomicBool>) {
    let read = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&read);
    let stream = futures_util::stream::poll_fn(move |_| {
        seen.store(true, Ordering::Relaxed);
        std::task::Poll::Ready(None::<Result<Bytes, std::io::Error>>)
    });
    (Body::from_stream(stream), read)
}

on_both_engines!(an_unknown_source_is_404_before_anything_is_read, async |relay: TestRelay| {
    relay.source("gh", "github").await;
    for path in ["nobody", "nobody/x", "", "/", "GH", "gh%2Fx", "%00", "%FF"] {
        let (body, read) = watched();
        let answer =
            relay.webhook(path, &[("host", "evil.test"), ("content-length", "99999999999")], body).await;
        answer.refused(Code::NotFound);
        assert!(!read.load(Ordering::Relaxed), "{path}: the body was read");
    }
    for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let answer = relay.send(method.clone(), "/api/webhooks/nobody", &[], Body::empty()).await;
        assert_eq!(answer.status, 404, "{method}");
    }
    relay.patch("/v1/sources/gh", json!({ "enabled": false })).await.expect(200);
    relay.webhook("gh", &borrow(&github("d1", B1)), B1).await.refused(Code::NotFound);
    assert_eq!(relay.listed("").await, Vec::<String>::new());
});

on_both_engines!(probes_find_a_known_source_and_leave_nothing_behind, async |relay: TestRelay| {
    relay.source("gh", "github").await;
    for method in [Method::GET, Method::HEAD] {
        let answer = relay.send(method, "/api/webhooks/gh/deep?x=1", &[], Body::empty()).await;
        assert_eq!((answer.status.as_u16(), answer.bytes.len()), (200, 0));
    }
    for method in [Method::DELETE, Method::OPTIONS, Method::TRACE] {
        let answer = relay.send(method, "/api/webhooks/gh", &[], Body::empty()).await;
        answer.refused(Code::MethodNotAllowed);
        assert_eq!(answer.header("allow"), "GET, HEAD, POST, PUT, PATCH");
    }
    assert_eq!(relay.listed("").await, Vec::<String>::new());
});

on_both_engines!(the_receipt_is_for_custody_and_waits_for_nobody, async |relay: TestRelay| {
    relay.source("gh", "github").await;
    let listener = relay.open(json!({})).await;
    let answer = relay.webhook("gh", &borrow(&github("d1", B1)), B1).await.expect(202);
    let id = answer["event_id"].as_str().unwrap();
    assert_eq!(answer, json!({ "status": "accepted", "event_id": id, "duplicate": false }));
    assert!(id.starts_with("evt_") && id.len() == "evt_".len() + 26);
    // Nothing was dispatched yet: stored, listed, with nobody's delivery.
    assert_eq!(event_ids(&relay.poll(&listener, json!({})).await), Vec::<String>::new());
    assert_eq!(relay.listed("").await, [id]);
    assert_eq!(relay.event(id).await["deliveries"], json!([]));
    relay.dispatch().await;
    assert_eq!(event_ids(&relay.poll(&listener, json!({})).await), [id]);
});

on_both_engines!(method_path_query_headers_and_bytes_are_kept, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let body: Vec<u8> = (0..=255).collect();
    let headers = [
        ("content-type", "application/octet-stream"),
        ("x-multi", "a"),
        ("x-one", "ü \u{1f60a}"),
        ("x-multi", "b"),
        ("x-multi", "a"),
    ];
    let path = "/api/webhooks/raw/a//b%2Fc/%C3%BC/?q=1&q=%202&&empty=&flag";
    let id = relay.send(Method::PUT, path, &headers, body.clone()).await.accepted();
    relay.dispatch().await;
    let (event, polled) = (relay.event(&id).await, relay.poll(&listener, json!({})).await);
    let delivery = &polled["deliveries"][0];
    for shown in [&event, delivery] {
        assert_eq!(shown["method"], "PUT");
        assert_eq!(shown["path"], "/a//b%2Fc/%C3%BC/");
        assert_eq!(shown["query"], "q=1&q=%202&&empty=&flag");
        assert_eq!((&shown["source"], &shown["body"]), (&json!("raw"), &json!("")));
        use base64::Engine as _;
        let bytes = base64::engine::general_purpose::STANDARD.decode(shown["body_base64"].as_str().unwrap());
        assert_eq!(bytes.unwrap(), body);
        let kept: Vec<(&str, &str)> = kept_headers(shown);
        let multi: Vec<&str> = kept.iter().filter(|(name, _)| *name == "x-multi").map(|(_, v)| *v).collect();
        assert_eq!(multi, ["a", "b", "a"]);
        let one = kept.iter().find(|(name, _)| *name == "x-one").unwrap().1;
        assert_eq!(pullhook::headers::from_latin1(one).unwrap(), "ü \u{1f60a}".as_bytes());
    }
    assert_eq!(event["size_bytes"], 256);
});

on_both_engines!(credentials_are_not_kept, async |relay: TestRelay| {
    log::keep();
    relay.source("i14", "none").await;
    relay.source("i14gh", "github").await;
    let secrets = [
        ("Authorization", "Bearer i14-bearer"),
        ("COOKIE", "s=i14-cookie"),
        ("Proxy-Authorization", "Basic i14-proxy"),
        ("X-Kept", "yes"),
    ];
    let id = relay.webhook("i14", &secrets, B1).await.accepted();
    let mut forged = secrets.to_vec();
    forged.push(("x-hub-signature-256", "sha256=00i14nearmiss"));
    relay.webhook("i14gh", &forged, "i14-body").await.refused(Code::InvalidSignature);
    let event = relay.event(&id).await;
    let names: Vec<&str> = kept_headers(&event).iter().map(|(name, _)| *name).collect();
    assert!(names.contains(&"x-kept"), "{names:?}");
    for gone in ["authorization", "cookie", "proxy-authorization"] {
        assert!(!names.contains(&gone), "{names:?}");
    }
    let everything = event.to_string() + &relay.get("/v1/events").await.json().to_string();
    for planted in ["i14-bearer", "i14-cookie", "i14-proxy", "i14nearmiss", "i14-body"] {
        assert!(!everything.contains(planted));
        assert_eq!(log::lines(planted), Vec::<String>::new());
    }
});

on_both_engines!(two_hundred_at_once_while_a_listener_works, async |relay: TestRelay| {
    log::keep();
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let posts = (0..200).map(|i| relay.webhook("raw", JSON, format!("{{\"i\":{i}}}")));
    let posts = futures_util::future::join_all(posts);
    let work = async {
        let mut seen = Vec::new();
        let mut acks = Vec::new();
        while seen.len() < 200 {
            relay.dispatch().await;
            let polled = relay.poll(&listener, json!({ "limit": 50, "acks": acks })).await;
            seen.extend(
                polled["deliveries"].as_array().unwrap().iter().map(|d| d["sequence"].as_u64().unwrap()),
            );
            acks = polled["deliveries"].as_array().unwrap().iter().map(ack).collect();
        }
        seen
    };
    let (answers, seen) = tokio::join!(posts, work);
    assert!(answers.iter().all(|answer| answer.status == 202));
    assert_eq!(seen, (1..=200).collect::<Vec<u64>>(), "each once, in order");
    assert_eq!(log::lines("database is locked"), Vec::<String>::new());
});

on_both_engines!(slugs_are_unique_in_the_relay_and_names_in_the_environment, async |relay: TestRelay| {
    let stranger = relay.stranger().await;
    let first = relay.source("github", "github").await;
    let second = stranger.source("github", "github").await;
    assert_eq!(first["ingress_url"], "http://127.0.0.1:4750/api/webhooks/github");
    let url = second["ingress_url"].as_str().unwrap();
    let slug = url.strip_prefix("http://127.0.0.1:4750/api/webhooks/").unwrap();
    assert!(slug.starts_with("github-") && slug.len() == "github-".len() + 4, "{slug}");
    let id = relay.webhook(slug, &borrow(&github("d1", B1)), B1).await.accepted();
    relay.get(&format!("/v1/events/{id}")).await.refused(Code::NotFound);
    assert_eq!(ids(&stranger.get("/v1/events").await.expect(200)["data"]), [id]);
});

fn kept_headers(shown: &Value) -> Vec<(&str, &str)> {
    let pairs = shown["headers"].as_array().unwrap();
    pairs.iter().map(|pair| (pair[0].as_str().unwrap(), pair[1].as_str().unwrap())).collect()
}
