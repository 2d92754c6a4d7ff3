//! The relay on one's own machine: shared, handed over, taken over; strangers learn nothing.

use std::fs::File;

use serde_json::{Value, json};

use crate::harness::home::{local_api, relay_json};
use crate::harness::http::send;
use crate::harness::log::until;
use crate::harness::relay::accepted;
use crate::harness::{App, Hold, Home, Port, Reply, Run, Signal};

fn post(ingress: &str, body: &str) -> String {
    accepted(&send("POST", ingress, &[], body.as_bytes()).unwrap())
}

/// A listener in a project, ready, and its app.
fn listen(home: &Home, project: &str) -> (Run, App, Value) {
    let app = App::new();
    let folder = home.project(project);
    let mut run = home.listen(&["-f", &app.target()]).in_folder(&folder).spawn();
    let ready = run.next("ready");
    (run, app, ready)
}

#[track_caller]
fn got(app: &App, count: usize, event: &str) {
    assert_eq!(app.got(count)[count - 1].header("webhook-id"), event);
}

/// A second terminal in another project joins the first one's relay, and neither hears the other.
#[test]
fn projects_share_a_relay_and_not_their_events() {
    let home = Home::new();
    let (one, two) = (home.source("one", "hook", "none", &[]), home.source("two", "hook", "none", &[]));
    assert_ne!(one, two);
    let (mut first, app_one, ready_one) = listen(&home, "one");
    let (mut second, app_two, ready_two) = listen(&home, "two");
    assert_eq!(ready_one["relay_url"], ready_two["relay_url"]);
    assert_eq!(home.relay_json()["pid"], first.pid.as_raw_nonzero().get());
    assert_eq!(
        (&ready_one["ingress"], &ready_two["ingress"]),
        (&json!({"hook": one}), &json!({"hook": two}))
    );
    let (event_one, event_two) = (post(&one, "1"), post(&two, "2"));
    first.next_where("result", |line| line["event_id"] == *event_one);
    second.next_where("result", |line| line["event_id"] == *event_two);
    // The host goes in order; the other one goes on.
    first.stop();
    second.says("this process hosts it now");
    let event_two = post(&two, "3");
    second.next_where("result", |line| line["event_id"] == *event_two);
    assert_eq!(second.stop().summary()["received"], 2);
    assert_eq!((app_one.requests.len(), app_two.requests.len()), (1, 2));
}

/// `kill -9` of a host that two others had joined: one of them takes over, at the same port, and both go on.
#[test]
fn a_killed_host_is_replaced() {
    let home = Home::new();
    let ingress = home.source("app", "hook", "none", &[]);
    let (mut host, _, ready) = listen(&home, "app");
    let (mut a, app_a, _) = listen(&home, "app");
    let (mut b, app_b, _) = listen(&home, "app");
    let before = post(&ingress, "before");
    got(&app_a, 1, &before);
    got(&app_b, 1, &before);
    host.kill();
    // Whoever gets the lock first.
    let successor = until("a new host", || {
        let pid = home.relay_json()["pid"].as_i64().unwrap();
        [&a, &b].into_iter().map(|run| i64::from(run.pid.as_raw_nonzero().get())).find(|one| *one == pid)
    });
    let after = until("the port's return", || {
        let answer = send("POST", &ingress, &[], b"after").ok()?;
        Some(accepted(&answer))
    });
    got(&app_a, 2, &after);
    got(&app_b, 2, &after);
    assert_eq!(home.relay_json()["url"], ready["relay_url"], "the same port");
    for run in [&mut a, &mut b] {
        let reconnected = run.next("reconnected");
        assert_eq!(reconnected["lost"], 0, "{reconnected}");
    }
    // And once more, by the survivor.
    let (mut first, mut last) =
        if i64::from(a.pid.as_raw_nonzero().get()) == successor { (a, b) } else { (b, a) };
    first.kill();
    last.says("this process hosts it now");
    let end = post(&ingress, "end");
    last.next_where("result", |line| line["event_id"] == *end);
    last.stop();
}

