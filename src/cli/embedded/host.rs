//! Hosting the relay in this process: the port, the store, the server, and their end.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::admin::{self, Doorkeeper};
use super::home::Home;
use super::lock::{Lock, Locks};
use super::state::RelayState;
use crate::cli::config;
use crate::cli::error::CliError;
use crate::cli::serve::ConfiguredSource;
use crate::relay::{Relay, Settings};
use crate::store::StoreUrl;

/// The port of a relay whose person never chose one.
pub const DEFAULT_PORT: u16 = 4750;
/// How long a port that a killed host had may stay taken.
const PORT_PATIENCE: Duration = Duration::from_millis(500);
/// How often it is tried meanwhile.
const PORT_RETRY: Duration = Duration::from_millis(20);

/// How long visitors may take before the host ends all the same.
const VISITS: Duration = Duration::from_secs(5);

/// How the host is reached, beyond what an embedded relay needs.
#[derive(Clone, Debug)]
pub struct Door {
    /// Where to listen; `None` = loopback, at the remembered port.
    pub bind: Option<SocketAddr>,
    /// The relay's numbers and doors; address and host name are filled in.
    pub settings: Settings,
    /// The base of ingress URLs; `None` = where it listens.
    pub public_url: Option<String>,
    /// Sources to make or change before it serves.
    pub sources: Vec<ConfiguredSource>,
    /// Whether this host gives way to a `serve` that asks.
    pub yields: bool,
}

impl Default for Door {
    fn default() -> Self {
        Self {
            bind: None,
            settings: Settings::default(),
            public_url: None,
            sources: Vec::new(),
            yields: true,
        }
    }
}

/// A relay that this process hosts.
#[derive(Debug)]
pub struct Host {
    url: Url,
    public_url: String,
    address: SocketAddr,
    relay: Relay,
    stop: CancellationToken,
    asked: CancellationToken,
    server: JoinHandle<()>,
    locks: Locks,
    lock: Lock,
}

impl Host {
    /// Hosts on loopback, at the remembered port if it is free.
    pub async fn start(home: &Home, lock: Lock, who: &'static str) -> Result<Self, CliError> {
        Self::start_with(home, lock, who, Door::default()).await
    }

    /// Hosts behind this door.
    pub async fn start_with(
        home: &Home,
        lock: Lock,
        who: &'static str,
        door: Door,
    ) -> Result<Self, CliError> {
        let listener = match door.bind {
            Some(address) => bind_exactly(address).await?,
            None => bind_remembered(home).await?,
        };
        let address = listener.local_addr().map_err(|error| CliError::internal(error.to_string()))?;
        let (relay, url) = open(home, &door, address).await?;
        configure(&relay, &door.sources).await?;
        let asked = CancellationToken::new();
        let key = home.admin_key()?;
        let state = RelayState::of_this_process(address.port(), &key, who);
        let doorkeeper =
            Doorkeeper::new(relay.admin(), key, address.port(), door.yields.then(|| asked.clone()));
        let stop = CancellationToken::new();
        let server = {
            let (relay, stop) = (relay.clone(), stop.clone());
            tokio::spawn(async move { relay.serve_with(admin::router(doorkeeper), listener, stop).await })
        };
        home.file.write(&state, &*home.dice).map_err(|error| home.broken(&error))?;
        let public_url = door.public_url.unwrap_or_else(|| shown(address));
        Ok(Self { url, public_url, address, relay, stop, asked, server, locks: home.locks.clone(), lock })
    }

