//! `/healthz`, `/readyz`, `/openapi.json`; the table of codes; what a restart keeps.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::Body;
use futures_util::stream;
use http::Method;
use pullhook::protocol::error::Code;
use pullhook::relay::Settings;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::harness::{B1, Engine, JSON, TestRelay, event_ids};
use crate::on_both_engines;

on_both_engines!(
    alive_whatever_the_store_does_and_ready_while_it_can_be_written,
    async |relay: TestRelay| {
        let store = if relay.engine() == Engine::Sqlite { "sqlite" } else { "postgres" };
        let fine = json!({ "status": "ok", "store": store });
        for host in ["localhost", "probe.internal"] {
            for path in ["/healthz", "/readyz"] {
                let answer = relay.send(Method::GET, path, &[("host", host)], Body::empty()).await;
                assert_eq!(answer.expect(200), fine);
            }
        }
        relay.sql("ALTER TABLE schema_version RENAME TO hidden").await;
        let answer = relay.get("/readyz").await;
        answer.refused(Code::Unavailable);
        assert_eq!(answer.header("retry-after"), "5");
        assert_eq!(relay.get("/healthz").await.expect(200), fine);
        relay.sql("ALTER TABLE hidden RENAME TO schema_version").await;
        assert_eq!(relay.get("/readyz").await.expect(200), fine);
    }
);

on_both_engines!(the_document_names_every_route_and_all_that_it_refers_to, async |relay: TestRelay| {
    let document = relay.get("/openapi.json").await.expect(200);
    let mut described = BTreeSet::new();
    let mut operation_ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            described.insert(format!("{} {path}", method.to_uppercase()));
            assert!(operation_ids.insert(operation["operationId"].as_str().unwrap()), "{operation}");
            let error = &operation["responses"]["default"]["content"]["application/json"]["schema"]["$ref"];
            assert_eq!(error, "#/components/schemas/ErrorBody");
            assert_eq!(operation["security"] == json!([{ "key": [] }]), path.starts_with("/v1/"), "{path}");
        }
    }
    assert_eq!(described, routes());
    let mut references = Vec::new();
    refer(&document, &mut references);
    assert!(references.len() > 20);
    for reference in references {
        let target = document.pointer(reference.trim_start_matches('#'));
        assert!(target.is_some_and(|schema| !schema.is_null()), "{reference}");
    }
    assert_eq!(document["components"]["securitySchemes"]["key"]["scheme"], "bearer");
});

on_both_engines!(what_is_too_old_is_purged_in_rounds, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let event = relay.ingest("raw", b"{}").await;
    let delivery = relay.poll(&listener, json!({})).await["deliveries"][0].clone();
    relay.poll(&listener, json!({ "acks": [crate::harness::ack(&delivery)] })).await;
    event_with_key(&relay).await;
    relay.advance(Duration::from_secs(30 * 86_400));
    // The listener, and the idempotency key.
    assert_eq!(relay.relay.purge().await.unwrap(), 2);
    assert_eq!(relay.trail().await.len(), 2);
    relay.advance(Duration::from_millis(1));
    // Two events, a log line, an audit event; what has no receiver any more was dispatched all the same.
    relay.dispatch().await;
    assert_eq!(relay.relay.purge().await.unwrap(), 4);
    assert_eq!(relay.relay.purge().await.unwrap(), 0);
    assert_eq!(relay.trail().await, []);
    relay.get(&format!("/v1/events/{event}")).await.refused(Code::NotFound);
});

on_both_engines!(a_restart_keeps_events_listeners_and_leases, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let first = relay.ingest("raw", b"1").await;
    let leased = relay.poll(&listener, json!({})).await["deliveries"][0].clone();
    let second = relay.webhook("raw", &[], "2").await.accepted();
    let again = relay.beside(Settings::default()).await;
    again.dispatch().await;
    let polled = again.poll(&listener, json!({ "acks": [crate::harness::ack(&leased)] })).await;
    assert_eq!((&polled["acknowledged"], event_ids(&polled)), (&json!(1), vec![second]));
    assert_eq!(again.event(&first).await["status"], "delivered");
});

on_both_engines!(
    every_code_of_the_table_is_answered,
    Settings { body_stall: Duration::from_millis(20), ..Settings::default() },
    async |relay: TestRelay| {
        relay.source("gh", "github").await;
        for code in Code::ALL {
            provoke(&relay, *code).await.refused(*code);
        }
    }
);

/// The routes that the router is made of, read from its source; of ingress, what the world is told.
fn routes() -> BTreeSet<String> {
    let source = include_str!("../../src/relay/api/mod.rs");
    let mut routes = BTreeSet::new();
    let mut prefix = "";
    for line in source.lines() {
        if line.starts_with("fn v1(") {
            prefix = "/v1";
        }
        let Some(rest) = line.trim().strip_prefix(".route(\"") else { continue };
        let (path, methods) = rest.split_once('"').unwrap();
        for method in ["get", "post", "patch", "delete"] {
            if methods.contains(&format!(" {method}(")) || methods.contains(&format!(".{method}(")) {
                routes.insert(format!("{} {prefix}{path}", method.to_uppercase()));
            }
        }
        if methods.contains("any(ingress::take)") {
            routes.insert("POST /api/webhooks/{slug}".to_owned());
        }
    }
    assert!(routes.len() > 20, "{routes:?}");
    routes
}

