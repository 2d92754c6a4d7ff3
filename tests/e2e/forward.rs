//! The last hop: families, certificates, closed ports, containers, sockets, idle connections, odd answers.

use std::time::Duration;

use serde_json::json;

use crate::harness::app::pem;
use crate::harness::log::until;
use crate::harness::sign::is_signed_by;
use crate::harness::{App, Home, Port, Relay, Reply};

/// F07: `localhost` is whichever family the app chose, also after a restart on the other one.
#[test]
fn localhost_is_either_family() {
    let relay = Relay::new();
    let port = Port::on_both_families();
    let mut listen = relay.listen(&["-f", &format!("localhost:{}", port.number)]).spawn();
    listen.next("ready");
    let closed = listen.next("gate");
    let both = json!([format!("127.0.0.1:{}", port.number), format!("[::1]:{}", port.number)]);
    assert_eq!((&closed["state"], &closed["tried"]), (&"closed".into(), &both));
    for app in [App::on_v6 as fn(&Port) -> App, App::on] {
        let mut app = app(&port);
        let event = relay.post("{}");
        let result = listen.next("result");
        assert_eq!((&result["event_id"], &result["status"]), (&(*event).into(), &200.into()), "{result}");
        assert_eq!(app.got(1)[0].header("host"), format!("localhost:{}", port.number));
        app.stop();
    }
    let mut failing = relay.listen(&["-f", &format!("localhost:{}", port.number), "--no-gate"]).spawn();
    failing.next("ready");
    relay.post("{}");
    let error = failing.next("result")["error"].as_str().unwrap().to_owned();
    assert!(
        error.contains(both[0].as_str().unwrap()) && error.contains(both[1].as_str().unwrap()),
        "{error}"
    );
}

/// F12: a certificate of the app's own: named flags, each of which works; neither touches the relay leg.
#[test]
fn a_self_signed_app() {
    let relay = Relay::new();
    let app = App::tls();
    let (target, ca) = (format!("https://localhost:{}/", app.port()), pem("localhost.pem"));
    let cases: [(&[&str], bool); 3] =
        [(&[], false), (&["--ca", ca.to_str().unwrap()], true), (&["--insecure"], true)];
    for (flags, works) in cases {
        let mut listen = relay.listen(&[&["-f", &target], flags].concat()).spawn();
        listen.next("ready");
        relay.post("{}");
        let result = listen.next("result");
        if works {
            assert_eq!(result["status"], 200, "{flags:?}: {result}");
        } else {
            let hint = result["hint"].as_str().unwrap_or_default();
            assert!(hint.contains("--ca") && hint.contains("--skip-verify"), "{result}");
        }
        listen.stop();
    }
    assert_eq!(app.requests.len(), 2);
    let relay_url = format!("https://localhost:{}", app.port());
    let listen =
        relay.listen_from(&relay.home, &relay_url, &["3000", "--insecure", "--ca", ca.to_str().unwrap()]);
    let ended = listen.run_until(|run| drop(run.says("TLS")));
    assert_eq!((ended.all("ready").len(), app.requests.len()), (0, 2), "never relaxed on the relay leg");
}

/// F13: nothing listens yet: nothing is claimed, nothing lost, and it goes out once the port opens.
#[test]
fn events_wait_for_the_app() {
    let relay = Relay::new();
    let port = Port::new();
    let target = format!("127.0.0.1:{}", port.number);
    let mut listen = relay.listen(&["-f", &target, "--ordered"]).spawn();
    listen.next("ready");
    assert_eq!(listen.next("gate")["state"], "closed");
    let sent: Vec<String> = (0..3).map(|n| relay.post(&n.to_string())).collect();
    until("the fan-out", || (relay.api().event(&sent[2])["status"] == "pending").then_some(()));
    for event in &sent {
        assert_eq!(relay.api().event(event)["deliveries"][0]["attempt"], 0, "not claimed");
    }
    let mut app = App::on(&port);
    assert_eq!(listen.next("gate")["state"], "open");
    let bodies: Vec<String> = app.got(3).iter().map(|request| request.text()).collect();
    assert_eq!(bodies, ["0", "1", "2"], "oldest first");
    sent.iter().for_each(|_| assert_eq!(listen.next("result")["outcome"], "delivered"));
    // The app restarts, unnoticed: what is claimed meanwhile is kept, not failed, and goes out first.
    app.stop();
    let kept = relay.post("kept");
    listen.next_where("event", |line| line["event_id"] == *kept);
    assert_eq!(listen.next("gate")["state"], "closed");
    let app = App::on(&port);
    assert_eq!(app.got(1)[0].header("webhook-id"), kept);
    let ended = listen.stop();
    assert_eq!((ended.all("result").len(), ended.summary()["delivered"].as_i64()), (4, Some(4)));
    assert_eq!(relay.api().event(&kept)["deliveries"][0]["attempt"], 1);
}

