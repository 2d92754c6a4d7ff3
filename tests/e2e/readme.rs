//! The README's story: a source, a listener, a webhook from GitHub at one's own app; then see, fix, replay.

use serde_json::Value;

use crate::harness::http::send;
use crate::harness::relay::accepted;
use crate::harness::sign::{github, is_signed_by};
use crate::harness::{App, Home, Reply};

const SECRET: &str = "It's a Secret to Everybody";
const BODY: &[u8] =
    b"{\n  \"ref\": \"refs/heads/main\",\n  \"emoji\": \"\xf0\x9f\x98\x8a\",\n  \"path\": \"a\\/b\"\n}\n";

fn answers(home: &Home, args: &[&str]) -> Vec<Value> {
    let ended = home.cli(&[args, &["--output", "json"]].concat()).run();
    ended.expect(0).out.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_github_webhook_reaches_the_app() {
    let home = Home::new();
    let ingress = home.source("app", "github", "github", &[SECRET]);
    let secret = home.cli(&["listen", "--print-secret"]).run().expect(0).out[0].clone();
    let app = App::new();
    let mut listen = home.listen(&["-f", &app.port().to_string()]).spawn();
    let ready = listen.next("ready");
    assert_eq!(ready["ingress"]["github"], *ingress);
    assert_eq!(ready["forward_to"], format!("http://localhost:{}/", app.port()));

    let signature = github(SECRET, BODY);
    let sent = [
        ("content-type", "application/json"),
        ("x-github-event", "push"),
        ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
        ("x-hub-signature-256", signature.as_str()),
        ("user-agent", "GitHub-Hookshot/044aadd"),
    ];
    let event = accepted(&send("POST", &ingress, &sent, BODY).unwrap());
    let forged = send("POST", &ingress, &[("x-hub-signature-256", &github("guess", BODY))], BODY).unwrap();
    assert_eq!(forged.status, 401);

    let request = &app.got(1)[0];
    assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/"));
    assert_eq!(request.body, BODY);
    for (name, value) in sent {
        assert_eq!(request.header(name), value, "{name}");
    }
    assert_eq!(request.header("webhook-id"), event);
    assert_eq!(request.header("host"), format!("localhost:{}", app.port()));
    assert!(is_signed_by(&secret, request), "{request:?}");
    assert_eq!(request.header("x-hub-signature-256"), github(SECRET, &request.body));
    assert_eq!(listen.next("event")["event_type"], "push");
    assert_eq!(listen.next("result")["outcome"], "delivered");

    let status = &answers(&home, &["status"])[0];
    assert_eq!(
        (&status["ready"], &status["sources"][0]["name"]),
        (&true.into(), &"github".into()),
        "{status}"
    );
    assert_eq!(status["listeners"].as_array().unwrap().len(), 1);
    listen.stop();

    let listed = answers(&home, &["events", "list"]);
    assert_eq!(listed.len(), 1, "the forged one is not there: {listed:?}");
    assert_eq!((&listed[0]["id"], &listed[0]["status"]), (&(*event).into(), &"delivered".into()));
    let shown = &answers(&home, &["events", "show", &event])[0];
    assert_eq!(shown["body"], std::str::from_utf8(BODY).unwrap());
    assert_eq!(shown["deliveries"][0]["status_code"], 200, "acked");
}

/// The app fails, is fixed, and the event comes again: same id, same bytes, a fresh signature.
#[test]
fn see_fix_replay() {
    let home = Home::new();
    let ingress = home.source("app", "github", "github", &[SECRET]);
    let secret = home.cli(&["listen", "--print-secret"]).run().expect(0).out[0].clone();
    let app = App::new().answers(|request| match request.header("webhook-replay") {
        "1" => Reply::status(200),
        _ => Reply::status(500),
    });
    let mut listen = home.listen(&["-f", &app.target()]).spawn();
    listen.next("ready");
    let signature = github(SECRET, BODY);
    let event = accepted(&send("POST", &ingress, &[("x-hub-signature-256", &signature)], BODY).unwrap());
    assert_eq!(listen.next("result")["status"], 500);
    // From another terminal, in another folder.
    let elsewhere = home.project("elsewhere");
    let replay = home.cli(&["replay", &event]).in_folder(&elsewhere).run();
    replay.expect(0);
    assert!(replay.stderr().contains("using the project that is listened to"), "{replay:#?}");
    assert_eq!(listen.next("result")["outcome"], "delivered");
    let requests = app.got(2);
    assert!(requests.iter().all(|request| request.header("webhook-id") == event && request.body == BODY));
    assert!(requests.iter().all(|request| is_signed_by(&secret, request)));
    listen.stop();
}
