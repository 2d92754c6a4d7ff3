//! What holds for every request: ids, versions, keys, hosts, methods, types and sizes of bodies.

use std::time::Duration;

use axum::body::Body;
use futures_util::{StreamExt, stream};
use http::Method;
use pullhook::protocol::error::Code;
use pullhook::relay::Settings;
use serde_json::json;

use crate::harness::{JSON, Peer, TestRelay};
use crate::on_both_engines;

/// One request for each way an answer can come about.
const PATHS: [(Method, &str, u16); 8] = [
    (Method::GET, "/v1/environment", 200),
    (Method::GET, "/v1/events?limit=0", 400),
    (Method::GET, "/v1/nothing", 404),
    (Method::GET, "/v1", 404),
    (Method::GET, "/v1/events/evt_none", 404),
    (Method::DELETE, "/v1/events", 405),
    (Method::POST, "/v1/sources", 400),
    (Method::PATCH, "/v1/sources/none", 404),
];

on_both_engines!(every_v1_answer_names_its_version_as_it_was_asked, async |relay: TestRelay| {
    for (method, path, status) in PATHS {
        for (asked, told) in [
            ("x-nothing", "pullhook-version"),
            ("pullhook-version", "pullhook-version"),
            ("Coss-Version", "coss-version"),
        ] {
            let headers = [(asked, "2026-10-10")];
            let answer = relay.send(method.clone(), path, &headers, Body::empty()).await;
            assert_eq!(
                (answer.status.as_u16(), answer.header(told)),
                (status, "2026-10-10"),
                "{method} {path}"
            );
            let names = answer.headers.keys().filter(|name| name.as_str().ends_with("-version")).count();
            assert_eq!(names, 1, "{answer:?}");
        }
        let answer = relay.send(method, path, &[("authorization", "Bearer phk_wrong")], Body::empty()).await;
        answer.refused(Code::Unauthorized);
        assert_eq!(answer.header("pullhook-version"), "2026-10-10");
    }
    for name in ["pullhook-version", "coss-version"] {
        for version in ["2020-01-01", "latest", " ", "2026-10-10,2026-10-10"] {
            let answer = relay.send(Method::GET, "/v1/environment", &[(name, version)], Body::empty()).await;
            let error = answer.refused(Code::InvalidApiVersion);
            assert_eq!(error["param"], name);
            assert!(error["message"].as_str().unwrap().contains("2026-10-10"));
            assert_eq!(answer.header(name), "");
        }
    }
});

on_both_engines!(request_ids_are_fresh_and_ours, async |relay: TestRelay| {
    let mut seen = Vec::new();
    for path in [
        "/v1/environment",
        "/v1/nothing",
        "/nothing",
        "/",
        "/healthz",
        "/readyz",
        "/openapi.json",
        "/api/webhooks/nobody",
        "/api/webhooks",
        "/v1/events/%FF",
        "/v1/sources/%00/sign",
    ] {
        let headers = [("x-request-id", "req_forged")];
        let answer = relay.send(Method::GET, path, &headers, Body::empty()).await;
        seen.push(answer.request_id().to_owned());
    }
    let count = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), count);
});

on_both_engines!(only_a_valid_key_opens_v1, async |relay: TestRelay| {
    let key = relay.key.clone();
    let long = "x".repeat(5000);
    for header in [
        "",
        "Bearer",
        "Bearer ",
        "Basic dTpw",
        &key,
        &format!("Token {key}"),
        "Bearer phk_wrong",
        &format!("Bearer {key}x"),
        &format!("Bearer {} x", &key[..20]),
        &format!("Bearer {long}"),
        "Bearer phk_local_",
        "Bearer phk_local_env_1",
        "Bearer phk_local_env_1_x",
        "Bearer ü",
    ] {
        for path in ["/v1/environment", "/v1/nothing"] {
            let answer = relay.send(Method::GET, path, &[("authorization", header)], Body::empty()).await;
            let error = answer.refused(Code::Unauthorized);
            assert!(error["message"].as_str().unwrap().contains("Authorization: Bearer <key>"));
            assert!(!error.to_string().contains(&key[..20]));
        }
    }
    let lower = format!("bearer  {key}");
    relay.send(Method::GET, "/v1/environment", &[("authorization", &lower)], Body::empty()).await.expect(200);
});

