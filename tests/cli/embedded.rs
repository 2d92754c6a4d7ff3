//! The embedded relay between processes: who hosts, who takes over, what a stranger learns.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::mpsc::channel;

use serde_json::json;

use crate::harness::Cli;
use crate::relay;
use crate::running::Running;

fn port(cli: &Cli) -> u16 {
    u16::try_from(relay::state(cli)["port"].as_u64().unwrap()).unwrap()
}

fn ready(cli: &Cli) -> Running {
    let mut listen = cli.start(&["listen", "-j"]);
    listen.record("ready");
    listen
}

#[test]
fn listeners_go_on_when_their_host_is_killed() {
    let cli = Cli::new();
    let host = ready(&cli);
    assert_eq!(relay::state(&cli)["pid"], host.pid());
    let (mut one, mut two) = (ready(&cli), ready(&cli));
    let before = port(&cli);
    host.signal("KILL");
    for listen in [&mut one, &mut two] {
        assert_eq!(listen.record("reconnected")["lost"], 0);
    }
    assert_eq!(port(&cli), before, "the same port");
    relay::of(&cli).event("after.takeover");
    for listen in [&mut one, &mut two] {
        assert_eq!(listen.record("event")["event_type"], "after.takeover");
    }
    let (host, mut other) = if relay::state(&cli)["pid"] == one.pid() { (one, two) } else { (two, one) };
    assert_eq!(host.interrupt(), Some(0));
    other.said("this process hosts it now");
    relay::of(&cli).event("after.end");
    assert_eq!(other.record("event")["event_type"], "after.end");
    assert_eq!(other.interrupt(), Some(0));
}

#[test]
fn serve_takes_over_from_a_listen_and_keeps_the_store() {
    let cli = Cli::new();
    let mut listen = ready(&cli);
    let mut serve = cli.start(&["serve", "--bind", "127.0.0.1:0", "-j"]);
    let relay = serve.line();
    assert!(relay.contains("\"object\":\"relay\""), "{relay}");
    listen.said("handed the relay over");
    assert_eq!(relay::state(&cli)["pid"], serve.pid());
    relay::of(&cli).event("a.b");
    assert_eq!(listen.record("event")["event_type"], "a.b");
    let second = cli.run(&["serve", "--bind", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(2), "{}", cli.shown(&second));
    let shown = cli.shown(&second);
    assert!(shown.contains("already serves this store"), "{shown}");
    assert_eq!(serve.interrupt(), Some(0));
    listen.said("this process hosts it now");
    assert_eq!(relay::state(&cli)["pid"], listen.pid());
    relay::of(&cli).event("c.d");
    assert_eq!(listen.record("event")["event_type"], "c.d");
    assert_eq!(listen.interrupt(), Some(0));
}

#[test]
fn a_stranger_on_the_freed_port_learns_nothing() {
    let cli = Cli::new();
    let host = ready(&cli);
    let mut listen = ready(&cli);
    let before = port(&cli);
    listen.signal("STOP");
    host.signal("KILL");
    host.end();
    let stranger = TcpListener::bind(("127.0.0.1", before)).unwrap();
    let (to, heard) = channel();
    std::thread::spawn(move || {
        for mut connection in stranger.incoming().map_while(Result::ok) {
            let mut bytes = vec![0; 65_536];
            let read = connection.read(&mut bytes).unwrap_or(0);
            let _gone = connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
            let _test_is_over = to.send(String::from_utf8_lossy(&bytes[..read]).into_owned());
        }
    });
    listen.signal("CONT");
    listen.said(&format!("port {before} is taken"));
    listen.record("reconnected");
    assert_ne!(port(&cli), before);
    relay::of(&cli).event("a.b");
    listen.record("event");
    assert_eq!(listen.interrupt(), Some(0));
    for said in heard.try_iter() {
        assert!(!said.contains("phk_") && !said.contains("phl_") && !said.contains("uthorization"), "{said}");
    }
}

#[test]
fn projects_never_hear_each_other() {
    let cli = Cli::new();
    let mut here = ready(&cli);
    let other = cli.folder("other");
    let mut there = cli.start(&["listen", "-j", "--project", other.to_str().unwrap()]);
    there.record("ready");
    relay::of_project(&cli, "other").event("for.there");
    assert_eq!(there.record("event")["event_type"], "for.there");
    relay::of(&cli).event("for.here");
    assert_eq!(here.record("event")["event_type"], "for.here");
    assert_eq!((here.interrupt(), there.interrupt()), (Some(0), Some(0)));
}

#[test]
fn the_port_is_remembered_and_a_taken_one_is_said() {
    let cli = Cli::new();
    assert!(cli.run(&["keys", "list"]).status.success());
    let first = port(&cli);
    assert!(cli.run(&["keys", "list"]).status.success());
    assert_eq!(port(&cli), first);
    let taken = TcpListener::bind(("127.0.0.1", first)).unwrap();
    let output = cli.run(&["keys", "list"]);
    let shown = cli.shown(&output);
    assert!(output.status.success() && shown.contains(&format!("warning: port {first} is taken")), "{shown}");
    drop(taken);
}

#[test]
fn an_isolated_relay_leaves_nothing() {
    let cli = Cli::new();
    let temp = cli.folder("temp");
    let mut command = cli.command(&["listen", "-j", "--isolated"]);
    command.env("TMPDIR", &temp);
    let mut listen = Running::start(command);
    listen.record("ready");
    assert!(!cli.home().join("state/pullhook/relay.json").exists(), "nobody else finds it");
    assert_eq!(std::fs::read_dir(&temp).unwrap().count(), 1);
    assert_eq!(listen.interrupt(), Some(0));
    assert_eq!(std::fs::read_dir(&temp).unwrap().count(), 0);
}

#[test]
fn another_version_of_the_local_protocol_says_what_to_do() {
    let cli = Cli::new();
    assert!(cli.run(&["keys", "list"]).status.success());
    let dir = cli.home().join("state/pullhook");
    let mut state = relay::state(&cli);
    state["protocol"] = json!(2);
    std::fs::write(dir.join("relay.json"), state.to_string()).unwrap();
    let lock = std::fs::File::open(dir.join("relay.lock")).unwrap();
    lock.lock().unwrap();
    let output = cli.run(&["keys", "list"]);
    let shown = cli.shown(&output);
    assert_eq!(output.status.code(), Some(2), "{shown}");
    assert!(shown.contains("hint: upgrade this pullhook"), "{shown}");
}

#[test]
fn many_at_once_share_one_host() {
    let cli = Cli::new();
    let children: Vec<_> = (0..8)
        .map(|_| cli.command(&["keys", "create", "-q"]).stdout(Stdio::null()).spawn().unwrap())
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(cli.json(&["keys", "list", "-j"]).len(), 8);
}

#[test]
fn a_store_of_a_newer_version_is_left_alone() {
    let cli = Cli::new();
    assert!(cli.run(&["keys", "list"]).status.success());
    let store = rusqlite::Connection::open(cli.home().join("state/pullhook/relay.db")).unwrap();
    store.execute("UPDATE schema_version SET version = 999", []).unwrap();
    for args in [["keys", "list"].as_slice(), &["listen", "-j"], &["serve", "-j", "--bind", "127.0.0.1:0"]] {
        let output = cli.run(args);
        let shown = cli.shown(&output);
        assert_eq!(output.status.code(), Some(2), "{shown}");
        assert!(shown.contains("hint: upgrade this pullhook"), "{shown}");
    }
}
