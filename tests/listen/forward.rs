//! What arrives at the app, to the byte, and what is said when it refuses.

use hyper::Response;
use pullhook::clock::Timestamp;
use pullhook::headers::Headers;
use pullhook::listen::{Hint, Outcome, Signed, What};
use pullhook::signature::{self, Request, Scheme};
use pullhook::system::SystemClock;
use serde_json::json;

use crate::app::{App, Seen};
use crate::fake::Fake;
use crate::rig::{key, options, start};

/// Checks the forwarded signature as a receiver does.
fn verify(seen: &Seen) {
    let pairs =
        seen.headers.iter().map(|(name, value)| (name.clone(), String::from_utf8(value.clone()).unwrap()));
    let headers: Headers = pairs.collect();
    let request = Request { method: &seen.method, url: None, headers: &headers, body: &seen.body };
    let now = pullhook::clock::Clock::now(&SystemClock);
    assert_eq!(signature::verify(Scheme::standard(), &[key()], &request, now), Ok(()));
}

#[tokio::test]
async fn any_bytes_arrive_as_they_are_and_the_signature_holds() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    let mut running = start(options(&relay.url(), Some(&app.target("/"))));
    running.ready().await;
    let large = vec![b'x'; 3 << 20];
    let bodies: [&[u8]; 9] = [
        b"",
        b"{\n  \"id\": \"evt_1\",\n  \"ok\": true\n}\n",
        "{\"name\":\"Zo\u{eb} \u{1f60a}\",\"path\":\"a\\/b\"}".as_bytes(),
        br#"{"msg":"caf\u00e9 \ud83d\ude0a @x"}"#,
        b"{\"a\":\"\xff\"}",
        b"\x00\x01\x02\x03\xde\xad\xbe\xef",
        b"payload=%7B%22ref%22%3A%22refs%2Fheads%2Fmain%22%7D",
        br#"{"n":12345678901234567890,"a":1,"a":2,"f":1.0}"#,
        &large,
    ];
    for (n, body) in bodies.iter().enumerate() {
        relay.publish("a.b", body);
        let ended = running.ended().await;
        assert_eq!((ended.outcome, ended.status), (Outcome::Delivered, Some(200)));
        let seen = app.until(n + 1).await.pop().unwrap();
        assert!(seen.body == *body, "body {n}");
        assert_eq!(seen.header("content-length"), Some(&*body.len().to_string()));
        assert_eq!(seen.header("webhook-id"), Some(&*ended.received.event_id));
        assert_eq!(seen.header("transfer-encoding"), None);
        verify(&seen);
    }
    let (_, summary) = running.stop().await;
    assert_eq!((summary.received, summary.delivered), (9, 9));
}

#[tokio::test]
async fn the_request_is_the_providers_with_what_we_add_and_nothing_else() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    let mut running = start(options(&relay.url(), Some(&app.target("/hooks/?a=1&b=2"))));
    running.ready().await;
    let fields = json!({"method": "PUT", "headers": [
        ["Host", "relay.example.com"], ["Content-Type", "application/json"], ["X-Multi", "a"], ["X-Multi", "b"],
        ["Connection", "keep-alive, X-Drop"], ["X-Drop", "1"], ["TE", "trailers"], ["Upgrade", "h2c"],
        ["Transfer-Encoding", "chunked"], ["Content-Length", "999"], ["X-Odd", "\u{e9}"],
        ["X-Hub-Signature-256", "sha256=21750bde97e6604fcc1a06b7b2a3584e0ca12b5d36a0662181e362dfed8538c8"]]});
    relay.publish_with("push", b"hello", &fields);
    let seen = app.until(1).await.pop().unwrap();
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("PUT", "/hooks/?a=1&b=2"));
    let mut names: Vec<&str> = seen.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "content-length",
            "content-type",
            "host",
            "webhook-id",
            "webhook-signature",
            "webhook-timestamp",
            "x-forwarded-host",
            "x-hub-signature-256",
            "x-multi",
            "x-multi",
            "x-odd",
            "x-pullhook-sequence",
        ]
    );
    assert_eq!(seen.all("x-multi"), ["a", "b"]);
    assert_eq!(seen.header("host"), Some(&*format!("localhost:{}", app.port)));
    assert_eq!(seen.header("x-forwarded-host"), Some("relay.example.com"));
    assert_eq!(seen.header("x-pullhook-sequence"), Some("1"));
    let odd = seen.headers.iter().find(|(name, _)| name == "x-odd").unwrap();
    assert_eq!(odd.1, [0xe9], "any byte of a value survives");
    let added: usize = seen
        .headers
        .iter()
        .filter(|(name, _)| {
            name.starts_with("webhook-") || name.starts_with("x-pullhook") || name == "x-forwarded-host"
        })
        .map(|(name, value)| name.len() + value.len() + 4)
        .sum();
    assert!(added <= 1024, "{added}");
    running.stop().await;
}