on_both_engines!(
    on_loopback_only_known_hosts_use_the_api,
    Settings {
        public_url: "https://hooks.example.com".into(),
        allowed_hosts: vec!["box.local".into()],
        ..Settings::default()
    },
    async |relay: TestRelay| {
        for host in ["", "evil.test", "127.0.0.1.evil.test", "hooks.example.com.evil.test"] {
            for path in ["/v1/environment", "/v1/nothing"] {
                relay
                    .send(Method::GET, path, &[("host", host)], Body::empty())
                    .await
                    .refused(Code::HostNotAllowed);
            }
        }
        for host in ["localhost:4750", "127.0.0.1", "[::1]:4750", "hooks.example.com", "BOX.local:80"] {
            relay.send(Method::GET, "/v1/environment", &[("host", host)], Body::empty()).await.expect(200);
        }
        // A page of another site gets nothing that its browser would let it read, and nothing to preflight with.
        let answer =
            relay.send(Method::OPTIONS, "/v1/events", &[("origin", "http://evil.test")], Body::empty()).await;
        answer.refused(Code::MethodNotAllowed);
    }
);

on_both_engines!(unknown_paths_and_methods_say_so, async |relay: TestRelay| {
    relay.source("gh", "github").await;
    for path in [
        "/",
        "/v2/events",
        "/v1x",
        "/api",
        "/api/webhook/gh",
        "/metrics/x",
        "/v1/",
        "/v1/events/",
        "/v1/events/a/b",
        "/v1/sources/gh/rotate/now",
    ] {
        relay.get(path).await.refused(Code::NotFound);
    }
    for (method, path, allow) in [
        (Method::PUT, "/v1/events", "GET,HEAD,POST"),
        (Method::GET, "/v1/events/replay", "POST"),
        (Method::POST, "/v1/events/evt_1", "GET,HEAD"),
        (Method::POST, "/v1/environment", "GET,HEAD"),
        (Method::GET, "/v1/sources/gh/sign", "POST"),
        (Method::PUT, "/v1/sources/gh", "DELETE,GET,HEAD,PATCH"),
        (Method::PATCH, "/v1/webhook_listeners/x", "DELETE,GET,HEAD"),
        (Method::POST, "/healthz", "GET,HEAD"),
        (Method::DELETE, "/openapi.json", "GET,HEAD"),
    ] {
        let answer = relay.send(method.clone(), path, &[], Body::empty()).await;
        answer.refused(Code::MethodNotAllowed);
        let mut allowed: Vec<_> = answer.header("allow").split(',').collect();
        allowed.sort_unstable();
        assert_eq!(allowed.join(","), allow, "{method} {path}");
    }
    let head = relay.send(Method::HEAD, "/v1/events", &[], Body::empty()).await;
    assert_eq!((head.status.as_u16(), head.bytes.len()), (200, 0));
});

on_both_engines!(a_body_needs_a_json_type, async |relay: TestRelay| {
    for kind in ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json"] {
        for (method, path) in body_routes() {
            let answer = relay.send(method.clone(), path, &[("content-type", kind)], "{}").await;
            answer.refused(Code::UnsupportedMediaType);
        }
    }
    for kind in ["application/json", "Application/JSON; charset=utf-8", "application/cloudevents+json"] {
        relay
            .send(Method::POST, "/v1/webhook_listeners", &[("content-type", kind)], " {} ")
            .await
            .expect(201);
    }
    relay.send(Method::POST, "/v1/webhook_listeners", &[], Body::empty()).await.expect(201);
});

on_both_engines!(a_body_is_a_json_object, async |relay: TestRelay| {
    relay.source("gh", "github").await;
    for body in ["[]", "1", "null", "\"x\"", "{", "{\"a\":1}x", "{'a':1}", "\u{feff}{}", "not JSON s3cret"] {
        for (method, path) in body_routes() {
            let error = relay.send(method, path, JSON, body).await.refused(Code::InvalidJson);
            assert!(!error.to_string().contains("s3cret"), "a message never holds a body: {error}");
        }
    }
    for body in [&b"\xff"[..], b"{\"type\":\"\xff\"}"] {
        relay.send(Method::POST, "/v1/events", JSON, body).await.refused(Code::InvalidJson);
    }
    let deep = "[".repeat(100_000);
    relay.send(Method::POST, "/v1/events", JSON, deep).await.refused(Code::InvalidJson);
});

