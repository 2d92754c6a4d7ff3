//! The parts of the reference that the code writes.

use pullhook::cli::config::keys::{KEYS, Place, Shape};
use pullhook::cli::env::VARIABLES;
use pullhook::cli::exit::Exit;
use pullhook::protocol::error::Code;
use serde_json::Value;

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