#[tokio::test]
async fn a_replay_is_signed_afresh_and_says_so() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    let mut running = start(options(&relay.url(), Some(&app.target("/"))));
    running.ready().await;
    let id = relay.publish("invoice.paid", b"{}");
    running.ended().await;
    relay.replay(&id);
    let ended = running.ended().await;
    assert!(ended.received.replay);
    let seen = app.until(2).await;
    assert_eq!((seen[0].header("webhook-replay"), seen[1].header("webhook-replay")), (None, Some("1")));
    assert_eq!(seen[1].header("webhook-id"), Some(id.as_str()));
    seen.iter().for_each(verify);
    running.stop().await;
}

#[tokio::test]
async fn localhost_is_tried_on_both_families() {
    let Ok(listener) = tokio::net::TcpListener::bind("[::1]:0").await else {
        return;
    };
    let app = App::on(listener, |_| Response::new(bytes::Bytes::new()), tokio::sync::Semaphore::MAX_PERMITS);
    let relay = Fake::ours().await;
    let mut running = start(options(&relay.url(), Some(&app.target("/"))));
    running.ready().await;
    relay.publish("a.b", b"{}");
    assert_eq!(running.ended().await.status, Some(200));
    running.stop().await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket_is_a_target() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let app = tokio::spawn(async move {
        // The gate's connection is the one that carries the request.
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n{}") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        String::from_utf8(head).unwrap()
    });
    let relay = Fake::ours().await;
    let mut running = start(options(&relay.url(), Some(&format!("unix:{}:/hooks", path.display()))));
    running.ready().await;
    relay.publish("a.b", b"{}");
    assert_eq!(running.ended().await.status, Some(204));
    assert!(app.await.unwrap().starts_with("POST /hooks HTTP/1.1\r\n"));
    running.stop().await;
}

#[tokio::test]
async fn a_redirect_is_a_failure_that_names_where_to() {
    for status in [301, 302, 307, 308] {
        let app = App::answering(move |_| {
            Response::builder()
                .status(status)
                .header("location", "/hooks/")
                .body(bytes::Bytes::new())
                .unwrap()
        })
        .await;
        let relay = Fake::ours().await;
        let mut running = start(options(&relay.url(), Some(&app.target("/hooks"))));
        running.ready().await;
        let id = relay.publish("a.b", b"{}");
        let ended = running.ended().await;
        assert_eq!((ended.outcome, ended.status), (Outcome::Failed, Some(status)));
        assert!(ended.error.unwrap().contains("/hooks/"));
        assert_eq!(ended.hint, Some(Hint::Slash { location: "/hooks/".to_owned() }));
        running.stop().await;
        assert_eq!(app.seen().len(), 1, "never followed, never tried again");
        assert_eq!(relay.state().acked(&id).unwrap()["status_code"], status);
    }
}

#[tokio::test]
async fn a_400_is_explained_only_when_a_parsed_body_would_sign_differently() {
    let (relay, app) = (Fake::ours().await, App::status(400).await);
    let mut running = start(options(&relay.url(), Some(&app.target("/"))));
    running.ready().await;
    relay.publish("a.b", b"{ \"a\": 1 }");
    let written = running.ended().await.hint;
    assert!(matches!(written, Some(Hint::BodyParsed { written }) if written.len() == 2));
    relay.publish("a.b", b"{\"a\":1}");
    assert_eq!(running.ended().await.hint, Some(Hint::Secret(Signed::Local)));
    running.stop().await;
}

#[tokio::test]
async fn a_500_names_the_replay_of_its_event() {
    let (relay, app) = (Fake::ours().await, App::status(500).await);
    let mut running = start(options(&relay.url(), Some(&app.target("/"))));
    running.ready().await;
    relay.publish("a.b", b"{}");
    let ended = running.ended().await;
    let line = format!("`pullhook replay {}`", ended.received.event_id);
    assert!(ended.hint.unwrap().to_string().contains(&line));
    running.stop().await;
}

#[tokio::test]
async fn an_app_that_has_moved_is_explained_once() {
    let moved = |_: &_| {
        let answer = Response::builder().status(308).header("location", "https://localhost/hooks");
        answer.body(bytes::Bytes::new()).unwrap()
    };
    let (relay, app) = (Fake::ours().await, App::answering(moved).await);
    let mut running = start(options(&relay.url(), Some(&app.target("/"))));
    running.ready().await;
    let mut hints = Vec::new();
    for _ in 0..3 {
        relay.publish("a.b", b"{}");
        hints.push(running.ended().await.hint.is_some());
    }
    assert_eq!(hints, [true, false, false]);
    running.stop().await;
}

