//! Signatures at ingress, the doors of unsigned sources, and a store that fails.

use axum::body::Body;
use pullhook::clock::Timestamp;
use pullhook::protocol::error::Code;
use pullhook::relay::Settings;
use serde_json::json;

use crate::answer::Answer;
use crate::harness::{B1, Engine, SA, T0_MS, TestRelay, pairs, signed};
use crate::{log, on_both_engines};

const OF_SA: &str = "v1,12tg0DdisNfKbUxsZJtpoG5VEvVCART5UY5U9iyoEUI=";
const OF_SB: &str = "v1,/7Ky9lyR5Z8cM49/CDhTctphUwzwlbaqpIt7XGC7b6M=";

impl TestRelay {
    /// A Standard Webhooks request with B1 to `std`.
    async fn std(&self, id: &str, timestamp: &str, signature: &str) -> Answer {
        let headers =
            [("webhook-id", id), ("webhook-timestamp", timestamp), ("webhook-signature", signature)];
        self.webhook("std", &headers, B1).await
    }
}

on_both_engines!(the_signature_list_may_hold_others, async |relay: TestRelay| {
    relay.source("std", "standard-webhooks").await;
    let lists = [format!("{OF_SB} {OF_SA}"), format!("{OF_SA} {OF_SB}"), format!("v1a,AAAA {OF_SA}")];
    for list in lists {
        relay.std("msg_1", "1760000000", &list).await.accepted();
    }
    let bare = OF_SA.trim_start_matches("v1,");
    for bad in [bare, &format!("v2,{bare}"), "v1,", "v1", " ", OF_SB, "v1,é"] {
        relay.std("msg_1", "1760000000", bad).await.refused(Code::InvalidSignature);
    }
});

on_both_engines!(timestamps_are_strict_integers_in_a_two_sided_window, async |relay: TestRelay| {
    log::keep();
    relay.source("std", "standard-webhooks").await;
    for (timestamp, signature, reason) in [
        ("abc", "v1,CnS4kwTveAfMTwc04167MX18zPhL6R97lrWeIsBi3WM=", "malformed_timestamp"),
        ("1760000000000", "v1,nOtbcaCLa/2osvA33vRFjYby9vGmPdXE3liAqI+xpug=", "milliseconds"),
        ("1759999699", "v1,IlwQf0RsYtMz+Sz44vfqXacXP48WooJ/QjoCylaX13k=", "stale"),
        ("1760000301", "v1,MhSjjbs64JEgBIFg4a6f1EAT0nMUBpLrkY+qY6QvsJU=", "future"),
    ] {
        relay.std("msg_1", timestamp, signature).await.refused(Code::InvalidSignature);
        assert!(!log::lines(&format!("reason=\"{reason}\"")).is_empty(), "{reason}");
    }
    for edge in [T0_MS - 300_000, T0_MS + 300_000] {
        let headers = signed("standard-webhooks", SA, "msg_1", Timestamp::from_millis(edge), B1);
        relay.webhook("std", &pairs(&headers), B1).await.accepted();
    }
});

on_both_engines!(a_dot_does_not_move_the_boundary, async |relay: TestRelay| {
    relay.source("std", "standard-webhooks").await;
    let signature = "v1,qEa/cIX8M2ED6l6I5Ggp+M5xT6Epi8nHnB5f+95z0Cs=";
    relay.std("evt.1", "1760000000", signature).await.accepted();
    relay.std("evt", "1.1760000000", signature).await.refused(Code::InvalidSignature);
});

on_both_engines!(a_secrets_line_end_is_part_of_it_here, async |relay: TestRelay| {
    relay.source("gh", "github").await;
    let (without, with) = (
        "sha256=21750bde97e6604fcc1a06b7b2a3584e0ca12b5d36a0662181e362dfed8538c8",
        "sha256=0dcc94135670ea8fc36fd8d7e57fd2813a12c7fb9036a73675fc70f39f7a5267",
    );
    relay.webhook("gh", &[("x-hub-signature-256", without)], B1).await.accepted();
    relay.webhook("gh", &[("x-hub-signature-256", with)], B1).await.refused(Code::InvalidSignature);
});

