//! Events: listed, shown, followed; hidden credentials, bytes that are no text, and text that would steer a terminal.

use insta::assert_snapshot;

use crate::app::App;
use crate::harness::Cli;
use crate::relay;
use crate::running::Running;
use crate::scrub;

/// A home with two sources, and a process that hosts its relay and takes nothing.
fn hosted(args: &[&str]) -> (Cli, Running) {
    let mut cli = Cli::new();
    cli.set("GITHUB_SECRET", "planted-github-secret");
    cli.json(&["sources", "add", "github", "--scheme", "github", "--secret-env", "GITHUB_SECRET", "-j"]);
    cli.json(&["sources", "add", "raw", "--scheme", "none", "-j"]);
    let mut tail = cli.start(&[&["events", "tail"], args].concat());
    tail.said("waiting for events");
    (cli, tail)
}

/// Text that would clear the screen, ring the bell and write from right to left.
const HOSTILE: &str = "\u{1b}[2J\u{7}\u{202e}";

#[test]
fn what_arrived_is_listed_and_shown() {
    let (cli, tail) = hosted(&[]);
    let relay = relay::of(&cli);
    let push = relay.signed(
        "github",
        &[
            ("x-github-event", "push"),
            ("x-github-delivery", "d-1"),
            ("authorization", "Bearer planted-1"),
            ("x-shop-token", "planted-2"),
            ("cookie", "s=planted-3"),
            ("x-note", "first"),
            ("x-note", "second"),
        ],
        b"{\n  \"ref\": \"main\"\n}\n",
    );
    let binary = relay.signed("raw", &[("content-type", "application/octet-stream")], b"\x00\x01ab\xff");
    let hostile = relay.signed("raw", &[], HOSTILE.as_bytes());
    let empty = relay.signed("raw", &[], b"");
    let story = cli.story(&[
        &["events", "list"],
        &["events", "list", "-j"],
        &["events", "show", &push],
        &["events", "show", &push, "-j"],
        &["events", "show", &binary],
        &["events", "show", &binary, "-j"],
        &["events", "show", &hostile],
        &["events", "show", &empty],
    ]);
    assert!(!story.contains("planted"), "{story}");
    assert!(!story.contains(HOSTILE.chars().next().unwrap()), "{story}");
    assert_snapshot!(story);
    let asked = cli.json(&["events", "show", &push, "--show-headers", "-j"])[0]["headers"].to_string();
    assert!(asked.contains("planted-2"), "{asked}");
    assert!(!asked.contains("planted-1") && !asked.contains("planted-3"), "never stored: {asked}");
    let people = String::from_utf8(cli.run(&["events", "show", &push, "--show-headers"]).stdout).unwrap();
    assert!(people.contains("x-shop-token: planted-2"), "{people}");
    assert_eq!(tail.interrupt(), Some(0));
}

