//! `trigger`: into the embedded relay, into a served one, straight to an app.

use insta::assert_snapshot;
use pullhook::clock::Clock;
use pullhook::headers::Headers;
use pullhook::secret::Secret;
use pullhook::signature::{self, Key, Request, Scheme};
use pullhook::system::SystemClock;

use crate::app::{App, Got};
use crate::harness::Cli;
use crate::running::Running;
use crate::scrub;

fn transcript(cli: &Cli, runs: &[&[&str]]) -> String {
    scrub::text(&cli.transcript(runs))
}

fn ready(cli: &Cli, args: &[&str]) -> Running {
    let mut listen = cli.start(&[&["listen", "-j"], args].concat());
    listen.record("ready");
    listen
}

/// The key that `trigger` signs with for an app.
fn key(cli: &Cli, scheme: &str, event: &str) -> Key {
    let output = cli.run(&["trigger", event, "--print-secret"]);
    let secret = Secret::new(String::from_utf8(output.stdout).unwrap().trim());
    Key::new(Scheme::parse(scheme).unwrap(), &secret).unwrap()
}

/// Whether the app would take it.
fn verified(got: &Got, key: &Key) -> Result<(), signature::Rejection> {
    let headers: Headers = got.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let request = Request { method: "POST", url: None, headers: &headers, body: &got.body };
    signature::verify(key.scheme(), std::slice::from_ref(key), &request, SystemClock.now())
}

#[test]
fn the_events_there_are() {
    let cli = Cli::new();
    assert_snapshot!(transcript(
        &cli,
        &[&["trigger", "--list"], &["trigger", "--list", "standard", "-j"], &["trigger", "--list", "nobody"],]
    ));
}

#[test]
fn wrong_values_are_said_before_anything_is_sent() {
    let cli = Cli::new();
    assert_snapshot!(transcript(
        &cli,
        &[
            &["trigger"],
            &["trigger", "push"],
            &["trigger", "nothing.like.it"],
            &["trigger", "github.push", "--count", "0"],
            &["trigger", "github.push", "--count", "many"],
            &["trigger", "github.push", "--rate", "2"],
            &["trigger", "github.push", "--count", "2", "--rate", "0"],
            &["trigger", "github.push", "--override", "ref", "--override", "a..b=1", "--stale"],
            &["trigger", "github.push", "--override", "ref.x=1"],
            &["trigger", "github.push", "--override", "commits.9.id=1"],
            &["trigger", "github.push", "--stale", "--bad-signature"],
            &["trigger", "github.push", "--secret-env", "NAME", "--skip-verify"],
            &["trigger", "github.push", "--to", "3000", "--secret-env", "NOT_SET"],
            &["trigger", "github.push", "--to", "3000", "--secret-file", "none"],
            &["trigger", "github.push", "--to", ""],
            &["trigger", "github.push", "--to", "3000", "--source", "github"],
            &["trigger", "github.push", "--to", "3000", "--timeout", "5"],
            &["trigger", "github.push", "--list"],
            &["trigger", "github.push", "--output", "compact"],
        ]
    ));
    assert!(!cli.home().join("state/pullhook/relay.db").exists(), "no relay was started for it");
}

#[test]
fn into_the_embedded_relay() {
    let cli = Cli::new();
    assert_snapshot!(transcript(
        &cli,
        &[
            &["trigger", "github.push"],
            &["trigger", "github.push", "--duplicate", "-j"],
            &["trigger", "standard.invoice.paid", "--count", "2", "--rate", "50", "-q"],
            &["trigger", "standard.invoice.paid", "--stale"],
            &["trigger", "github.push", "--bad-signature", "-j"],
            &["trigger", "github.push", "--source", "nobody"],
            &["trigger", "github.push", "--source", "standard"],
        ]
    ));
}

#[test]
fn one_source_of_the_scheme_is_meant_and_two_are_named() {
    let cli = Cli::new();
    let add = |name: &str| {
        let mut add = cli.command(&["sources", "add", name, "--scheme", "github", "--secret-env", "SECRET"]);
        assert!(add.env("SECRET", "0123456789abcdef").output().unwrap().status.success());
    };
    add("mine");
    let sent = cli.json(&["trigger", "github.ping", "-j"]);
    assert_eq!(sent[0]["source"], "mine");
    add("other");
    let two = cli.run(&["trigger", "github.ping"]);
    let shown = cli.shown(&two);
    assert_eq!(two.status.code(), Some(2), "{shown}");
    assert!(shown.contains("`mine`, `other`") && shown.contains("--source NAME"), "{shown}");
    assert_eq!(cli.json(&["trigger", "github.ping", "-j", "--source", "other"])[0]["source"], "other");
}

