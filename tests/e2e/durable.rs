//! What was acknowledged is there: I01 to I03, D10, D11, restarts and ends of `serve`.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, prlimit};
use serde_json::json;

use crate::harness::http::send;
use crate::harness::log::until;
use crate::harness::relay::accepted;
use crate::harness::{App, Relay, Reply, Signal};

/// I01: fifty times `kill -9` right after a 202: every acknowledged event is there, once, with its bytes.
#[test]
fn kill_nine_loses_nothing_that_was_acknowledged() {
    let mut relay = Relay::stopped("");
    let mut acknowledged = BTreeMap::new();
    for round in 0..50 {
        relay.start();
        // Several at once share a commit; the relay dies while the others are on their way.
        let (told, heard) = mpsc::channel();
        for n in 0..4 {
            let (told, url) = (told.clone(), relay.ingress("raw"));
            std::thread::spawn(move || {
                let body = format!("round {round}, event {n}\r\n\0");
                let answer = send("POST", &url, &[], body.as_bytes());
                let _nobody_waits = told.send(answer.map(|answer| (accepted(&answer), body)));
            });
        }
        drop(told);
        let mut answers = heard.into_iter();
        acknowledged.extend([answers.next().unwrap().unwrap()]);
        relay.kill();
        acknowledged.extend(answers.filter_map(Result::ok));
    }
    relay.start();
    let events = relay.api().events();
    let mut bodies: BTreeMap<String, String> = BTreeMap::new();
    for event in &events {
        let id = event["id"].as_str().unwrap();
        let body = relay.api().event(id)["body"].as_str().unwrap().to_owned();
        assert!(bodies.values().all(|other| *other != body), "{body:?} is there twice");
        bodies.insert(id.to_owned(), body);
    }
    assert!(acknowledged.len() >= 50);
    for (id, body) in &acknowledged {
        assert_eq!(bodies.get(id), Some(body));
    }
}

