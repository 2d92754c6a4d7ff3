//! The parts of the reference that the code writes.

use std::fmt::Write;

use pullhook::cli::config::keys::{KEYS, Place, Shape};
use pullhook::cli::env::VARIABLES;
use pullhook::cli::exit::Exit;
use pullhook::protocol::error::Code;
use serde_json::Value;

use super::markdown;

/// A table; `|` in a cell is escaped.
fn table(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
    let mut text = line(&heads) + &line(&vec!["---".to_owned(); heads.len()]);
    for row in rows {
        text.push_str(&line(&row.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>()));
    }
    text
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

pub(super) fn exit_codes() -> String {
    table(
        &["code", "meaning"],
        Exit::ALL.iter().map(|exit| vec![exit.code().to_string(), exit.about().to_owned()]),
    )
}

pub(super) fn errors() -> String {
    let row = |error: &Code| {
        vec![code(error.text()), error.status().to_string(), code(error.kind()), error.about().to_owned()]
    };
    table(&["code", "status", "type", "when"], Code::ALL.iter().map(row))
}

pub(super) fn variables() -> String {
    let rows = VARIABLES.iter().map(|variable| vec![code(variable.name), variable.about.to_owned()]);
    table(&["variable", "what it does"], rows)
}

pub(super) fn settings() -> String {
    let shape = |shape| match shape {
        Shape::Text => "text",
        Shape::Secret => "secret",
        Shape::List => "list",
        Shape::Switch => "true or false",
        Shape::Number => "number",
    };
    let place = |place| match place {
        Place::ProjectAndProfile => "`pullhook.toml`, profile",
        Place::ProfileOnly => "profile",
        Place::ProjectOnly => "`pullhook.toml`",
        Place::ProjectAndTop => "`pullhook.toml`, top of `config.toml`",
        Place::TopOnly => "top of `config.toml`",
        Place::Nowhere => "in no file",
    };
    let rows = KEYS.iter().map(|key| {
        let optional = |text: Option<&str>| text.map_or_else(String::new, code);
        vec![
            code(key.name),
            shape(key.shape).to_owned(),
            place(key.place).to_owned(),
            optional(key.flag),
            optional(key.variable),
            optional(key.default),
            key.about.to_owned(),
        ]
    });
    table(&["setting", "value", "where", "flag", "variable", "default", "what it does"], rows)
}

pub(super) fn routes() -> String {
    let document: Value = serde_json::from_str(&pullhook::relay::openapi().unwrap()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let rows = paths.iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().iter().map(move |(method, operation)| {
            let about =
                operation["summary"].as_str().unwrap_or_else(|| panic!("{method} {path} has no summary"));
            vec![code(&format!("{} {path}", method.to_uppercase())), about.trim_end_matches('.').to_owned()]
        })
    });
    table(&["route", "what it does"], rows)
}

/// The help of every command, each below its own heading.
pub(super) fn command_line(help: &dyn Fn(&[&str]) -> String) -> String {
    let mut text = String::new();
    section(&mut text, help, &[]);
    text
}

fn section(text: &mut String, help: &dyn Fn(&[&str]) -> String, words: &[&str]) {
    let own = help(words);
    let level = "#".repeat(2.max(words.len() + 1));
    let name = [&["pullhook"], words].concat().join(" ");
    let shown = if words.is_empty() { own.clone() } else { without_globals(&own) };
    let shown: Vec<&str> = shown.trim_end().lines().map(str::trim_end).collect();
    let _ = write!(text, "{level} `{name}`\n\n```text\n{}\n```\n\n", shown.join("\n"));
    for subcommand in markdown::subcommands(&own) {
        section(text, help, &[words, &[&subcommand]].concat());
    }
}

/// A help text without the flags that every command takes: they are shown once, at the top.
fn without_globals(help: &str) -> String {
    let Some((before, rest)) = help.split_once("\nGlobal options:\n") else { return help.to_owned() };
    let after = rest.lines().skip_while(|line| line.is_empty() || line.starts_with(' '));
    [before, &after.collect::<Vec<_>>().join("\n")].join("\n")
}
