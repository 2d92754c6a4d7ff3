//! `status`: nobody there, an embedded relay, a server of the bare contract.

use insta::assert_snapshot;
use serde_json::json;
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::harness::Cli;

#[test]
fn nobody_hosts() {
    let cli = Cli::new();
    assert_snapshot!(cli.transcript(&[&["status"], &["status", "-j"]]));
}

#[test]
fn somebody_listens() {
    let cli = Cli::new();
    let mut listen = cli.start(&["listen", "-j"]);
    let ready = listen.record("ready");
    let status = &cli.json(&["status", "-j"])[0];
    assert_eq!(status["pid"], listen.pid());
    assert_eq!((status["host"].as_str(), status["ready"].as_bool()), (Some("listen"), Some(true)));
    assert_eq!(status["listeners"][0]["id"], ready["listener_id"]);
    assert_eq!(status["environment"]["slug"], "app");
    let people = String::from_utf8(cli.run(&["status"]).stdout).unwrap();
    assert!(people.contains("listener     whlis_") && people.contains("source       none"), "{people}");
    cli.json(&["sources", "add", "open", "--scheme", "none", "-j"]);
    let people = String::from_utf8(cli.run(&["status"]).stdout).unwrap();
    assert!(people.contains("source       open (none, unverified) http://127.0.0.1:"), "{people}");
    assert_eq!(listen.interrupt(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_the_bare_contract() {
    let server = MockServer::start().await;
    let named = json!({"id": "x", "name": "Shop", "slug": "shop"});
    let key = json!({"id": "key_1", "name": "k", "start": "phk_a", "access": "full", "permissions": []});
    let environment = json!({"object": "environment", "id": "env_1", "name": "Shop", "slug": "shop", "mode": "live",
        "project": named, "organization": named, "api_key": key});
    Mock::given(path("/v1/environment"))
        .respond_with(ResponseTemplate::new(200).set_body_json(environment))
        .mount(&server)
        .await;
    let cli = Cli::new();
    let mut command = cli.command(&["status", "--api-url", &server.uri()]);
    let output = command.env("PULLHOOK_API_KEY", "planted-key-0123456789").output().unwrap();
    let shown = cli.shown(&output).replace(&server.uri(), "[URL]");
    assert!(!shown.contains("planted"));
    assert_snapshot!(shown);
}
