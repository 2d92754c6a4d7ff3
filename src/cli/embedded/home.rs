//! The files of a relay on this machine: its store, its keys, its lock and `relay.json`, side by side.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::host::Host;
use super::local::Local;
use super::lock::{Locks, Visit};
use super::proof::{LocalGuard, hex};
use super::state::{RelayFile, RelayState};
use crate::cli::config::Settings;
use crate::cli::context::Context;
use crate::cli::env::SECRETS_KEY;
use crate::cli::error::{CliError, Kind};
use crate::cli::output::Printer;
use crate::cli::{files, os};
use crate::client::Client;
use crate::clock::{Clock, Dice};
use crate::http::{RelaySettings, relay_client};
use crate::listen::Relocate;
use crate::relay::KeyRing;
use crate::secret::Secret;

/// How long another process may take to start or to end before it is taken to hang.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a process that starts is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The files of a relay on this machine.
#[derive(Clone, Debug)]
pub struct Home {
    /// What all their names begin with.
    base: PathBuf,
    /// The SQLite database.
    pub(super) store: PathBuf,
    /// The keys that seal stored secrets, where the environment brings them.
    ring: Option<Secret>,
    /// The environment brings keys, and these files have their own.
    ignores_keys: bool,
    pub(super) locks: Locks,
    pub(super) file: RelayFile,
    /// The port that settings ask for; 0 = any.
    pub(super) port: Option<u16>,
    pub(super) printer: Printer,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) dice: Arc<dyn Dice>,
}

/// How a command came to a local relay.
#[derive(Debug)]
pub struct Attached {
    /// Local administration.
    pub local: Local,
    /// The host, when it is this process.
    pub host: Option<Host>,
    /// Held by commands that end soon: a host waits for them.
    pub visit: Option<Visit>,
}

impl Attached {
    /// Leaves; a relay that this process hosts ends.
    pub async fn end(self) {
        drop(self.visit);
        if let Some(host) = self.host {
            host.end().await;
        }
    }
}

impl Home {
    /// This person's embedded relay.
    pub fn of_person(context: &Context, settings: &Settings) -> Result<Self, CliError> {
        let port = settings.number("relay_port").map(|setting| {
            u16::try_from(setting.value)
                .map_err(|_| CliError::usage(format!("relay_port is 0 to 65535 ({})", setting.origin)))
        });
        let home = Self::in_dir(&files::state_dir(&context.env)?, port.transpose()?, context);
        Ok(Self { ignores_keys: !matches!(context.env.text(SECRETS_KEY), Ok(None)), ..home })
    }

    /// The relay on a store of its own, which a `serve` keeps; this person's own when it is that store.
    pub fn of_store(context: &Context, settings: &Settings, store: &Path) -> Result<Self, CliError> {
        let own = Self::of_person(context, settings)?;
        if is_same_file(&own.store, store) {
            return Ok(own);
        }
        check_folder(store)?;
        let ring = context.env.text(SECRETS_KEY).map_err(|error| CliError::usage(error.to_string()))?;
        let home = Self::at(store.to_owned(), store.to_owned(), Some(0), context);
        Ok(Self { ring: ring.map(Secret::new), ..home })
    }

    /// A relay that nobody else finds, in a directory that goes with the returned guard.
    pub fn isolated(context: &Context) -> Result<(Self, Temporary), CliError> {
        let mut random = [0; 8];
        context.dice.fill(&mut random);
        let dir = std::env::temp_dir().join(format!("pullhook-{}", hex(&random)));
        os::make_private_dir(&dir)
            .map_err(|error| CliError::internal(format!("can't make {}: {error}", dir.display())))?;
        let home = Self::in_dir(&dir, Some(0), context);
        Ok((home, Temporary(dir)))
    }

    fn in_dir(dir: &Path, port: Option<u16>, context: &Context) -> Self {
        let base = dir.join("relay");
        let store = files::beside(&base, "db");
        Self::at(base, store, port, context)
    }

    fn at(base: PathBuf, store: PathBuf, port: Option<u16>, context: &Context) -> Self {
        Self {
            locks: Locks::beside(&base),
            file: RelayFile::beside(&base),
            base,
            store,
            ring: None,
            ignores_keys: false,
            port,
            printer: context.printer,
            clock: Arc::clone(&context.clock),
            dice: Arc::clone(&context.dice),
        }
    }

    /// The lock.
    pub fn locks(&self) -> &Locks {
        &self.locks
    }

    /// [`Home::attach`] for a command that ends soon: the host, whoever it is, stays until it has.
    pub async fn visit(&self, who: &'static str) -> Result<Attached, CliError> {
        let locks = self.locks.clone();
        let visit = tokio::task::spawn_blocking(move || locks.visit()).await;
        let visit = visit.map_err(|error| CliError::internal(error.to_string()))?;
        let visit = visit.map_err(|error| self.broken(&error))?;
        Ok(Attached { visit: Some(visit), ..self.attach(who).await? })
    }

