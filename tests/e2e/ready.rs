//! Readiness and what is on stdout: L01 to L06.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;

use crate::harness::http::send;
use crate::harness::relay::accepted;
use crate::harness::sign::is_signed_by;
use crate::harness::{App, Home, Port, Relay, Reply};

/// Back-offs that a test can wait for.
const QUICK: &str = r#"{"backoff_base_ms":20,"backoff_cap_ms":60}"#;

/// L01: a relay that takes the listener and refuses the first poll; only the poll that it accepts makes `ready`.
#[test]
fn ready_comes_once_and_after_the_first_accepted_poll() {
    let listener = json!({"object": "webhook_listener", "id": "whlis_1", "api_version": "2026-10-10", "event_types": [],
        "description": null, "expires_at": "2030-01-01T00:00:00.000Z", "created_at": "2026-01-01T00:00:00.000Z"});
    let poll =
        json!({"object": "webhook_listener_poll", "listener": listener, "acknowledged": 0, "deliveries": []});
    let polls = AtomicU32::new(0);
    let relay = App::new().answers(move |request| match request.target.as_str() {
        "/v1/webhook_listeners" => Reply::json(201, &listener),
        target if target.ends_with("/poll") => match polls.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::status(503),
            _ => Reply::json(200, &poll),
        },
        _ => Reply::status(404),
    });
    let home = Home::new();
    let (app, url) = (App::new(), format!("http://{}", relay.target()));
    let listen = home.listen(&["--api-url", &url, "-f", &app.target()]);
    let mut listen = listen.env("PULLHOOK_API_KEY", "k").env("NO_COLOR", "1").timing(QUICK).spawn();
    listen.says("503");
    assert_eq!(listen.out.all(), Vec::<String>::new(), "before a poll was accepted");
    let ready = listen.next("ready");
    assert_eq!(ready["listener_id"], "whlis_1");
    assert_eq!(ready["forward_to"], format!("http://{}/", app.target()));
    assert_eq!(ready["v"], 1);
    listen.stop();
    assert_eq!(listen.all("ready").len(), 1);
}

/// L02: nobody there, and tries that are counted.
#[test]
fn an_unreachable_relay_is_never_ready_and_says_why() {
    let (home, nobody) = (Home::new(), Port::new());
    let url = format!("http://127.0.0.1:{}", nobody.number);
    let listen = home.listen(&["3000", "--api-url", &url, "--max-connect-attempts", "3"]);
    let ended = listen.env("PULLHOOK_API_KEY", "k").timing(QUICK).run();
    ended.expect(16);
    assert_eq!(ended.all("ready").len(), 0);
    assert_eq!(
        (ended.all("fatal")[0]["code"].as_str(), ended.summary()["exit"].as_i64()),
        (Some("relay_unreachable"), Some(16))
    );
    let reason = format!("connection refused by 127.0.0.1:{}", nobody.number);
    let last = ended.err.iter().rfind(|line| line.contains("refused")).unwrap();
    assert!(last.contains(&reason), "{ended:#?}");
    assert_eq!(
        ended.err.iter().filter(|line| line.contains(&reason)).count(),
        3,
        "one line a try: {ended:#?}"
    );
}

/// L02: without a limit it goes on trying, a line per back-off, and is ready once the relay is there.
#[test]
fn without_a_limit_it_tries_until_the_relay_is_there() {
    let mut relay = Relay::stopped("");
    let mut listen = relay.listen(&[]).timing(QUICK).spawn();
    let refused = format!("connection refused by 127.0.0.1:{}", relay.port.number);
    for _ in 0..3 {
        listen.says(&refused);
    }
    assert_eq!(listen.out.all(), Vec::<String>::new());
    relay.start();
    listen.next("ready");
}

/// L03: no terminal at all, and lines for people.
#[test]
fn without_a_terminal_it_prints_plain_lines_and_forwards() {
    let (home, app) = (Home::new(), App::new());
    let ingress = home.source("app", "raw", "none", &[]);
    let mut listen = home.cli(&["listen", "-f", &app.target()]).through("setsid", &[]).spawn();
    let ready = listen.line("> Ready! Forwarding to");
    assert!(ready.contains(&app.target()) && !ready.contains('\u{1b}'), "{ready}");
    let event = accepted(&send("POST", &ingress, &[], b"{}").unwrap());
    assert_eq!(app.got(1)[0].header("webhook-id"), event);
    let answer = listen.line("<--");
    assert!(answer.contains("[200] POST") && answer.contains(&event), "{answer}");
    listen.stop();
}

/// L03: a relay elsewhere and no key: no prompt, and what is missing is named.
#[test]
fn without_a_key_it_asks_nobody() {
    let home = Home::new();
    let ended = home.cli(&["listen", "3000", "--api-url", "http://127.0.0.1:1"]).through("setsid", &[]).run();
    ended.expect(2);
    assert!(ended.stderr().contains("PULLHOOK_API_KEY"), "{ended:#?}");
}

