//! Version, usage errors, streams.

use std::process::Stdio;

use insta::assert_snapshot;

use crate::harness::Cli;

#[test]
fn version() {
    let cli = Cli::new();
    assert_snapshot!(cli.transcript(&[&["version"], &["version", "--output", "json"], &["--version"]]));
}

#[test]
fn usage_errors_are_one_line_and_exit_2() {
    let cli = Cli::new();
    assert_snapshot!(cli.transcript(&[
        &["versoin"],
        &["version", "--outptu", "json"],
        &["version", "--output", "jsno"],
        &["version", "--output"],
        &["version", "--output", "quiet"],
        &["version", "-j", "--output", "json"],
        &["version", "\u{1b}[31mred"],
        &["version", "--color", "always", "-j", "--output", "quiet"],
    ]));
}

#[test]
fn a_reader_that_went_away_ends_it_cleanly() {
    let cli = Cli::new();
    for args in [["version"].as_slice(), &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let child = cli.command(args).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), b"".as_slice()), "{args:?}");
    }
}

#[test]
fn help() {
    let cli = Cli::new();
    assert_snapshot!(cli.transcript(&[
        &["listen", "--help"],
        &["serve", "--help"],
        &["keys", "--help"],
        &["keys", "create", "--help"],
        &["config", "-h"],
        &["status", "-h"],
    ]));
}
