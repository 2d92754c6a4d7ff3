//! `/v1/sources`: made, listed, changed, rotated, signed for, removed; what changes takes effect at once.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pullhook::clock::Timestamp;
use pullhook::protocol::error::Code;
use serde_json::{Value, json};

use crate::harness::{B1, GH_SECRET, Peer, SA, SB, T0_MS, TestRelay, ids, pairs, signed};
use crate::on_both_engines;

const SOURCES: &str = "/v1/sources";

impl TestRelay {
    /// The status of a webhook to `std`, signed with this secret.
    async fn with_secret(&self, secret: &str) -> u16 {
        let id = format!("msg_{}", rand::random::<u64>());
        let headers = signed("standard-webhooks", secret, &id, self.now(), B1);
        self.webhook("std", &pairs(&headers), B1).await.status.as_u16()
    }
}

impl Peer {
    /// The headers that the relay signs a body with.
    async fn sign(&self, source: &str, body: &[u8], more: Value) -> Vec<(String, String)> {
        let mut ask = json!({ "body_base64": STANDARD.encode(body) });
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = self.post(&format!("{SOURCES}/{source}/sign"), ask).await.expect(200);
        assert_eq!(answer["object"], "source_signature");
        assert!(answer["ingress_url"].as_str().unwrap().ends_with(&format!("/api/webhooks/{source}")));
        serde_json::from_value(answer["headers"].clone()).unwrap()
    }
}

on_both_engines!(a_source_is_shown_without_its_secrets, async |relay: TestRelay| {
    let ask = json!({ "name": "gh", "scheme": "github", "secrets": [GH_SECRET, "another"], "dedupe": "drop",
        "dedupe_window_s": 600, "max_body_bytes": 1000, "public_url": "https://hooks.example.com/gh" });
    let made = relay.post(SOURCES, ask).await.expect(201);
    let id = made["id"].as_str().unwrap();
    assert!(id.starts_with("src_"));
    assert_eq!(
        made,
        json!({
            "object": "source", "id": id, "name": "gh", "scheme": "github", "secrets": 2,
            "ingress_url": "http://127.0.0.1:4750/api/webhooks/gh", "public_url": "https://hooks.example.com/gh",
            "dedupe": "drop", "dedupe_window_s": 600, "max_body_bytes": 1000, "enabled": true,
            "created_at": "2025-10-09T08:53:20.000Z", "updated_at": "2025-10-09T08:53:20.000Z",
        })
    );
    for name in [id, "gh"] {
        assert_eq!(relay.get(&format!("{SOURCES}/{name}")).await.expect(200), made);
        relay.stranger().await.get(&format!("{SOURCES}/{name}")).await.refused(Code::NotFound);
    }
    let plain = relay.source("std", "standard-webhooks").await;
    assert_eq!((&plain["dedupe"], &plain["dedupe_window_s"]), (&json!("mark"), &json!(604_800)));
    assert_eq!((&plain["max_body_bytes"], plain.get("public_url")), (&json!(26_214_400), None));
});

on_both_engines!(names_are_taken_once, async |relay: TestRelay| {
    relay.source("gh", "github").await;
    let error = relay.post(SOURCES, json!({ "name": "gh", "scheme": "none" })).await.refused(Code::NameTaken);
    assert_eq!(error["param"], "name");
    relay.stranger().await.source("gh", "github").await;
    let twice = futures_util::future::join_all(
        (0..8).map(|_| relay.post(SOURCES, json!({ "name": "race", "scheme": "none" }))),
    );
    let made = twice.await.iter().filter(|answer| answer.status == 201).count();
    assert_eq!(made, 1);
});

on_both_engines!(they_are_listed_by_name, async |relay: TestRelay| {
    for name in ["c", "a", "e", "b", "d"] {
        relay.source(name, "none").await;
    }
    relay.stranger().await.source("x", "none").await;
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = relay.get(&format!("{SOURCES}?limit=2&after={after}")).await.expect(200);
        after = ids(&page["data"]).pop().unwrap();
        seen.extend(page["data"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap().to_owned()));
        if page["has_more"] == json!(false) {
            break;
        }
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
});

