//! `listen` as people type it: bad input, the secret, and a whole run over the embedded relay.

use insta::assert_snapshot;
use serde_json::Value;

use crate::app::App;
use crate::harness::Cli;
use crate::relay;
use crate::running::Running;

#[test]
fn bad_values_are_said_before_anything_runs() {
    let cli = Cli::new();
    assert_snapshot!(cli.transcript(&[
        &["listen", ""],
        &["listen", "localhost:/a"],
        &["listen", "http://h:99999"],
        &["listen", "ftp://x"],
        &["listen", "3000", "-f", "4000"],
        &["listen", "8.8.8.8:80"],
        &["listen", "--route", "github", "--route", "type:=3000", "--route", "a=ftp://x"],
        &[
            "listen",
            "3000",
            "--header",
            "ACT-AS-USER=1",
            "-H",
            "X: a\r\nY: b",
            "-H",
            ": v",
            "-H",
            "webhook-id: 1"
        ],
        &["listen", "--events", "a,,b", "--source", "a b", "--filter", "body..a=1"],
        &["listen", "--since", "yesterday"],
        &["listen", "--since", "evt_../x"],
        &["listen", "--timeout", "30", "--drain", "soon", "--idle-timeout", "0s"],
        &[
            "listen",
            "--max-in-flight",
            "51",
            "--until",
            "0",
            "--max-backlog",
            "0",
            "--max-connect-attempts",
            "0"
        ],
        &["listen", "--max-in-flight", "many"],
        &["listen", "--sign-as", "strype"],
        &["listen", "--sign-as", "github"],
        &["listen", "--sign-secret-env", "X"],
        &["listen", "--sign-as", "github", "--sign-secret-env", "NOT_SET"],
        &["listen", "--env-file", ".env"],
        &["listen", "--ca", "nowhere.pem"],
        &["listen", "--api-url", "https://relay.example.com"],
        &["listen", "--api-url", "relay.example.com"],
        &["listen", "--isolated", "--api-url", "https://relay.example.com"],
        &["listen", "--secret-file", "nowhere"],
        &["listen", "-j", "--until", "0"],
    ]));
}

#[test]
fn a_cloned_project_forwards_to_this_machine_only() {
    let cli = Cli::new();
    cli.write(
        "pullhook.toml",
        "forward_to = 'http://evil.example.com/x'\nroute = ['a=10.0.0.1:80']\ntimeout = 'x'\n",
    );
    assert_snapshot!(cli.transcript(&[&["listen", "--allow-remote"]]));
}

