//! The two settings files: `config.toml` of a person, `pullhook.toml` of a project.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use toml::{Table, Value as Toml};

use crate::cli::config::keys::{KEYS, Key, Place, Shape, Value, nearest};
use crate::cli::os;
use crate::secret::Secret;

/// Settings by name.
pub(super) type Values = BTreeMap<&'static str, Value>;

/// What `config.toml` says.
#[derive(Debug, Default)]
pub(super) struct UserFile {
    /// The settings at its top.
    pub top: Values,
    /// The profiles.
    pub profiles: BTreeMap<String, Values>,
}

/// Reads `config.toml`; no file is an empty one. What is wrong with it is added to `problems`.
pub(super) fn read_user(path: &Path, problems: &mut Vec<String>) -> UserFile {
    let Some((file, table)) = open(path, problems) else {
        return UserFile::default();
    };
    let mut user = UserFile::default();
    let mut top = Table::new();
    for (name, value) in table {
        match value {
            Toml::Table(profiles) if name == "profiles" => {
                for (profile, body) in profiles {
                    let whence = format!("{}, profile `{profile}`", path.display());
                    match body {
                        Toml::Table(body) => {
                            let values = take(body, Level::Profile, &whence, problems);
                            user.profiles.insert(profile, values);
                        }
                        _ => problems.push(format!("not a table: `[profiles.{profile}]` ({whence})")),
                    }
                }
            }
            value => drop(top.insert(name, value)),
        }
    }
    user.top = take(top, Level::Top, &path.display().to_string(), problems);
    let keys = user.profiles.values().any(|profile| profile.contains_key("api_key"));
    if keys && os::is_open_to_others(&file).unwrap_or(false) {
        problems.push(format!("{0} holds a key and others may read it: `chmod 600 {0}`", path.display()));
    }
    user
}

/// Reads `pullhook.toml`.
pub(super) fn read_project(path: &Path, problems: &mut Vec<String>) -> Values {
    let Some((_, table)) = open(path, problems) else {
        return Values::new();
    };
    take(table, Level::Project, &path.display().to_string(), problems)
}

fn open(path: &Path, problems: &mut Vec<String>) -> Option<(File, Table)> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            problems.push(format!("can't read {}: {error}", path.display()));
            return None;
        }
        Ok(file) => file,
    };
    let mut text = String::new();
    if let Err(error) = file.read_to_string(&mut text) {
        problems.push(format!("can't read {}: {error}", path.display()));
        return None;
    }
    match text.parse::<Table>() {
        Ok(table) => Some((file, table)),
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
            problems.push(format!(
                "{}, line {line}: {}",
                path.display(),
                error.message().replace('\n', ", ")
            ));
            None
        }
    }
}

/// Which part of which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Project,
    Profile,
    Top,
}

impl Level {
    fn allows(self, place: Place) -> bool {
        match self {
            Self::Project => {
                matches!(place, Place::ProjectAndProfile | Place::ProjectOnly | Place::ProjectAndTop)
            }
            Self::Profile => matches!(place, Place::ProjectAndProfile | Place::ProfileOnly),
            Self::Top => matches!(place, Place::ProjectAndTop | Place::TopOnly),
        }
    }
}

fn take(table: Table, level: Level, whence: &str, problems: &mut Vec<String>) -> Values {
    let mut values = Values::new();
    for (name, value) in table {
        match Key::named(&name) {
            Some(key) if level.allows(key.place) => match shaped(key, value) {
                Ok(value) => drop(values.insert(key.name, value)),
                Err(wanted) => problems.push(format!("`{name}` takes {wanted} ({whence})")),
            },
            Some(key) => problems.push(misplaced(key, level, whence)),
            None => problems.push(unknown(&name, level, whence)),
        }
    }
    values
}

fn misplaced(key: &Key, level: Level, whence: &str) -> String {
    let name = key.name;
    match (level, key.place) {
        (_, Place::Nowhere) => {
            format!("`{name}` stands in no file; set {} ({whence})", key.variable.unwrap_or("its variable"))
        }
        (Level::Project, _) => {
            format!(
                "`{name}` can't stand in pullhook.toml, which comes with the repository; put it in a profile ({whence})"
            )
        }
        (Level::Top, _) => format!("`{name}` belongs in a profile: `[profiles.NAME]` ({whence})"),
        (Level::Profile, _) => format!("`{name}` can't stand in a profile ({whence})"),
    }
}

fn unknown(name: &str, level: Level, whence: &str) -> String {
    let further = if level == Level::Top { &["profiles"][..] } else { &[] };
    let known =
        KEYS.iter().filter(|key| level.allows(key.place)).map(|key| key.name).chain(further.iter().copied());
    match nearest(name, known) {
        Some(close) => format!("unknown key `{name}`; did you mean `{close}`? ({whence})"),
        None => format!("unknown key `{name}` ({whence})"),
    }
}

/// The value in its key's shape, or what the key takes.
fn shaped(key: &Key, value: Toml) -> Result<Value, &'static str> {
    match (key.shape, value) {
        (Shape::Text, Toml::String(text)) => Ok(Value::Text(text)),
        (Shape::Text, _) => Err("a text"),
        (Shape::Secret, Toml::String(text)) => Ok(Value::Secret(Secret::new(text))),
        (Shape::Secret, _) => Err("a text"),
        (Shape::List, Toml::String(text)) => Ok(Value::List(vec![text])),
        (Shape::List, Toml::Array(items)) => {
            items.into_iter().map(text).collect::<Option<_>>().map(Value::List).ok_or("texts")
        }
        (Shape::List, _) => Err("a list of texts"),
        (Shape::Switch, Toml::Boolean(on)) => Ok(Value::Switch(on)),
        (Shape::Switch, _) => Err("true or false"),
        (Shape::Number, Toml::Integer(number)) => {
            u64::try_from(number).map(Value::Number).map_err(|_| "a whole number from 0")
        }
        (Shape::Number, _) => Err("a whole number"),
    }
}

fn text(value: Toml) -> Option<String> {
    match value {
        Toml::String(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of_project(text: &str) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pullhook.toml");
        std::fs::write(&path, text).unwrap();
        let mut problems = Vec::new();
        read_project(&path, &mut problems);
        problems.into_iter().map(|text| text.replace(&path.display().to_string(), "P")).collect()
    }

    #[test]
    fn a_project_file_is_not_trusted_with_everything() {
        for key in
            ["api_url = 'http://x'", "allow_remote = true", "skip_verify = true", "api_key = 'k'", "ca = 'x'"]
        {
            let problems = problems_of_project(key);
            assert!(problems[0].contains("comes with the repository"), "{problems:?}");
        }
        assert_eq!(
            problems_of_project("secret = 'x'"),
            ["`secret` stands in no file; set PULLHOOK_SECRET (P)"]
        );
    }

    #[test]
    fn everything_wrong_is_said_at_once() {
        let problems = problems_of_project(
            "evnets = 'a'\nordered = 'yes'\nmax_in_flight = -1\nsource = [1]\nprofile = 'p'",
        );
        assert_eq!(
            problems,
            [
                "unknown key `evnets`; did you mean `events`? (P)",
                "`max_in_flight` takes a whole number from 0 (P)",
                "`ordered` takes true or false (P)",
                "`source` takes texts (P)",
            ]
        );
        assert_eq!(problems_of_project("a = 1\nb = ").len(), 1);
        assert!(problems_of_project("a = 1\nb = ")[0].starts_with("P, line 2: "));
    }
}
