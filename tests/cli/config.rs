//! Settings: where each value came from, and what is wrong with them.

use insta::assert_snapshot;

use crate::harness::Cli;

#[test]
fn each_value_with_where_it_came_from() {
    let cli = Cli::new();
    cli.write_config(
        "[profiles.work]\napi_url = 'https://relay.example.com'\napi_key = 'phk_planted_0123456789'\n",
    );
    cli.write("pullhook.toml", "profile = 'work'\nforward_to = '3000'\nevents = ['a.*', 'b']\n");
    let mut command = cli.command(&["config", "--list", "--api-url", "http://127.0.0.1:9"]);
    command.env("PULLHOOK_SECRET", "whsec_planted0123456789planted0123456789planted");
    let output = command.output().unwrap();
    assert_snapshot!(cli.shown(&output));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("0123456789"), "a secret is masked");
    assert_snapshot!(cli.transcript(&[&["config", "--list", "-j"]]));
}

#[test]
fn what_is_wrong_is_said_at_once() {
    let cli = Cli::new();
    cli.write("pullhook.toml", "api_url = 'http://x'\nfoward_to = '3000'\nordered = 1\n");
    assert_snapshot!(cli.transcript(&[
        &["config", "--list"],
        &["config"],
        &["config", "--list", "--project", "nowhere"],
        &["config", "--list", "--profile", "work"],
    ]));
}
