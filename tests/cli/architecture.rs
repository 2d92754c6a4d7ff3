//! The dependency direction and the house rules, read off `src/`: a forbidden edge fails here.

mod rust;

use std::fs;
use std::path::Path;

use rust::Source;

/// Files of this many lines are to be split.
const MAX_LINES: usize = 500;

/// Values without I/O.
const DOMAIN: &[&str] =
    &["clock", "event", "filter", "glob", "headers", "id", "json", "retry", "secret", "signature", "target"];
/// The values that the rest of the domain is made of.
const SMALL: &[&str] = &["clock", "glob", "headers", "id", "json", "retry", "secret"];

/// Which other top-level modules each one may use.
fn may_use(module: &str) -> Option<Vec<&'static str>> {
    let domain_and = |more: &[&'static str]| Some([DOMAIN, more].concat());
    match module {
        _ if SMALL.contains(&module) => Some(SMALL.to_vec()),
        _ if DOMAIN.contains(&module) => Some(SMALL.to_vec()),
        "protocol" => Some(SMALL.to_vec()),
        "system" | "http" | "wake" => domain_and(&[]),
        "store" | "stream" => domain_and(&["store", "stream", "wake"]),
        "providers" => domain_and(&["protocol"]),
        "listen" | "client" => domain_and(&["protocol", "http"]),
        // Its builder falls back on the real clock and dice.
        "relay" => domain_and(&["protocol", "http", "store", "stream", "system", "wake"]),
        "testing" => {
            domain_and(&["protocol", "http", "listen", "client", "relay", "providers", "store", "system"])
        }
        "cli" | "main" => None,
        _ => Some(Vec::new()),
    }
}

/// Something that only some files may do.
struct Rule {
    what: &'static str,
    forbidden: fn(&[&str]) -> bool,
    allowed: fn(&str) -> bool,
}

const RULES: &[Rule] = &[
    Rule {
        what: "environment variables are read in cli/env.rs only",
        forbidden: |path| {
            matches!(path, [.., "env", "var" | "var_os" | "vars" | "vars_os" | "set_var" | "remove_var"])
        },
        allowed: |file| file == "cli/env.rs",
    },
    Rule {
        what: "printing is for cli/output and cli/render",
        forbidden: |path| {
            matches!(path, [.., "print!" | "println!" | "eprint!" | "eprintln!" | "dbg!"])
                || matches!(path, [.., "io", "stdout" | "stderr" | "Stdout" | "Stderr"])
        },
        allowed: |file| ["cli/output", "cli/render"].iter().any(|dir| file.starts_with(dir)),
    },
    Rule {
        what: "HTTP clients are built in http only",
        forbidden: |path| {
            matches!(path, ["reqwest", "ClientBuilder" | "get" | "blocking", ..])
                || matches!(path, ["reqwest", "Client", "new" | "builder", ..])
                || matches!(path, ["hyper" | "hyper_util", "client", ..])
        },
        allowed: |file| in_module(file, "http"),
    },
    Rule {
        what: "databases are opened in store only",
        forbidden: |path| {
            matches!(path, ["rusqlite" | "postgres" | "tokio_postgres" | "postgres_rustls", ..])
        },
        allowed: |file| in_module(file, "store"),
    },
    Rule {
        what: "the real clock and dice are in system.rs only",
        forbidden: |path| matches!(path, [.., "SystemTime", "now"]) || matches!(path, ["rand", ..]),
        allowed: |file| file == "system.rs",
    },
    Rule {
        what: "the domain does no I/O and knows no runtime",
        forbidden: |path| {
            matches!(
                path,
                ["tokio" | "tokio_util" | "reqwest" | "hyper" | "hyper_util" | "axum" | "rusqlite", ..]
            ) || matches!(path, ["std", "fs" | "process" | "thread" | "env", ..])
                || matches!(
                    path,
                    [.., "TcpStream" | "TcpListener" | "UdpSocket" | "ToSocketAddrs" | "UnixStream"]
                )
                || matches!(path, [.., "Instant", "now"])
        },
        allowed: |file| !DOMAIN.iter().chain(&["protocol"]).any(|module| in_module(file, module)),
    },
];

/// How SQL starts.
const SQL: &[&str] = &[
    "SELECT ",
    "INSERT INTO ",
    "UPDATE ",
    "DELETE FROM ",
    "CREATE TABLE ",
    "CREATE INDEX ",
    "CREATE UNIQUE ",
    "ALTER TABLE ",
    "DROP TABLE ",
    "PRAGMA ",
    "BEGIN IMMEDIATE",
    "WITH ",
    "LISTEN ",
    "NOTIFY ",
];