/// L04: stdout holds the documented lines and nothing else, through a failure and a restart of the relay.
#[test]
fn json_is_pure() {
    let mut relay = Relay::new();
    let app = App::new().answers(|request| Reply::status(if request.text() == "bad" { 500 } else { 200 }));
    let mut listen = relay.listen(&["-f", &app.target()]).timing(QUICK).spawn();
    let ready = listen.next("ready");
    assert_eq!(ready["ingress"]["raw"], relay.ingress("raw"));
    for body in ["one", "bad", "two"] {
        let event = relay.post(body);
        listen.next_where("event", |line| line["event_id"] == *event);
        let result = listen.next_where("result", |line| line["event_id"] == *event);
        let (outcome, status) = if body == "bad" { ("failed", 500) } else { ("delivered", 200) };
        assert_eq!((&result["outcome"], &result["status"]), (&json!(outcome), &json!(status)), "{result}");
    }
    relay.stop();
    let cause = listen.next("reconnecting")["cause"].as_str().unwrap().to_owned();
    assert!(!cause.is_empty());
    relay.start();
    assert_eq!(listen.next("reconnected")["lost"], 0);
    let event = relay.post("three");
    listen.next_where("result", |line| line["event_id"] == *event);
    let ended = listen.stop();
    let summary = ended.summary();
    let totals =
        ["received", "delivered", "failed", "skipped", "fenced", "exit"].map(|field| summary[field].as_i64());
    assert_eq!(totals, [4, 3, 1, 0, 0, 0].map(Some), "{summary}");
    for (kind, count) in [("ready", 1), ("event", 4), ("result", 4), ("reconnected", 1), ("fatal", 0)] {
        assert_eq!(ended.all(kind).len(), count, "{kind}: {ended:#?}");
    }
    let documented =
        ["ready", "event", "result", "gate", "fenced", "reconnecting", "reconnected", "fatal", "summary"];
    let known: usize = documented.iter().map(|kind| ended.all(kind).len()).sum();
    assert_eq!(known, ended.out.len(), "{ended:#?}");
    assert!(relay.api().events().len() == 4);
}

/// L05: the secret is one bare line, the same ever after; a reconnect doesn't print it again.
#[test]
fn the_secret_is_one_stable_line() {
    let mut relay = Relay::new();
    let secret = |relay: &Relay| relay.home.cli(&["listen", "--print-secret"]).run().expect(0).out.clone();
    let before = secret(&relay);
    assert_eq!(before.len(), 1);
    let digits = before[0].strip_prefix("whsec_").unwrap();
    assert!(digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)), "{before:?}");
    let url = relay.url();
    let app = App::new();
    let args = ["listen", "-f", &app.target(), "--api-url", &url];
    let listen = relay.home.cli(&args).env("PULLHOOK_API_KEY", &relay.key);
    let mut listen = listen.timing(QUICK).spawn();
    listen.line("> Ready!");
    relay.stop();
    listen.says("can't reach the relay");
    relay.start();
    listen.says("reconnected after");
    let ended = listen.stop();
    assert_eq!(
        ended.out.iter().chain(&ended.err).filter(|line| line.contains("secret")).count(),
        1,
        "{ended:#?}"
    );
    assert!(!format!("{ended:?}").contains(digits), "masked where stdout is no terminal");
    assert_eq!(secret(&relay), before);
}

/// L06: each profile has its own secret, and signs with it.
#[test]
fn profiles_share_no_secret() {
    let relay = Relay::new();
    let profile =
        |name| format!("[profiles.{name}]\napi_url = \"{}\"\napi_key = \"{}\"\n", relay.url(), relay.key);
    relay.home.configure(&format!("{}{}", profile("a"), profile("b")));
    let secret = |profile| {
        relay.home.cli(&["listen", "--print-secret", "--profile", profile]).run().expect(0).out[0].clone()
    };
    let (a, b) = (secret("a"), secret("b"));
    assert_ne!(a, b);
    let app = App::new();
    let mut listen = relay.home.listen(&["-f", &app.target(), "--profile", "b"]).spawn();
    listen.next("ready");
    relay.post("{}");
    let request = &app.got(1)[0];
    assert!(is_signed_by(&b, request) && !is_signed_by(&a, request), "{request:?}");
}

/// L08: listeners don't compete; each has its own copy, and the second one says that it isn't alone.
#[test]
fn each_listener_has_its_own_copy() {
    let relay = Relay::new();
    let (apps, homes) = ([App::new(), App::new()], [Home::new(), Home::new()]);
    let mut runs = Vec::new();
    for (app, home) in apps.iter().zip(&homes) {
        let mut run = relay.listen_from(home, &relay.url(), &["-f", &app.target()]).spawn();
        run.next("ready");
        runs.push(run);
    }
    runs[1].says("another listener is open here; each gets its own copy");
    let mut sent: Vec<String> = (0..20).map(|n| relay.post(&n.to_string())).collect();
    sent.sort();
    for app in &apps {
        let mut got: Vec<_> =
            app.got(20).iter().map(|request| request.header("webhook-id").to_owned()).collect();
        got.sort();
        assert_eq!(got, sent);
    }
}
