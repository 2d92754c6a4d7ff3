//! Sources as the relay uses them: checked when they are made, sealed at rest, ready to verify.

use std::sync::Arc;

use super::Shared;
use super::api::error::Failure;
use crate::id::Kind;
use crate::protocol::error::{Code, Issue};
use crate::protocol::limits;
use crate::protocol::sources as wire;
use crate::secret::Secret;
use crate::signature::{self, Key, Scheme};
use crate::store::sources::Source;
use crate::store::{Durability, StoreError, sources};

/// A source, ready to verify.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) row: Source,
    pub(super) scheme: Scheme,
    /// Empty when the source has no usable secret: then nothing verifies.
    pub(super) keys: Vec<Key>,
}

/// What a source is made of, before it is checked; also what the configuration file says.
#[derive(Clone, Debug, Default)]
pub struct SourceConfig {
    /// Unique in its environment.
    pub name: String,
    /// The scheme's name.
    pub scheme: String,
    /// As the provider shows them.
    pub secrets: Vec<Secret>,
    /// `mark` or `drop`.
    pub dedupe: Option<String>,
    /// Seconds.
    pub dedupe_window_s: Option<u64>,
    /// Bytes.
    pub max_body_bytes: Option<u64>,
    /// The address the provider knows.
    pub public_url: Option<String>,
}

/// Secrets of one source, at most.
const MAX_SECRETS: usize = 10;
/// The longest name of a source.
pub(super) const MAX_NAME: usize = 64;

impl Shared {
    /// The source behind a path segment; from the cache where nothing changed.
    pub(super) async fn live_source(&self, slug: &str) -> Result<Option<Arc<Live>>, StoreError> {
        match self.sources.get(slug) {
            Ok(live) => Ok(live),
            Err(generation) => {
                let wanted = slug.to_owned();
                let row = self.store.read(move |tx| sources::by_slug(tx, &wanted)).await?;
                let live = row.map(|row| self.bring_to_life(row)).transpose()?.map(Arc::new);
                self.sources.put(generation, slug.to_owned(), live.clone());
                Ok(live)
            }
        }
    }

    pub(super) fn bring_to_life(&self, row: Source) -> Result<Live, StoreError> {
        let scheme = Scheme::parse(&row.scheme).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        let mut keys = Vec::new();
        for sealed in row.sealed_secrets.lines() {
            let secret = self.ring.open(sealed).map_err(|error| StoreError::Corrupt(error.to_string()))?;
            // It was checked when it was made; a rule that became stricter since must not let anything through.
            match Key::new(scheme, &secret) {
                Ok(key) => keys.push(key),
                Err(error) => tracing::error!(source = row.name, %error, "a stored secret can't be used"),
            }
        }
        Ok(Live { row, scheme, keys })
    }

    /// What is stored and can't be served: checked before the relay starts.
    pub(super) async fn stored_problems(&self) -> Result<Vec<String>, StoreError> {
        let mut problems = Vec::new();
        for row in self.store.read(sources::all).await? {
            let (name, open) = (row.name.clone(), !self.settings.loopback && !self.settings.allow_unsigned);
            match self.bring_to_life(row) {
                Err(error) => problems.push(format!("source `{name}`: {error}; is PULLHOOK_SECRETS_KEY the right one?")),
                Ok(live) if open && !live.scheme.is_signed() => problems.push(format!(
                    "source `{name}` has scheme = none, and the relay is bound beyond loopback: give the source a \
                     scheme, or start with --allow-unsigned"
                )),
                Ok(_) => {}
            }
        }
        Ok(problems)
    }

    /// Makes a source.
    pub(crate) async fn create_source(
        &self,
        environment_id: &str,
        config: &SourceConfig,
        managed: bool,
    ) -> Result<Source, Failure> {
        check_name(&config.name)?;
        let now = self.clock.now();
        let mut row = Source {
            id: self.ids.make(Kind::Source),
            environment_id: environment_id.to_owned(),
            name: config.name.clone(),
            slug: String::new(),
            scheme: String::new(),
            sealed_secrets: String::new(),
            secret_count: 0,
            dedupe: "mark".to_owned(),
            dedupe_window_s: self.settings.dedupe_window.as_secs(),
            max_body_bytes: limits::DEFAULT_MAX_BODY_BYTES.min(self.settings.max_body_bytes),
            public_url: None,
            enabled: true,
            managed,
            created_at: now,
            updated_at: now,
        };
        self.apply(&mut row, config)?;
        let suffix: String = self.ids.token().chars().take(4).collect();
        let work = move |tx: &mut dyn crate::store::tx::Tx| sources::insert(tx, &row, &suffix);
        self.store.write(Durability::Promised, work).await?.ok_or_else(|| {
            let text = format!("a source `{}` exists in this environment; choose another name", config.name);
            Failure::new(Code::NameTaken, text)
                .param("name")
                .hint(format!("pullhook sources show {}", config.name))
        })
    }