on_both_engines!(a_body_is_five_megabytes_at_most, async |relay: TestRelay| {
    let padded = |size: usize| format!("{{\"type\":\"a\",\"body\":\"{}\"}}", "x".repeat(size - 22));
    assert_eq!(padded(100).len(), 100);
    relay.send(Method::POST, "/v1/events", JSON, padded(5_000_000)).await.expect(202);
    relay.send(Method::POST, "/v1/events", JSON, padded(5_000_001)).await.refused(Code::BodyTooLarge);
    let pieces = stream::iter(std::iter::repeat_n(vec![b' '; 1_000_000], 6)).map(Ok::<_, std::io::Error>);
    relay.send(Method::POST, "/v1/events", JSON, Body::from_stream(pieces)).await.refused(Code::BodyTooLarge);
    // Answers are not bound by it.
    relay.source("raw", "none").await;
    let id = relay.webhook("raw", &[], vec![b'x'; 6_000_000]).await.accepted();
    assert_eq!(relay.event(&id).await["body"].as_str().unwrap().len(), 6_000_000);
});

on_both_engines!(
    a_body_that_stalls_or_breaks_is_refused,
    Settings { body_stall: Duration::from_millis(20), ..Settings::default() },
    async |relay: TestRelay| {
        let silent = Body::from_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>());
        relay.send(Method::POST, "/v1/events", JSON, silent).await.refused(Code::RequestTimeout);
        let broken = Body::from_stream(stream::iter([Ok("{"), Err(std::io::Error::other("gone"))]));
        relay.send(Method::POST, "/v1/events", JSON, broken).await.refused(Code::InvalidRequest);
    }
);

on_both_engines!(
    a_polls_body_leaves_time_for_its_wait_and_others_may_take_theirs,
    Settings { answer_deadline: Duration::from_millis(25_050), ..Settings::default() },
    async |relay: TestRelay| {
        let listener = relay.open(json!({})).await;
        let (release, held) = tokio::sync::oneshot::channel::<()>();
        let whole = async move { held.await.map(|()| "{}").map_err(std::io::Error::other) };
        let peer = (*relay).clone();
        let slow = tokio::spawn(async move {
            peer.send(Method::POST, "/v1/webhook_listeners", JSON, Body::from_stream(stream::once(whole)))
                .await
        });
        let silent = Body::from_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>());
        let path = format!("/v1/webhook_listeners/{listener}/poll");
        relay.send(Method::POST, &path, JSON, silent).await.refused(Code::RequestTimeout);
        release.send(()).unwrap();
        slow.await.unwrap().expect(201);
    }
);

on_both_engines!(the_key_is_asked_before_the_body, async |relay: TestRelay| {
    let silent = Body::from_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let headers = [("authorization", "Bearer phk_wrong"), ("content-length", "99999999")];
    relay.send(Method::POST, "/v1/events", &headers, silent).await.refused(Code::Unauthorized);
});

on_both_engines!(the_environment_shows_what_the_key_opens, async |relay: TestRelay| {
    let shown = relay.restricted(&["source:read"]).await.get("/v1/environment").await.expect(200);
    assert_eq!((&shown["object"], &shown["slug"]), (&json!("environment"), &json!("shop")));
    assert_eq!(shown["id"], relay.environment.id);
    for of in ["project", "organization"] {
        assert!(["id", "name", "slug"].iter().all(|name| shown[of][name].is_string()), "{shown}");
    }
    assert_eq!(shown["organization"]["api_version"], "2026-10-10");
    let key = &shown["api_key"];
    assert_eq!((&key["name"], &key["access"]), (&json!("restricted"), &json!("restricted")));
    assert_eq!(key["permissions"], json!(["source:read"]));
    assert_eq!(key["start"].as_str().unwrap().len(), "phk_".len() + 6);
    let full = relay.get("/v1/environment").await.expect(200);
    assert_eq!((&full["api_key"]["access"], &full["api_key"]["permissions"]), (&json!("full"), &json!([])));
});

