//! `serve`: its configuration, a store of its own, keys that work at once, listeners with a key.

use std::io::{Read, Write};
use std::net::TcpStream;

use insta::assert_snapshot;
use serde_json::Value;

use crate::harness::Cli;
use crate::running::Running;
use crate::test_store::{Engine, TestStore};

fn served(cli: &Cli, args: &[&str]) -> (Running, String) {
    let mut serve = cli.start(&[&["serve", "--bind", "127.0.0.1:0", "-j"], args].concat());
    let relay: Value = serde_json::from_str(&serve.line()).unwrap();
    (serve, relay["url"].as_str().unwrap().to_owned())
}

fn key(cli: &Cli) -> String {
    let created = cli.json(&["keys", "create", "--store", "sqlite:data/relay.db", "-j"]);
    created[0]["key"].as_str().unwrap().to_owned()
}

fn data(cli: &Cli) -> &'static str {
    cli.folder("app/data");
    "sqlite:data/relay.db"
}

#[test]
fn bad_configuration_is_said_at_once() {
    let cli = Cli::new();
    cli.write(
        "relay.toml",
        "bnid = '0.0.0.0:1'\nallow_unsigned = 'yes'\nevent_retention = '1'\n[[sources]]\nname = 'a'\nschema = 'github'\n\
         secret_env = 'NOT_SET'\n",
    );
    cli.write("short.toml", "dedupe_window = '1m'\nevent_retention = '1d'\nlog_retention = '0'\n");
    cli.write(
        "scheme.toml",
        "[[sources]]\nname = 'a'\nscheme = 'githbu'\n[[sources]]\nname = 'b'\nscheme = 'github'\n",
    );
    assert_snapshot!(cli.transcript(&[
        &["serve", "--config", "relay.toml"],
        &["serve", "--config", "short.toml"],
        &["serve", "--config", "scheme.toml", "--bind", "127.0.0.1:0"],
        &["serve", "--config", "nowhere.toml", "--bind", "localhost", "--public-url", "relay.example.com"],
        &["serve", "--store", "postgres://u:planted@127.0.0.1:1/d", "--bind", "127.0.0.1:0"],
        &["serve", "--store", "redis://x"],
        &["serve", "--store", "sqlite:nowhere/relay.db", "--bind", "127.0.0.1:0"],
    ]));
}

#[test]
fn the_example_of_the_page_is_accepted() {
    let cli = Cli::new();
    data(&cli);
    let page = include_str!("../../docs/reference/configuration.md");
    let section = page.split("## `serve --config FILE`").nth(1).unwrap();
    cli.write("relay.toml", section.split("```toml\n").nth(1).unwrap().split("```").next().unwrap());
    cli.write("github-secret.txt", "gh-secret-0123456789\n");
    let mut serve = cli.start(&["serve", "--config", "relay.toml", "--bind", "127.0.0.1:0"]);
    let line = serve.line();
    assert!(line.contains("sources at https://hooks.example.com/api/webhooks/"), "{line}");
    assert_eq!(serve.interrupt(), Some(0));
}

#[test]
fn others_must_not_write_where_the_store_is() {
    use std::os::unix::fs::PermissionsExt;
    let cli = Cli::new();
    let folder = cli.folder("app/open");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert_snapshot!(cli.transcript(&[&[
        "serve",
        "--store",
        "sqlite:open/relay.db",
        "--bind",
        "127.0.0.1:0"
    ]]));
}

#[test]
fn an_unsigned_source_beyond_this_machine_is_refused() {
    let cli = Cli::new();
    data(&cli);
    cli.write("relay.toml", "[[sources]]\nname = 'open'\nscheme = 'none'\n");
    let args = ["serve", "--store", "sqlite:data/relay.db", "--config", "relay.toml", "--bind", "0.0.0.0:0"];
    let output = cli.run(&args);
    let shown = cli.shown(&output);
    assert_eq!(output.status.code(), Some(2), "{shown}");
    assert!(shown.contains("open") && shown.contains("--allow-unsigned"), "{shown}");
    let mut allowed = cli.start(&[&args[..], &["--allow-unsigned"]].concat());
    assert!(allowed.line().contains("Ready!"));
    assert_eq!(allowed.interrupt(), Some(0));
}

#[test]
fn a_configured_source_a_key_made_meanwhile_and_a_listener() {
    let cli = Cli::new();
    let store = data(&cli);
    cli.write("relay.toml", "[[sources]]\nname = 'github'\nscheme = 'github'\nsecret_file = 'gh.txt'\n");
    cli.write("gh.txt", "gh-secret-0123456789\n");
    let (serve, url) = served(&cli, &["--store", store, "--config", "relay.toml"]);
    let key = key(&cli);
    let mut command = cli.command(&["listen", "-j", "--api-url", &url, "--until", "1", "--source", "github"]);
    command.env("PULLHOOK_API_KEY", &key);
    let mut listen = Running::start(command);
    let ready = listen.record("ready");
    let ingress = ready["ingress"]["github"].as_str().unwrap();
    assert_eq!(ingress, format!("{url}/api/webhooks/github"));
    let status = post(
        ingress,
        b"{}",
        // HMAC-SHA256 of `{}` with the secret in the file.
        &format!(
            "x-github-event: ping\r\nx-hub-signature-256: sha256={}",
            hmac("gh-secret-0123456789", b"{}")
        ),
    );
    assert_eq!(status, 202);
    assert_eq!(post(ingress, b"{}", "x-github-event: ping"), 401);
    assert_eq!(listen.record("event")["event_type"], "ping");
    let (status, stdout, stderr) = listen.end();
    assert_eq!(status.code(), Some(0));
    assert!(stdout.into_iter().chain(stderr).all(|line| !line.contains(&key)), "a key is never shown");
    assert_eq!(serve.interrupt(), Some(0));
}