#[test]
fn lists_are_narrowed_down() {
    let (cli, _tail) = hosted(&[]);
    let relay = relay::of(&cli);
    let first = relay.signed("github", &[("x-github-event", "push")], br#"{"ref":"main"}"#);
    let second = relay.signed("github", &[("x-github-event", "issues")], br#"{"action":"opened"}"#);
    let third = relay.signed("raw", &[], b"{}");
    let list = |args: &[&str]| -> Vec<String> {
        let events = cli.json(&[&["events", "list", "-j"], args].concat());
        events.iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(list(&[]), [&*third, &*second, &*first], "newest first");
    assert_eq!(list(&["-n", "2"]), [&*third, &*second]);
    assert_eq!(list(&["--source", "github"]), [&*second, &*first]);
    assert_eq!(list(&["--type", "p*", "--status", "none"]), [&*first]);
    assert_eq!(list(&["--search", "opened"]), [&*second]);
    assert_eq!(list(&["--from", "2h", "--source", "raw"]), [&*third]);
    assert_eq!(list(&["--to", "2h"]), Vec::<String>::new());
    assert_eq!(list(&["--status", "failed"]), Vec::<String>::new());
    assert_snapshot!(cli.story(&[&["events", "list", "--type", "nothing.*"]]));
}

#[test]
fn a_long_list_is_fetched_page_by_page() {
    let (cli, _tail) = hosted(&["--source", "nobody"]);
    let relay = relay::of(&cli);
    let mut sent: Vec<String> =
        (0..103).map(|_| relay.event("a.b")["id"].as_str().unwrap().to_owned()).collect();
    sent.reverse();
    let listed = cli.json(&["events", "list", "-n", "102", "-j"]);
    let listed: Vec<&str> = listed.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(listed, sent[..102]);
}

#[test]
fn nothing_there() {
    let cli = Cli::new();
    assert_snapshot!(cli.story(&[
        &["events", "list"],
        &["events", "list", "-j"],
        &["events", "show", "evt_01k7aaaaaaaaaaaaaaaaaaaaaa"],
        &["events", "show", "nonsense", "-j"],
    ]));
}

#[test]
fn bad_input() {
    let cli = Cli::new();
    assert_snapshot!(cli.story(&[
        &["events", "list", "--limit", "0"],
        &["events", "list", "-n", "many"],
        &["events", "list", "--type", ""],
        &["events", "list", "--source", ""],
        &["events", "list", "--search", ""],
        &["events", "list", "--status", "lost"],
        &["events", "list", "--from", "yesterday"],
        &["events", "list", "--from", "2"],
        &["events", "list", "--to", "2026-13-01T00:00:00Z"],
        &["events", "list", "--from", "2026-08-21T20:53:11Z", "--to", "2026-08-21T20:53:10Z"],
        &["events", "list", "--output", "quiet"],
        &["events", "list", "--api-url", "http://127.0.0.1:1"],
        &["events", "list", "--api-url", "relay.example.com"],
        &["events", "show"],
        &["events", "show", ""],
        &["events", "show", ".."],
        &["events", "tail", "--from", "soon"],
        &["events", "tail", "--to", "2h"],
        &["events", "tail", "--output", "compact"],
    ]));
}

#[test]
fn deliveries_say_what_the_app_answered() {
    let (cli, app) = (Cli::new(), App::start());
    let mut listen = cli.start(&["listen", "-j", &format!("{}/500", app.port())]);
    listen.record("ready");
    let id = relay::of(&cli).event("invoice.paid")["id"].as_str().unwrap().to_owned();
    listen.record("result");
    assert_eq!(cli.json(&["replay", &id, "-j"])[0]["count"], 1);
    listen.record("result");
    // An answer is known to the relay a moment after it is known to the app.
    let settled = || cli.json(&["events", "show", &id, "-j"])[0]["deliveries"].clone();
    while settled().as_array().unwrap().iter().any(|delivery| delivery["status"] == "leased") {
        std::thread::yield_now();
    }
    assert_snapshot!(cli.story(&[
        &["events", "list"],
        &["events", "list", "--status", "failed", "-j"],
        &["events", "show", &id],
        &["events", "show", &id, "-j"],
    ]));
    assert_eq!(listen.interrupt(), Some(0));
}

#[test]
fn they_are_followed_until_interrupted() {
    let (cli, mut tail) = hosted(&["--type", "invoice.*"]);
    let mut json = cli.start(&["events", "tail", "-j", "--from", "2h"]);
    let relay = relay::of(&cli);
    let before = relay.event("customer.created");
    let seen: serde_json::Value = serde_json::from_str(&json.line()).unwrap();
    assert_eq!((&seen["id"], &seen["object"]), (&before["id"], &"event".into()));
    relay.event("invoice.paid");
    assert_snapshot!(scrub::text(&tail.line()));
    assert!(json.line().contains("invoice.paid"));
    let (status, stdout, _) = {
        json.signal("INT");
        json.end()
    };
    assert_eq!((status.code(), stdout.len()), (Some(0), 2));
    tail.signal("TERM");
    let (status, stdout, stderr) = tail.end();
    assert_eq!((status.code(), stdout.len(), stderr), (Some(0), 1, Vec::new()));
}

/// Case I14: a refused request carries near-misses of secrets; so does an accepted one.
#[test]
fn what_was_sent_is_not_in_the_log() {
    let mut cli = Cli::new();
    cli.set("GITHUB_SECRET", "planted-github-secret");
    cli.set("PULLHOOK_LOG", "trace");
    cli.run(&["sources", "add", "github", "--scheme", "github", "--secret-env", "GITHUB_SECRET"]);
    let mut tail = cli.start(&["events", "tail", "-v"]);
    tail.said("waiting for events");
    let relay = relay::of(&cli);
    let headers = [
        ("x-github-event", "push"),
        ("x-gitlab-token", "planted-token"),
        ("authorization", "Bearer planted-key"),
        ("cookie", "s=planted-cookie"),
        ("x-api-key", "planted-other-key"),
    ];
    let wrong = [headers.as_slice(), &[("x-hub-signature-256", "sha256=planted")]].concat();
    let (status, answer) = relay.webhook("github", &wrong, b"planted body");
    assert_eq!(status, "401");
    assert!(!answer.to_string().contains("planted"), "{answer}");
    let id = relay.signed("github", &headers, b"{\"planted\": \"body\"}");
    tail.line();
    let mut shown =
        cli.shown(&cli.run(&["events", "list"])) + &cli.shown(&cli.run(&["events", "list", "-j"]));
    let show =
        cli.shown(&cli.run(&["events", "show", &id, "-j"])).replace("{\\\"planted\\\": \\\"body\\\"}", "");
    for name in ["x-gitlab-token", "x-api-key"] {
        assert!(show.contains(name), "names are shown: {show}");
    }
    shown.push_str(&show);
    tail.signal("INT");
    let (_, stdout, stderr) = tail.end();
    shown.push_str(&[stdout, stderr].concat().join("\n"));
    assert!(shown.contains("a webhook was refused"), "{shown}");
    let leaks: Vec<&str> = shown.lines().filter(|line| line.contains("planted")).collect();
    assert_eq!(leaks, Vec::<&str>::new());
}
