//! Filters, headers and targets as they are typed: L09 to L12.

use serde_json::{Value, json};

use crate::harness::{App, Home, Relay, Run};

fn types(app: &App, path: &str) -> Vec<String> {
    let all = app.requests.all();
    let here = all.iter().filter(|request| request.target == path);
    here.map(|request| {
        serde_json::from_slice::<Value>(&request.body).unwrap()["type"].as_str().unwrap().to_owned()
    })
    .collect()
}

/// L09: every way to name types; one that nobody ever saw warns and forwards nothing.
#[test]
fn every_form_of_event_filter() {
    let relay = Relay::new();
    let app = App::new();
    let sent = ["invoice.paid", "customer.created", "customer.deleted"];
    sent.iter().for_each(|kind| drop(relay.make(kind)));
    let cases: [(&[&str], &[usize]); 5] = [
        (&["--events", "invoice.paid,customer.created"], &[0, 1]),
        (&["--events", "invoice.paid", "--events", "customer.created"], &[0, 1]),
        (&["--events", "customer.*"], &[1, 2]),
        (&["--events", "*"], &[0, 1, 2]),
        (&["--events", "invoice.piad"], &[]),
    ];
    let mut runs: Vec<(Run, Home)> = Vec::new();
    for (n, (flags, _)) in cases.iter().enumerate() {
        let (home, target) = (Home::new(), app.at(&format!("/{n}")));
        let mut run =
            relay.listen_from(&home, &relay.url(), &[*flags, &["-f", &target, "--ordered"]].concat()).spawn();
        run.next("ready");
        runs.push((run, home));
    }
    sent.iter().for_each(|kind| drop(relay.make(kind)));
    for (n, ((run, _), (_, wanted))) in runs.iter_mut().zip(&cases).enumerate() {
        sent.iter().for_each(|_| drop(run.next("result")));
        let wanted: Vec<&str> = wanted.iter().map(|at| sent[*at]).collect();
        assert_eq!(types(&app, &format!("/{n}")), wanted, "{:?}", cases[n].0);
    }
    runs[4].0.says("invoice.piad");
    let warned = |run: &Run| run.err.all().iter().any(|line| line.contains("was ever seen"));
    assert!(!warned(&runs[0].0) && !warned(&runs[3].0));
}

/// L10: what a filter holds back is shown, is over, holds up nobody, and can be replayed.
#[test]
fn a_filtered_event_is_visible_and_over() {
    let relay = Relay::new();
    let app = App::new();
    let mut listen = relay.listen(&["-f", &app.target(), "--events", "a.b"]).spawn();
    listen.next("ready");
    let (held, wanted) = (relay.make("x.y"), relay.make("a.b"));
    let skipped = listen.next_where("result", |line| line["event_id"] == *held);
    assert_eq!((&skipped["outcome"], &skipped["reason"]), (&"skipped".into(), &"events".into()));
    assert_eq!(listen.next("result")["event_id"], *wanted);
    assert_eq!(app.got(1)[0].header("webhook-id"), wanted);
    listen.stop();
    assert_eq!(relay.api().event(&held)["status"], "skipped");
    let mut all = relay.listen(&["-f", &app.target()]).spawn();
    all.next("ready");
    let replay = json!({"event_ids": [held], "to": "listeners"});
    assert_eq!(relay.api().send("POST", "/v1/events/replay", &replay).expect(200)["count"], 1);
    let result = all.next("result");
    assert_eq!((&result["event_id"], &result["outcome"]), (&(*held).into(), &"delivered".into()));
    assert_eq!(app.got(2)[1].header("webhook-replay"), "1");
}

/// L11: a header flag that is none is one line of explanation, before anything is sent.
#[test]
fn a_malformed_header_flag_is_refused() {
    let (home, relay) = (Home::new(), App::new());
    let url = format!("http://{}", relay.target());
    for (bad, shown) in [
        ("ACT-AS-USER=1", "ACT-AS-USER=1"),
        ("X: a\r\nY: b", r"X: a\r\nY: b"),
        (": v", ": v"),
        ("webhook-signature: v1,AAAA", "`webhook-signature` can't be set"),
    ] {
        let ended =
            home.listen(&["3000", "--api-url", &url, "--header", bad]).env("PULLHOOK_API_KEY", "k").run();
        ended.expect(2);
        let said = ended.stderr();
        assert!(said.contains(shown) && !said.contains("panicked"), "{bad:?}: {ended:#?}");
        assert_eq!(ended.all("fatal")[0]["exit"], 2, "{ended:#?}");
    }
    assert_eq!(relay.requests.len(), 0);
}

/// L12: the same grammar everywhere, and the exact URL in `ready`.
#[test]
fn spellings_of_a_target() {
    let relay = Relay::new();
    for (typed, meant) in [
        ("3000", "http://localhost:3000/"),
        ("localhost:3000/a", "http://localhost:3000/a"),
        (":3000/a", "http://localhost:3000/a"),
        ("/a", "http://localhost:3000/a"),
        ("127.0.0.1:3000", "http://127.0.0.1:3000/"),
        ("[::1]:3000/a", "http://[::1]:3000/a"),
        ("http://localhost", "http://localhost/"),
    ] {
        let mut listen = relay.listen(&["--forward-to", typed]).spawn();
        assert_eq!(listen.next("ready")["forward_to"], meant, "{typed}");
        listen.stop();
    }
    let nobody = App::new();
    let url = format!("http://{}", nobody.target());
    for bad in ["", "ftp://x", "http:///a", "localhost:/a", "http://h:99999", "10.0.0.1:3000"] {
        let ended = relay.listen_from(&relay.home, &url, &["--forward-to", bad]).run();
        ended.expect(2);
        assert!(ended.stderr().starts_with("error: "), "{bad:?}: {ended:#?}");
    }
    assert_eq!(nobody.requests.len(), 0, "before any poll");
}