    /// Where clients on this machine reach it.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The base of ingress URLs.
    pub fn public_url(&self) -> &str {
        &self.public_url
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The relay itself.
    pub fn relay(&self) -> &Relay {
        &self.relay
    }

    /// Told when a `serve` asks for the store.
    pub fn asked_to_hand_over(&self) -> CancellationToken {
        self.asked.clone()
    }

    /// Ends when the server ended by itself, which it should not.
    pub async fn failed(&mut self) {
        let _how = (&mut self.server).await;
    }

    /// Stops: commands that are about to end may do so, parked polls answer early, requests that run are finished, the
    /// store is closed, the lock let go.
    pub async fn end(self) {
        let Self { relay, stop, server, locks, lock, .. } = self;
        let alone = tokio::task::spawn_blocking(move || locks.after_visits());
        let alone = tokio::time::timeout(VISITS, alone).await;
        stop.cancel();
        if let Err(error) = server.await {
            tracing::error!(%error, "the relay ended badly");
        }
        drop(relay);
        drop(lock);
        drop(alone);
    }
}

async fn open(home: &Home, door: &Door, address: SocketAddr) -> Result<(Relay, Url), CliError> {
    let here = format!("http://127.0.0.1:{}", address.port());
    let settings = Settings {
        public_url: door.public_url.clone().unwrap_or_else(|| shown(address)),
        loopback: address.ip().is_loopback(),
        ..door.settings.clone()
    };
    let relay = Relay::builder(StoreUrl::Sqlite(home.store.clone()))
        .settings(settings)
        .clock(std::sync::Arc::clone(&home.clock))
        .dice(std::sync::Arc::clone(&home.dice))
        .key_ring(home.ring()?)
        .local_master(home.master()?)
        .build()
        .await?;
    let url = here.parse().map_err(|_| CliError::internal("the relay's own URL can't be read"))?;
    Ok((relay, url))
}

/// Makes the sources of a configuration file what it says; everything that is refused is said at once.
pub(in crate::cli) async fn configure(relay: &Relay, sources: &[ConfiguredSource]) -> Result<(), CliError> {
    let mut problems = Vec::new();
    for configured in sources {
        let environment = relay.admin().named_environment(&configured.environment).await?;
        let one = std::slice::from_ref(&configured.source);
        problems.extend(relay.admin().configure_sources(&environment, one).await);
    }
    config::all_at_once(&problems)
}

/// The base of ingress URLs on this machine.
pub(in crate::cli) fn shown(address: SocketAddr) -> String {
    let everywhere = address.ip().is_unspecified();
    if everywhere { format!("http://127.0.0.1:{}", address.port()) } else { format!("http://{address}") }
}

/// The address, or an error that names it.
pub(in crate::cli) async fn bind_exactly(address: SocketAddr) -> Result<TcpListener, CliError> {
    bind_patiently(address).await.map_err(|error| {
        CliError::usage(format!("can't listen on {address}: {error}")).hint("choose another with --bind")
    })
}

/// The port of the last run, so that URLs given to providers stay; another one with a warning when it is taken.
async fn bind_remembered(home: &Home) -> Result<TcpListener, CliError> {
    let remembered = home.state()?.map(|state| state.port);
    let wanted = match home.port {
        Some(0) => remembered.unwrap_or(0),
        Some(port) => port,
        None => remembered.unwrap_or(DEFAULT_PORT),
    };
    let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match bind_patiently(loopback(wanted)).await {
        Ok(listener) => Ok(listener),
        Err(error) => {
            let other = TcpListener::bind(loopback(0)).await;
            let other =
                other.map_err(|_| CliError::internal(format!("can't listen on 127.0.0.1: {error}")))?;
            let port = other.local_addr().map_err(|error| CliError::internal(error.to_string()))?.port();
            home.printer.warn(&format!("port {wanted} is taken ({error}): the relay is on port {port} now"));
            Ok(other)
        }
    }
}

async fn bind_patiently(address: SocketAddr) -> io::Result<TcpListener> {
    let give_up = tokio::time::Instant::now() + PORT_PATIENCE;
    loop {
        match TcpListener::bind(address).await {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse && tokio::time::Instant::now() < give_up =>
            {
                tokio::time::sleep(PORT_RETRY).await;
            }
            bound => return bound,
        }
    }
}
