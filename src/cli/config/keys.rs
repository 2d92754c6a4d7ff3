//! Every setting there is, as a table: its name, shape, flag, variable, and where it may stand.

use crate::cli::env;
use crate::secret::Secret;

/// What a setting's value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A text.
    Text,
    /// A text that is never shown.
    Secret,
    /// Texts; a single one may stand without brackets.
    List,
    /// `true` or `false`.
    Switch,
    /// A whole number.
    Number,
}

/// Where a setting may stand, besides its flag and its variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In `pullhook.toml` and in a profile.
    ProjectAndProfile,
    /// In a profile only: `pullhook.toml` comes with a cloned repository and isn't trusted with it.
    ProfileOnly,
    /// In `pullhook.toml` only.
    ProjectOnly,
    /// At the top of `config.toml` and in `pullhook.toml`.
    ProjectAndTop,
    /// At the top of `config.toml` only.
    TopOnly,
    /// In no file: secrets that only the environment brings.
    Nowhere,
}

/// One setting.
#[derive(Debug)]
pub struct Key {
    /// Its name in files; its flag has dashes instead of underscores.
    pub name: &'static str,
    /// Its shape.
    pub shape: Shape,
    /// Its flag, if it has one.
    pub flag: Option<&'static str>,
    /// Its environment variable, if it has one.
    pub variable: Option<&'static str>,
    /// The files that may hold it.
    pub place: Place,
    /// What holds when nothing says, as people read it.
    pub default: Option<&'static str>,
    /// What it does.
    pub about: &'static str,
}

impl Key {
    /// The setting of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }
}

const fn key(name: &'static str, shape: Shape, place: Place, about: &'static str) -> Key {
    Key { name, shape, flag: None, variable: None, place, default: None, about }
}

impl Key {
    const fn flag(mut self, flag: &'static str) -> Self {
        self.flag = Some(flag);
        self
    }

    const fn variable(mut self, variable: &'static str) -> Self {
        self.variable = Some(variable);
        self
    }

    const fn default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }
}

/// All of them, in the order in which `config --list` shows them.
pub static KEYS: &[Key] = &[
    key("profile", Shape::Text, Place::ProjectAndTop, "the profile to use")
        .flag("--profile")
        .variable(env::PROFILE)
        .default("default"),
    key("api_url", Shape::Text, Place::ProfileOnly, "the relay")
        .flag("--api-url")
        .variable(env::API_URL)
        .default("embedded"),
    key("api_key", Shape::Secret, Place::ProfileOnly, "the key for the profile's relay")
        .variable(env::API_KEY),
    key(
        "relay_port",
        Shape::Number,
        Place::TopOnly,
        "the embedded relay's port; 0 = any that is free, then remembered",
    ),
    key("secret", Shape::Secret, Place::Nowhere, "the local signing secret").variable(env::SECRET),
    key("forward_to", Shape::Text, Place::ProjectAndProfile, "the target")
        .flag("--forward-to")
        .variable(env::FORWARD_TO),
    key("route", Shape::List, Place::ProjectAndProfile, "further targets by source or type").flag("--route"),
    key("source", Shape::List, Place::ProjectAndProfile, "sources to listen to").flag("--source"),
    key("events", Shape::List, Place::ProjectAndProfile, "event types to forward").flag("--events"),
    key("exclude", Shape::List, Place::ProjectAndProfile, "event types to skip").flag("--exclude"),
    key("filter", Shape::List, Place::ProjectAndProfile, "what an event must say to be forwarded")
        .flag("--filter"),
    key(
        "append_path",
        Shape::Switch,
        Place::ProjectAndProfile,
        "join the path below the source to the target's",
    )
    .flag("--append-path")
    .default("false"),
    key("ordered", Shape::Switch, Place::ProjectAndProfile, "one POST at a time per source")
        .flag("--ordered")
        .default("false"),
    key("max_in_flight", Shape::Number, Place::ProjectAndProfile, "POSTs open at once")
        .flag("--max-in-flight")
        .default("10"),
    key("timeout", Shape::Text, Place::ProjectAndProfile, "how long the app may take; 0 = for ever")
        .flag("--timeout")
        .default("30s"),
    key("env_file", Shape::Text, Place::ProjectAndProfile, "where the app reads the local secret")
        .flag("--env-file"),
    key("env_name", Shape::Text, Place::ProjectAndProfile, "the secret's name in that file")
        .flag("--env-name"),
    key("allow_remote", Shape::Switch, Place::ProfileOnly, "forward to another machine")
        .flag("--allow-remote")
        .default("false"),
    key("skip_verify", Shape::Switch, Place::ProfileOnly, "take any certificate of the target")
        .flag("--skip-verify")
        .default("false"),
    key("ca", Shape::Text, Place::ProfileOnly, "a certificate to trust for the target").flag("--ca"),
];

/// A setting's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A secret.
    Secret(Secret),
    /// Texts.
    List(Vec<String>),
    /// A switch.
    Switch(bool),
    /// A number.
    Number(u64),
}

impl Value {
    /// For people and for `config --list`: a secret is masked.
    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Secret(secret) => secret.masked(),
            Self::List(texts) => texts.join(", "),
            Self::Switch(on) => on.to_string(),
            Self::Number(number) => number.to_string(),
        }
    }
}

/// The candidate nearest to `text`, when it is near enough to be a slip of the fingers.
pub fn nearest<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let close = candidates.into_iter().map(|candidate| (distance(text, candidate), candidate));
    close
        .filter(|(distance, candidate)| *distance <= slips(candidate.len()))
        .min()
        .map(|(_, candidate)| candidate)
}

/// How many slips a word of this length forgives.
const fn slips(len: usize) -> usize {
    match len {
        0..4 => 1,
        4..9 => 2,
        _ => 3,
    }
}

/// How many letters must be inserted, dropped or changed to make one text from the other; dashes count as underscores.
fn distance(a: &str, b: &str) -> usize {
    let letters = |text: &str| -> Vec<char> { text.to_lowercase().replace('-', "_").chars().collect() };
    let (a, b) = (letters(a), letters(b));
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_find_their_key() {
        let names = || KEYS.iter().map(|key| key.name);
        assert_eq!(nearest("forward-to", names()), Some("forward_to"));
        assert_eq!(nearest("foward_to", names()), Some("forward_to"));
        assert_eq!(nearest("event", names()), Some("events"));
        assert_eq!(nearest("colour", names()), None);
    }

    #[test]
    fn a_flag_is_its_key_with_dashes() {
        for key in KEYS {
            assert!(
                key.flag.is_none_or(|flag| flag == format!("--{}", key.name.replace('_', "-"))),
                "{}",
                key.name
            );
        }
    }
}