on_both_engines!(a_change_is_of_what_is_sent_and_takes_effect_at_once, async |relay: TestRelay| {
    let before = relay.source("std", "standard-webhooks").await;
    assert_eq!(relay.with_secret(SA).await, 202);
    relay.advance(std::time::Duration::from_secs(1));
    let path = format!("{SOURCES}/std");
    let after = relay.patch(&path, json!({ "max_body_bytes": 10 })).await.expect(200);
    let mut want = before.clone();
    want["max_body_bytes"] = json!(10);
    want["updated_at"] = json!("2025-10-09T08:53:21.000Z");
    assert_eq!(after, want);
    assert_eq!(relay.with_secret(SA).await, 413);
    relay.patch(&path, json!({ "max_body_bytes": 1000, "secrets": [SB], "name": "std" })).await.expect(200);
    assert_eq!((relay.with_secret(SA).await, relay.with_secret(SB).await), (401, 202));
    relay.patch(&path, json!({ "enabled": false })).await.expect(200);
    assert_eq!(relay.with_secret(SB).await, 404);
    relay.patch(&path, json!({ "enabled": true })).await.expect(200);
    assert_eq!(relay.with_secret(SB).await, 202);
    relay.stranger().await.patch(&path, json!({ "enabled": false })).await.refused(Code::NotFound);
});

on_both_engines!(a_new_scheme_comes_with_its_secrets, async |relay: TestRelay| {
    relay.source("std", "standard-webhooks").await;
    let path = format!("{SOURCES}/std");
    for (change, code, param) in [
        (json!({ "scheme": "github" }), Code::InvalidSecret, "secrets"),
        (json!({ "scheme": "githab" }), Code::UnknownScheme, "scheme"),
        (json!({ "scheme": "none", "secrets": ["x"] }), Code::InvalidSecret, "secrets.0"),
        (json!({ "secrets": [SB, "no whsec"] }), Code::InvalidSecret, "secrets.1"),
        (json!({ "secrets": [format!("v1,{SB}")] }), Code::InvalidSecret, "secrets.0"),
        (json!({ "secrets": ["whsec_!"] }), Code::InvalidSecret, "secrets.0"),
    ] {
        assert_eq!(relay.patch(&path, change.clone()).await.refused(code)["param"], param, "{change}");
    }
    assert_eq!(relay.with_secret(SA).await, 202, "nothing changed");
    let github = relay.patch(&path, json!({ "scheme": "github", "secrets": [GH_SECRET] })).await.expect(200);
    assert_eq!((&github["scheme"], &github["secrets"]), (&json!("github"), &json!(1)));
    let none = relay.patch(&path, json!({ "scheme": "none" })).await.expect(200);
    assert_eq!((&none["scheme"], &none["secrets"]), (&json!("none"), &json!(0)));
    relay.webhook("std", &[], B1).await.accepted();
});

on_both_engines!(a_rotation_keeps_the_old_secret_beside_the_new_one, async |relay: TestRelay| {
    relay.source("std", "standard-webhooks").await;
    let path = format!("{SOURCES}/std/rotate");
    assert_eq!(relay.post(&path, json!({ "secrets": [SB] })).await.expect(200)["secrets"], 2);
    assert_eq!((relay.with_secret(SA).await, relay.with_secret(SB).await), (202, 202));
    // The newest signs.
    let headers = relay.sign("std", B1, json!({})).await;
    let id = headers.iter().find(|(name, _)| name == "webhook-id").unwrap().1.clone();
    let by_new = signed("standard-webhooks", SB, &id, relay.now(), B1);
    assert_eq!(
        headers,
        pairs(&by_new).iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect::<Vec<_>>()
    );
    relay.patch(&format!("{SOURCES}/std"), json!({ "secrets": [SB] })).await.expect(200);
    assert_eq!((relay.with_secret(SA).await, relay.with_secret(SB).await), (401, 202));
    relay.post(&path, json!({ "secrets": ["bad"] })).await.refused(Code::InvalidSecret);
    relay.stranger().await.post(&path, json!({ "secrets": [SA] })).await.refused(Code::NotFound);
});

