//! A relay to test against: fresh store, manual clock, one environment with a key; requests go straight to its router.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use pullhook::clock::{Clock, ManualClock, Timestamp};
use pullhook::relay::{Relay, Settings};
use pullhook::store::environments::Environment;
use serde_json::{Value, json};
use tower::Service;

pub use crate::store::{Engine, TestStore};

/// 2025-10-09T08:53:20Z.
pub const T0_MS: i64 = 1_760_000_000_000;
/// The signing secret of the `gh` source.
pub const GH_SECRET: &str = "gh-secret";

/// A relay with one environment, its key, and a clock that the test moves.
pub struct TestRelay {
    pub relay: Relay,
    pub clock: ManualClock,
    pub environment: Environment,
    pub key: String,
    pub store: TestStore,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub bytes: bytes::Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|_| panic!("not JSON: {:?}", self.bytes))
    }

    /// `error.code`.
    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", String::from_utf8_lossy(&self.bytes));
        self.json()
    }
}

impl TestRelay {
    pub async fn new(engine: Engine) -> Option<Self> {
        Self::with(engine, Settings::default()).await
    }

    pub async fn with(engine: Engine, settings: Settings) -> Option<Self> {
        let store = TestStore::new(engine)?;
        let clock = ManualClock::at(Timestamp::from_millis(T0_MS));
        let builder = Relay::builder(store.url.clone()).clock(Arc::new(clock.clone())).settings(settings);
        let relay = builder.build().await.unwrap();
        let environment = relay.admin().named_environment("shop").await.unwrap();
        let key = relay.admin().create_key(&environment, "tests", &[]).await.unwrap().key.unwrap();
        Some(Self { relay, clock, environment, key, store })
    }

    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Any request, with the key unless headers name another.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        let has = |name: &str| headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        if !has("host") {
            request = request.header("host", "localhost");
        }
        if !has("authorization") && path.starts_with("/v1") {
            request = request.header("authorization", format!("Bearer {}", self.key));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.into()).unwrap();
        let response = self.relay.router().call(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, bytes }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], Body::empty()).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, &[("content-type", "application/json")], body.to_string()).await
    }

    /// A source of this name and scheme.
    pub async fn source(&self, name: &str, scheme: &str) -> Value {
        let secrets = if scheme == "none" { json!([]) } else { json!([GH_SECRET]) };
        let body = json!({ "name": name, "scheme": scheme, "secrets": secrets });
        self.post("/v1/sources", body).await.expect(201)
    }

    /// An unsigned webhook; its event's id. It is dispatched at once.
    pub async fn ingest(&self, source: &str, body: &[u8]) -> String {
        let path = format!("/api/webhooks/{source}");
        let answer =
            self.send(Method::POST, &path, &[("content-type", "application/json")], body.to_vec()).await;
        let id = answer.expect(202)["event_id"].as_str().unwrap().to_owned();
        self.dispatch().await;
        id
    }

    /// Rounds of the dispatcher until nothing is left.
    pub async fn dispatch(&self) {
        while self.relay.tick().await.unwrap().dispatched > 0 {}
    }

    /// Opens a listener; its id.
    pub async fn open(&self, body: Value) -> String {
        self.post("/v1/webhook_listeners", body).await.expect(201)["id"].as_str().unwrap().to_owned()
    }

    /// A poll that doesn't wait.
    pub async fn poll(&self, listener: &str, mut body: Value) -> Value {
        body["wait_ms"] = json!(0);
        self.post(&format!("/v1/webhook_listeners/{listener}/poll"), body).await.expect(200)
    }
}

/// An ack with status 200 for a delivery of a poll's answer.
pub fn ack(delivery: &Value) -> Value {
    json!({
        "delivery_id": delivery["id"], "ack_token": delivery["ack_token"],
        "status_code": 200, "duration_ms": 5, "error": null
    })
}

/// Runs a test's body on every engine that is here.
#[macro_export]
macro_rules! on_both_engines {
    ($($(#[$meta:meta])* async fn $name:ident($relay:ident: TestRelay) $body:block)*) => {
        $($(#[$meta])* mod $name {
            #[allow(unused_imports)]
            use super::*;
            async fn story($relay: TestRelay) $body
            #[tokio::test]
            async fn sqlite() {
                story(TestRelay::new($crate::harness::Engine::Sqlite).await.unwrap()).await;
            }
            #[tokio::test]
            async fn postgres() {
                if let Some(relay) = TestRelay::new($crate::harness::Engine::Postgres).await {
                    story(relay).await;
                }
            }
        })*
    };
}
