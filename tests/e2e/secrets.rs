//! Planted secrets turn up nowhere: not on either stream at the loudest log level, not in the store.

use std::path::Path;

use crate::harness::http::send;
use crate::harness::log::until;
use crate::harness::{App, Home, Relay, Reply};

const SOURCE_SECRET: &str = "planted-source-secret-91c2f7";
const PROFILE_KEY: &str = "phk_planted_profile_key_5512";
const LOCAL: &str = "whsec_cGxhbnRlZC1sb2NhbC1zZWNyZXQtMDAwMDAwMDA=";
const PASSED_BY: [&str; 4] = ["planted-bearer", "planted-cookie", "planted-proxy-auth", "planted-near-miss"];

#[track_caller]
fn assert_absent(what: &str, text: &str, planted: &[String]) {
    for secret in planted {
        if let Some(at) = text.find(secret.as_str()) {
            let from = text[..at].rfind('\n').map_or(0, |at| at + 1);
            let line = text[from..].lines().next().unwrap_or_default();
            panic!("{what} holds {secret:?}: {line}");
        }
    }
}

/// Every file below a folder, its bytes as text.
fn files(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.is_file() {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            found.push((path.display().to_string(), text));
        }
    }
}

/// What GitHub would send, with credentials that only the way here needed.
fn provider(url: &str, body: &[u8], secret: &str) -> u16 {
    let signature = crate::harness::sign::github(secret, body);
    let headers = [
        ("x-hub-signature-256", signature.as_str()),
        ("authorization", &format!("Bearer {}", PASSED_BY[0])),
        ("cookie", &format!("session={}", PASSED_BY[1])),
        ("proxy-authorization", &format!("Basic {}", PASSED_BY[2])),
    ];
    send("POST", url, &headers, body).unwrap().status
}

#[test]
fn a_served_relay_and_its_listener_tell_nothing() {
    let mut relay = Relay::stopped("");
    relay.env("GH_SECRET", SOURCE_SECRET);
    relay.env("PULLHOOK_LOG", "trace");
    relay.start();
    let app = App::new().answers(|request| Reply::status(if request.text() == "bad" { 401 } else { 200 }));
    let args = ["-f", &app.target(), "-v", "--print-headers", "--print-body"];
    let listen = relay.listen(&args).env("PULLHOOK_LOG", "trace").env("PULLHOOK_SECRET", LOCAL);
    let mut listen = listen.spawn();
    listen.next("ready");
    for body in ["good", "bad"] {
        assert_eq!(provider(&relay.ingress("gh"), body.as_bytes(), SOURCE_SECRET), 202);
        listen.next("result");
    }
    assert_eq!(provider(&relay.ingress("gh"), b"forged", "guess"), 401);
    let bearer = format!("Bearer {}", PASSED_BY[3]);
    let near =
        send("GET", &format!("{}/v1/events", relay.url()), &[("authorization", &bearer)], b"").unwrap();
    assert_eq!(near.status, 401);
    let heard = listen.stop();
    let key = relay.key.clone();
    let told = relay.run.as_mut().unwrap();
    told.signal(crate::harness::Signal::TERM);
    let told = told.end();
    let mut planted: Vec<String> =
        [SOURCE_SECRET, LOCAL.strip_prefix("whsec_").unwrap()].map(str::to_owned).into();
    planted.extend(PASSED_BY.map(str::to_owned));
    planted.push(key);
    assert!(heard.err.len() > 20 && told.stderr().contains("a webhook was refused"), "the log is loud");
    for (what, lines) in [
        ("serve's stdout", &told.out),
        ("serve's stderr", &told.err),
        ("listen's stdout", &heard.out),
        ("listen's stderr", &heard.err),
    ] {
        assert_absent(what, &lines.join("\n"), &planted);
    }
    let mut kept = Vec::new();
    files(&relay.home.path(""), &mut kept);
    assert!(kept.iter().any(|(name, _)| name.ends_with("relay.db")));
    kept.iter().for_each(|(name, text)| assert_absent(name, text, &planted));
}

#[test]
fn an_embedded_relay_tells_nothing() {
    let home = Home::new();
    home.configure(&format!(
        "[profiles.team]\napi_url = \"http://127.0.0.1:1\"\napi_key = \"{PROFILE_KEY}\"\n"
    ));
    let ingress = home.source("app", "github", "github", &[SOURCE_SECRET]);
    let secret = home.cli(&["listen", "--print-secret"]).run().expect(0).out[0].clone();
    let app = App::new();
    let loud = |args: &[&str]| home.cli(&[args, &["-v"]].concat()).env("PULLHOOK_LOG", "trace");
    let mut host = loud(&["listen", "-f", &app.target()]).spawn();
    host.line("> Ready!");
    let mut joined = loud(&["listen", "--output", "compact"]).spawn();
    joined.says("another listener is open");
    let (admin, key) = (home.relay_json()["key"].as_str().unwrap().to_owned(), home.api("app").key);
    assert_eq!(provider(&ingress, b"{}", SOURCE_SECRET), 202);
    app.got(1);
    until("the ack", || (home.api("app").events()[0]["status"] == "delivered").then_some(()));
    let master = std::fs::read_to_string(home.state().join("relay.master")).unwrap();
    let ring = std::fs::read_to_string(home.state().join("relay.secrets")).unwrap();
    let mut all = vec![
        loud(&["config", "--list", "--profile", "team"]).run(),
        loud(&["sources", "show", "github"]).run(),
        loud(&["events", "list"]).run(),
        loud(&["status"]).run(),
        loud(&["keys", "list"]).run(),
        loud(&["listen", "--profile", "team", "--max-connect-attempts", "1"]).run(),
    ];
    all.extend([joined.stop(), host.stop()]);
    let digits = secret.strip_prefix("whsec_").unwrap().to_owned();
    let planted = [SOURCE_SECRET.to_owned(), PROFILE_KEY.to_owned(), digits, admin, key, master, ring];
    for ended in &all {
        assert_absent("an output", &[ended.out.join("\n"), ended.stderr()].join("\n"), &planted);
    }
    let store = String::from_utf8_lossy(&std::fs::read(home.state().join("relay.db")).unwrap()).into_owned();
    assert_absent("the store", &store, &planted);
}