#[tokio::test]
async fn a_slow_app_is_given_up_after_the_timeout_and_none_is_none() {
    let (relay, app) = (Fake::ours().await, App::held().await);
    let mut options = options(&relay.url(), Some(&app.target("/")));
    options.timeout = Some(std::time::Duration::from_millis(30));
    let mut running = start(options.clone());
    running.ready().await;
    let id = relay.publish("a.b", b"{}");
    let ended = running.ended().await;
    assert_eq!(ended.error.as_deref(), Some("timed out after 0.03s"));
    running.stop().await;
    assert_eq!(relay.state().acked(&id).unwrap()["error"], "timed out after 0.03s");

    options.timeout = None;
    let mut running = start(options);
    running.ready().await;
    relay.publish("a.b", b"{}");
    app.until(2).await;
    app.let_answer(2);
    assert_eq!(running.ended().await.status, Some(200));
    running.stop().await;
}

#[tokio::test]
async fn an_answer_without_end_is_read_only_so_far() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        let _read = stream.read(&mut request).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        while stream.write_all(&[b'x'; 64 << 10]).await.is_ok() {}
    });
    let relay = Fake::ours().await;
    let mut running = start(options(&relay.url(), Some(&format!("127.0.0.1:{port}/"))));
    running.ready().await;
    relay.publish("a.b", b"{}");
    let ended = running.ended().await;
    assert_eq!((ended.status, ended.answer.len()), (Some(200), 64 << 10));
    running.stop().await;
}

#[tokio::test]
async fn what_is_no_http_is_a_failure_that_says_so() {
    use tokio::io::AsyncWriteExt as _;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _gone = stream.write_all(b"220 smtp.example.com ready\r\n").await;
        }
    });
    let relay = Fake::ours().await;
    let mut options = options(&relay.url(), Some(&format!("127.0.0.1:{port}/")));
    options.gate = false;
    let mut running = start(options);
    running.ready().await;
    relay.publish("a.b", b"{}");
    let ended = running.ended().await;
    assert_eq!((ended.outcome, ended.status), (Outcome::Failed, None));
    assert!(ended.error.as_deref().unwrap().contains("no HTTP"), "{:?}", ended.error);
    running.stop().await;
}

#[tokio::test]
async fn the_path_below_the_source_is_joined_only_on_request() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    let fields = json!({"path": "/x/y", "query": "z=1"});
    for (append, wanted) in [(false, "/base"), (true, "/base/x/y?z=1")] {
        let mut options = options(&relay.url(), Some(&app.target("/base")));
        options.append_path = append;
        let mut running = start(options);
        running.ready().await;
        relay.publish_with("a.b", b"{}", &fields);
        let ended = running.ended().await;
        assert_eq!(ended.url.unwrap(), format!("http://localhost:{}{wanted}", app.port));
        assert_eq!(app.seen().last().unwrap().target, wanted);
        running.stop().await;
    }
}

#[tokio::test]
async fn user_headers_replace_but_never_the_signature() {
    use pullhook::listen::{BadHeader, UserHeader};
    let (relay, app) = (Fake::ours().await, App::ok().await);
    let mut options = options(&relay.url(), Some(&app.target("/")));
    options.headers = ["Host: foo.test", "X-Env: a,b"].map(|text| UserHeader::parse(text).unwrap()).to_vec();
    assert!(matches!(UserHeader::parse("webhook-signature: v1,AAAA"), Err(BadHeader::Signature(_))));
    let mut running = start(options);
    running.ready().await;
    relay.publish_with("a.b", b"{}", &json!({"headers": [["x-env", "c"], ["x-env", "d"]]}));
    let seen = app.until(1).await.pop().unwrap();
    assert_eq!((seen.header("host"), seen.all("x-env")), (Some("foo.test"), vec!["a,b"]));
    verify(&seen);
    running.stop().await;
}

#[tokio::test]
async fn signatures_carry_the_injected_time() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    let mut options = options(&relay.url(), Some(&app.target("/")));
    let clock = pullhook::clock::ManualClock::at(Timestamp::from_millis(1_760_003_600_000));
    options.clock = std::sync::Arc::new(clock);
    let mut running = start(options);
    running.ready().await;
    let body = br#"{"id":"evt_1","type":"invoice.paid","amount":2000}"#;
    relay.publish_with("invoice.paid", body, &json!({"event_id": "msg_1"}));
    let seen = app.until(1).await.pop().unwrap();
    assert_eq!(seen.header("webhook-timestamp"), Some("1760003600"));
    assert_eq!(seen.header("webhook-signature"), Some("v1,Kc+k3YWZdkt8sGvAJmKcO3ZxCbz5RnQEUFTvh417sGo="));
    running.stop().await;
}

#[tokio::test]
async fn print_only_shows_and_acks() {
    let relay = Fake::ours().await;
    let mut running = start(options(&relay.url(), None));
    assert_eq!(running.ready().await.forward_to, None);
    let id = relay.publish("a.b", b"{}");
    let ended = running.ended().await;
    assert_eq!((ended.outcome, ended.url, ended.status), (Outcome::Delivered, None, None));
    let (told, _) = running.stop().await;
    assert!(told.iter().any(|what| matches!(what, What::Received(received) if received.event_id == id)));
    let state = relay.state();
    let ack = state.acked(&id).unwrap();
    assert!(ack["status_code"].is_null() && ack["error"].is_null());
}