#[test]
fn a_wrong_and_a_revoked_key_are_10() {
    let cli = Cli::new();
    let store = data(&cli);
    let (serve, url) = served(&cli, &["--store", store]);
    let key = key(&cli);
    let with = |key: &str, args: &[&str]| {
        let mut command = cli.command(&[args, &["--api-url", &url]].concat());
        command.env("PULLHOOK_API_KEY", key).output().unwrap().status.code()
    };
    assert_eq!(with("phk_wrong", &["listen"]), Some(10));
    assert_eq!(with(&key, &["status"]), Some(0));
    let id = cli.json(&["keys", "list", "--store", store, "-j"])[0]["id"].as_str().unwrap().to_owned();
    assert!(cli.run(&["keys", "revoke", &id, "--store", store]).status.success());
    assert_eq!(with(&key, &["status"]), Some(10), "at once, though another process serves");
    assert_eq!(with(&key, &["listen"]), Some(10));
    assert_eq!(serve.interrupt(), Some(0));
}

#[test]
fn a_profile_brings_url_and_key() {
    let cli = Cli::new();
    let store = data(&cli);
    let (serve, url) = served(&cli, &["--store", store]);
    cli.write_config(&format!(
        "relay_port = 0\n[profiles.team]\napi_url = '{url}'\napi_key = '{}'\n",
        key(&cli)
    ));
    let status = &cli.json(&["status", "--profile", "team", "-j"])[0];
    assert_eq!(
        (status["kind"].as_str(), status["environment"]["slug"].as_str()),
        (Some("served"), Some("default"))
    );
    assert_eq!(serve.interrupt(), Some(0));
}

fn hmac(secret: &str, body: &[u8]) -> String {
    use pullhook::headers::Headers;
    use pullhook::secret::Secret;
    use pullhook::signature::{Key, Request, Scheme, sign};
    let scheme = Scheme::parse("github").unwrap();
    let key = Key::new(scheme, &Secret::new(secret)).unwrap();
    let none = Headers::new();
    let request = Request { method: "POST", url: None, headers: &none, body };
    let signed = sign(scheme, &key, &request, "id", pullhook::clock::Timestamp::from_millis(0));
    signed.get("x-hub-signature-256").unwrap().trim_start_matches("sha256=").to_owned()
}

fn post(url: &str, body: &[u8], headers: &str) -> u16 {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut connection = TcpStream::connect(host).unwrap();
    let head = format!(
        "POST /{path} HTTP/1.1\r\nhost: {host}\r\n{headers}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes()).unwrap();
    connection.write_all(body).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_postgresql_store_is_shared_by_relays() {
    let Some(database) = TestStore::new(Engine::Postgres) else { return };
    let cli = Cli::new();
    let store = database.text();
    let ring = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let command = |args: &[&str]| {
        let mut command = cli.command(&[args, &["--store", &store]].concat());
        command.env("PULLHOOK_SECRETS_KEY", ring);
        command
    };
    let mut serves: Vec<(Running, String)> = (0..2)
        .map(|_| {
            let mut serve = Running::start(command(&["serve", "--bind", "127.0.0.1:0", "-j"]));
            let relay: Value = serde_json::from_str(&serve.line()).unwrap();
            assert_eq!(relay["store"], "postgres");
            (serve, relay["url"].as_str().unwrap().to_owned())
        })
        .collect();
    let created = command(&["keys", "create", "-q"]).output().unwrap();
    let key = String::from_utf8(created.stdout).unwrap().trim().to_owned();
    let status = |url: &str| {
        let mut command = cli.command(&["status", "--api-url", url]);
        command.env("PULLHOOK_API_KEY", &key).output().unwrap().status.code()
    };
    assert!(serves.iter().all(|(_, url)| status(url) == Some(0)));
    let id = {
        let listed = command(&["keys", "list", "-j"]).output().unwrap();
        serde_json::from_slice::<Value>(&listed.stdout).unwrap()["id"].as_str().unwrap().to_owned()
    };
    assert!(command(&["keys", "revoke", &id]).output().unwrap().status.success());
    let (last, url) = serves.pop().unwrap();
    // A notification takes a moment to reach the other process; it does so without anybody asking twice for long.
    while status(&url) != Some(10) {}
    assert_eq!(last.interrupt(), Some(0));
    for (serve, _) in serves {
        assert_eq!(serve.interrupt(), Some(0));
    }
}