fn in_module(file: &str, module: &str) -> bool {
    let rest = file.strip_prefix(module);
    rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

fn is_test(file: &str) -> bool {
    file.ends_with("/tests.rs") || file.contains("/tests/")
}

/// A file's place in the module tree: `listen/gate.rs` is `listen::gate`, `lib.rs` the root.
fn module_path(file: &str) -> Vec<&str> {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    if stem == "lib" { Vec::new() } else { stem.split('/').collect() }
}

/// The top-level module that a path leads to, when it leads to one of ours.
fn leads_to<'a>(file: &str, path: &[&'a str]) -> Option<&'a str> {
    let from_root = match path {
        ["crate" | "pullhook", rest @ ..] => rest,
        ["super", ..] => {
            let ups = path.iter().take_while(|name| **name == "super").count();
            if ups != module_path(file).len() {
                return None;
            }
            &path[ups..]
        }
        _ => return None,
    };
    from_root.first().copied().filter(|name| name.starts_with(|c: char| c.is_lowercase()))
}

/// What is wrong in one file of `src/`.
fn violations(file: &str, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if !text.starts_with("//! ") {
        wrong.push(format!("{file}: the first line does not say what it is responsible for (`//! ...`)"));
    }
    let lines = text.lines().count();
    if lines > MAX_LINES {
        wrong.push(format!("{file}: {lines} lines; split it before {MAX_LINES}"));
    }
    if is_test(file) {
        return wrong;
    }
    let source = Source::of(text);
    let module = module_path(file).first().copied().unwrap_or("main");
    for (line, path) in &source.paths {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let target = leads_to(file, &path).filter(|target| *target != module && !target.ends_with('!'));
        if let Some(target) = target
            && may_use(module).is_some_and(|allowed| !allowed.contains(&target))
        {
            wrong.push(format!("{file}:{line}: `{module}` may not use `{target}`"));
        }
        let broken = RULES.iter().filter(|rule| (rule.forbidden)(&path) && !(rule.allowed)(file));
        wrong.extend(broken.map(|rule| format!("{file}:{line}: `{}`: {}", path.join("::"), rule.what)));
    }
    let sql = |text: &str| SQL.iter().any(|start| text.trim_start().starts_with(start));
    if !in_module(file, "store") {
        let found = source.texts.iter().filter(|(_, text)| sql(text));
        wrong.extend(found.map(|(line, text)| format!("{file}:{line}: SQL outside of store: {text:.40}")));
    }
    wrong
}

/// What the table at the top of lib.rs leaves out.
fn missing_in_table(lib: &str) -> Vec<String> {
    let table: String = lib.lines().filter(|line| line.starts_with("//! |")).collect();
    let modules = lib.lines().filter_map(|line| {
        let line = line.trim_start_matches("pub ").strip_prefix("mod ")?;
        line.strip_suffix(';')
    });
    let missing = modules.filter(|module| !table.contains(&format!("`{module}`")));
    missing.map(|module| format!("lib.rs: the table of modules leaves out `{module}`")).collect()
}