on_both_engines!(every_refusal_reads_the_same_and_only_the_log_knows_why, async |relay: TestRelay| {
    log::keep();
    relay.source("same401", "standard-webhooks").await;
    let good = [("webhook-id", "msg_1"), ("webhook-timestamp", "1760000000"), ("webhook-signature", OF_SA)];
    let with = |index: usize, value: &'static str| {
        let mut headers = good.to_vec();
        headers[index].1 = value;
        headers
    };
    let doubled = good.iter().copied().chain([good[2]]).collect();
    let mixed = good.iter().copied().chain([("svix-id", "msg_1")]).collect();
    let cases = [
        ("missing_header", vec![]),
        ("missing_header", with(2, "")),
        ("duplicate_header", doubled),
        ("mixed_headers", mixed),
        ("malformed_signature", with(2, "nonsense")),
        ("malformed_timestamp", with(1, "1760000000.0")),
        ("stale", with(1, "1")),
        ("no_match", with(2, OF_SB)),
    ];
    let mut bodies = Vec::new();
    for (reason, headers) in cases {
        let before = log::lines("same401").len();
        let answer = relay.webhook("same401", &headers, B1).await;
        let mut error = answer.refused(Code::InvalidSignature);
        error["request_id"] = json!(null);
        bodies.push(error);
        let logged = &log::lines("same401")[before..];
        assert!(
            logged.iter().any(|line| line.contains(&format!("reason=\"{reason}\""))),
            "{reason}: {logged:?}"
        );
        let known = [OF_SA, OF_SB, "nonsense", "msg_1"];
        assert!(!logged.iter().any(|line| known.iter().any(|text| line.contains(text))), "{logged:?}");
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "{bodies:#?}");
    assert_eq!(relay.listed("").await, Vec::<String>::new());
    relay.webhook("same401", &good, B1).await.accepted();
});

on_both_engines!(without_a_secret_nothing_passes, async |relay: TestRelay| {
    let blank = json!({ "name": "gh", "scheme": "github", "secrets": ["  "] });
    assert_eq!(relay.post("/v1/sources", blank).await.refused(Code::InvalidSecret)["param"], "secrets.0");
    let bare = relay.post("/v1/sources", json!({ "name": "bare", "scheme": "github" })).await.expect(201);
    assert_eq!(bare["secrets"], 0);
    relay
        .post("/v1/sources", json!({ "name": "gh", "scheme": "githab", "secrets": ["x"] }))
        .await
        .refused(Code::UnknownScheme);
    relay.source("gh", "github").await;
    let of_empty_key = "sha256=43b3f6428089556d7e6ea77ebe53e995a322a462e7aa4bf3b1c39f75182d6530";
    for source in ["bare", "gh"] {
        let headers = [("x-hub-signature-256", of_empty_key)];
        relay.webhook(source, &headers, B1).await.refused(Code::InvalidSignature);
        relay.webhook(source, &[], B1).await.refused(Code::InvalidSignature);
    }
    // A secret that is gone from the store doesn't open the door.
    relay.sql("UPDATE sources SET sealed_secrets = '', secret_count = 0").await;
    relay.forget_sources();
    relay.webhook("gh", &[("x-hub-signature-256", of_empty_key)], B1).await.refused(Code::InvalidSignature);
    assert_eq!(relay.listed("").await, Vec::<String>::new());
});

