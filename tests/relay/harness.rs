//! A relay to test against: fresh store, manual clock, one environment with a key; requests go straight to its
//! router.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Method, Request};
use http_body_util::BodyExt;
use pullhook::clock::{Clock, ManualClock, Timestamp};
use pullhook::headers::Headers;
use pullhook::relay::{Relay, Settings};
use pullhook::secret::Secret;
use pullhook::signature::{self, Key, Scheme};
use pullhook::store::environments::Environment;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tower::Service;

pub use crate::answer::Answer;
pub use crate::store::{Engine, TestStore};

/// 2025-10-09T08:53:20Z.
pub const T0_MS: i64 = 1_760_000_000_000;
/// The signing secret of `github` sources.
pub const GH_SECRET: &str = "gh-secret";
/// The signing secret of `standard-webhooks` sources.
pub const SA: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
/// Another one.
pub const SB: &str = "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=";
/// The body of most webhooks here.
pub const B1: &[u8] = br#"{"id":"evt_1","type":"invoice.paid","amount":2000}"#;
/// Headers of a JSON body.
pub const JSON: &[(&str, &str)] = &[("content-type", "application/json")];

/// A relay with one environment, its key, and a clock that the test moves.
pub struct TestRelay {
    peer: Peer,
    pub clock: ManualClock,
    pub environment: Environment,
    pub store: TestStore,
}

/// Someone with a key, in front of a relay.
#[derive(Clone)]
pub struct Peer {
    pub relay: Relay,
    pub key: String,
}

impl Deref for TestRelay {
    type Target = Peer;

    fn deref(&self) -> &Peer {
        &self.peer
    }
}

impl TestRelay {
    pub async fn with(engine: Engine, settings: Settings) -> Option<Self> {
        let store = TestStore::new(engine)?;
        let clock = ManualClock::at(Timestamp::from_millis(T0_MS));
        let relay = Relay::builder(store.url.clone()).clock(Arc::new(clock.clone())).settings(settings);
        let relay = relay.local_master(Secret::new("a master of this machine"));
        let relay = relay.build().await.unwrap();
        let environment = relay.admin().named_environment("shop").await.unwrap();
        let key = relay.admin().create_key(&environment, "tests", &[]).await.unwrap().key.unwrap();
        Some(Self { peer: Peer { relay, key }, clock, environment, store })
    }

    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Another relay on the same store, with the same clock and other settings.
    pub async fn beside(&self, settings: Settings) -> Peer {
        let relay = Relay::builder(self.store.url.clone()).clock(Arc::new(self.clock.clone()));
        Peer { relay: relay.settings(settings).build().await.unwrap(), key: self.key.clone() }
    }

    /// Someone of another environment of the same relay.
    pub async fn stranger(&self) -> Peer {
        let environment = self.relay.admin().named_environment("another").await.unwrap();
        let key = self.relay.admin().create_key(&environment, "strangers", &[]).await.unwrap().key.unwrap();
        Peer { relay: self.relay.clone(), key }
    }

    /// Someone of this environment with a restricted key.
    pub async fn restricted(&self, permissions: &[&str]) -> Peer {
        let permissions: Vec<String> = permissions.iter().map(|text| (*text).to_owned()).collect();
        let key = self.relay.admin().create_key(&self.environment, "restricted", &permissions).await.unwrap();
        Peer { relay: self.relay.clone(), key: key.key.unwrap() }
    }

    /// Starts a poll that waits, and returns once it does.
    pub async fn park(&self, listener: &str, body: Value) -> Parked {
        let path = format!("/v1/webhook_listeners/{listener}/poll");
        let peer = self.peer.clone();
        self.parked(async move { peer.post(&path, body).await }).await
    }

    /// Starts a request that waits, and returns once it does.
    pub async fn parked(&self, request: impl Future<Output = Answer> + Send + 'static) -> Parked {
        let before = self.clock.awaited().len();
        let parked = Parked(Some(tokio::spawn(request)));
        while self.clock.awaited().len() == before {
            assert!(!parked.is_over(), "the request was answered instead of waiting");
            tokio::task::yield_now().await;
        }
        parked
    }

