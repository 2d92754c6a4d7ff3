//! Every exit code of the reference, provoked once by what people do.

use serde_json::json;

use crate::harness::{App, Cli, Finished, Home, Port, Relay, Reply, Signal};

const QUICK: &str = r#"{"backoff_base_ms":10,"backoff_cap_ms":20}"#;

/// The last word is the code that the shell sees, in the totals or in the fatal line.
#[track_caller]
fn said(ended: &Finished, code: i32) {
    ended.expect(code);
    let last: serde_json::Value = serde_json::from_str(ended.out.last().unwrap()).unwrap();
    assert_eq!(last["exit"], code, "{ended:#?}");
}

/// `listen` to something that answers every call with this.
fn answered(status: u16, code: &str) -> Finished {
    let error = json!({"error": {"type": "x", "code": code, "message": "no", "request_id": "req_1"}});
    let (home, relay) = (Home::new(), App::new().answers(move |_| Reply::json(status, &error)));
    let url = format!("http://{}", relay.target());
    let listen = home.listen(&["3000", "--api-url", &url, "--max-connect-attempts", "2"]);
    listen.env("PULLHOOK_API_KEY", "k").timing(QUICK).run()
}

fn until_one(relay: &Relay, app: &App, more: &[&str]) -> Cli {
    relay.listen(&[&["-f", &app.target()], more].concat())
}

#[test]
fn done_and_not_met() {
    let relay = Relay::new();
    let app = App::new();
    let mut until = until_one(&relay, &app, &["--until", "1"]).spawn();
    until.next("ready");
    relay.post("{}");
    said(&until.end(), 0);
    let mut stopped = until_one(&relay, &app, &[]).spawn();
    stopped.next("ready");
    said(&stopped.stop(), 0);
    said(&until_one(&relay, &app, &["--idle-timeout", "50ms"]).run(), 7);
    // It runs before `ready` too.
    let nobody = format!("http://127.0.0.1:{}", Port::new().number);
    said(&relay.listen_from(&relay.home, &nobody, &["--idle-timeout", "200ms"]).timing(QUICK).run(), 7);
}

#[test]
fn usage() {
    let home = Home::new();
    for args in [
        &["listen", "--no-such-flag"][..],
        &["listen", "ftp://x"],
        &["listen", "3000", "--timeout", "soon"],
        &["listen", "3000", "--max-in-flight", "51"],
        &["listen", "http://does-not-resolve.invalid/"],
        &["listen", "3000", "--api-url", "http://127.0.0.1:1"],
        &["serve", "--bind", "nowhere"],
        &["serve", "--store", "mysql://x"],
    ] {
        let ended = home.cli(args).run();
        assert!(ended.expect(2).stderr().contains("error: "), "{args:?}: {ended:#?}");
    }
}

#[test]
fn refused_by_the_relay() {
    let relay = Relay::new();
    said(&relay.listen(&["3000"]).env("PULLHOOK_API_KEY", "phk_wrong").run(), 10);
    said(&answered(403, "permission_denied"), 11);
    said(&answered(404, "not_found"), 12);
    said(&answered(429, "rate_limited"), 14);
    said(&answered(503, "unavailable"), 16);
    let unknown = relay.listen(&["3000", "--since", "evt_01k7zzzzzzzzzzzzzzzzzzzzzz"]).run();
    said(&unknown, 12);
    said(&relay.listen(&["3000", "--since", "evt_nonsense"]).run(), 12);
    let nobody = Port::new();
    let url = format!("http://127.0.0.1:{}", nobody.number);
    said(&relay.listen_from(&relay.home, &url, &["3000", "--max-connect-attempts", "1"]).run(), 16);
}

/// At once, also for a poll that waits: nothing more is handed out to a key that was revoked.
#[test]
fn a_key_revoked_while_it_listens() {
    let relay = Relay::new();
    let mut listen = relay.listen(&["3000"]).spawn();
    listen.next("ready");
    let store = format!("sqlite:{}", relay.home.path("relay.db").display());
    let list = relay.home.cli(&["keys", "list", "--store", &store, "--output", "json"]).run();
    let key: serde_json::Value = serde_json::from_str(&list.expect(0).out[0]).unwrap();
    relay.home.cli(&["keys", "revoke", key["id"].as_str().unwrap(), "--store", &store]).run().expect(0);
    relay.post("{}");
    let ended = listen.end();
    said(&ended, 10);
    assert_eq!(ended.all("event").len(), 0);
}

#[test]
fn backlog_and_listeners_refused() {
    let relay = Relay::with("listeners_per_environment = 1");
    (0..3).for_each(|n| drop(relay.post(&n.to_string())));
    let much = relay.listen(&["3000", "--since", "beginning", "--max-backlog", "2"]).run();
    said(&much, 17);
    assert!(much.stderr().contains('3'), "it says how many: {much:#?}");
    let mut one = relay.listen(&["3000"]).spawn();
    one.next("ready");
    let other = Home::new();
    said(&relay.listen_from(&other, &relay.url(), &["3000"]).run(), 17);
    one.stop();
}

#[test]
fn a_failed_forward_and_a_forced_end() {
    let relay = Relay::new();
    let app = App::new().answers(|_| Reply::status(500));
    let mut strict = until_one(&relay, &app, &["--exit-on-failure"]).spawn();
    strict.next("ready");
    relay.post("{}");
    said(&strict.end(), 20);
    let hold = crate::harness::Hold::default();
    let waits = hold.clone();
    let app = App::new().answers(move |_| {
        waits.wait();
        Reply::status(200)
    });
    let mut forced = until_one(&relay, &app, &[]).spawn();
    forced.next("ready");
    relay.post("{}");
    app.got(1);
    // Two kinds, since two of one kind may come as one.
    forced.signal(Signal::INT);
    forced.signal(Signal::TERM);
    said(&forced.end(), 130);
    hold.release(1);
}

#[test]
fn one_shot_commands() {
    let home = Home::new();
    home.cli(&["version"]).run().expect(0);
    home.cli(&["replay", "evt_01k7zzzzzzzzzzzzzzzzzzzzzz"]).run().expect(12);
    home.cli(&["events", "show", "evt_01k7zzzzzzzzzzzzzzzzzzzzzz"]).run().expect(12);
    home.cli(&["sources", "show", "nothing"]).run().expect(12);
    let nobody = format!("http://127.0.0.1:{}", home.port.number);
    let away = home.cli(&["events", "list", "--api-url", &nobody]).env("PULLHOOK_API_KEY", "k").run();
    away.expect(16);
}