#[test]
fn an_event_arrives_as_it_was_sent_and_chaos_is_refused() {
    let (cli, app) = (Cli::new(), App::start());
    let mut listen = ready(&cli, &[&format!("{}/hooks", app.port())]);
    let sent = cli.json(&["trigger", "standard.order.created", "--override", "data.total=5", "-j"]);
    let event = listen.record("event");
    assert_eq!((&event["event_id"], &event["event_type"]), (&sent[0]["event_id"], &"order.created".into()));
    let got = app.next();
    let body: serde_json::Value = serde_json::from_slice(&got.body).unwrap();
    assert_eq!(
        (body["data"]["total"].as_i64(), got.body.len() as u64),
        (Some(5), sent[0]["size_bytes"].as_u64().unwrap())
    );
    assert_eq!(got.header("webhook-id"), sent[0]["provider_event_id"].as_str());
    assert_eq!(verified(&got, &key(&cli, "standard-webhooks", "standard.order.created")), Ok(()));

    for chaos in ["--stale", "--bad-signature"] {
        assert_eq!(cli.run(&["trigger", "standard.order.created", chaos]).status.code(), Some(20));
    }
    let twice = cli.json(&["trigger", "standard.order.shipped", "--duplicate", "-j"]);
    assert_eq!(twice[0]["event_id"], twice[1]["event_id"]);
    assert_eq!((&twice[0]["duplicate"], &twice[1]["duplicate"]), (&false.into(), &true.into()));
    let (first, second) = (app.next(), app.next());
    assert_eq!((&first.body, first.header("webhook-id")), (&second.body, second.header("webhook-id")));
    assert_eq!(listen.interrupt(), Some(0));
    assert_eq!(app.others().len(), 0, "what was refused never came");
}

#[test]
fn in_another_folder_the_one_project_that_is_listened_to_is_meant() {
    let cli = Cli::new();
    let mut listen = ready(&cli, &[]);
    let elsewhere = cli.folder("elsewhere");
    let output = cli.command(&["trigger", "github.ping"]).current_dir(&elsewhere).output().unwrap();
    let shown = cli.shown(&output);
    assert!(output.status.success() && shown.contains("using the project that is listened to, "), "{shown}");
    assert_eq!(listen.record("event")["event_type"], "ping");
    let own =
        cli.command(&["trigger", "github.ping", "--project", "."]).current_dir(&elsewhere).output().unwrap();
    assert!(cli.shown(&own).contains("nobody listens here now"), "{}", cli.shown(&own));
    assert_eq!(listen.interrupt(), Some(0));
}

#[test]
fn straight_to_an_app_it_is_signed_with_the_local_secret() {
    let (cli, app) = (Cli::new(), App::start());
    let hooks = format!("{}/hooks?a=1", app.port());
    for (event, scheme) in [("github.push", "github"), ("standard.invoice.paid", "standard-webhooks")] {
        let sent = cli.json(&["trigger", event, "--to", &hooks, "-j"]);
        assert_eq!((&sent[0]["status"], &sent[0]["source"]), (&200.into(), &serde_json::Value::Null));
        let got = app.next();
        assert_eq!(got.line, "POST /hooks?a=1");
        assert_eq!(got.header("host"), Some(&*format!("localhost:{}", app.port())));
        assert_eq!(verified(&got, &key(&cli, scheme, event)), Ok(()));
        cli.run(&["trigger", event, "--to", &hooks, "--bad-signature"]);
        assert_eq!(verified(&app.next(), &key(&cli, scheme, event)), Err(signature::Rejection::NoMatch));
    }
    cli.run(&["trigger", "standard.invoice.paid", "--to", &hooks, "--stale"]);
    let stale = verified(&app.next(), &key(&cli, "standard-webhooks", "standard.invoice.paid"));
    assert!(matches!(stale, Err(signature::Rejection::Stale { .. })), "{stale:?}");

    let mut own = cli.command(&["trigger", "github.push", "--to", &hooks, "--secret-env", "MINE"]);
    assert!(own.env("MINE", "the provider's own secret").output().unwrap().status.success());
    let mine = Key::new(Scheme::parse("github").unwrap(), &Secret::new("the provider's own secret")).unwrap();
    assert_eq!(verified(&app.next(), &mine), Ok(()));
    assert!(!cli.home().join("state/pullhook/relay.db").exists(), "no relay was needed");
}

#[test]
fn what_an_app_answers_is_shown() {
    let (cli, app) = (Cli::new(), App::start());
    let failing = format!("127.0.0.1:{}/500", app.port());
    let nobody = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    assert_snapshot!(transcript(
        &cli,
        &[
            &["trigger", "github.push", "--to", &failing],
            &["trigger", "standard.invoice.paid", "--to", &failing, "--count", "2", "-j"],
            &["trigger", "github.push", "--to", &nobody, "--count", "3"],
        ]
    ));
}

#[test]
fn a_served_relay_is_not_changed_behind_anybodys_back() {
    let cli = Cli::new();
    let store = ["--store", "sqlite:team.db"];
    let created = cli.json(&[&["keys", "create", "-j"], store.as_slice()].concat());
    let mut serve = cli.start(&[&["serve", "--bind", "127.0.0.1:0", "-j"], store.as_slice()].concat());
    let ready: serde_json::Value = serde_json::from_str(&serve.line()).unwrap();
    let served = |args: &[&str]| {
        let mut command = cli.command(args);
        command.env("PULLHOOK_API_URL", ready["url"].as_str().unwrap());
        command
            .env("PULLHOOK_API_KEY", created[0]["key"].as_str().unwrap())
            .env("SECRET", "0123456789abcdef");
        scrub::text(&cli.shown(&command.output().unwrap()))
    };
    let without = served(&["trigger", "github.push"]);
    let added = served(&["sources", "add", "github", "--scheme", "github", "--secret-env", "SECRET", "-q"]);
    assert!(added.ends_with("exit 0\n\n"), "{added}");
    let with = served(&["trigger", "github.push"]);
    assert_snapshot!(format!("{without}{with}"));
    assert_eq!(serve.interrupt(), Some(0));
}
