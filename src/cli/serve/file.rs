//! The configuration file of `serve`: where it listens, what it keeps, which sources it has.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::{Table, Value as Toml};

use crate::cli::config::keys::nearest;
use crate::cli::context::Context;
use crate::cli::duration;
use crate::cli::secret;
use crate::relay::SourceConfig;

/// What the file says; what it leaves out is `None`.
#[derive(Debug, Default)]
pub(super) struct ServeFile {
    pub bind: Option<String>,
    pub store: Option<String>,
    pub public_url: Option<String>,
    pub allow_unsigned: Option<bool>,
    pub allowed_hosts: Vec<String>,
    pub event_retention: Option<Duration>,
    pub log_retention: Option<Duration>,
    pub dedupe_window: Option<Duration>,
    pub max_body_bytes: Option<u64>,
    pub listeners_per_environment: Option<u64>,
    pub lease: Option<Duration>,
    pub listener_life: Option<Duration>,
    pub sources: Vec<ConfiguredSource>,
}

/// A source of the file, and its environment's slug.
#[derive(Clone, Debug)]
pub struct ConfiguredSource {
    /// The environment.
    pub environment: String,
    /// The source.
    pub source: SourceConfig,
}

/// Reads the file; what is wrong with it is added to `problems`.
pub(super) fn read(context: &Context, path: &Path, problems: &mut Vec<String>) -> ServeFile {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            problems.push(format!("can't read {}: {error}", path.display()));
            return ServeFile::default();
        }
    };
    match text.parse::<Table>() {
        Ok(table) => from_table(context, table, path, problems),
        Err(error) => {
            problems.push(format!("{}: {}", path.display(), error.message().replace('\n', ", ")));
            ServeFile::default()
        }
    }
}

fn from_table(context: &Context, table: Table, path: &Path, problems: &mut Vec<String>) -> ServeFile {
    let mut section = Section::new(table, path.display().to_string());
    let mut file = ServeFile {
        bind: section.text("bind"),
        store: section.text("store"),
        public_url: section.text("public_url"),
        allow_unsigned: section.switch("allow_unsigned"),
        allowed_hosts: section.texts("allowed_hosts"),
        event_retention: section.duration("event_retention"),
        log_retention: section.duration("log_retention"),
        dedupe_window: section.duration("dedupe_window"),
        max_body_bytes: section.number("max_body_bytes"),
        listeners_per_environment: section.number("listeners_per_environment"),
        lease: section.duration("lease"),
        listener_life: section.duration("listener_life"),
        sources: Vec::new(),
    };
    for (index, table) in section.tables("sources").into_iter().enumerate() {
        let mut source = Section::new(table, format!("{}, source {}", path.display(), index + 1));
        file.sources.push(read_source(context, &mut source));
        source.finish(problems);
    }
    section.finish(problems);
    file
}

fn read_source(context: &Context, section: &mut Section) -> ConfiguredSource {
    let mut secrets = Vec::new();
    for name in section.texts("secret_env") {
        match secret::from_variable(context, &name) {
            Ok(secret) => secrets.push(secret),
            Err(error) => section.wrong("secret_env", error.message()),
        }
    }
    for path in section.texts("secret_file") {
        match secret::from_file(&PathBuf::from(path)) {
            Ok(secret) => secrets.push(secret),
            Err(error) => section.wrong("secret_file", error.message()),
        }
    }
    let source = SourceConfig {
        name: section.needed("name"),
        scheme: section.needed("scheme"),
        secrets,
        dedupe: section.text("dedupe"),
        dedupe_window_s: section.duration("dedupe_window").map(|window| window.as_secs()),
        max_body_bytes: section.number("max_body_bytes"),
        public_url: section.text("public_url"),
    };
    let environment = section.text("environment").unwrap_or_else(|| "default".to_owned());
    ConfiguredSource { environment, source }
}

/// One table of the file: each key is taken once; what nobody took is unknown.
struct Section {
    table: Table,
    whence: String,
    known: Vec<&'static str>,
    problems: Vec<String>,
}

impl Section {
    fn new(table: Table, whence: String) -> Self {
        Self { table, whence, known: Vec::new(), problems: Vec::new() }
    }

    fn take(&mut self, name: &'static str) -> Option<Toml> {
        self.known.push(name);
        self.table.remove(name)
    }

    fn wrong(&mut self, name: &str, why: impl std::fmt::Display) {
        self.problems.push(format!("`{name}`: {why} ({})", self.whence));
    }

    fn needed(&mut self, name: &'static str) -> String {
        self.text(name).unwrap_or_else(|| {
            self.wrong(name, "it is missing");
            String::new()
        })
    }

    fn text(&mut self, name: &'static str) -> Option<String> {
        match self.take(name)? {
            Toml::String(text) => Some(text),
            _ => {
                self.wrong(name, "it takes a text");
                None
            }
        }
    }

    fn texts(&mut self, name: &'static str) -> Vec<String> {
        let items = match self.take(name) {
            None => return Vec::new(),
            Some(Toml::Array(items)) => items,
            Some(one) => vec![one],
        };
        let texts: Option<Vec<String>> =
            items.into_iter().map(|item| item.as_str().map(str::to_owned)).collect();
        texts.unwrap_or_else(|| {
            self.wrong(name, "it takes a text or a list of texts");
            Vec::new()
        })
    }

    fn switch(&mut self, name: &'static str) -> Option<bool> {
        let value = self.take(name)?;
        value.as_bool().or_else(|| {
            self.wrong(name, "it takes true or false");
            None
        })
    }

    fn number(&mut self, name: &'static str) -> Option<u64> {
        let value = self.take(name)?;
        value.as_integer().and_then(|number| u64::try_from(number).ok()).or_else(|| {
            self.wrong(name, "it takes a whole number from 0");
            None
        })
    }

    fn duration(&mut self, name: &'static str) -> Option<Duration> {
        match duration::parse(&self.text(name)?) {
            Ok(duration) => Some(duration),
            Err(error) => {
                self.wrong(name, error);
                None
            }
        }
    }

    fn tables(&mut self, name: &'static str) -> Vec<Table> {
        let Some(value) = self.take(name) else { return Vec::new() };
        let tables = match value {
            Toml::Array(items) => items
                .into_iter()
                .map(|item| match item {
                    Toml::Table(table) => Some(table),
                    _ => None,
                })
                .collect(),
            _ => None,
        };
        tables.unwrap_or_else(|| {
            self.wrong(name, "each is a table of its own: [[sources]]");
            Vec::new()
        })
    }

    fn finish(mut self, problems: &mut Vec<String>) {
        for name in std::mem::take(&mut self.table).into_iter().map(|(name, _)| name) {
            let close = nearest(&name, self.known.iter().copied());
            let close = close.map(|close| format!("; did you mean `{close}`?")).unwrap_or_default();
            self.problems.push(format!("unknown key `{name}`{close} ({})", self.whence));
        }
        problems.append(&mut self.problems);
    }
}
