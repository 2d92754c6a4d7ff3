//! Replays: by id and by range, looked at first, asked about when many, refused when nobody listens.

use insta::assert_snapshot;

use crate::app::App;
use crate::harness::Cli;
use crate::relay;
use crate::running::Running;

/// A home whose app answers 200, and a `listen` to it.
fn listening(cli: &Cli) -> (App, Running, String) {
    let app = App::start();
    let mut listen = cli.start(&["listen", "-j", "--ordered", &format!("{}/hooks", app.port())]);
    let id = listen.record("ready")["listener_id"].as_str().unwrap().to_owned();
    (app, listen, id)
}

fn send(cli: &Cli, kinds: &[&str]) -> Vec<String> {
    let relay = relay::of(cli);
    kinds.iter().map(|kind| relay.event(kind)["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn once_more_with_the_same_bytes() {
    let cli = Cli::new();
    let (app, listen, _) = listening(&cli);
    let ids = send(&cli, &["invoice.paid"]);
    let first = app.next();
    let story = cli.story(&[
        &["replay", &ids[0], "--dry-run"],
        &["replay", &ids[0]],
        &["replay", &ids[0], "--output", "json"],
    ]);
    for _ in 0..2 {
        let again = app.next();
        assert_eq!((again.header("webhook-id"), again.header("webhook-replay")), (Some(&*ids[0]), Some("1")));
        assert_eq!((again.line, again.body), (first.line.clone(), first.body.clone()));
    }
    assert_snapshot!(story);
    assert_eq!(listen.interrupt(), Some(0));
    assert_eq!(app.others().len(), 0, "a dry run sends nothing");
}

#[test]
fn a_range_of_them() {
    let cli = Cli::new();
    let (app, listen, id) = listening(&cli);
    let ids = send(&cli, &["invoice.paid", "customer.created", "invoice.voided"]);
    ids.iter().for_each(|_| drop(app.next()));
    let story = cli.story(&[
        &["replay", "--from", "2h", "--dry-run"],
        &["replay", "--from", "2h", "--dry-run", "-j", "--limit", "2"],
        &["replay", "--from", "2h", "--type", "invoice.*", "--listener", &id],
        &["replay", "--from", "2h", "--limit", "1"],
        &["replay", "--to-time", "2h"],
        &["replay", "--from", "2h", "--source", "github"],
    ]);
    assert_snapshot!(story);
    let replayed: Vec<String> = (0..3).map(|_| app.next().header("webhook-id").unwrap().to_owned()).collect();
    assert_eq!(replayed, [&*ids[0], &*ids[2], &*ids[0]], "oldest first");
    assert_eq!(listen.interrupt(), Some(0));
    assert_eq!(app.others().len(), 0);
}

#[test]
fn many_are_not_replayed_unasked() {
    let cli = Cli::new();
    let (app, listen, _) = listening(&cli);
    let ids = send(&cli, &["a.b"; 101]);
    ids.iter().for_each(|_| drop(app.next()));
    assert_snapshot!(cli.story(&[&["replay", "--from", "2h"]]));
    let named: Vec<&str> = ["replay"].into_iter().chain(ids.iter().map(String::as_str)).collect();
    assert_eq!(cli.run(&named).status.code(), Some(2), "by name as by range");
    assert_eq!(app.others().len(), 0);
    assert_eq!(cli.json(&["replay", "--from", "2h", "--limit", "100", "-j"])[0]["count"], 100);
    assert_eq!(cli.json(&["replay", "--from", "2h", "--yes", "-j"])[0]["count"], 101);
    (0..201).for_each(|_| drop(app.next()));
    assert_eq!(listen.interrupt(), Some(0));
}

#[test]
fn nobody_listens() {
    let cli = Cli::new();
    let mut tail = cli.start(&["events", "tail"]);
    tail.said("waiting for events");
    let ids = send(&cli, &["a.b"]);
    assert_snapshot!(cli.story(&[
        &["replay", &ids[0]],
        &["replay", &ids[0], "-j"],
        &["replay", "--from", "2h"],
        &["replay", &ids[0], "--dry-run"],
        &["replay", &ids[0], "--listener", "whlis_01k7aaaaaaaaaaaaaaaaaaaaaa"],
        &["replay", "--from", "2h", "--dry-run", "--listener", "nobody"],
    ]));
    assert_eq!(tail.interrupt(), Some(0));
}

#[test]
fn bad_input() {
    let cli = Cli::new();
    assert_snapshot!(cli.story(&[
        &["replay"],
        &["replay", "--yes"],
        &["replay", "--type", "a.*"],
        &["replay", ""],
        &["replay", "nonsense"],
        &["replay", "evt_01k7aaaaaaaaaaaaaaaaaaaaaa", "other"],
        &["replay", "evt_01k7aaaaaaaaaaaaaaaaaaaaaa", "--from", "2h"],
        &["replay", "evt_01k7aaaaaaaaaaaaaaaaaaaaaa", "--status", "failed"],
        &["replay", "--from", "soon"],
        &["replay", "--from", "2h", "--to-time", "later"],
        &["replay", "--from", "2026-08-21T20:53:11Z", "--to-time", "2026-08-21T20:53:10Z"],
        &["replay", "--from", "2h", "--type", ""],
        &["replay", "--from", "2h", "--source", ""],
        &["replay", "--from", "2h", "--status", "lost"],
        &["replay", "--from", "2h", "--listener", ""],
        &["replay", "--from", "2h", "--limit", "0"],
        &["replay", "--from", "2h", "--limit", "1001"],
        &["replay", "--from", "2h", "--limit", "all"],
        &["replay", "--from", "2h", "--output", "compact"],
        &["replay", "--from", "2h", "--api-url", "http://127.0.0.1:1"],
    ]));
}