/// Every Rust file below `dir`, with its path relative to `root`, in order.
fn files(root: &Path, dir: &Path) -> Vec<(String, String)> {
    let mut entries: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let mut found = Vec::new();
    for path in entries {
        if path.is_dir() {
            found.extend(files(root, &path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    found
}

fn in_the_tree(dir: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir);
    files(&root, &root)
}

#[test]
fn the_sources_keep_the_dependency_direction_and_the_house_rules() {
    let sources = in_the_tree("src");
    assert!(sources.len() > 20, "the sources were not found");
    let mut wrong: Vec<String> = sources.iter().flat_map(|(file, text)| violations(file, text)).collect();
    let lib = sources.iter().find(|(file, _)| file == "lib.rs").unwrap();
    wrong.extend(missing_in_table(&lib.1));
    assert!(wrong.is_empty(), "{} broken rules:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_tests_are_files_of_a_readable_size_that_say_what_they_are_about() {
    let long = in_the_tree("tests").into_iter().filter_map(|(file, text)| {
        let lines = text.lines().count();
        (lines > MAX_LINES || !text.starts_with("//! ")).then(|| format!("{file}: {lines} lines"))
    });
    assert_eq!(long.collect::<Vec<_>>(), Vec::<String>::new());
}

/// What is said about a sample, without its place.
fn said(file: &str, code: &str) -> Vec<String> {
    let wrong = violations(file, &format!("//! A sample.\n{code}\n"));
    let mut said: Vec<_> =
        wrong.into_iter().map(|text| text.split_once(": ").unwrap().1.to_owned()).collect();
    said.dedup();
    said
}

#[test]
fn a_forbidden_edge_is_reported_however_it_is_written() {
    for (file, code, module, target) in [
        ("listen/poll.rs", "use crate::relay::Relay;", "listen", "relay"),
        ("relay/mod.rs", "use crate::{clock::Clock, listen::{self, Event}};", "relay", "listen"),
        ("relay/api/mod.rs", "fn f() { crate::listen::run() }", "relay", "listen"),
        ("listen/poll.rs", "use super::super::relay;", "listen", "relay"),
        ("listen/mod.rs", "use super::cli::exit::Exit;", "listen", "cli"),
        ("listen.rs", "pub use super::store;", "listen", "store"),
        ("store/rows.rs", "use crate::relay::ingress;", "store", "relay"),
        ("store/rows.rs", "use crate::protocol::events;", "store", "protocol"),
        ("protocol/events.rs", "use crate::signature::Scheme;", "protocol", "signature"),
        ("protocol/events.rs", "use crate::http;", "protocol", "http"),
        ("clock.rs", "use crate::system::SystemClock;", "clock", "system"),
        ("filter/mod.rs", "use crate::target::Target;", "filter", "target"),
        ("client.rs", "use crate::cli::env::Env;", "client", "cli"),
        ("providers/github.rs", "use crate::relay;", "providers", "relay"),
        ("newcomer.rs", "use crate::clock;", "newcomer", "clock"),
        ("wake.rs", "impl From<crate::store::Error> for Gone {}", "wake", "store"),
    ] {
        assert_eq!(said(file, code), [format!("`{module}` may not use `{target}`")], "{file}: {code}");
    }
}

#[test]
fn a_broken_house_rule_is_reported() {
    for (file, code, why) in [
        (
            "cli/config.rs",
            "fn f() { std::env::var(\"X\"); }",
            "environment variables are read in cli/env.rs only",
        ),
        ("relay/mod.rs", "use std::{env::{vars}};", "environment variables are read in cli/env.rs only"),
        ("listen/mod.rs", "fn f() { println!(\"x\") }", "printing is for cli/output and cli/render"),
        ("cli/status.rs", "fn f() { std::eprintln! {\"x\"} }", "printing is for cli/output and cli/render"),
        ("cli/mod.rs", "fn f() { io::stdout().lock(); }", "printing is for cli/output and cli/render"),
        ("listen/forward.rs", "fn f() { reqwest::Client::builder() }", "HTTP clients are built in http only"),
        ("relay/drain.rs", "use hyper::client::conn::http1;", "HTTP clients are built in http only"),
        ("relay/mod.rs", "use rusqlite::Connection;", "databases are opened in store only"),
        ("relay/mod.rs", "fn f() { rand::rng() }", "the real clock and dice are in system.rs only"),
        (
            "target/mod.rs",
            "use std::net::{IpAddr, TcpStream};",
            "the domain does no I/O and knows no runtime",
        ),
        ("signature/key.rs", "use std::fs;", "the domain does no I/O and knows no runtime"),
        (
            "clock.rs",
            "async fn f() { tokio::time::sleep(x).await }",
            "the domain does no I/O and knows no runtime",
        ),
        ("relay/mod.rs", "const Q: &str = \"SELECT 1 FROM x\";", "SQL outside of store"),
        ("cli/keys.rs", "const Q: &str = r#\"\n  DELETE FROM key\"#;", "SQL outside of store"),
    ] {
        let said = said(file, code);
        assert!(said.len() == 1 && said[0].contains(why), "{file}: {code}: {said:?}");
    }
}

#[test]
fn what_only_looks_like_a_breach_is_none() {
    let code = r##"
        /* crate::relay /* println!() */ std::env::var */
        use crate::{clock::Clock, http::{self as web, relay_client}, protocol::listeners};
        // use crate::relay::Relay;
        /// Never `println!`; see [`crate::relay`].
        fn f<'a>(text: &'a str, quote: char) -> bool {
            let quiet = quote == '"' || quote == '\'' || text != "std::env::var println!";
            super::gate::open(r#"use crate::relay; " "#, b"crate::cli", env!("CARGO_PKG_VERSION"));
            super::super::listen::gate::closed(crate::cli!(), "SELECTED for you");
            quiet
        }
        #[cfg(test)]
        mod tests {
            use crate::relay::Relay;
            fn f() { println!("{}", "}") }
        }
    "##;
    assert_eq!(said("listen/forward.rs", code), Vec::<String>::new());
    assert_eq!(said("listen/tests.rs", "use crate::relay::Relay;"), Vec::<String>::new());
    let after = format!("{code}\nuse crate::relay;");
    assert_eq!(said("listen/forward.rs", &after).len(), 1, "what follows the tests counts");
}

#[test]
fn size_first_line_and_table_are_reported() {
    let long = format!("//! Long.\n{}", "\n".repeat(MAX_LINES));
    assert_eq!(violations("relay/mod.rs", &long).len(), 1);
    assert_eq!(violations("relay/tests.rs", "use x::y;\n").len(), 1);
    let lib = "//! | module | owns |\n//! | [`clock`], `json` | values |\n\npub mod clock;\nmod json;\n";
    assert_eq!(missing_in_table(lib), Vec::<String>::new());
    assert_eq!(missing_in_table(&format!("{lib}pub mod relay;\n")).len(), 1);
}