/// The relay dies again and again under the hands of a listener: each event is posted once, each outcome arrives.
#[test]
fn kill_nine_under_a_listener_repeats_nothing() {
    let mut relay = Relay::new();
    let app = App::new();
    let listen = relay.listen(&["-f", &app.target()]);
    let mut listen = listen.timing(r#"{"backoff_base_ms":10,"backoff_cap_ms":40}"#).spawn();
    listen.next("ready");
    let mut sent = Vec::new();
    for round in 0..15 {
        sent.extend((0..6).map(|n| relay.post(&format!("{round}.{n}"))));
        // Somewhere between the first POST of this round and the last ack.
        app.got(round * 6 + 1 + round % 6);
        relay.kill();
        relay.start();
    }
    app.got(sent.len());
    until("the acks", || {
        relay.api().events().iter().all(|event| event["status"] == "delivered").then_some(())
    });
    let mut got: Vec<String> =
        app.requests.all().iter().map(|request| request.header("webhook-id").to_owned()).collect();
    got.sort();
    sent.sort();
    assert_eq!(got, sent);
    let ended = listen.stop();
    assert!(ended.all("reconnected").iter().all(|line| line["lost"] == 0), "{ended:#?}");
}

/// I02: a full disk: 503 with `Retry-After`, never a 202; it recovers by itself, without what was refused.
#[test]
fn a_full_disk_acknowledges_nothing() {
    let mut relay = Relay::stopped("");
    // Going over the limit is an error of the write, as on a full disk, and no signal.
    relay.start_as(relay.command().through("sh", &["-c", "trap '' XFSZ; exec \"$@\"", "sh"]));
    let pid = relay.run.as_ref().unwrap().pid;
    let limit = |current| {
        let before = prlimit(Some(pid), Resource::Fsize, Rlimit { current, maximum: None }).unwrap();
        assert_eq!(before.maximum, None);
    };
    let body = vec![b'x'; 100 << 10];
    let post = || send("POST", &relay.ingress("raw"), &[], &body).unwrap();
    let mut accepted_ids = vec![accepted(&post())];
    limit(Some(1 << 20));
    let refused = until("a full disk", || {
        let answer = post();
        if answer.status == 202 {
            accepted_ids.push(accepted(&answer));
        }
        (answer.status != 202).then_some(answer)
    });
    assert_eq!(refused.expect(503)["error"]["type"], "api_error");
    assert!(refused.message.header("retry-after").parse::<u32>().is_ok(), "{refused:?}");
    // A little of it is left: for what is large there is no room, for what is small there is. Now for nothing.
    limit(Some(4 << 10));
    assert_eq!(post().status, 503);
    assert_eq!(send("GET", &format!("{}/readyz", relay.url()), &[], b"").unwrap().status, 503);
    assert_eq!(send("GET", &format!("{}/healthz", relay.url()), &[], b"").unwrap().status, 200);
    limit(None);
    assert_eq!(send("GET", &format!("{}/readyz", relay.url()), &[], b"").unwrap().status, 200);
    accepted_ids.push(accepted(&post()));
    let stored: Vec<String> =
        relay.api().events().iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(stored, accepted_ids, "all that was acknowledged, nothing else");
}

/// I03: two hundred at once while a listener takes and acks them.
#[test]
fn a_burst_is_taken_whole() {
    let relay = Relay::new();
    let app = App::new();
    let mut listen = relay.listen(&["-f", &app.target()]).spawn();
    listen.next("ready");
    let posters: Vec<_> = (0..20)
        .map(|_| {
            let url = relay.ingress("raw");
            std::thread::spawn(move || {
                (0..10)
                    .map(|_| accepted(&send("POST", &url, &[], b"{\"i\":{}}").unwrap()))
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    let mut sent: Vec<String> = posters.into_iter().flat_map(|poster| poster.join().unwrap()).collect();
    let mut got: Vec<String> =
        app.got(200).iter().map(|request| request.header("webhook-id").to_owned()).collect();
    sent.sort();
    got.sort();
    assert_eq!(got, sent);
    until("the acks", || {
        relay.api().events().iter().all(|event| event["status"] == "delivered").then_some(())
    });
    let log = relay.run.as_ref().unwrap().err.all();
    assert!(!log.iter().any(|line| line.contains("locked")), "{log:?}");
}

/// D10: a poll that waits is told when somebody else's lease runs out.
#[test]
fn an_expired_lease_wakes_a_parked_poll() {
    let relay = Relay::with("lease = \"1s\"");
    let api = relay.api();
    let listener = api.send("POST", "/v1/webhook_listeners", &json!({})).expect(201);
    let poll = format!("/v1/webhook_listeners/{}/poll", listener["id"].as_str().unwrap());
    let event = relay.post("{}");
    let first = api.send("POST", &poll, &json!({"wait_ms": 25_000})).expect(200);
    assert_eq!(first["deliveries"][0]["event_id"], *event);
    // Whoever has it never acks. This poll waits for longer than the lease, and not to its own end.
    let second = api.send("POST", &poll, &json!({"wait_ms": 25_000})).expect(200);
    let delivery = &second["deliveries"][0];
    assert_eq!((&delivery["event_id"], &delivery["attempt"]), (&(*event).into(), &2.into()));
    assert_ne!(delivery["ack_token"], first["deliveries"][0]["ack_token"]);
}

/// D11: what waits within a claimed batch keeps its lease: a second poll of the same listener never gets any of it.
#[test]
fn a_claimed_batch_is_posted_once() {
    let relay = Relay::with("lease = \"1s\"");
    let app = App::new().answers(|_| {
        std::thread::sleep(Duration::from_millis(150));
        Reply::status(200)
    });
    let listen = relay.listen(&["-f", &app.target(), "--max-in-flight", "8", "--ordered"]);
    let mut listen = listen.timing(r#"{"lease_ms":600}"#).spawn();
    let listener = listen.next("ready")["listener_id"].as_str().unwrap().to_owned();
    for n in 0..8 {
        relay.post(&n.to_string());
        listen.next("event");
    }
    let idle = json!({"limit": 10, "wait_ms": 100});
    while app.requests.len() < 8 || listen.all("result").len() < 8 {
        let polled = relay.api().send("POST", &format!("/v1/webhook_listeners/{listener}/poll"), &idle);
        assert_eq!(polled.expect(200)["deliveries"], json!([]));
    }
    let bodies: Vec<String> = app.requests.all().iter().map(|request| request.text()).collect();
    assert_eq!(bodies, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    assert_eq!(listen.stop().summary()["fenced"], 0);
}

/// SIGTERM: a poll that waits is answered, empty, and the relay ends well before that poll's own end.
#[test]
fn a_parked_poll_does_not_hold_up_the_end() {
    let mut relay = Relay::new();
    let api = relay.api();
    let listener = api.send("POST", "/v1/webhook_listeners", &json!({})).expect(201);
    let poll = format!("/v1/webhook_listeners/{}/poll", listener["id"].as_str().unwrap());
    let parked = {
        let (api, poll) = (api.clone(), poll.clone());
        std::thread::spawn(move || api.send("POST", &poll, &json!({"wait_ms": 25_000})))
    };
    until("the poll's arrival", || (!api.listeners()[0]["last_polled_at"].is_null()).then_some(()));
    let run = relay.run.as_mut().unwrap();
    run.signal(Signal::TERM);
    run.end().expect(0);
    let answer = parked.join().unwrap().expect(200);
    assert_eq!(answer["deliveries"], json!([]));
    // Nothing was lost by that: the listener is still there.
    relay.start();
    let event = relay.post("{}");
    assert_eq!(api.send("POST", &poll, &json!({})).expect(200)["deliveries"][0]["event_id"], *event);
}

/// A store that this version wrote is opened again: events, keys, sealed secrets, open listeners.
#[test]
fn a_store_is_opened_again() {
    let mut relay = Relay::new();
    let body = br#"{"zen":"Keep it logically awesome."}"#;
    let event = accepted(&relay.post_signed(body));
    relay.stop();
    // Its sources are in the store by now: no file names them.
    let (bind, store) = (format!("127.0.0.1:{}", relay.port.number), relay.home.path("relay.db"));
    let store = format!("sqlite:{}", store.display());
    let serve = ["serve", "--output", "json", "--bind", &bind, "--store", &store];
    relay.start_as(relay.home.cli(&serve));
    assert_eq!(relay.api().event(&event)["body"], std::str::from_utf8(body).unwrap());
    let again = accepted(&relay.post_signed(b"{}"));
    let forged = send("POST", &relay.ingress("gh"), &[("x-hub-signature-256", "sha256=00")], b"{}").unwrap();
    assert_eq!(forged.status, 401);
    let app = App::new();
    let mut listen =
        relay.listen(&["-f", &app.target(), "--ordered", "--since", "beginning", "--until", "2"]).spawn();
    listen.end().expect(0);
    let got: Vec<String> = app.got(2).iter().map(|request| request.header("webhook-id").to_owned()).collect();
    assert_eq!(got, [event, again]);
}