    /// Runs SQL behind the relay's back.
    pub async fn sql(&self, sql: &str) {
        let sql = sql.to_owned();
        let run = move |tx: &mut dyn pullhook::store::tx::Tx| tx.query(&sql, &[]).map(drop);
        self.relay.store().write(pullhook::store::Durability::Promised, run).await.unwrap();
    }

    /// As after any change of a source: the next webhook has to ask the store.
    pub fn forget_sources(&self) {
        self.relay.store().wake().tell(&pullhook::wake::Topic::Sources);
    }

    /// The types of log lines and audit events, with what each is about.
    pub async fn trail(&self) -> Vec<(String, String)> {
        let environment = self.environment.id.clone();
        self.relay.store().read(move |tx| pullhook::store::logs::trail(tx, &environment)).await.unwrap()
    }
}

/// A request that waits in the relay.
pub struct Parked(Option<JoinHandle<Answer>>);

impl Parked {
    pub fn is_over(&self) -> bool {
        self.0.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Its answer, once there is one.
    pub async fn answer(mut self) -> Answer {
        self.0.take().unwrap().await.unwrap()
    }

    /// Hangs up.
    pub async fn hang_up(mut self) {
        let request = self.0.take().unwrap();
        request.abort();
        assert!(request.await.is_err_and(|error| error.is_cancelled()));
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        assert!(self.0.is_none() || std::thread::panicking(), "a parked request was left behind");
    }
}

impl Peer {
    pub fn engine(&self) -> Engine {
        if self.relay.store().engine() == "sqlite" { Engine::Sqlite } else { Engine::Postgres }
    }

    /// Keeps every thread that writes busy until the answer is dropped.
    pub async fn block_the_writers(&self) -> std::sync::mpsc::Sender<()> {
        let (gate, closed) = std::sync::mpsc::channel::<()>();
        let closed = Arc::new(std::sync::Mutex::new(closed));
        let writers = if self.engine() == Engine::Sqlite { 1 } else { 3 };
        for _ in 0..writers {
            let (store, closed) = (self.relay.store().clone(), Arc::clone(&closed));
            let (begun, begins) = std::sync::mpsc::channel();
            let wait = move |_: &mut dyn pullhook::store::tx::Tx| {
                begun.send(()).unwrap();
                let _ = closed.lock().unwrap().recv();
                Ok(())
            };
            tokio::spawn(async move { store.write(pullhook::store::Durability::Relaxed, wait).await });
            // One after the other: together they would share one thread's commit.
            while begins.try_recv().is_err() {
                tokio::task::yield_now().await;
            }
        }
        gate
    }

    /// Any request, with the key unless headers name another.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method.clone()).uri(path);
        let has = |name: &str| headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        if !has("host") {
            request = request.header("host", "localhost");
        }
        if !has("authorization") && path.starts_with("/v1") {
            request = request.header("authorization", format!("Bearer {}", self.key));
        }
        for (name, value) in headers {
            // An empty value stands for "without this header".
            if !value.is_empty() {
                request = request.header(*name, *value);
            }
        }
        self.call(request.body(body.into()).unwrap()).await
    }

