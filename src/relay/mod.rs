//! The relay: takes webhooks in, keeps them in order, hands them to whoever polls. Embedded and served are this same
//! code with another store address.
//!
//! The caller owns the socket, the clock, the dice and the end:
//!
//! ```
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use pullhook::relay::{Relay, Settings, SourceConfig};
//! use pullhook::secret::Secret;
//! use pullhook::store::StoreUrl;
//! use tokio::net::TcpListener;
//! use tokio_util::sync::CancellationToken;
//!
//! let folder = tempfile::tempdir()?;
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let settings = Settings { public_url: format!("http://{}", listener.local_addr()?), ..Settings::default() };
//! let store = StoreUrl::parse(&format!("sqlite:{}", folder.path().join("relay.db").display()))?;
//! let relay = Relay::builder(store).settings(settings).build().await?;
//!
//! let admin = relay.admin();
//! let environment = admin.named_environment("shop").await?;
//! let github = SourceConfig {
//!     name: "github".into(),
//!     scheme: "github".into(),
//!     secrets: vec![Secret::new("as GitHub's page shows it")],
//!     ..SourceConfig::default()
//! };
//! assert!(admin.configure_sources(&environment, &[github]).await.is_empty());
//! let key = admin.create_key(&environment, "laptop", &[]).await?;
//! assert!(key.key.is_some(), "shown once");
//!
//! let shutdown = CancellationToken::new();
//! let served = tokio::spawn({
//!     let (relay, shutdown) = (relay.clone(), shutdown.clone());
//!     async move { relay.serve(listener, shutdown).await }
//! });
//! shutdown.cancel();
//! served.await?;
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(run()).unwrap();
//! ```

mod admin;
pub(crate) mod api;
mod auth;
mod body;
mod cache;
mod dispatch;
mod doors;
mod health;
mod ingress;
mod listeners;
mod retention;
mod seal;
mod server;
mod settings;
mod sources;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Dice};
use crate::id::IdMaker;
use crate::secret::Secret;
use crate::store::{Store, StoreError, StoreUrl};
use crate::system::{SystemClock, SystemDice};
use crate::wake::Wake;

pub use admin::{Admin, ProjectRef};
pub use auth::local_key;
pub use dispatch::TickReport;
pub(crate) use doors::names_this_machine;
pub use seal::{KeyRing, SealError};
pub use settings::Settings;
pub use sources::SourceConfig;

/// Why a relay did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store can't be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Settings contradict each other, or what is stored.
    #[error("{}", .0.join("; "))]
    Settings(Vec<String>),
}

/// What `GET /openapi.json` answers, as JSON.
pub fn openapi() -> Result<String, serde_json::Error> {
    api::openapi::openapi().to_json()
}

/// A relay. Cheap to clone; all clones are the same one.
#[derive(Clone, Debug)]
pub struct Relay(Arc<Shared>);

/// What every part of one relay shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dice: Arc<dyn Dice>,
    pub(crate) ids: IdMaker,
    pub(crate) settings: Settings,
    pub(crate) ring: KeyRing,
    pub(crate) local_master: Option<Secret>,
    /// Told when parked polls should answer early.
    pub(crate) stop: CancellationToken,
    sources: cache::Cache<String, Option<Arc<sources::Live>>>,
    keys: cache::Cache<Vec<u8>, Arc<auth::Access>>,
    touched: auth::Touched,
    retries: dispatch::Retries,
}

/// Builds a relay.
#[derive(Debug)]
pub struct Builder {
    url: StoreUrl,
    settings: Settings,
    clock: Arc<dyn Clock>,
    dice: Arc<dyn Dice>,
    ring: Option<KeyRing>,
    local_master: Option<Secret>,
    wake: Wake,
}

impl Relay {
    /// A relay on this store; with the system's clock and dice unless told otherwise.
    pub fn builder(url: StoreUrl) -> Builder {
        Builder {
            url,
            settings: Settings::default(),
            clock: Arc::new(SystemClock),
            dice: Arc::new(SystemDice),
            ring: None,
            local_master: None,
            wake: Wake::default(),
        }
    }

