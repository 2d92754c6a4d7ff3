//! `demo`: the whole story, what programs read of it, what is left behind, and what can be done while it stays up.

use std::path::PathBuf;

use insta::assert_snapshot;
use serde_json::Value;

use crate::harness::Cli;

/// A folder for temporary files, to see that they go.
fn temp(cli: &Cli) -> PathBuf {
    cli.folder("tmp")
}

fn is_empty(folder: &PathBuf) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

/// Replaces what differs from run to run: ids, ports, sizes, times, numbers of orders.
fn steady(text: &str) -> String {
    let mut steady = String::new();
    let in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for word in text.split_inclusive(|c: char| !in_word(c)) {
        let (bare, rest) = word.split_at(word.trim_end_matches(|c: char| !in_word(c)).len());
        let number = bare.len() >= 4 && bare.bytes().all(|b| b.is_ascii_digit());
        steady.push_str(match bare {
            _ if bare.starts_with("evt_") => "evt_[ID]",
            "2026" | "3000" => bare,
            _ if number => "[N]",
            _ => bare,
        });
        steady.push_str(rest);
    }
    steady
}

/// The line without how long it took and how many bytes there were.
fn untimed(line: &str) -> String {
    let mut line = line.to_owned();
    for unit in [" ms)", " bytes"] {
        if let Some(end) = line.find(unit) {
            let start = line[..end].trim_end_matches(|c: char| c.is_ascii_digit()).len();
            if start < end {
                line.replace_range(start..end, "[N]");
            }
        }
    }
    line
}

#[test]
fn the_whole_story() {
    let cli = Cli::new();
    let temp = temp(&cli);
    let output = cli.command(&["demo", "--once"]).env("TMPDIR", &temp).output().unwrap();
    let shown = cli.shown(&output).lines().map(|line| untimed(line) + "\n").collect::<String>();
    assert_snapshot!(steady(&shown));
    assert!(is_empty(&temp), "its relay's folder is gone");
    assert!(!cli.home().join("state").exists(), "it touches nothing of the person's");
}

#[test]
fn programs_read_the_listener_s_records() {
    let cli = Cli::new();
    let records = cli.json(&["demo", "--once", "-j"]);
    let of = |kind: &str, field: &str| -> Vec<Value> {
        records.iter().filter(|record| record["type"] == kind).map(|record| record[field].clone()).collect()
    };
    assert_eq!(of("event", "event_type"), ["push", "order.shipped", "invoice.paid", "invoice.paid"]);
    assert_eq!(of("event", "replay"), [false, false, false, true]);
    assert_eq!(of("result", "status"), [204, 204, 500, 204]);
    assert_eq!(of("gate", "state"), ["closed", "open"]);
    assert_eq!((&records[0]["type"], of("summary", "delivered")), (&"ready".into(), vec![3.into()]));
}

#[test]
fn its_relay_is_no_choice() {
    let cli = Cli::new();
    assert_snapshot!(cli.transcript(&[
        &["demo", "--once", "--api-url", "http://127.0.0.1:1"],
        &["demo", "--profile", "work"],
        &["demo", "--output", "compact"],
        &["demo", "--onec"],
        &["demo", "now"],
    ]));
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let cli = Cli::new();
    let temp = temp(&cli);
    let mut command = cli.command(&["demo", "--once"]);
    let mut demo = command.env("TMPDIR", &temp).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(demo.stdout.take());
    assert_eq!(demo.wait().unwrap().code(), Some(0));
    assert!(is_empty(&temp));
}

#[test]
fn it_stays_up_until_it_is_interrupted() {
    let cli = Cli::new();
    let temp = temp(&cli);
    let mut command = cli.command(&["demo"]);
    command.env("TMPDIR", &temp);
    let mut demo = crate::running::Running::start(command);
    while !demo.line().contains("Everything stays up") {}
    let export = demo.line();
    assert!(export.contains("PULLHOOK_API_KEY=phl_…") || export.ends_with('…'), "no terminal: {export}");
    assert!(!is_empty(&temp));
    assert_eq!(demo.interrupt(), Some(0));
    assert!(is_empty(&temp));
}

#[cfg(target_os = "linux")]
#[test]
fn other_commands_can_be_tried_meanwhile() {
    let cli = Cli::new();
    let mut terminal = crate::terminal::Terminal::start(&cli, &["demo"]);
    terminal.shows("\u{1b}[1mHow a webhook reaches an app on localhost");
    terminal.shows("Everything stays up");
    terminal.shows("PULLHOOK_API_URL=");
    let url = terminal.shows(" PULLHOOK_API_KEY=");
    let key = terminal.shows("\u{1b}[0m");
    let in_its_relay = |args: &[&str]| {
        let mut command = cli.command(args);
        command.env("PULLHOOK_API_URL", url.trim_end_matches(" PULLHOOK_API_KEY="));
        command.env("PULLHOOK_API_KEY", key.trim_end_matches("\u{1b}[0m")).output().unwrap()
    };
    let events = String::from_utf8(in_its_relay(&["events", "list", "-j"]).stdout).unwrap();
    let newest: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
    assert_eq!((events.lines().count(), newest["type"].as_str()), (3, Some("invoice.paid")));
    assert!(in_its_relay(&["replay", newest["id"].as_str().unwrap()]).status.success());
    let shown = terminal.shows("\u{1b}[32m[204]");
    let (listener, app) = (shown.find("(replay)").unwrap(), shown.find("(marked as a replay)").unwrap());
    assert!(listener < app, "{shown}");
    terminal.press(3);
    assert_eq!(terminal.end(), Some(0));
}
