//! Keys: made, listed and revoked on this machine's own relay and on a named store.

use insta::assert_snapshot;

use crate::harness::Cli;

#[test]
fn a_key_is_shown_once() {
    let cli = Cli::new();
    let created = cli.run(&["keys", "create", "--name", "ci", "-q"]);
    let key = String::from_utf8(created.stdout).unwrap();
    assert!(key.starts_with("phk_") && key.ends_with('\n') && key.lines().count() == 1, "{key:?}");
    assert_eq!(String::from_utf8_lossy(&created.stderr), "");
    let listed = cli.json(&["keys", "list", "-j"]);
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (listed[0]["name"].as_str(), listed[0]["environment"].as_str()),
        (Some("ci"), Some("default"))
    );
    assert_eq!(listed[0].get("key"), None);
    let id = listed[0]["id"].as_str().unwrap();
    assert_eq!(cli.json(&["keys", "revoke", id, "--output", "json"])[0]["deleted"], true);
    assert_eq!(cli.run(&["keys", "revoke", id]).status.code(), Some(12));
}

#[test]
fn a_named_store_is_another_one() {
    let cli = Cli::new();
    let store = ["--store", "sqlite:other.db"];
    let created = cli.json(&[&["keys", "create", "--env", "prod", "-j"], store.as_slice()].concat());
    assert_eq!(created[0]["environment"], "prod");
    assert_eq!(cli.json(&[&["keys", "list", "--env", "prod", "-j"], store.as_slice()].concat()).len(), 1);
    assert_eq!(cli.json(&["keys", "list", "-j"]).len(), 0);
}

#[test]
fn a_mistyped_store_is_not_made() {
    let cli = Cli::new();
    assert_snapshot!(cli.transcript(&[
        &["keys", "list", "--store", "sqlite:typo.db"],
        &["keys", "revoke", "key_1", "--store", "sqlite:typo.db"],
        // Still not there.
        &["keys", "list", "--store", "sqlite:typo.db"],
    ]));
    cli.json(&["keys", "create", "-j", "--store", "sqlite:typo.db"]);
    assert_eq!(cli.json(&["keys", "list", "-j", "--store", "sqlite:typo.db"]).len(), 1);
}

#[test]
fn keys_of_the_environment_that_are_not_used_are_named() {
    let cli = Cli::new();
    let warned = |key: &str| {
        let mut command = cli.command(&["keys", "list"]);
        command.env("PULLHOOK_SECRETS_KEY", key);
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    let stderr = warned("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=");
    assert!(stderr.contains("PULLHOOK_SECRETS_KEY is not used"), "{stderr}");
    assert!(!stderr.contains("MDEy"), "{stderr}");
    let quiet = cli.run(&["keys", "list"]);
    assert!(!String::from_utf8(quiet.stderr).unwrap().contains("PULLHOOK_SECRETS_KEY"));
}

#[test]
fn bad_input() {
    let cli = Cli::new();
    assert_snapshot!(cli.transcript(&[
        &["keys", "create", "--env", "No Such"],
        &["keys", "create", "--name", " "],
        &["keys", "revoke"],
        &["keys", "revoke", "nothing"],
        &["keys", "list", "--store", "mysql://u:planted@h/d"],
        &["keys", "list", "--store", "postgres://u:planted@127.0.0.1:1/d"],
        &["keys", "list", "--api-url", "http://127.0.0.1:1"],
        &["keys", "list", "--output", "compact"],
    ]));
}
