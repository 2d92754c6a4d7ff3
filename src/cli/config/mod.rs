//! Settings: flag > environment > `pullhook.toml` > profile > default, each value with where it came from.

mod file;
pub mod keys;
mod relay;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::cli::args::Globals;
use crate::cli::env::Env;
use crate::cli::error::CliError;
use crate::cli::files;
use crate::cli::project::Project;
use crate::secret::Secret;
use file::Values;
use keys::{KEYS, Key, Shape, Value, nearest};

pub use relay::{Served, normal_url};

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A flag.
    Flag(&'static str),
    /// An environment variable.
    Variable(&'static str),
    /// The project's `pullhook.toml`.
    Project(PathBuf),
    /// A profile of `config.toml`.
    Profile(String, PathBuf),
    /// The top of `config.toml`.
    Top(PathBuf),
    /// Nothing said otherwise.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) | Self::Variable(name) => f.write_str(name),
            Self::Project(path) | Self::Top(path) => write!(f, "{}", path.display()),
            Self::Profile(name, path) => write!(f, "{}, profile `{name}`", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it came from.
    pub origin: Origin,
}

impl<T> Setting<T> {
    /// The same origin, another value.
    pub fn map<U>(self, turn: impl FnOnce(T) -> U) -> Setting<U> {
        Setting { value: turn(self.value), origin: self.origin }
    }
}

#[derive(Clone, Debug)]
struct Layer {
    origin: fn(&'static Key, &Settings) -> Origin,
    values: Values,
}

/// Every setting of this run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The project of this run.
    pub project: Project,
    /// The profile's name; `default` unless something says otherwise.
    pub profile: Setting<String>,
    config_file: Option<PathBuf>,
    layers: Vec<Layer>,
    profiles: std::collections::BTreeMap<String, Values>,
}

impl Settings {
    /// Reads the environment and both files; everything that is wrong is reported at once.
    pub fn load(env: &Env, globals: &Globals, project: Project) -> Result<Self, CliError> {
        let mut problems = Vec::new();
        let config_file = files::config_file(env);
        let user =
            config_file.as_deref().map(|path| file::read_user(path, &mut problems)).unwrap_or_default();
        let in_project =
            project.file.as_deref().map(|path| file::read_project(path, &mut problems)).unwrap_or_default();
        let layer = |origin, values| Layer { origin, values };
        let mut settings = Self {
            project,
            profile: Setting { value: "default".to_owned(), origin: Origin::Default },
            config_file,
            layers: vec![
                layer(|key, _| Origin::Flag(key.flag.unwrap_or_default()), flags(globals)),
                layer(
                    |key, _| Origin::Variable(key.variable.unwrap_or_default()),
                    variables(env, &mut problems),
                ),
                layer(|_, of| Origin::Project(of.project.file.clone().unwrap_or_default()), in_project),
                layer(|_, of| Origin::Top(of.config_file.clone().unwrap_or_default()), user.top),
            ],
            profiles: user.profiles,
        };
        settings.choose_profile(&mut problems);
        settings.check_project_paths(&mut problems);
        all_at_once(&problems)?;
        Ok(settings)
    }

    fn choose_profile(&mut self, problems: &mut Vec<String>) {
        if let Some(named) = self.text("profile") {
            self.profile = named;
        }
        let name = &self.profile.value;
        match self.profiles.get(name) {
            Some(values) => {
                let values = values.clone();
                let of_profile = |_: &'static Key, of: &Self| {
                    Origin::Profile(of.profile.value.clone(), of.config_file.clone().unwrap_or_default())
                };
                self.layers.insert(3, Layer { origin: of_profile, values });
            }
            None if self.profile.origin == Origin::Default => {}
            // A profile that names only itself keeps local secrets apart; it need not be in the file.
            None if self.profiles.is_empty() => {}
            None => problems.push(self.no_such_profile(name)),
        }
    }

    fn no_such_profile(&self, name: &str) -> String {
        let known = self.profiles.keys().map(String::as_str);
        let close =
            nearest(name, known).map(|close| format!("; did you mean `{close}`?")).unwrap_or_default();
        let file = self.config_file.as_deref().unwrap_or(Path::new("config.toml")).display();
        format!("no profile `{name}` in {file}{close} ({})", self.profile.origin)
    }

    /// An env file named by a cloned repository stays in that repository.
    fn check_project_paths(&self, problems: &mut Vec<String>) {
        if let Some(Setting { value, origin: origin @ Origin::Project(_) }) = self.text("env_file") {
            let inside = |path: &Path| {
                let whole = self.project.root.join(path);
                let folder = whole.parent().and_then(|folder| folder.canonicalize().ok());
                folder.is_some_and(|folder| folder.starts_with(&self.project.root)) && !whole.is_symlink()
            };
            if !inside(Path::new(&value)) {
                problems.push(format!("`env_file` = `{value}` is outside the project's folder ({origin})"));
            }
        }
    }

    /// As these settings, with further flags of a command.
    #[must_use]
    pub fn with_flags(mut self, flags: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        if let Some(layer) = self.layers.first_mut() {
            layer.values.extend(flags);
        }
        self
    }

    /// The value of a setting, from the highest place that has it.
    pub fn get(&self, name: &str) -> Option<Setting<Value>> {
        let key = Key::named(name)?;
        self.layers.iter().find_map(|layer| {
            let value = layer.values.get(name)?.clone();
            Some(Setting { value, origin: (layer.origin)(key, self) })
        })
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<Setting<String>> {
        match self.get(name)? {
            Setting { value: Value::Text(value), origin } => Some(Setting { value, origin }),
            _ => None,
        }
    }

    /// A secret.
    pub fn secret(&self, name: &str) -> Option<Setting<Secret>> {
        match self.get(name)? {
            Setting { value: Value::Secret(value), origin } => Some(Setting { value, origin }),
            _ => None,
        }
    }

    /// Texts; none when nothing says.
    pub fn list(&self, name: &str) -> Setting<Vec<String>> {
        match self.get(name) {
            Some(Setting { value: Value::List(value), origin }) => Setting { value, origin },
            _ => Setting { value: Vec::new(), origin: Origin::Default },
        }
    }

    /// A switch; off when nothing says.
    pub fn switch(&self, name: &str) -> Setting<bool> {
        match self.get(name) {
            Some(Setting { value: Value::Switch(value), origin }) => Setting { value, origin },
            _ => Setting { value: false, origin: Origin::Default },
        }
    }

    /// A number.
    pub fn number(&self, name: &str) -> Option<Setting<u64>> {
        match self.get(name)? {
            Setting { value: Value::Number(value), origin } => Some(Setting { value, origin }),
            _ => None,
        }
    }
}

/// One error that says everything that is wrong; nothing when nothing is.
pub fn all_at_once(problems: &[String]) -> Result<(), CliError> {
    match problems {
        [] => Ok(()),
        [one] => Err(CliError::usage(one)),
        several => {
            let list: String = several.iter().map(|problem| format!("\n  - {problem}")).collect();
            Err(CliError::usage(format!("{} settings are wrong:{list}", several.len())))
        }
    }
}

fn flags(globals: &Globals) -> Values {
    let text = |value: &Option<String>| value.clone().map(Value::Text);
    let pairs = [("api_url", text(&globals.api_url)), ("profile", text(&globals.profile))];
    pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn variables(env: &Env, problems: &mut Vec<String>) -> Values {
    let mut values = Values::new();
    for key in KEYS {
        let Some(variable) = key.variable else { continue };
        match env.text(variable) {
            Ok(Some(text)) => {
                let secret = key.shape == Shape::Secret;
                let value = if secret { Value::Secret(Secret::new(text)) } else { Value::Text(text) };
                values.insert(key.name, value);
            }
            Ok(None) => {}
            Err(error) => problems.push(error.to_string()),
        }
    }
    values
}

#[cfg(test)]
mod tests;