    /// Makes or changes the sources that a configuration file names, so that they are as it says.
    pub(super) async fn configure_source(
        &self,
        environment_id: &str,
        config: &SourceConfig,
    ) -> Result<(), Failure> {
        let (environment, name) = (environment_id.to_owned(), config.name.clone());
        match self.store.read(move |tx| sources::by_name(tx, &environment, &name)).await? {
            None => self.create_source(environment_id, config, true).await.map(drop),
            Some(row) => {
                let change = |row: &mut Source| {
                    row.managed = true;
                    self.change(row, config)
                };
                self.update_source(row, change).await.map(drop)
            }
        }
    }

    /// Changes a source; `change` runs again where somebody else was faster.
    async fn update_source(
        &self,
        mut old: Source,
        change: impl Fn(&mut Source) -> Result<(), Failure>,
    ) -> Result<Source, Failure> {
        loop {
            let mut new = old.clone();
            change(&mut new)?;
            new.updated_at = self.clock.now();
            let (before, after) = (old.clone(), new.clone());
            let work = move |tx: &mut dyn crate::store::tx::Tx| sources::update(tx, &before, &after);
            if self.store.write(Durability::Promised, work).await? {
                return Ok(new);
            }
            old = self.find_source(&old.environment_id, &old.id).await?;
        }
    }

    /// Writes what `config` says over a source; what it leaves out stays.
    pub(crate) async fn edit_source(
        &self,
        row: Source,
        config: &SourceConfig,
        enabled: Option<bool>,
    ) -> Result<Source, Failure> {
        let change = |row: &mut Source| {
            row.enabled = enabled.unwrap_or(row.enabled);
            self.change(row, config)
        };
        self.update_source(row, change).await
    }

    /// Puts new secrets in front; those before stay valid, as many as fit.
    pub(crate) async fn rotate_source(&self, row: Source, secrets: &[Secret]) -> Result<Source, Failure> {
        let change = |row: &mut Source| {
            let mut all = secrets.to_vec();
            for sealed in row.sealed_secrets.lines().take(MAX_SECRETS.saturating_sub(all.len())) {
                let opened =
                    self.ring.open(sealed).map_err(|error| StoreError::Corrupt(error.to_string()))?;
                all.push(opened);
            }
            self.apply(row, &SourceConfig { secrets: all, ..SourceConfig::default() })
        };
        self.update_source(row, change).await
    }

    fn change(&self, row: &mut Source, config: &SourceConfig) -> Result<(), Failure> {
        let scheme_changes = !config.scheme.is_empty() && config.scheme != row.scheme;
        if scheme_changes && self.check_scheme(&config.scheme)?.is_signed() && config.secrets.is_empty() {
            let text = "a new scheme needs its secrets: send `secrets` along with `scheme`";
            return Err(Failure::new(Code::InvalidSecret, text).param("secrets"));
        }
        self.apply(row, config)
    }

    fn apply(&self, row: &mut Source, config: &SourceConfig) -> Result<(), Failure> {
        if !config.scheme.is_empty() || row.scheme.is_empty() {
            row.scheme = self.check_scheme(&config.scheme)?.name().to_owned();
        }
        let scheme = self.check_scheme(&row.scheme)?;
        if !config.secrets.is_empty() || !scheme.is_signed() {
            row.sealed_secrets = self.check_and_seal(scheme, &config.secrets)?;
            row.secret_count = config.secrets.len() as u64;
        }
        if let Some(dedupe) = &config.dedupe {
            row.dedupe.clone_from(dedupe);
        }
        if let Some(window) = config.dedupe_window_s {
            let most = self.settings.event_retention.as_secs();
            if window > most {
                let text =
                    format!("must be at most {most}: repeats are recognised by events that are still stored");
                return Err(wrong("dedupe_window_s", text));
            }
            row.dedupe_window_s = window;
        }
        if let Some(bytes) = config.max_body_bytes {
            let most = self.settings.max_body_bytes;
            if bytes > most {
                return Err(wrong(
                    "max_body_bytes",
                    format!("must be at most {most}, the relay's own limit"),
                ));
            }
            row.max_body_bytes = bytes;
        }
        if config.public_url.is_some() {
            row.public_url.clone_from(&config.public_url);
        }
        Ok(())
    }