/// The routes that read a body.
fn body_routes() -> [(Method, &'static str); 9] {
    let post = |path| (Method::POST, path);
    [
        post("/v1/webhook_listeners"),
        post("/v1/webhook_listeners/whlis_1/poll"),
        post("/v1/events"),
        post("/v1/events/replay"),
        post("/v1/webhook_events/test"),
        post("/v1/sources"),
        (Method::PATCH, "/v1/sources/gh"),
        post("/v1/sources/gh/rotate"),
        post("/v1/sources/gh/sign"),
    ]
}

/// Everything that a restricted key needs a permission for.
const GUARDED: [(&str, &str, &str); 17] = [
    ("GET", "/v1/webhook_listeners", "webhook:read"),
    ("GET", "/v1/webhook_listeners/x", "webhook:read"),
    ("POST", "/v1/webhook_listeners", "webhook:update"),
    ("POST", "/v1/webhook_listeners/x/poll", "webhook:update"),
    ("DELETE", "/v1/webhook_listeners/x", "webhook:update"),
    ("GET", "/v1/events", "event:read"),
    ("GET", "/v1/events/x", "event:read"),
    ("POST", "/v1/events", "event:create"),
    ("POST", "/v1/events/replay", "event:create"),
    ("POST", "/v1/webhook_events/test", "event:create"),
    ("GET", "/v1/sources", "source:read"),
    ("GET", "/v1/sources/x", "source:read"),
    ("POST", "/v1/sources", "source:update"),
    ("PATCH", "/v1/sources/x", "source:update"),
    ("DELETE", "/v1/sources/x", "source:update"),
    ("POST", "/v1/sources/x/rotate", "source:update"),
    ("POST", "/v1/sources/x/sign", "source:update"),
];

on_both_engines!(a_restricted_key_does_what_it_may, async |relay: TestRelay| {
    let all: Vec<&str> = GUARDED.iter().map(|(_, _, permission)| *permission).collect();
    for (method, path, permission) in GUARDED {
        let method: Method = method.parse().unwrap();
        let others: Vec<&str> = all.iter().copied().filter(|other| *other != permission).collect();
        let answer = relay.restricted(&others).await.send(method.clone(), path, &[], Body::empty()).await;
        let error = answer.refused(Code::Forbidden);
        assert!(error["message"].as_str().unwrap().contains(permission), "{error}");
        let answer = relay.restricted(&[permission]).await.send(method, path, &[], Body::empty()).await;
        assert_ne!(answer.status, 403, "{path}");
    }
});

on_both_engines!(a_revoked_key_is_refused_at_once_although_cached, async |relay: TestRelay| {
    let admin = relay.relay.admin();
    let made = admin.create_key(&relay.environment, "to go", &[]).await.unwrap();
    let peer = Peer { relay: relay.relay.clone(), key: made.key.clone().unwrap() };
    for _ in 0..2 {
        peer.get("/v1/environment").await.expect(200);
    }
    assert!(admin.revoke_key(&made.id).await.unwrap());
    peer.get("/v1/environment").await.refused(Code::Unauthorized);
    assert!(!admin.revoke_key(&made.id).await.unwrap(), "there is nothing left to revoke");
    relay.get("/v1/environment").await.expect(200);
    let keys = admin.list_keys(Some("shop")).await.unwrap();
    let shown = keys.iter().find(|key| key.id == made.id).unwrap();
    assert!(shown.revoked_at.is_some() && shown.key.is_none());
});

on_both_engines!(a_keys_last_use_is_noted, async |relay: TestRelay| {
    relay.get("/v1/environment").await.expect(200);
    let admin = relay.relay.admin();
    // It is noted on the side, and nobody waits for that.
    let last = loop {
        if let Some(last) = admin.list_keys(None).await.unwrap()[0].last_used_at {
            break last;
        }
    };
    assert_eq!(last, relay.now());
});