/// Five that start at once in a fresh home: one hosts, all are ready. Then host after host is killed, events coming in
/// all the while: the last one has had every event that was acknowledged, once.
#[test]
fn whoever_is_left_has_had_everything() {
    let home = Home::new();
    let apps: Vec<App> = (0..5).map(|_| App::new()).collect();
    let mut runs: Vec<Run> = apps.iter().map(|app| home.listen(&["-f", &app.target()]).spawn()).collect();
    let urls: Vec<Value> = runs.iter_mut().map(|run| run.next("ready")["relay_url"].clone()).collect();
    assert!(urls.iter().all(|url| *url == urls[0]), "{urls:?}");
    let ingress = home.source("app", "hook", "none", &[]);
    let mut sent = Vec::new();
    while runs.len() > 1 {
        for _ in 0..3 {
            let answer = until("somebody who takes it", || send("POST", &ingress, &[], b"{}").ok());
            sent.push(accepted(&answer));
        }
        let host = until("the host among them", || {
            let pid = home.relay_json()["pid"].as_i64().unwrap();
            runs.iter().position(|run| i64::from(run.pid.as_raw_nonzero().get()) == pid)
        });
        runs.remove(host).kill();
    }
    let mut last = runs.remove(0);
    for event in &sent {
        let is_it = |line: &String| line.contains("\"result\"") && line.contains(event.as_str());
        last.out.find(0, "each event's result", is_it);
    }
    let summary = last.stop().summary();
    assert_eq!(
        (summary["received"].as_u64(), summary["failed"].as_u64()),
        (Some(sent.len() as u64), Some(0))
    );
}

/// Two that serve the same store at once: one does, the other one says who.
#[test]
fn only_one_serves() {
    let home = Home::new();
    let serve = || home.cli(&["serve", "--bind", "127.0.0.1:0", "--output", "json"]).spawn();
    let mut both = [serve(), serve()];
    let refused = until("one that gives up", || both.iter().position(|run| run.has_ended()));
    let ended = both[refused].end();
    assert!(ended.expect(2).stderr().contains("already serves this store"), "{ended:#?}");
    let serving = &mut both[1 - refused];
    serving.line("\"object\":\"relay\"");
    serving.signal(Signal::TERM);
    serving.end().expect(0);
}

/// ^C of the process that is relay and listener at once: the open POST ends, its ack is in the store, then both end.
#[test]
fn a_host_acks_before_it_ends() {
    let home = Home::new();
    let ingress = home.source("app", "hook", "none", &[]);
    let hold = Hold::default();
    let waits = hold.clone();
    let app = App::new().answers(move |_| {
        waits.wait();
        Reply::status(202)
    });
    let mut run = home.listen(&["-f", &app.target()]).spawn();
    run.next("ready");
    let event = post(&ingress, "{}");
    app.got(1);
    run.signal(Signal::INT);
    // It goes on serving until then.
    post(&ingress, "late");
    hold.release(2);
    run.end().expect(0);
    let shown = home.cli(&["events", "show", &event, "--output", "json"]).run();
    let shown: Value = serde_json::from_str(&shown.expect(0).out[0]).unwrap();
    assert_eq!(
        (&shown["status"], &shown["deliveries"][0]["status_code"]),
        (&"delivered".into(), &202.into())
    );
}

/// `serve` takes over from a `listen` that hosts; when it ends, the `listen` hosts again. Nothing is missed.
#[test]
fn serve_takes_over_and_gives_back() {
    let home = Home::new();
    let ingress = home.source("app", "hook", "none", &[]);
    let (mut run, app, _) = listen(&home, "app");
    let elsewhere = Port::new();
    for (n, port) in [&home.port, &elsewhere].into_iter().enumerate() {
        let bind = format!("127.0.0.1:{}", port.number);
        let mut serve = home.cli(&["serve", "--bind", &bind, "--output", "json"]).spawn();
        serve.line("\"object\":\"relay\"");
        run.says("handed the relay over");
        assert_eq!(home.relay_json()["host"], "serve");
        let there = ingress.replace(&home.port.number.to_string(), &port.number.to_string());
        let served = post(&there, "served");
        got(&app, 2 * n + 1, &served);
        // A second one is refused, and says by whom.
        let other = home.cli(&["serve", "--bind", "127.0.0.1:0"]).run();
        assert!(other.expect(2).stderr().contains(&bind), "{other:#?}");
        serve.signal(Signal::TERM);
        serve.end().expect(0);
        run.says("this process hosts it now");
        assert_eq!(home.relay_json()["host"], "listen");
        let back = until("the port's return", || send("POST", &ingress, &[], b"back").ok());
        got(&app, 2 * n + 2, &accepted(&back));
    }
    let ended = run.stop();
    assert_eq!((ended.summary()["received"].as_i64(), ended.all("ready").len()), (Some(4), 1));
}