#[test]
fn the_secret_is_one_bare_stable_line() {
    let cli = Cli::new();
    let print = |args: &[&str]| {
        let output = cli.run(args);
        assert!(output.status.success() && output.stderr.is_empty(), "{}", cli.shown(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let first = print(&["listen", "--print-secret"]);
    assert!(first.starts_with("whsec_") && first.ends_with("=\n") && first.lines().count() == 1, "{first:?}");
    assert_eq!(first, print(&["listen", "--print-secret"]));
    assert_ne!(first, print(&["listen", "--print-secret", "--profile", "other"]));
    cli.write("secret.txt", &format!("{}\r\n", first.trim()));
    assert_eq!(
        first,
        print(&["listen", "--print-secret", "--secret-file", "secret.txt", "--profile", "third"])
    );
    let mut command = cli.command(&["listen", "--print-secret"]);
    let output =
        command.env("PULLHOOK_SECRET", "v1,whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=").output();
    assert_snapshot!(cli.shown(&output.unwrap()));
}

#[test]
fn from_an_event_to_the_app_and_back() {
    let (cli, app) = (Cli::new(), App::start());
    let env_name = ["--env-file", ".env.local", "--env-name", "HOOK_SECRET"];
    let to = format!("localhost:{}/hooks?x=1", app.port());
    let mut listen = cli.start(&[&["listen", &to, "-j", "-H", "x-mine: a, b"], env_name.as_slice()].concat());
    let ready = listen.record("ready");
    assert_eq!(ready["forward_to"], format!("http://{to}"));
    let relay = relay::of(&cli);
    relay.event("invoice.paid");
    let event = listen.record("event");
    let result = listen.record("result");
    assert_eq!((&result["outcome"], &result["status"]), (&Value::from("delivered"), &Value::from(200)));
    let got = app.next();
    assert_eq!(got.line, "POST /hooks?x=1");
    assert_eq!(got.header("webhook-id"), event["event_id"].as_str());
    assert_eq!(got.header("x-mine"), Some("a, b"));
    assert!(got.header("authorization").is_none());
    assert!(String::from_utf8(got.body).unwrap().contains("\"type\":\"invoice.paid\""));
    let secret = std::fs::read_to_string(cli.project().join(".env.local")).unwrap();
    assert!(secret.starts_with("HOOK_SECRET=whsec_"), "{secret:?}");
    listen.signal("INT");
    let (status, stdout, stderr) = listen.end();
    assert_eq!(status.code(), Some(0));
    let all = stdout.into_iter().chain(stderr).collect::<String>();
    assert!(!all.contains(secret.trim().split_once('=').unwrap().1), "written to the file, never shown");
    assert!(app.others().is_empty());
}

#[test]
fn exit_codes_say_how_it_ended() {
    let (cli, app) = (Cli::new(), App::start());
    assert_snapshot!(cli.transcript(&[&["listen", "--idle-timeout", "100ms"]]));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut unreachable = cli.command(&["listen", "-j", "--max-connect-attempts", "2"]);
    unreachable.args(["--api-url", &format!("http://127.0.0.1:{port}")]).env("PULLHOOK_API_KEY", "k");
    let output = unreachable.output().unwrap();
    assert_eq!(output.status.code(), Some(16));
    let out = String::from_utf8(output.stdout).unwrap();
    let kinds: Vec<Value> =
        out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone()).collect();
    assert_eq!(kinds, ["fatal", "summary"], "{out}");
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("connection refused") && err.contains(&port.to_string()), "{err}");

    let bad = format!("{}/500", app.port());
    let mut failing = cli.start(&["listen", "-j", "--exit-on-failure", &bad]);
    failing.record("ready");
    relay::of(&cli).event("a.b");
    assert_eq!(failing.end().0.code(), Some(20));

    let good = app.port().to_string();
    let mut until = cli.start(&["listen", "-j", "--until", "2", &good]);
    until.record("ready");
    relay::of(&cli).event("a.b");
    relay::of(&cli).event("a.b");
    assert_eq!(until.end().0.code(), Some(0));
}

#[test]
fn the_first_interrupt_drains_and_the_second_forces() {
    let (cli, (release, hold)) = (Cli::new(), std::sync::mpsc::channel::<()>());
    let hold = std::sync::Arc::new(std::sync::Mutex::new(hold));
    let (entered, seen) = std::sync::mpsc::channel();
    let app = App::answering_after(move |_| {
        entered.send(()).unwrap();
        let _released = hold.lock().unwrap().recv();
    });
    let to = app.port().to_string();
    let mut listen = cli.start(&["listen", "-j", &to]);
    listen.record("ready");
    relay::of(&cli).event("a.b");
    seen.recv().unwrap();
    listen.signal("INT");
    release.send(()).unwrap();
    assert_eq!(listen.record("result")["outcome"], "delivered");
    assert_eq!(listen.record("summary")["exit"], 0);
    assert_eq!(listen.end().0.code(), Some(0));

    let mut forced = cli.start(&["listen", "-j", &to]);
    forced.record("ready");
    relay::of(&cli).event("a.b");
    seen.recv().unwrap();
    forced.signal("INT");
    forced.signal("TERM");
    assert_eq!(forced.end().0.code(), Some(130));
    drop(release);
    let again = cli.start(&["listen", "-j", "--since", "last", "--until", "1", &to]);
    let (status, stdout, _) = again.end();
    assert_eq!(status.code(), Some(0), "{stdout:#?}");
}

#[test]
fn a_reader_that_goes_away_ends_it() {
    let cli = Cli::new();
    let mut listen = cli.command(&["listen", "-j"]);
    let (reader, writer) = std::io::pipe().unwrap();
    let mut child = listen.stdout(writer).stderr(std::process::Stdio::null()).spawn().unwrap();
    drop(listen);
    let mut first = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(reader), &mut first).unwrap();
    assert!(first.contains("\"ready\""), "{first}");
    // The reader is gone with the end of the line above: the next one finds nobody.
    relay::of(&cli).event("a.b");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn no_secret_reaches_the_log() {
    let (cli, app) = (Cli::new(), App::start());
    let secret = String::from_utf8(cli.run(&["listen", "--print-secret"]).stdout).unwrap().trim().to_owned();
    let mut command = cli.command(&["listen", "-v", "--until", "1", &app.port().to_string()]);
    command.env("PULLHOOK_LOG", "trace");
    let mut listen = Running::start(command);
    let ready = std::iter::repeat_with(|| listen.line()).find(|line| line.contains("Ready!")).unwrap();
    assert!(ready.contains(", shown by --print-secret") && !ready.contains(&secret), "{ready}");
    relay::of(&cli).event("planted.type");
    let (status, stdout, stderr) = listen.end();
    assert_eq!(status.code(), Some(0));
    let all: String = stdout.into_iter().chain(stderr).collect();
    assert!(all.len() > 2_000, "there is a log: {all}");
    let state = std::fs::read_to_string(cli.home().join("state/pullhook/relay.json")).unwrap();
    let master = std::fs::read_to_string(cli.home().join("state/pullhook/relay.master")).unwrap();
    let ring = std::fs::read_to_string(cli.home().join("state/pullhook/relay.secrets")).unwrap();
    let admin: Value = serde_json::from_str(&state).unwrap();
    for planted in [&secret, admin["key"].as_str().unwrap(), &master, &ring, "phk_local_env"] {
        assert!(!all.contains(planted), "{planted} in {all}");
    }
}