    /// Local administration: environments and keys, which `/v1` can't make.
    pub fn admin(&self) -> Admin {
        Admin::new(Arc::clone(&self.0))
    }

    /// The HTTP service, for a server or for tests in process.
    pub fn router(&self) -> axum::Router {
        api::router(Arc::clone(&self.0))
    }

    /// Serves `listener` with its workers until `shutdown`: then parked polls answer early, requests that run are
    /// finished, and this returns.
    pub async fn serve(&self, listener: tokio::net::TcpListener, shutdown: CancellationToken) {
        self.serve_with(axum::Router::new(), listener, shutdown).await;
    }

    /// [`Relay::serve`], with `more` routes beside the relay's own.
    pub async fn serve_with(
        &self,
        more: axum::Router,
        listener: tokio::net::TcpListener,
        shutdown: CancellationToken,
    ) {
        let workers = self.start_workers();
        let stop = self.0.stop.clone();
        let router = self.router().merge(more);
        server::serve(router, listener, shutdown, stop).await;
        workers.cancel();
    }

    /// From here on whatever waits in this relay answers early; [`Relay::serve`] does this when it ends.
    pub fn stop(&self) {
        self.0.stop.cancel();
    }

    /// Starts the dispatcher and the purge in the background; they end with the token.
    pub fn start_workers(&self) -> CancellationToken {
        let token = self.0.stop.child_token();
        tokio::spawn(dispatch::run(Arc::clone(&self.0), token.clone()));
        tokio::spawn(retention::run(Arc::clone(&self.0), token.clone()));
        token
    }

    /// One round of the dispatcher over every stream that is behind.
    pub async fn tick(&self) -> Result<TickReport, StoreError> {
        dispatch::tick(&self.0).await
    }

    /// One round of the purge; how many rows went.
    pub async fn purge(&self) -> Result<u64, StoreError> {
        retention::tick(&self.0).await
    }

    /// The store, for tests that look behind the API.
    pub fn store(&self) -> &Store {
        &self.0.store
    }
}

impl Builder {
    /// Numbers and doors.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Another clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Other dice.
    #[must_use]
    pub fn dice(mut self, dice: Arc<dyn Dice>) -> Self {
        self.dice = dice;
        self
    }

    /// The keys that seal secrets; without them a fresh one is made, which outlives nothing.
    #[must_use]
    pub fn key_ring(mut self, ring: KeyRing) -> Self {
        self.ring = Some(ring);
        self
    }

    /// Accepts [`local_key`]s of this master.
    #[must_use]
    pub fn local_master(mut self, master: Secret) -> Self {
        self.local_master = Some(master);
        self
    }

    /// Opens the store and checks everything together.
    pub async fn build(self) -> Result<Relay, StartError> {
        let problems = self.settings.problems();
        if !problems.is_empty() {
            return Err(StartError::Settings(problems));
        }
        let store = Store::open(&self.url, self.wake).await?;
        let mint = || KeyRing::parse(&KeyRing::mint(&*self.dice));
        let ring =
            self.ring.map_or_else(mint, Ok).map_err(|error| StartError::Settings(vec![error.to_string()]))?;
        let shared = Shared {
            sources: cache::Cache::new(store.wake()),
            keys: cache::Cache::new(store.wake()),
            touched: auth::Touched::default(),
            retries: dispatch::Retries::default(),
            ids: IdMaker::new(Arc::clone(&self.clock), Arc::clone(&self.dice)),
            clock: self.clock,
            dice: self.dice,
            settings: self.settings,
            ring,
            local_master: self.local_master,
            stop: CancellationToken::new(),
            store,
        };
        let problems = shared.stored_problems().await?;
        if problems.is_empty() { Ok(Relay(Arc::new(shared))) } else { Err(StartError::Settings(problems)) }
    }
}