    fn check_scheme(&self, name: &str) -> Result<Scheme, Failure> {
        let scheme = Scheme::parse(name).map_err(|error| {
            Failure::new(Code::UnknownScheme, error.to_string())
                .param("scheme")
                .hint("`scheme = none` takes unsigned requests; it must be written out")
        })?;
        if !scheme.is_signed() && !self.settings.loopback && !self.settings.allow_unsigned {
            let text = "scheme `none` takes anything from anybody, and this relay is reachable from other machines; \
                        choose a scheme, or start the relay with --allow-unsigned";
            return Err(Failure::new(Code::UnsignedNotAllowed, text).param("scheme"));
        }
        Ok(scheme)
    }

    fn check_and_seal(&self, scheme: Scheme, secrets: &[Secret]) -> Result<String, Failure> {
        let mut lines = Vec::new();
        for (index, secret) in secrets.iter().enumerate() {
            Key::new(scheme, secret).map_err(|error| {
                Failure::new(Code::InvalidSecret, error.to_string()).param(&format!("secrets.{index}"))
            })?;
            let sealed = self.ring.seal(secret, &*self.dice);
            lines.push(sealed.map_err(|error| {
                tracing::error!(%error, "a secret can't be sealed");
                Failure::new(Code::Internal, "the relay failed; its log names this request id")
            })?);
        }
        Ok(lines.join("\n"))
    }

    /// A source of this environment, by id or name.
    pub(crate) async fn find_source(&self, environment: &str, id_or_name: &str) -> Result<Source, Failure> {
        let (environment, wanted) = (environment.to_owned(), id_or_name.to_owned());
        let found = self.store.read(move |tx| sources::find(tx, &environment, &wanted)).await?;
        found.ok_or_else(|| Failure::not_found("source").hint("list them with `pullhook sources list`"))
    }

    /// A source as the API shows it.
    pub(crate) fn show_source(&self, row: Source) -> wire::Source {
        wire::Source {
            object: "source".to_owned(),
            ingress_url: self.ingress_url(&row.slug),
            id: row.id,
            name: row.name,
            scheme: row.scheme,
            public_url: row.public_url,
            secrets: row.secret_count,
            dedupe: row.dedupe,
            dedupe_window_s: row.dedupe_window_s,
            max_body_bytes: row.max_body_bytes,
            enabled: row.enabled,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }

    pub(crate) fn ingress_url(&self, slug: &str) -> String {
        format!("{}/api/webhooks/{slug}", self.settings.public_url.trim_end_matches('/'))
    }

    /// The headers that the provider would send with this body, under the id that the request brings, else a fresh
    /// one; the secret stays here.
    pub(crate) fn sign_as_source(
        &self,
        row: Source,
        request: &signature::Request<'_>,
        at: crate::clock::Timestamp,
    ) -> Result<crate::headers::Headers, Failure> {
        let live = self.bring_to_life(row)?;
        let Some(key) = live.keys.first() else { return Ok(crate::headers::Headers::new()) };
        let brought = signature::facts(live.scheme, request.headers, request.body).event_id;
        let id = brought.filter(|id| !id.is_empty()).unwrap_or_else(|| self.ids.make(Kind::Event));
        Ok(signature::sign(live.scheme, key, request, &id, at))
    }
}

fn wrong(field: &str, message: String) -> Failure {
    Failure::fields(vec![Issue { path: field.to_owned(), message }])
}

/// A name is a path segment, so it is kept to what needs no escaping.
fn check_name(name: &str) -> Result<(), Failure> {
    let fits = !name.is_empty()
        && name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_');
    if fits {
        return Ok(());
    }
    let text = format!(
        "a source's name is 1 to {MAX_NAME} lower-case letters, digits, `-` and `_`, and starts with a letter or digit"
    );
    Err(wrong("name", text))
}
