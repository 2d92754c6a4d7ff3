//! Sources: added, listed, shown, rotated, removed; what is wrong is said, and no secret ever is.

use insta::assert_snapshot;
use serde_json::json;

use crate::harness::Cli;

/// In the variables below, and nowhere else.
const PLANTED: &str = "planted";

fn cli() -> Cli {
    let mut cli = Cli::new();
    cli.set("GITHUB_SECRET", "planted-github-secret");
    cli.set("NEW_SECRET", "planted-new-secret");
    cli.set("BLANK", " ");
    cli.set("PREFIXED", "v1,whsec_cGxhbnRlZC1wbGFudGVkLXBsYW50ZWQ=");
    cli.set("BROKEN", "whsec_planted!");
    cli.write("secret.txt", "planted-in-a-file\n");
    cli.write("empty.txt", "\n");
    cli
}

#[test]
fn a_source_from_its_first_to_its_last_day() {
    let cli = cli();
    let story = cli.story(&[
        &["sources", "list"],
        &["sources", "list", "-j"],
        &["sources", "add", "github", "--scheme", "github", "--secret-env", "GITHUB_SECRET"],
        &["sources", "add", "raw", "--scheme", "none"],
        &[
            "sources",
            "add",
            "small",
            "--scheme",
            "github",
            "--secret-file",
            "secret.txt",
            "--max-body-bytes",
            "1000",
            "--dedupe",
            "drop",
            "--public-url",
            "https://hooks.example.com/gh",
            "-j",
        ],
        &["sources", "list"],
        &["sources", "list", "-j"],
        &["sources", "show", "small"],
        &["sources", "rotate", "github", "--secret-env", "NEW_SECRET"],
        &["sources", "remove", "raw"],
        &["sources", "remove", "small", "-j"],
        &["sources", "list"],
        &["sources", "show", "raw"],
    ]);
    assert!(!story.contains(PLANTED), "{story}");
    assert_snapshot!(story);
}

#[test]
fn an_id_is_as_good_as_a_name() {
    let cli = cli();
    let id = cli.json(&["sources", "add", "raw", "--scheme", "none", "-j"])[0]["id"].clone();
    let id = id.as_str().unwrap();
    assert_eq!(cli.json(&["sources", "show", id, "-j"])[0]["name"], "raw");
    assert_eq!(
        cli.json(&["sources", "remove", id, "-j"]),
        [json!({"object": "source", "id": id, "deleted": true})]
    );
}

#[test]
fn another_project_has_its_own() {
    let cli = cli();
    cli.json(&["sources", "add", "raw", "--scheme", "none", "-j"]);
    let other = cli.folder("other");
    let output = cli
        .command(&["sources", "add", "raw", "--scheme", "none", "-j"])
        .current_dir(&other)
        .output()
        .unwrap();
    let made: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(made["name"], "raw");
    assert_ne!(made["ingress_url"], cli.json(&["sources", "show", "raw", "-j"])[0]["ingress_url"]);
}

#[test]
fn bad_input() {
    let cli = cli();
    cli.json(&["sources", "add", "taken", "--scheme", "none", "-j"]);
    let github = |rest: &[&'static str]| [&["sources", "add", "github", "--scheme", "github"], rest].concat();
    let story = cli.story(&[
        &["sources", "add"],
        &["sources", "add", "github"],
        &["sources", "add", "", "--scheme", "none"],
        &["sources", "add", "Git Hub", "--scheme", "none"],
        &["sources", "add", "taken", "--scheme", "none"],
        &["sources", "add", "github", "--scheme", "githib"],
        &["sources", "add", "github", "--scheme", ""],
        &github(&[]),
        &github(&["--secret-env", "NOT_SET"]),
        &github(&["--secret-env", "BLANK"]),
        &github(&["--secret-env", "planted-in-the-wrong-place"]),
        &github(&["--secret-file", "nowhere.txt"]),
        &github(&["--secret-file", "empty.txt"]),
        &github(&["--secret-env", "GITHUB_SECRET", "--dedupe", "maybe"]),
        &github(&["--secret-env", "GITHUB_SECRET", "--max-body-bytes", "0"]),
        &github(&["--secret-env", "GITHUB_SECRET", "--max-body-bytes", "1MB"]),
        &github(&["--secret-env", "GITHUB_SECRET", "--public-url", "ftp://x"]),
        &github(&["--secret-env", "GITHUB_SECRET", "--output", "compact"]),
        &["sources", "add", "sw", "--scheme", "standard-webhooks", "--secret-env", "PREFIXED"],
        &["sources", "add", "sw", "--scheme", "standard-webhooks", "--secret-env", "BROKEN"],
        &["sources", "add", "raw", "--scheme", "none", "--secret-env", "GITHUB_SECRET"],
        &["sources", "show"],
        &["sources", "show", ""],
        &["sources", "show", "nobody"],
        &["sources", "show", ".."],
        &["sources", "remove", "nobody"],
        &["sources", "remove", "../events"],
        &["sources", "rotate", "nobody", "--secret-env", "GITHUB_SECRET"],
        &["sources", "rotate", "taken"],
        &["sources", "rotate", "taken", "--secret-env", "GITHUB_SECRET"],
        &["sources", "list", "--api-url", "http://127.0.0.1:1"],
    ]);
    let said = story.lines().filter(|line| !line.starts_with('$')).collect::<Vec<_>>().join("\n");
    assert!(!said.contains(PLANTED), "{said}");
    assert_snapshot!(story);
    assert_eq!(cli.json(&["sources", "list", "-j"]).len(), 1, "nothing was made by the way");
}

#[test]
fn nobody_answers() {
    let mut cli = cli();
    cli.set("PULLHOOK_API_KEY", "planted-api-key");
    let story = cli.story(&[&["sources", "list", "--api-url", "http://127.0.0.1:1"]]);
    assert!(!story.contains(PLANTED), "{story}");
    assert_snapshot!(story);
}