    pub async fn call(&self, request: Request<Body>) -> Answer {
        let response = self.relay.router().call(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer::new(parts.status, parts.headers, bytes)
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], Body::empty()).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, JSON, body.to_string()).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        self.send(Method::PATCH, path, JSON, body.to_string()).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, &[], Body::empty()).await
    }

    /// A source of this name and scheme.
    pub async fn source(&self, name: &str, scheme: &str) -> Value {
        self.source_with(name, scheme, json!({})).await
    }

    /// A source with more settings.
    pub async fn source_with(&self, name: &str, scheme: &str, more: Value) -> Value {
        let secrets = match scheme {
            "none" => json!([]),
            "github" => json!([GH_SECRET]),
            _ => json!([SA]),
        };
        let mut body = json!({ "name": name, "scheme": scheme, "secrets": secrets });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.post("/v1/sources", body).await.expect(201)
    }

    /// A webhook as it comes in; it is not dispatched.
    pub async fn webhook(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
        self.send(Method::POST, &format!("/api/webhooks/{path}"), headers, body).await
    }

    /// An unsigned webhook; its event's id. It is dispatched at once.
    pub async fn ingest(&self, source: &str, body: &[u8]) -> String {
        let id = self.webhook(source, JSON, body.to_vec()).await.accepted();
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
    pub async fn poll(&self, listener: &str, body: Value) -> Value {
        self.try_poll(listener, body).await.expect(200)
    }

    pub async fn try_poll(&self, listener: &str, mut body: Value) -> Answer {
        body["wait_ms"] = json!(0);
        self.post(&format!("/v1/webhook_listeners/{listener}/poll"), body).await
    }

    /// Everything about an event.
    pub async fn event(&self, id: &str) -> Value {
        self.get(&format!("/v1/events/{id}")).await.expect(200)
    }

    /// Ids of the events that a list holds, in its order.
    pub async fn listed(&self, query: &str) -> Vec<String> {
        ids(&self.get(&format!("/v1/events{query}")).await.expect(200)["data"])
    }
}

/// The headers that a provider signs a body with.
pub fn signed(scheme: &str, secret: &str, id: &str, at: Timestamp, body: &[u8]) -> Headers {
    let scheme = Scheme::parse(scheme).unwrap();
    let key = Key::new(scheme, &Secret::new(secret)).unwrap();
    let request = signature::Request { method: "POST", url: None, headers: &Headers::new(), body };
    signature::sign(scheme, &key, &request, id, at)
}

/// A header list as [`Peer::send`] takes it.
pub fn pairs(headers: &Headers) -> Vec<(&str, &str)> {
    headers.iter().collect()
}

/// GitHub's headers for a body.
pub fn github(delivery: &str, body: &[u8]) -> Vec<(String, String)> {
    let mut headers = signed("github", GH_SECRET, delivery, Timestamp::from_millis(T0_MS), body);
    headers.push("x-github-event", "push");
    headers.push("x-github-delivery", delivery);
    headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Borrows what [`github`] made.
pub fn borrow(headers: &[(String, String)]) -> Vec<(&str, &str)> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// The `id` of each object of a list.
pub fn ids(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

/// The event ids of a poll's deliveries.
pub fn event_ids(polled: &Value) -> Vec<String> {
    let deliveries = polled["deliveries"].as_array().unwrap();
    deliveries.iter().map(|delivery| delivery["event_id"].as_str().unwrap().to_owned()).collect()
}

/// An ack with status 200 for a delivery of a poll's answer.
pub fn ack(delivery: &Value) -> Value {
    ack_with(delivery, json!({}))
}

/// An ack with other fields.
pub fn ack_with(delivery: &Value, more: Value) -> Value {
    let mut ack = json!({
        "delivery_id": delivery["id"], "ack_token": delivery["ack_token"],
        "status_code": 200, "duration_ms": 5, "error": null
    });
    ack.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ack
}

/// A delivery's name and token, as `extend` and `holding` take it.
pub fn held(delivery: &Value) -> Value {
    json!({ "delivery_id": delivery["id"], "ack_token": delivery["ack_token"] })
}

/// A test's story, told on every engine that is here; with other settings where it names them.
#[macro_export]
macro_rules! on_both_engines {
    ($name:ident, $story:expr) => {
        $crate::on_both_engines!($name, pullhook::relay::Settings::default(), $story);
    };
    ($name:ident, $settings:expr, $story:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            #[tokio::test]
            async fn sqlite() {
                let (story, settings) = ($story, $settings);
                story(TestRelay::with($crate::harness::Engine::Sqlite, settings).await.unwrap()).await;
            }
            #[tokio::test]
            async fn postgres() {
                let (story, settings) = ($story, $settings);
                if let Some(relay) = TestRelay::with($crate::harness::Engine::Postgres, settings).await {
                    story(relay).await;
                }
            }
        }
    };
}
