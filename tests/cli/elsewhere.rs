//! A terminal opened in another project than the one that is listened to.

use std::path::Path;
use std::process::Output;

use crate::harness::Cli;
use crate::relay;
use crate::running::Running;

/// A home whose project `app` is listened to and has got an event.
fn listened() -> (Cli, Running) {
    let cli = Cli::new();
    let mut listen = cli.start(&["listen", "-j"]);
    listen.record("ready");
    relay::of(&cli).event("a.b");
    listen.record("event");
    (cli, listen)
}

fn run_in(cli: &Cli, folder: &Path, args: &[&str]) -> (Output, String) {
    let output = cli.command(args).current_dir(folder).output().unwrap();
    let shown = cli.shown(&output);
    (output, shown)
}

#[test]
fn the_one_project_that_is_listened_to_is_used_and_said_however_quiet() {
    let (cli, listen) = listened();
    let elsewhere = cli.folder("elsewhere");
    for args in [["events", "list", "-j", "-q"].as_slice(), &["status", "-j", "-q"]] {
        let (output, shown) = run_in(&cli, &elsewhere, args);
        assert!(output.status.success(), "{shown}");
        assert!(shown.contains("stderr| warning: nobody listens in"), "{shown}");
        assert!(shown.contains("using the project that is listened to, "), "{shown}");
        assert!(shown.contains("/app") && shown.contains("\"object\""), "{shown}");
    }
    let (own, _) = run_in(&cli, &elsewhere, &["events", "list", "-j", "--project", "."]);
    assert_eq!((own.status.code(), own.stdout.len(), own.stderr.len()), (Some(0), 0, 0));
    assert_eq!(listen.interrupt(), Some(0));
}

#[test]
fn with_several_listened_projects_they_are_named() {
    let (cli, listen) = listened();
    let (elsewhere, other) = (cli.folder("elsewhere"), cli.folder("other"));
    let mut second = cli.start(&["listen", "-j", "--project", other.to_str().unwrap()]);
    second.record("ready");
    for args in [["events", "list"].as_slice(), &["trigger", "github.push"], &["replay", "--from", "1h"]] {
        let (output, shown) = run_in(&cli, &elsewhere, args);
        assert_eq!(output.status.code(), Some(2), "{shown}");
        assert!(shown.contains("/app") && shown.contains("/other") && shown.contains("--project"), "{shown}");
    }
    let (status, shown) = run_in(&cli, &elsewhere, &["status"]);
    assert!(status.status.success() && shown.contains("warning: nobody listens in"), "{shown}");
    assert!(shown.contains("/app, or --project"), "{shown}");
    assert_eq!((listen.interrupt(), second.interrupt()), (Some(0), Some(0)));
}

#[test]
fn a_project_with_sources_of_its_own_stays_at_home() {
    let (cli, listen) = listened();
    let elsewhere = cli.folder("elsewhere");
    let here = ["trigger", "github.push", "--project", "."];
    let (made, shown) = run_in(&cli, &elsewhere, &here);
    assert!(made.status.success(), "{shown}");
    let (list, shown) = run_in(&cli, &elsewhere, &["events", "list", "-j"]);
    assert!(list.status.success() && shown.contains("github") && !shown.contains("warning"), "{shown}");
    let (status, shown) = run_in(&cli, &elsewhere, &["status"]);
    assert!(status.status.success() && shown.contains("listener     none"), "{shown}");
    assert_eq!(listen.interrupt(), Some(0));
}

#[test]
fn an_event_that_is_known_here_stays_here() {
    let (cli, listen) = listened();
    let elsewhere = cli.folder("elsewhere");
    let event = relay::of_project(&cli, "elsewhere").event("of.home");
    let id = event["id"].as_str().unwrap();
    let (show, shown) = run_in(&cli, &elsewhere, &["events", "show", id]);
    assert!(show.status.success() && !shown.contains("warning"), "{shown}");
    let (replay, shown) = run_in(&cli, &elsewhere, &["replay", id]);
    assert_eq!(replay.status.code(), Some(12), "nobody listens here: {shown}");
    assert!(!shown.contains("warning"), "{shown}");
    assert_eq!(listen.interrupt(), Some(0));
}