fn refer<'a>(value: &'a Value, references: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            references.extend(map.get("$ref").and_then(Value::as_str));
            map.values().for_each(|value| refer(value, references));
        }
        Value::Array(items) => items.iter().for_each(|value| refer(value, references)),
        _ => {}
    }
}

/// One request that is answered with this code. A code without one does not compile.
async fn provoke(relay: &TestRelay, code: Code) -> Answer {
    let read = async |headers| relay.send(Method::GET, "/v1/events", headers, Body::empty()).await;
    let source = async |name, scheme, secrets: &[&str]| {
        relay.post("/v1/sources", json!({ "name": name, "scheme": scheme, "secrets": secrets })).await
    };
    let replay = async |body| relay.post("/v1/events/replay", body).await;
    match code {
        Code::InvalidRequest => relay.get("/v1/events?limit=0").await,
        Code::InvalidJson => event(relay, "{", "json").await,
        Code::InvalidApiVersion => read(&[("pullhook-version", "1")]).await,
        Code::BodyTooLarge => event(relay, &" ".repeat(5_000_001), "large").await,
        Code::RequestTimeout => relay.webhook("gh", &[], silent()).await,
        Code::UnsupportedMediaType => relay.send(Method::POST, "/v1/events", &[], "{}").await,
        Code::MethodNotAllowed => relay.delete("/v1/events").await,
        Code::ListenerLimitReached => sixth_listener(relay).await,
        Code::BacklogTooLarge => backlog(relay).await,
        Code::NoOpenListener => replay(json!({ "from": "2020-01-01T00:00:00Z" })).await,
        Code::ReplayTooLarge => replay(json!({ "event_ids": ["a", "b"], "limit": 1 })).await,
        Code::UnknownScheme => source("a", "githab", &[]).await,
        Code::InvalidSecret => source("a", "github", &[" "]).await,
        Code::NameTaken => source("gh", "github", &[]).await,
        Code::UnsignedNotAllowed => unsigned_in_the_open().await,
        Code::Unauthorized => read(&[("authorization", "Bearer x")]).await,
        Code::InvalidSignature => relay.webhook("gh", &[], B1).await,
        Code::HostNotAllowed => read(&[("host", "evil.test")]).await,
        Code::Forbidden => relay.restricted(&["event:create"]).await.get("/v1/events").await,
        Code::NotFound => relay.get("/v1/events/evt_nobody").await,
        Code::IdempotencyInProgress => {
            event(relay, SMALL, "running").await.expect(202);
            relay.sql("UPDATE idempotency_keys SET answer = NULL").await;
            event(relay, SMALL, "running").await
        }
        Code::IdempotencyMismatch => {
            event(relay, SMALL, "used").await.expect(202);
            event(relay, "{ \"type\": \"a\", \"data\": {} }", "used").await
        }
        Code::Internal => sealed_by_nobody(relay).await,
        Code::Unavailable => without_a_table(relay).await,
    }
}

const SMALL: &str = r#"{"type":"a","data":{}}"#;

async fn event(relay: &TestRelay, body: &str, key: &str) -> Answer {
    relay.send(Method::POST, "/v1/events", &[JSON[0], ("idempotency-key", key)], body.to_owned()).await
}

async fn event_with_key(relay: &TestRelay) {
    event(relay, SMALL, "old").await.expect(202);
}

fn silent() -> Body {
    Body::from_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>())
}

async fn sixth_listener(relay: &TestRelay) -> Answer {
    let mut last = relay.post("/v1/webhook_listeners", json!({})).await;
    while last.status == 201 {
        last = relay.post("/v1/webhook_listeners", json!({})).await;
    }
    relay.advance(Duration::from_secs(600));
    last
}

async fn backlog(relay: &TestRelay) -> Answer {
    event(relay, SMALL, "backlog").await.expect(202);
    relay.dispatch().await;
    relay.post("/v1/webhook_listeners", json!({ "since": "beginning", "max_backlog": 0 })).await
}

async fn unsigned_in_the_open() -> Answer {
    let open = Settings { loopback: false, ..Settings::default() };
    let relay = TestRelay::with(Engine::Sqlite, open).await.unwrap();
    relay.post("/v1/sources", json!({ "name": "raw", "scheme": "none" })).await
}

async fn sealed_by_nobody(relay: &TestRelay) -> Answer {
    relay.source("broken", "github").await;
    relay.sql("UPDATE sources SET sealed_secrets = 'nonsense' WHERE name = 'broken'").await;
    relay.post("/v1/sources/broken/sign", json!({ "body_base64": "" })).await
}

async fn without_a_table(relay: &TestRelay) -> Answer {
    relay.sql("ALTER TABLE event_contents RENAME TO hidden").await;
    let answer = relay.post("/v1/events", json!({ "type": "a", "data": {} })).await;
    relay.sql("ALTER TABLE hidden RENAME TO event_contents").await;
    answer
}