/// F13, with an end: nobody ever listened; the event is still there for the next run.
#[test]
fn an_app_that_never_came_costs_no_event() {
    let relay = Relay::new();
    let port = Port::new();
    let target = format!("127.0.0.1:{}", port.number);
    let mut listen = relay.listen(&["-f", &target, "--until", "1", "--idle-timeout", "300ms"]).spawn();
    listen.next("ready");
    let event = relay.post("{}");
    listen.end().expect(7);
    let app = App::on(&port);
    let next = relay.listen(&["-f", &target, "--until", "1", "--since", "last"]).run();
    next.expect(0);
    assert_eq!(next.all("result")[0]["event_id"], *event);
    assert_eq!(app.requests.len(), 1);
}

/// F18: in a container, the address of the host; once.
#[test]
fn a_container_is_told_about_its_host() {
    let relay = Relay::new();
    let port = Port::new();
    let listen = relay.listen(&["-f", &format!("localhost:{}", port.number), "--no-gate"]);
    let mut listen = listen.env("container", "docker").spawn();
    listen.next("ready");
    for _ in 0..2 {
        relay.post("{}");
        listen.next("result");
    }
    let ended = listen.stop();
    let results = ended.all("result");
    let hints: Vec<&str> = results.iter().filter_map(|result| result["hint"].as_str()).collect();
    assert_eq!(hints.len(), 1, "once: {ended:#?}");
    assert!(hints[0].contains("host.docker.internal"), "{hints:?}");
    assert!(hints[0].contains("--add-host host.docker.internal:host-gateway"), "{hints:?}");
}

/// The same behind the gate, where nothing is ever posted.
#[test]
fn a_container_is_told_at_the_gate() {
    let home = Home::new();
    let port = Port::new();
    let listen = home.listen(&["-f", &format!("localhost:{}", port.number)]);
    let mut listen = listen.env("container", "docker").spawn();
    listen.next("ready");
    listen.next("gate");
    let ended = listen.stop();
    assert_eq!(
        ended.err.iter().filter(|line| line.contains("host.docker.internal")).count(),
        1,
        "{ended:#?}"
    );
}

/// A Unix socket, and a header that the user sets.
#[test]
fn a_unix_socket() {
    let relay = Relay::new();
    let home = Home::new();
    let app = App::unix(&home.path("app.sock"));
    let secret = home.cli(&["listen", "--print-secret"]).run().expect(0).out[0].clone();
    let target = format!("{}hooks?x=1", app.target());
    let args = ["-f", &target, "-H", "X-Team: a, b", "--until", "1"];
    let mut listen = relay.listen_from(&home, &relay.url(), &args).spawn();
    listen.next("ready");
    relay.post("{}");
    listen.end().expect(0);
    let request = &app.got(1)[0];
    assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/hooks?x=1"));
    assert_eq!(request.header("x-team"), "a, b");
    assert!(is_signed_by(&secret, request));
}

/// An app that closes idle connections: each event comes just as one ends, and none fails.
#[test]
fn a_stale_connection_is_no_failure() {
    let relay = Relay::new();
    let app = App::new().idle(Duration::from_millis(150));
    let listen = relay.listen(&["-f", &app.target()]).timing(r#"{"keep_alive_ms":75}"#);
    let mut listen = listen.spawn();
    listen.next("ready");
    for n in 0..12 {
        relay.post(&n.to_string());
        assert_eq!(listen.next("result")["outcome"], "delivered");
        // The moment at which a connection that is kept for too long fails.
        app.ended.wait_for(app.requests.len(), "ended connections");
    }
    assert_eq!(app.requests.len(), 12, "and none came twice");
    assert_eq!(listen.stop().summary()["failed"], 0);
}

/// A redirect is a failure that names where it points; an answer that never ends is cut off in time.
#[test]
fn odd_answers() {
    let relay = Relay::new();
    let app = App::new().answers(|request| match request.text().as_str() {
        "moved" => Reply::status(302).header("location", "/final"),
        "drip" => Reply::status(200).dripping(),
        _ => Reply::status(204).body(b""),
    });
    let mut listen = relay.listen(&["-f", &app.target(), "--timeout", "300ms", "--ordered"]).spawn();
    listen.next("ready");
    ["moved", "drip", "fine"].iter().for_each(|body| drop(relay.post(body)));
    let moved = listen.next("result");
    assert_eq!((&moved["outcome"], &moved["status"]), (&"failed".into(), &302.into()));
    assert!(moved["error"].as_str().unwrap().contains("/final"), "{moved}");
    let drip = listen.next("result");
    assert_eq!(drip["outcome"], "failed", "{drip}");
    assert!(drip["error"].as_str().unwrap().contains("timed out"), "{drip}");
    assert_eq!(listen.next("result")["outcome"], "delivered");
    assert!(app.requests.all().iter().all(|request| request.target == "/"));
}
