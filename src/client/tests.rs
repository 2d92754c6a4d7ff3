//! The client against a server of ours: what it sends, how it reads refusals.

use serde_json::json;
use wiremock::matchers::{body_json, header, method, path, query_param};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::*;

#[expect(clippy::disallowed_methods, reason = "a test's own")]
fn client(url: &str) -> Client {
    let _twice = rustls::crypto::ring::default_provider().install_default();
    Client::new(reqwest::Client::new(), url.parse().unwrap(), Secret::new("phk_test"))
}

fn event(id: &str) -> Value {
    json!({"object": "event", "id": id, "type": "a.b", "source": null, "sequence": 1, "size_bytes": 2,
        "occurrences": 1, "status": "none", "created_at": "2026-01-01T00:00:00.000Z"})
}

#[tokio::test]
async fn a_call_carries_key_version_and_query() {
    let server = MockServer::start().await;
    Mock::given(method("GET"))
        .and(path("/base/v1/events"))
        .and(header("authorization", "Bearer phk_test"))
        .and(header("pullhook-version", "2026-10-10"))
        .and(query_param("type", "a.*"))
        .and(query_param("from", "2026-01-01T00:00:00.000Z"))
        .respond_with(
            ResponseTemplate::new(200).set_body_json(json!({"object": "list", "data": [event("evt_1")]})),
        )
        .mount(&server)
        .await;
    let query = EventQuery {
        kind: Some("a.*".to_owned()),
        from: Timestamp::parse("2026-01-01T00:00:00Z"),
        ..EventQuery::default()
    };
    let page = client(&format!("{}/base", server.uri())).events(&query).await.unwrap();
    assert_eq!((page.data[0].id.as_str(), page.has_more), ("evt_1", false));
}

#[tokio::test]
async fn an_id_stays_one_segment() {
    let server = MockServer::start().await;
    Mock::given(path("/v1/events/..%2F..%2Fx%3Fy"))
        .respond_with(ResponseTemplate::new(200).set_body_json(event("e")))
        .mount(&server)
        .await;
    client(&server.uri()).event("../../x?y").await.unwrap();
    assert_eq!(segment(".."), "%252E%252E");
    let server = MockServer::start().await;
    let missing = client(&server.uri()).event("..").await.unwrap_err();
    assert!(matches!(missing, ClientError::Api { status: 404, .. }));
    assert_eq!(server.received_requests().await.unwrap()[0].url.path(), "/v1/events/%252E%252E");
}

#[tokio::test]
async fn sources_come_page_by_page() {
    let source = |id: &str| {
        json!({"object": "source", "id": id, "name": id, "scheme": "none", "ingress_url": "http://x", "secrets": 0,
            "dedupe": "mark", "dedupe_window_s": 1, "max_body_bytes": 1, "enabled": true,
            "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z"})
    };
    let server = MockServer::start().await;
    let page = |data: Value, more: bool| {
        ResponseTemplate::new(200).set_body_json(json!({"data": [data], "has_more": more}))
    };
    Mock::given(query_param("after", "src_1"))
        .respond_with(page(source("src_2"), false))
        .mount(&server)
        .await;
    Mock::given(path("/v1/sources")).respond_with(page(source("src_1"), true)).mount(&server).await;
    let all = client(&server.uri()).all_sources().await.unwrap();
    assert_eq!(all.iter().map(|source| source.id.as_str()).collect::<Vec<_>>(), ["src_1", "src_2"]);
}

#[tokio::test]
async fn refusals_are_typed() {
    let server = MockServer::start().await;
    let body = json!({"error": {"type": "invalid_request_error", "code": "no_open_listener", "message": "nobody listens.", "request_id": "req_1"}});
    Mock::given(body_json(json!({"event_ids": ["evt_1"]})))
        .respond_with(ResponseTemplate::new(422).set_body_json(body).insert_header("retry-after", "7"))
        .mount(&server)
        .await;
    Mock::given(path("/v1/environment"))
        .respond_with(ResponseTemplate::new(502).set_body_string("<html>"))
        .mount(&server)
        .await;
    let replay = ReplayEvents { event_ids: vec!["evt_1".to_owned()], ..ReplayEvents::default() };
    let error = client(&server.uri()).replay(&replay).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::NoOpenListener));
    assert_eq!(error.to_string(), "nobody listens");
    assert!(
        matches!(error, ClientError::Api { status: 422, retry_after: Some(after), .. } if after.as_secs() == 7)
    );
    let error = client(&server.uri()).environment().await.unwrap_err();
    assert_eq!((error.to_string().as_str(), error.code()), ("the relay answered 502", None));
}

#[tokio::test]
async fn a_relay_that_is_not_there_is_named() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = client(&format!("http://127.0.0.1:{port}")).environment().await.unwrap_err();
    assert_eq!(error.to_string(), format!("can't reach http://127.0.0.1:{port}/: connection refused"));
}