/// Another program on the host's port learns no key; the relay moves to another port and says so.
#[test]
fn a_stranger_on_the_freed_port_learns_nothing() {
    let home = Home::new();
    home.source("app", "hook", "none", &[]);
    let (mut host, _, _) = listen(&home, "app");
    let (mut joined, app, _) = listen(&home, "app");
    let (admin, key) = (home.relay_json()["key"].as_str().unwrap().to_owned(), home.api("app").key);
    // Nobody takes over yet: the right to be next is held here.
    let claim = File::options().write(true).open(home.state().join("relay.claim")).unwrap();
    claim.lock().unwrap();
    host.kill();
    let stranger = App::on(&home.port).answers(|_| Reply::json(200, &json!({"object": "list", "data": []})));
    stranger.got(3);
    joined.says("something else is on that port");
    let heard = format!("{:?}", stranger.requests.all());
    assert!(!heard.contains(&admin) && !heard.contains(&key) && !heard.contains("authorization"), "{heard}");
    assert!(stranger.requests.all().iter().all(|request| request.target.starts_with("/local/proof?nonce=")));
    drop(claim);
    joined.says(&format!("port {} is taken", home.port.number));
    joined.next("reconnected");
    let url = home.relay_json()["url"].as_str().unwrap().to_owned();
    assert!(!url.ends_with(&format!(":{}", home.port.number)), "{url}");
    let event = post(&format!("{url}/api/webhooks/hook"), "moved");
    got(&app, 1, &event);
    joined.stop();
}

/// The port is somebody else's at the start: another one, with a warning, and the next run finds its own again.
#[test]
fn a_taken_port_is_no_obstacle() {
    let home = Home::new();
    let mut stranger = App::on(&home.port);
    let (mut run, _, ready) = listen(&home, "app");
    run.says(&format!("warning: port {} is taken", home.port.number));
    assert_ne!(ready["relay_url"], format!("http://127.0.0.1:{}", home.port.number));
    run.stop();
    assert_eq!(stranger.requests.len(), 0);
    stranger.stop();
    let (mut run, _, ready) = listen(&home, "app");
    assert_eq!(ready["relay_url"], format!("http://127.0.0.1:{}", home.port.number));
    run.stop();
}

/// A store or a host of a later version: exit 2, and what to do.
#[test]
fn a_newer_store_asks_for_an_upgrade() {
    let home = Home::new();
    let (mut run, _, _) = listen(&home, "app");
    let file = home.state().join("relay.json");
    let own = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, own.replace("\"protocol\": 1", "\"protocol\": 2")).unwrap();
    let joining = home.listen(&["3000"]).run();
    assert!(joining.expect(2).stderr().contains("upgrade this pullhook"), "{joining:#?}");
    std::fs::write(&file, own).unwrap();
    run.stop();
    let store = rusqlite::Connection::open(home.state().join("relay.db")).unwrap();
    store.execute("UPDATE schema_version SET version = version + 1", []).unwrap();
    drop(store);
    let bind = format!("127.0.0.1:{}", home.port.number);
    for args in [&["listen", "3000"][..], &["serve", "--bind", &bind], &["keys", "list"], &["events", "list"]]
    {
        let ended = home.cli(args).run();
        assert!(ended.expect(2).stderr().contains("upgrade this pullhook"), "{args:?}: {ended:#?}");
    }
}

/// Isolated runs meet neither each other nor the person's own relay, and leave nothing.
#[test]
fn isolated_runs_never_meet() {
    let home = Home::new();
    let (mut own, own_app, own_ready) = listen(&home, "app");
    let mut runs: Vec<(Run, App, String)> = Vec::new();
    for _ in 0..2 {
        let app = App::new();
        let mut run = home.listen(&["-f", &app.target(), "--isolated"]).spawn();
        let url = run.next("ready")["relay_url"].as_str().unwrap().to_owned();
        runs.push((run, app, url));
    }
    assert!(
        runs[0].2 != runs[1].2
            && own_ready["relay_url"] != *runs[0].2
            && own_ready["relay_url"] != *runs[1].2
    );
    let folders: Vec<_> =
        std::fs::read_dir(home.path("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 2, "{folders:?}");
    for folder in &folders {
        let api = local_api(folder, &home.path("app"));
        let (run, app, url) = runs.iter_mut().find(|(_, _, url)| relay_json(folder)["url"] == **url).unwrap();
        let made = api.send("POST", "/v1/events", &json!({"type": "a.b", "data": {"url": url}})).expect(202);
        assert_eq!(run.next("result")["event_id"], made["id"]);
        assert_eq!(app.requests.len(), 1);
    }
    runs[0].0.stop();
    // Also when it doesn't get to say good-bye in order.
    runs[1].0.signal(Signal::TERM);
    runs[1].0.end().expect(0);
    assert_eq!(std::fs::read_dir(home.path("tmp")).unwrap().count(), 0);
    assert_eq!(own.stop().summary()["received"], 0);
    assert_eq!(own_app.requests.len(), 0);
}
