//! The pages: what is generated equals the code, links lead somewhere, commands exist with the flags that are shown.

mod generated;
mod markdown;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use markdown::Command;

use crate::harness::Cli;

/// Rewrites the generated parts instead of comparing them.
const BLESS: &str = "PULLHOOK_BLESS";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every page, by its path below the root.
fn pages() -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root().to_path_buf(), root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && folder != root() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let text = fs::read_to_string(&path).unwrap();
                found.insert(path.strip_prefix(root()).unwrap().to_path_buf(), text);
            }
        }
    }
    assert!(found.contains_key(Path::new("README.md")));
    found
}

/// Compares the page's generated part with `wanted`, or writes it.
#[expect(clippy::disallowed_methods, reason = "asked of the person who runs the tests")]
fn assert_generated(page: &str, wanted: &str) {
    let path = root().join(page);
    let text = fs::read_to_string(&path).unwrap();
    let (before, found, after) =
        markdown::generated_part(&text).unwrap_or_else(|| panic!("{page}: no markers"));
    if found == wanted {
        return;
    }
    if std::env::var_os(BLESS).is_some() {
        fs::write(&path, format!("{before}{wanted}{after}")).unwrap();
        return;
    }
    let differs = wanted.lines().zip(found.lines()).find(|(wanted, found)| wanted != found);
    panic!(
        "{page} is not what the code says; refresh it with {BLESS}=1 cargo test --test cli docs\n{}",
        differs.map_or_else(String::new, |(wanted, found)| format!("page: {found}\ncode: {wanted}"))
    );
}

#[test]
fn the_exit_codes_are_those_of_the_code() {
    assert_generated("docs/reference/exit-codes.md", &generated::exit_codes());
}

#[test]
fn the_error_codes_are_those_of_the_wire() {
    assert_generated("docs/reference/errors.md", &generated::errors());
}

#[test]
fn the_variables_are_those_that_are_read() {
    assert_generated("docs/reference/environment.md", &generated::variables());
}

#[test]
fn the_settings_are_those_that_are_known() {
    assert_generated("docs/reference/configuration.md", &generated::settings());
}

#[test]
fn the_routes_are_those_of_the_relay() {
    assert_generated("docs/reference/http-api.md", &generated::routes());
}

#[test]
fn the_command_line_is_what_help_says() {
    let cli = Cli::new();
    let help = |words: &[&str]| {
        let output = cli.run(&[words, &["--help"]].concat());
        assert!(output.status.success(), "{words:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_generated("docs/reference/cli.md", &generated::command_line(&help));
}

#[test]
fn links_lead_somewhere() {
    let pages = pages();
    let mut broken = Vec::new();
    for (page, text) in &pages {
        for link in markdown::links(text).iter().filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let path = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let path = markdown::normal(&path);
            let leads = root().join(&path).exists();
            let anchored = anchor.is_empty()
                || pages.get(&path).is_some_and(|text| markdown::anchors(text).contains(anchor));
            if !leads || !anchored {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn every_page_is_linked_from_the_readme() {
    let pages = pages();
    let readme = &pages[Path::new("README.md")];
    let linked: Vec<PathBuf> =
        markdown::links(readme).iter().map(|link| markdown::normal(Path::new(link))).collect();
    let lost: Vec<_> =
        pages.keys().filter(|page| page.starts_with("docs") && !linked.contains(page)).collect();
    assert_eq!(lost, Vec::<&PathBuf>::new());
}

#[test]
fn commands_exist_with_the_flags_that_are_shown() {
    let cli = Cli::new();
    let mut helps: BTreeMap<Vec<String>, Option<String>> = BTreeMap::new();
    let mut help = |words: &[String]| {
        let run = || {
            let output = cli.run(&words.iter().map(String::as_str).chain(["--help"]).collect::<Vec<_>>());
            output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
        };
        helps.entry(words.to_vec()).or_insert_with(run).clone()
    };
    let mut wrong = Vec::new();
    for (page, text) in pages() {
        for command in markdown::commands(&text) {
            let problems = problems(&command, &mut help);
            wrong.extend(problems.iter().map(|problem| format!("{}: {problem}: {command}", page.display())));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// What `--help` doesn't know of a command.
fn problems(command: &Command, help: &mut dyn FnMut(&[String]) -> Option<String>) -> Vec<String> {
    let mut words = Vec::new();
    let mut text = help(&words).unwrap();
    for word in command.words.iter().take(2) {
        if !markdown::subcommands(&text).contains(word) {
            break;
        }
        words.push(word.clone());
        let Some(deeper) = help(&words) else { return vec![format!("no help for {words:?}")] };
        text = deeper;
    }
    if words.is_empty() && !command.words.is_empty() {
        return vec!["no such command".to_owned()];
    }
    let known = markdown::flags(&text);
    let unknown = command.flags.iter().filter(|flag| !known.contains(*flag));
    unknown.map(|flag| format!("no flag {flag}")).collect()
}

#[test]
fn a_command_that_is_not_there_would_be_noticed() {
    let page = "```console\n$ pullhook listne 3000\n$ PULLHOOK_LOG=x pullhook version --jsno | jq .\n```\n";
    let cli = Cli::new();
    let mut help = |words: &[String]| {
        let output = cli.run(&words.iter().map(String::as_str).chain(["--help"]).collect::<Vec<_>>());
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    };
    let found: Vec<_> =
        markdown::commands(page).iter().flat_map(|command| problems(command, &mut help)).collect();
    assert_eq!(found, ["no such command", "no flag --jsno"]);
}