    /// Joins whoever hosts; when nobody does, hosts. `who` is the command's name.
    pub async fn attach(&self, who: &'static str) -> Result<Attached, CliError> {
        let give_up = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some(lock) = self.locks.try_take().map_err(|error| self.broken(&error))? {
                let host = Host::start(self, lock, who).await?;
                let local = self.local(host.url())?;
                return Ok(Attached { local, host: Some(host), visit: None });
            }
            match self.join().await {
                Ok(local) => return Ok(Attached { local, host: None, visit: None }),
                // It starts or it ends; either way the next look shows more.
                Err(error) if tokio::time::Instant::now() >= give_up || error.kind() == Kind::Usage => {
                    return Err(error);
                }
                Err(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    /// Joins whoever hosts; `None` when nobody does.
    pub async fn attach_if_hosted(&self) -> Result<Option<Local>, CliError> {
        let give_up = tokio::time::Instant::now() + PATIENCE;
        while self.locks.is_held().map_err(|error| self.broken(&error))? {
            match self.join().await {
                Ok(local) => return Ok(Some(local)),
                Err(error) if tokio::time::Instant::now() >= give_up || error.kind() == Kind::Usage => {
                    return Err(error);
                }
                Err(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
        Ok(None)
    }

    /// The host, after it proved that it is one.
    async fn join(&self) -> Result<Local, CliError> {
        let state = self.state()?.ok_or_else(|| {
            CliError::new(
                Kind::Unreachable,
                "another pullhook holds the relay's lock, but doesn't say where it is",
            )
        })?;
        state.check_protocol()?;
        let url: Url = state.url.parse().map_err(|_| CliError::internal("relay.json holds no URL"))?;
        let local = self.local(&url)?;
        local.check().await.map_err(|error| {
            let pid = state.pid;
            CliError::new(
                Kind::Unreachable,
                format!("the relay of process {pid} can't be used: {}", error.message()),
            )
            .hint(format!("if process {pid} hangs, end it; this command then hosts the relay itself"))
        })?;
        Ok(local)
    }

    /// What `relay.json` says.
    pub fn state(&self) -> Result<Option<RelayState>, CliError> {
        self.file.read().map_err(|error| self.broken(&error))
    }

    /// A client of local administration at this URL.
    pub(super) fn local(&self, url: &Url) -> Result<Local, CliError> {
        let http = relay_client(url, &self.http_settings())
            .map_err(|error| CliError::internal(error.to_string()))?;
        Ok(Local::new(Client::new(http, url.clone(), self.admin_key()?), self.clone()))
    }

    /// Connections to this relay have to prove themselves first.
    pub fn http_settings(&self) -> RelaySettings {
        let guard = LocalGuard { file: self.file.clone(), dice: Arc::clone(&self.dice) };
        RelaySettings { guard: Some(Arc::new(guard)), ..RelaySettings::default() }
    }

    /// The key from which all local keys are made; made on first use.
    pub(super) fn master(&self) -> Result<Secret, CliError> {
        self.kept("master", || {
            let mut bytes = [0; 32];
            self.dice.fill(&mut bytes);
            Secret::new(hex(&bytes))
        })
    }

    /// The keys that seal stored secrets: the environment's, else those beside the store, made on first use.
    pub(super) fn ring(&self) -> Result<KeyRing, CliError> {
        let (text, whence) = match &self.ring {
            Some(given) => (given.clone(), SECRETS_KEY.to_owned()),
            None => {
                let path = files::beside(&self.base, "secrets");
                if self.ignores_keys {
                    self.printer.warn(&format!(
                        "{SECRETS_KEY} is not used: this machine's own relay has its keys in {}",
                        path.display()
                    ));
                }
                (self.kept("secrets", || KeyRing::mint(&*self.dice))?, path.display().to_string())
            }
        };
        KeyRing::parse(&text).map_err(|error| CliError::usage(format!("{error} ({whence})")))
    }

    /// The key for local administration: the same in every run, so that who joined one host can go on with the next.
    pub(super) fn admin_key(&self) -> Result<Secret, CliError> {
        let proof = super::proof::prove(&self.master()?, 0, "local administration");
        Ok(Secret::new(format!("phl_{proof}")))
    }

    fn kept(&self, what: &str, make: impl FnOnce() -> Secret) -> Result<Secret, CliError> {
        let path = files::beside(&self.base, what);
        keep(&path, make, &*self.dice)
            .map_err(|error| CliError::internal(format!("can't keep {}: {error}", path.display())))
    }

    pub(super) fn broken(&self, error: &io::Error) -> CliError {
        CliError::internal(format!("can't use {}: {error}", self.base.display()))
    }
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(a).is_some_and(|a| real(b).is_some_and(|b| a == b))
}

/// Whoever may write into the folder could put another store there.
fn check_folder(store: &Path) -> Result<(), CliError> {
    let folder = store.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let shown = folder.display();
    match os::is_writable_by_others(folder) {
        Ok(false) => Ok(()),
        Ok(true) => {
            Err(CliError::usage(format!("others may write into {shown}, where the store is (--store)"))
                .hint(format!("`chmod go-w {shown}`, or keep the store in a folder of its own")))
        }
        Err(error) => Err(CliError::usage(format!("can't use {shown}: {error} (--store)"))),
    }
}

/// The secret in `path`; made, once, when there is none.
fn keep(path: &Path, make: impl FnOnce() -> Secret, dice: &dyn Dice) -> io::Result<Secret> {
    if !path.exists() {
        files::create(path, make().expose().as_bytes(), dice)?;
    }
    fs::read_to_string(path).map(Secret::new)
}

impl Relocate for Home {
    fn relay_url(&self) -> Option<Url> {
        self.file.read().ok()??.url.parse().ok()
    }
}

/// A directory that goes when this is dropped.
#[derive(Debug)]
pub struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::debug!(%error, dir = %self.0.display(), "a temporary directory stays");
        }
    }
}
