//! The way to a PostgreSQL server: connections, and what all threads of a store know of an outage.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use postgres::config::{Host, SslMode};
use postgres::{Client, Config, NoTls};
use postgres_rustls::MakeRustlsConnect;

use super::{StoreError, broken, spawn};
use crate::target::host_is_loopback;

/// How long a server may take to take a connection, and again to say its first word.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long after a failed attempt the next one follows.
const PAUSE: Duration = Duration::from_millis(250);
/// How long a peer that went without a word may stay unnoticed, where the address doesn't say.
const SILENCE: Duration = Duration::from_secs(30);

/// While the server doesn't answer, one thread asks it again and again; who needs a connection meanwhile is told at once.
pub(super) struct Way {
    config: Config,
    outage: Mutex<Option<StoreError>>,
}

impl Way {
    pub(super) fn to(mut config: Config) -> Arc<Self> {
        config.connect_timeout(PATIENCE);
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE);
        }
        Arc::new(Self { config, outage: Mutex::new(None) })
    }

    /// A connection; during an outage its error.
    pub(super) fn connect(self: &Arc<Self>) -> Result<Client, StoreError> {
        if let Some(error) = &*self.outage() {
            return Err(error.clone());
        }
        greet(&self.config).map_err(|error| {
            let unreachable = StoreError::Unavailable(format!("the database does not answer: {error}"));
            // A machine that says no says it at once: nobody has to be spared the wait.
            if error.kind() != ErrorKind::ConnectionRefused {
                self.lose(&unreachable);
            }
            unreachable
        })?;
        connect(&self.config)
    }

    fn outage(&self) -> MutexGuard<'_, Option<StoreError>> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lose(self: &Arc<Self>, error: &StoreError) {
        let mut outage = self.outage();
        if outage.is_some() {
            return;
        }
        let way = Arc::downgrade(self);
        // Without a thread everybody goes on trying.
        if spawn("store-probe", move || probe(&way)).is_ok() {
            *outage = Some(error.clone());
        }
    }
}

/// Tries until the server is reached, or nobody needs it any more.
fn probe(way: &Weak<Way>) {
    loop {
        thread::sleep(PAUSE);
        let Some(way) = way.upgrade() else { return };
        if greet(&way.config).is_ok() {
            tracing::info!("the database can be reached again");
            *way.outage() = None;
            return;
        }
    }
}

/// Connects; TLS with a verified certificate to any other machine, unless the address says `sslmode=disable`.
fn connect(config: &Config) -> Result<Client, StoreError> {
    let mut config = config.clone();
    let local = config.get_hosts().iter().all(is_local);
    let plain = match config.get_ssl_mode() {
        SslMode::Disable => true,
        SslMode::Prefer => local,
        _ => false,
    };
    if plain {
        config.ssl_mode(SslMode::Disable);
        return config.connect(NoTls).map_err(|error| broken(&error));
    }
    config.ssl_mode(SslMode::Require);
    let no_roots = |_| StoreError::Unavailable("no certificate roots on this machine".into());
    let (tls, unreadable) = MakeRustlsConnect::with_native_certs().map_err(no_roots)?;
    for error in unreadable {
        tracing::warn!(%error, "a certificate root could not be read");
    }
    config.connect(tls).map_err(|error| broken(&error))
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => host_is_loopback(name),
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

/// Makes sure that somebody answers: a client that connects has no deadline once its connection is taken.
fn greet(config: &Config) -> std::io::Result<()> {
    let ports = config.get_ports();
    let mut outcome = Ok(());
    for (index, host) in config.get_hosts().iter().enumerate() {
        let name = match host {
            Host::Tcp(name) => name,
            #[cfg(unix)]
            Host::Unix(_) => return Ok(()),
        };
        let address = config.get_hostaddrs().get(index).map_or_else(|| name.clone(), ToString::to_string);
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        outcome = greet_at(&address, port);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// The question whether TLS is spoken: every server answers it with one byte, before anybody logs in.
const SPEAKS_TLS: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

fn greet_at(host: &str, port: u16) -> std::io::Result<()> {
    let mut outcome = Err(ErrorKind::AddrNotAvailable.into());
    for address in (host, port).to_socket_addrs()? {
        outcome = TcpStream::connect_timeout(&address, PATIENCE).and_then(|mut stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(&SPEAKS_TLS)?;
            stream.read_exact(&mut [0])
        });
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}