on_both_engines!(
    an_unsigned_source_takes_nothing_from_web_pages_or_foreign_hosts,
    async |relay: TestRelay| {
        relay.source("raw", "none").await;
        relay.source("std", "standard-webhooks").await;
        for headers in [
            ("host", "evil.test"),
            ("host", "localhost.evil.test"),
            ("host", ""),
            ("origin", "http://localhost:3000"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            relay.webhook("raw", &[headers], B1).await.refused(Code::HostNotAllowed);
            let sealed = signed("standard-webhooks", SA, "msg_1", relay.now(), B1);
            let mut sealed = pairs(&sealed);
            sealed.push(headers);
            relay.webhook("std", &sealed, B1).await.accepted();
        }
        for headers in [("host", "127.0.0.1:4750"), ("host", "[::1]:9"), ("sec-fetch-site", "none")] {
            relay.webhook("raw", &[headers], B1).await.accepted();
        }
    }
);

on_both_engines!(
    a_relay_beyond_loopback_takes_unsigned_sources_only_when_told,
    Settings { loopback: false, ..Settings::default() },
    async |relay: TestRelay| {
        let body = json!({ "name": "raw", "scheme": "none" });
        let error = relay.post("/v1/sources", body).await.refused(Code::UnsignedNotAllowed);
        assert_eq!(error["param"], "scheme");
        // The API answers to any host there: the key decides.
        relay
            .send(http::Method::GET, "/v1/sources", &[("host", "hooks.example.com")], Body::empty())
            .await
            .expect(200);
    }
);

on_both_engines!(
    a_relay_beyond_loopback_takes_unsigned_sources_when_told,
    Settings { loopback: false, allow_unsigned: true, ..Settings::default() },
    async |relay: TestRelay| {
        relay.source("raw", "none").await;
        relay.webhook("raw", &[("host", "hooks.example.com"), ("origin", "http://x")], B1).await.accepted();
    }
);

on_both_engines!(a_store_that_fails_is_a_503_and_never_a_202, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    relay.webhook("raw", &[], B1).await.accepted();
    for table in ["event_contents", "arrivals", "streams", "sources"] {
        relay.sql(&format!("ALTER TABLE {table} RENAME TO hidden")).await;
        relay.forget_sources();
        let answer = relay.webhook("raw", &[], B1).await;
        answer.refused(Code::Unavailable);
        assert_eq!(answer.header("retry-after"), "5", "{table}");
        relay.sql(&format!("ALTER TABLE hidden RENAME TO {table}")).await;
        relay.webhook("raw", &[], B1).await.accepted();
    }
    assert_eq!(relay.listed("").await.len(), 5);
});

on_both_engines!(a_secret_that_cant_be_opened_is_a_503_too, async |relay: TestRelay| {
    relay.source("gh", "github").await;
    relay.sql("UPDATE sources SET sealed_secrets = 'v2:nokey:a:b:c'").await;
    relay.forget_sources();
    let answer = relay.webhook("gh", &[], B1).await;
    answer.refused(Code::Unavailable);
    assert_eq!(answer.header("retry-after"), "5");
});

on_both_engines!(a_store_that_hangs_is_a_503_in_time, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let deadline = std::time::Duration::from_millis(50);
    let hasty = relay.beside(Settings { answer_deadline: deadline, ..Settings::default() }).await;
    let gate = hasty.block_the_writers().await;
    for answer in [
        hasty.webhook("raw", &[], B1).await,
        hasty.post("/v1/events", json!({ "type": "a", "data": {} })).await,
        hasty.post("/v1/webhook_listeners", json!({})).await,
        hasty.get("/readyz").await,
    ] {
        answer.refused(Code::Unavailable);
        assert_eq!(answer.header("retry-after"), "5");
    }
    drop(gate);
    relay.webhook("raw", &[], B1).await.accepted();
});

#[tokio::test]
async fn a_full_disk_is_a_503_until_there_is_room() {
    let relay = TestRelay::with(Engine::Sqlite, Settings::default()).await.unwrap();
    relay.source("raw", "none").await;
    relay.sql("PRAGMA max_page_count = 60").await;
    let mut accepted = 0;
    let refused = loop {
        let answer = relay.webhook("raw", &[], vec![b'x'; 8000]).await;
        if answer.status != 202 {
            break answer;
        }
        accepted += 1;
    };
    refused.refused(Code::Unavailable);
    assert_eq!(refused.header("retry-after"), "5");
    relay.webhook("raw", &[], vec![b'x'; 8000]).await.refused(Code::Unavailable);
    relay.sql("PRAGMA max_page_count = 100000").await;
    relay.webhook("raw", &[], vec![b'x'; 8000]).await.accepted();
    assert_eq!(relay.listed("?limit=100").await.len(), accepted + 1);
}
