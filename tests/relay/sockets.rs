//! The relay over real sockets: bodies of every size, clients that hang up, its end, two of them on one database.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use http::{Method, Request, header};
use http_body_util::BodyExt;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use pullhook::clock::Timestamp;
use pullhook::protocol::error::Code;
use pullhook::relay::{Relay, Settings};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::answer::Answer;
use crate::harness::{B1, Engine, GH_SECRET, TestRelay, event_ids, pairs, signed};
use crate::log;

/// A relay that serves a port of its own.
struct Server {
    address: SocketAddr,
    key: String,
    stop: CancellationToken,
    served: JoinHandle<()>,
}

/// One connection to it.
struct Client {
    sender: SendRequest<Body>,
    key: String,
    connection: JoinHandle<()>,
}

impl Server {
    async fn start(relay: &Relay, key: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let (relay, token) = (relay.clone(), stop.clone());
        let served = tokio::spawn(async move { relay.serve(listener, token).await });
        Self { address, key: key.to_owned(), stop, served }
    }

    async fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(async move { drop(connection.await) });
        Client { sender, key: self.key.clone(), connection }
    }

    /// Tells it to end; it does.
    async fn end(self) {
        self.stop.cancel();
        self.served.await.unwrap();
    }
}

impl Client {
    async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        if path.starts_with("/v1") {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", self.key));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.sender.ready().await.unwrap();
        let response = self.sender.send_request(request.body(body.into()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        Answer::new(parts.status, parts.headers, body.collect().await.unwrap().to_bytes())
    }

    async fn post(&mut self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, crate::harness::JSON, body.to_string()).await
    }

    async fn webhook(&mut self, source: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
        self.send(Method::POST, &format!("/api/webhooks/{source}"), headers, body).await
    }

    /// A poll in a task of its own.
    fn polling(mut self, listener: &str, body: Value) -> JoinHandle<Answer> {
        let path = format!("/v1/webhook_listeners/{listener}/poll");
        tokio::spawn(async move { self.post(&path, &body).await })
    }
}

impl TestRelay {
    /// Waits until somebody waits for the moment in `seconds`, or nobody does any more.
    async fn until_awaited(&self, seconds: u64, awaited: bool) {
        let moment = self.now() + Duration::from_secs(seconds);
        while self.clock.awaited().contains(&moment) != awaited {
            tokio::task::yield_now().await;
        }
    }
}

async fn served(settings: Settings) -> (TestRelay, Server) {
    let relay = TestRelay::with(Engine::Sqlite, settings).await.unwrap();
    let server = Server::start(&relay.relay, &relay.key).await;
    (relay, server)
}

#[tokio::test]
async fn ordinary_large_payloads_arrive_byte_for_byte() {
    let (relay, server) = served(Settings::default()).await;
    relay.source("gh", "github").await;
    let mut client = server.connect().await;
    let padded = |size: usize| format!("{{\"pad\":\"{}\"}}", "x".repeat(size - 10));
    let small = padded(156_484);
    let signature = "sha256=36c9d5d2d472859d7c51c8c8f86a02d859ec5fac55d86363cfab39a5162d1808";
    client.webhook("gh", &[("x-hub-signature-256", signature)], small).await.accepted();
    let listener = relay.open(json!({})).await;
    for size in [8 << 20, 25 << 20] {
        let body = padded(size);
        let headers = signed("github", GH_SECRET, "d", Timestamp::default(), body.as_bytes());
        let id = client.webhook("gh", &pairs(&headers), body.clone()).await.accepted();
        let event =
            client.send(Method::GET, &format!("/v1/events/{id}"), &[], Body::empty()).await.expect(200);
        assert!(event["body"] == body, "{size} bytes came back as others");
        let poll = format!("/v1/webhook_listeners/{listener}/poll");
        let polled = client.post(&poll, &json!({ "wait_ms": 25_000 })).await.expect(200);
        assert!(polled["deliveries"][0]["body"] == body, "{size} bytes were handed out as others");
    }
    drop(client);
    server.end().await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_answered_and_the_connection_lives() {
    let (relay, server) = served(Settings::default()).await;
    relay.source("raw", "none").await;
    let mut client = server.connect().await;
    let announced = vec![b'x'; 33 << 20];
    client.webhook("raw", &[], announced.clone()).await.refused(Code::BodyTooLarge);
    let chunks =
        futures_util::stream::iter(std::iter::repeat_n(vec![b'x'; 1 << 20], 33).map(Ok::<_, std::io::Error>));
    client.webhook("raw", &[], Body::from_stream(chunks)).await.refused(Code::BodyTooLarge);
    client
        .send(Method::POST, "/v1/events", crate::harness::JSON, announced)
        .await
        .refused(Code::BodyTooLarge);
    // Nothing was reset, and nothing was stored.
    client.webhook("raw", &[], B1).await.accepted();
    assert_eq!(relay.listed("").await.len(), 1);
    drop(client);
    server.end().await;
}

#[tokio::test]
async fn who_asks_first_hears_before_sending() {
    let (relay, server) = served(Settings::default()).await;
    relay.source("raw", "none").await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /api/webhooks/raw HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999\r\n\
                expect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    drop(stream);
    server.end().await;
}

#[tokio::test]
async fn the_order_within_a_header_name_survives_the_wire() {
    let (relay, server) = served(Settings::default()).await;
    relay.source("raw", "none").await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let request = "POST /api/webhooks/raw/p HTTP/1.1\r\nHost: localhost\r\nX-Multi: b\r\nX-Other: 1\r\n\
                   x-multi: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    let id = &relay.listed("").await[0];
    let event = relay.event(id).await;
    let multi: Vec<&Value> =
        event["headers"].as_array().unwrap().iter().filter(|pair| pair[0] == "x-multi").collect();
    assert_eq!(multi, [&json!(["x-multi", "b"]), &json!(["x-multi", "a"])]);
    server.end().await;
}

#[tokio::test]
async fn the_end_answers_who_waits_and_waits_for_nobody_else() {
    log::keep();
    let (relay, server) = served(Settings::default()).await;
    let listener = relay.open(json!({})).await;
    let poll = server.connect().await.polling(&listener, json!({ "wait_ms": 25_000 }));
    // One connection has been used, one has never said a word.
    let mut idle = server.connect().await;
    idle.send(Method::GET, "/healthz", &[], Body::empty()).await.expect(200);
    let silent = TcpStream::connect(server.address).await.unwrap();
    relay.until_awaited(25, true).await;
    let address = server.address;
    server.end().await;
    assert_eq!(poll.await.unwrap().expect(200)["deliveries"], json!([]));
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    idle.connection.await.unwrap();
    assert_eq!(log::lines("requests were still running"), Vec::<String>::new());
    drop(silent);
}

#[tokio::test]
async fn a_client_that_hangs_up_takes_nothing_along() {
    let (relay, server) = served(Settings::default()).await;
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let client = server.connect().await;
    let connection = client.connection.abort_handle();
    let poll = client.polling(&listener, json!({ "wait_ms": 25_000 }));
    relay.until_awaited(25, true).await;
    connection.abort();
    poll.abort();
    relay.until_awaited(25, false).await;
    let event = relay.webhook("raw", &[], B1).await.accepted();
    let mut client = server.connect().await;
    let path = format!("/v1/webhook_listeners/{listener}/poll");
    let polled = client.post(&path, &json!({ "wait_ms": 25_000 })).await.expect(200);
    assert_eq!((event_ids(&polled), &polled["deliveries"][0]["attempt"]), (vec![event], &json!(1)));
    drop(client);
    server.end().await;
}

/// Two relays on one PostgreSQL; the first one's clock, and keys that both know.
async fn two() -> Option<(TestRelay, Server, Server)> {
    let settings = Settings { fallback_poll: Duration::from_secs(60), ..Settings::default() };
    let relay = TestRelay::with(Engine::Postgres, settings.clone()).await?;
    let other = relay.beside(settings).await.relay;
    let (one, two) = (Server::start(&relay.relay, &relay.key).await, Server::start(&other, &relay.key).await);
    Some((relay, one, two))
}

#[tokio::test]
async fn a_poll_at_one_relay_is_woken_by_a_webhook_at_the_other() {
    let Some((relay, one, two)) = two().await else { return };
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let mut elsewhere = two.connect().await;
    for _ in 0..3 {
        // The clock stands: whoever slept on it would sleep for ever.
        let poll = one.connect().await.polling(&listener, json!({ "wait_ms": 25_000 }));
        relay.until_awaited(25, true).await;
        let event = elsewhere.webhook("raw", &[], B1).await.accepted();
        let polled = poll.await.unwrap().expect(200);
        assert_eq!(event_ids(&polled), [event]);
        let mut client = one.connect().await;
        let path = format!("/v1/webhook_listeners/{listener}/poll");
        let acks = json!({ "acks": [crate::harness::ack(&polled["deliveries"][0])], "wait_ms": 0 });
        assert_eq!(client.post(&path, &acks).await.expect(200)["acknowledged"], 1);
    }
    // A gate at the other relay hears of it, too.
    let gate = two.connect().await.polling(&listener, json!({ "wait_ms": 25_000, "limit": 0 }));
    relay.until_awaited(25, true).await;
    one.connect().await.webhook("raw", &[], B1).await.accepted();
    assert_eq!(gate.await.unwrap().expect(200)["waiting"], 1);
    drop(elsewhere);
    one.end().await;
    two.end().await;
}

#[tokio::test]
async fn a_key_revoked_and_a_source_changed_at_one_relay_are_so_at_the_other() {
    let Some((relay, one, two)) = two().await else { return };
    let made = relay.relay.admin().create_key(&relay.environment, "to go", &[]).await.unwrap();
    let (mut here, mut there) = (one.connect().await, two.connect().await);
    relay.source("raw", "none").await;
    there.key = made.key.unwrap();
    there.send(Method::GET, "/v1/environment", &[], Body::empty()).await.expect(200);
    there.webhook("raw", &[], B1).await.accepted();
    assert!(relay.relay.admin().revoke_key(&made.id).await.unwrap());
    // The news travels through the database: soon, not at the same instant.
    while there.send(Method::GET, "/v1/environment", &[], Body::empty()).await.status != 401 {}
    here.send(Method::DELETE, "/v1/sources/raw", &[], Body::empty()).await.expect(200);
    while there.webhook("raw", &[], B1).await.status != 404 {}
    drop((here, there));
    one.end().await;
    two.end().await;
}