on_both_engines!(rotations_at_once_lose_nothing_and_ten_secrets_are_kept, async |relay: TestRelay| {
    relay.source("gh", "github").await;
    let rotate =
        |index: usize| relay.post("/v1/sources/gh/rotate", json!({ "secrets": [format!("secret-{index}")] }));
    for answer in futures_util::future::join_all((0..5).map(rotate)).await {
        answer.expect(200);
    }
    assert_eq!(relay.get("/v1/sources/gh").await.expect(200)["secrets"], 6);
    for index in 5..12 {
        relay
            .post("/v1/sources/gh/rotate", json!({ "secrets": [format!("secret-{index}")] }))
            .await
            .expect(200);
    }
    assert_eq!(relay.get("/v1/sources/gh").await.expect(200)["secrets"], 10);
    let old = signed("github", GH_SECRET, "d", relay.now(), B1);
    relay.webhook("gh", &pairs(&old), B1).await.refused(Code::InvalidSignature);
    let new = signed("github", "secret-11", "d", relay.now(), B1);
    relay.webhook("gh", &pairs(&new), B1).await.accepted();
});

on_both_engines!(the_relay_signs_and_the_secret_stays, async |relay: TestRelay| {
    for (name, scheme) in [("std", "standard-webhooks"), ("gh", "github"), ("raw", "none")] {
        relay.source(name, scheme).await;
        for body in [B1, b"", b"\xff\x00"] {
            let headers = relay
                .sign(name, body, json!({ "method": "POST", "path": "/x", "headers": [["a", "b"]] }))
                .await;
            let headers: Vec<_> =
                headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            relay.webhook(name, &headers, body).await.accepted();
            assert_eq!(headers.is_empty(), scheme == "none");
        }
        let forged = relay.sign(name, B1, json!({ "fault": "bad_signature" })).await;
        let forged: Vec<_> = forged.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let status = relay.webhook(name, &forged, B1).await.status;
        assert_eq!(status, if scheme == "none" { 202 } else { 401 });
    }
    let stale = relay.sign("std", B1, json!({ "fault": "stale" })).await;
    let stale: Vec<_> = stale.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    relay.webhook("std", &stale, B1).await.refused(Code::InvalidSignature);
    let dated = relay.sign("std", B1, json!({ "at": "2020-01-01T00:00:00Z" })).await;
    assert!(dated.contains(&("webhook-timestamp".to_owned(), "1577836800".to_owned())), "{dated:?}");
    relay
        .stranger()
        .await
        .post("/v1/sources/std/sign", json!({ "body_base64": "" }))
        .await
        .refused(Code::NotFound);
});

on_both_engines!(a_removed_source_is_gone_and_its_events_stay, async |relay: TestRelay| {
    let made = relay.source("raw", "none").await;
    let event = relay.ingest("raw", b"1").await;
    relay.stranger().await.delete("/v1/sources/raw").await.refused(Code::NotFound);
    let removed = relay.delete("/v1/sources/raw").await.expect(200);
    assert_eq!(removed, json!({ "object": "source", "id": made["id"], "deleted": true }));
    relay.webhook("raw", &[], "2").await.refused(Code::NotFound);
    relay.get("/v1/sources/raw").await.refused(Code::NotFound);
    relay.delete("/v1/sources/raw").await.refused(Code::NotFound);
    assert_eq!(relay.event(&event).await["source"], "raw");
    // Under the same name its stream goes on.
    relay.source("raw", "none").await;
    let next = relay.ingest("raw", b"2").await;
    assert_eq!(relay.event(&next).await["sequence"], 2);
    assert_eq!(relay.now(), Timestamp::from_millis(T0_MS));
});
