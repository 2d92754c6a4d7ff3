//! Reads what the checks need out of a page, and out of `--help`.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path, PathBuf};

const START: &str = "<!-- generated: checked by tests/cli/docs.rs -->\n\n";
const END: &str = "\n<!-- end -->\n";

/// What stands before, in and after the generated part.
pub(super) fn generated_part(text: &str) -> Option<(&str, &str, &str)> {
    let start = text.find(START)? + START.len();
    let end = start + text[start..].find(END)?;
    Some((&text[..start], &text[start..end], &text[end..]))
}

/// The lines outside code blocks, and the blocks with their language.
fn split(text: &str) -> (Vec<&str>, Vec<(&str, Vec<&str>)>) {
    let (mut prose, mut blocks) = (Vec::new(), Vec::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        match line.trim_start().strip_prefix("```") {
            Some(language) => {
                let inside =
                    lines.by_ref().take_while(|line| !line.trim_start().starts_with("```")).collect();
                blocks.push((language, inside));
            }
            None => prose.push(line),
        }
    }
    (prose, blocks)
}

/// The target of every `[text](target)`.
pub(super) fn links(text: &str) -> Vec<String> {
    let prose = split(text).0.join("\n");
    let pieces = prose.split("](").skip(1);
    pieces.filter_map(|piece| piece.split_once(')')).map(|(link, _)| link.to_owned()).collect()
}

/// The anchors of the headings, as the usual renderers make them.
pub(super) fn anchors(text: &str) -> BTreeSet<String> {
    let headings = split(text).0.into_iter().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// `a/../b` is `b`.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

/// A `pullhook ...` that a page tells people to type.
#[derive(Debug, PartialEq)]
pub(super) struct Command {
    /// What comes before the first flag and isn't a value.
    pub(super) words: Vec<String>,
    /// The flags, without their values.
    pub(super) flags: Vec<String>,
    line: String,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

/// The commands in a page's `console` and `sh` blocks (in a console, what follows `$ `).
pub(super) fn commands(text: &str) -> Vec<Command> {
    let mut found = Vec::new();
    for (language, lines) in split(text).1 {
        let joined = lines.join("\n").replace("\\\n", " ");
        let typed = joined.lines().filter_map(|line| match language {
            "console" => line.trim_start().strip_prefix("$ "),
            "sh" => Some(line),
            _ => None,
        });
        found.extend(typed.flat_map(pipeline).filter_map(|words| command(&words)));
    }
    found
}

/// The commands of one line as their words: quotes undone, cut at pipes, `&&`, `;`, and a comment.
fn pipeline(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, '|' | ';' | '&') => {
                words.extend(word.take());
                commands.push(std::mem::take(&mut words));
            }
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    commands.push(words);
    commands
}

fn command(words: &[String]) -> Option<Command> {
    let line = words.join(" ");
    let is_assignment = |word: &&String| word.split_once('=').is_some_and(|(name, _)| !name.starts_with('-'));
    let mut words = words.iter().skip_while(is_assignment);
    let program = words.next()?;
    if program == "cargo" && words.any(|word| word == "--") {
        // `cargo run --release -- demo`
    } else if program != "pullhook" {
        return None;
    }
    let own: Vec<&String> = words.take_while(|word| *word != "--" && !word.starts_with('>')).collect();
    let is_flag = |word: &str| word.starts_with('-') && word.len() > 1;
    let flags = own.iter().filter(|word| is_flag(word));
    Some(Command {
        words: own.iter().take_while(|word| !is_flag(word)).map(|word| (*word).clone()).collect(),
        flags: flags.map(|flag| flag.split('=').next().unwrap().to_owned()).collect(),
        line,
    })
}

/// The subcommands that a help text lists.
pub(super) fn subcommands(help: &str) -> Vec<String> {
    let Some((_, rest)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let lines = rest.lines().take_while(|line| !line.is_empty());
    let named = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    named.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The flags that a help text lists, short and long, aliases included when it shows them.
pub(super) fn flags(help: &str) -> BTreeSet<String> {
    let indented = help.lines().filter(|line| line.trim_start().starts_with('-'));
    let words = indented.flat_map(|line| line.split([' ', ',', '=', '[', '.']));
    words.filter(|word| word.starts_with('-')).map(str::to_owned).collect()
}
