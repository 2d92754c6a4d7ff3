//! Connections of the local leg: resolve, check, connect to what was checked.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::target::{address_is_loopback, host_is_loopback, name_is_localhost};

/// Where a connection goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// TCP, with or without TLS.
    Tcp {
        /// Whether TLS is spoken.
        tls: bool,
        /// A name or an address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

impl Endpoint {
    /// Whether its text alone says that it is on this machine (a name may also resolve to it).
    pub fn names_loopback(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp { host, .. } => host_is_loopback(host),
        }
    }

    /// Whether it is the name that resolves to both families.
    pub fn is_localhost(&self) -> bool {
        matches!(self, Self::Tcp { host, .. } if name_is_localhost(host))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port, .. } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port, .. } => write!(f, "{host}:{port}"),
        }
    }
}

/// Why there is no connection; no byte of a request was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Nothing listens at any of the addresses.
    #[error("connection refused on {}", join(.tried))]
    Refused {
        /// The addresses.
        tried: Vec<String>,
    },
    /// The name doesn't resolve.
    #[error("the name {host} doesn't resolve")]
    Unresolved {
        /// The name.
        host: String,
    },
    /// It resolves to another machine, and that wasn't allowed.
    #[error("{host} is {address}, which isn't on this machine")]
    NotLoopback {
        /// The name or address.
        host: String,
        /// What it resolves to.
        address: IpAddr,
    },
    /// Any other failure.
    #[error("can't connect to {}: {why}", join(.tried))]
    Failed {
        /// The addresses.
        tried: Vec<String>,
        /// The last failure.
        why: String,
    },
}

fn join(tried: &[String]) -> String {
    tried.join(" and ")
}

/// A byte stream of either kind.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection, and a look at its socket.
pub(super) struct Connected {
    pub(super) stream: Box<dyn Stream>,
    pub(super) look: Look,
}

/// A second handle on a socket: asks the system itself, at once, whether the other end has closed it. The runtime
/// may not have heard of that yet.
#[derive(Debug)]
pub(super) struct Look(socket2::Socket);

impl Look {
    /// Whether the other end neither closed nor sent anything.
    pub(super) fn is_quiet(&self) -> bool {
        matches!(self.0.peek(&mut [MaybeUninit::uninit()]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// Connects, each address in turn.
pub(super) async fn connect(
    to: &Endpoint,
    allow_remote: bool,
    limit: Duration,
) -> Result<Connected, ConnectError> {
    match to {
        Endpoint::Unix(path) => connect_unix(path, limit).await,
        Endpoint::Tcp { host, port, .. } => {
            let addresses = resolve(host, *port, allow_remote, limit).await?;
            connect_tcp(&addresses, limit).await
        }
    }
}

/// The addresses of a host, all of them on this machine unless others are allowed.
pub(super) async fn resolve(
    host: &str,
    port: u16,
    allow_remote: bool,
    limit: Duration,
) -> Result<Vec<SocketAddr>, ConnectError> {
    let addresses: Vec<SocketAddr> = if let Ok(address) = host.parse::<IpAddr>() {
        vec![SocketAddr::new(address, port)]
    } else if name_is_localhost(host) {
        [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]
            .map(|ip| SocketAddr::new(ip, port))
            .into()
    } else {
        look_up(host, port, limit).await
    };
    if addresses.is_empty() {
        return Err(ConnectError::Unresolved { host: host.to_owned() });
    }
    match addresses.iter().find(|address| !allow_remote && !address_is_loopback(address.ip())) {
        Some(elsewhere) => Err(ConnectError::NotLoopback { host: host.to_owned(), address: elsewhere.ip() }),
        None => Ok(addresses),
    }
}

async fn look_up(host: &str, port: u16, limit: Duration) -> Vec<SocketAddr> {
    match tokio::time::timeout(limit, tokio::net::lookup_host((host, port))).await {
        Ok(Ok(found)) => found.collect(),
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

async fn connect_tcp(addresses: &[SocketAddr], limit: Duration) -> Result<Connected, ConnectError> {
    let mut failure = None;
    for address in addresses {
        match tokio::time::timeout(limit, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                let _without = stream.set_nodelay(true);
                match SockRef::from(&stream).try_clone() {
                    Ok(look) => return Ok(Connected { stream: Box::new(stream), look: Look(look) }),
                    Err(error) => failure = Some(error.to_string()),
                }
            }
            Ok(Err(error)) if no_listener(*address, &error) => {}
            Ok(Err(error)) => failure = Some(error.to_string()),
            Err(_) => failure = Some(format!("no answer within {} s", limit.as_secs_f64())),
        }
    }
    let tried = addresses.iter().map(ToString::to_string).collect();
    Err(match failure {
        None => ConnectError::Refused { tried },
        Some(why) => ConnectError::Failed { tried, why },
    })
}

/// Refused, or a family that this machine doesn't have: either way nothing listens there.
fn no_listener(address: SocketAddr, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => true,
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::NetworkUnreachable | io::ErrorKind::Unsupported => {
            address_is_loopback(address.ip())
        }
        _ => false,
    }
}

#[cfg(unix)]
async fn connect_unix(path: &std::path::Path, limit: Duration) -> Result<Connected, ConnectError> {
    let tried = vec![path.display().to_string()];
    match tokio::time::timeout(limit, tokio::net::UnixStream::connect(path)).await {
        Ok(Ok(stream)) => match SockRef::from(&stream).try_clone() {
            Ok(look) => Ok(Connected { stream: Box::new(stream), look: Look(look) }),
            Err(error) => Err(ConnectError::Failed { tried, why: error.to_string() }),
        },
        Ok(Err(error))
            if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) =>
        {
            Err(ConnectError::Refused { tried })
        }
        Ok(Err(error)) => Err(ConnectError::Failed { tried, why: error.to_string() }),
        Err(_) => {
            Err(ConnectError::Failed { tried, why: format!("no answer within {} s", limit.as_secs_f64()) })
        }
    }
}

#[cfg(not(unix))]
#[expect(clippy::unused_async, reason = "the same shape as on Unix")]
async fn connect_unix(path: &std::path::Path, _limit: Duration) -> Result<Connected, ConnectError> {
    let tried = vec![path.display().to_string()];
    Err(ConnectError::Failed { tried, why: "this system has no Unix sockets".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str) -> Endpoint {
        Endpoint::Tcp { tls: false, host: host.to_owned(), port: 3000 }
    }

    #[test]
    fn what_is_here_is_decided_on_the_address() {
        for here in
            ["localhost", "LOCALHOST", "app.localhost", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"]
        {
            assert!(tcp(here).names_loopback(), "{here}");
        }
        for elsewhere in
            ["localhost.example.com", "10.0.0.1", "::ffff:10.0.0.1", "0.0.0.0", "127.0.0.1.example.com"]
        {
            assert!(!tcp(elsewhere).names_loopback(), "{elsewhere}");
        }
    }

    #[tokio::test]
    async fn localhost_is_both_families_and_another_machine_is_refused() {
        let limit = Duration::from_secs(1);
        let both = resolve("localhost", 80, false, limit).await.unwrap();
        assert_eq!(both.iter().map(ToString::to_string).collect::<Vec<_>>(), ["127.0.0.1:80", "[::1]:80"]);
        let refused = resolve("10.1.2.3", 80, false, limit).await.unwrap_err();
        assert!(matches!(refused, ConnectError::NotLoopback { .. }));
        assert!(resolve("10.1.2.3", 80, true, limit).await.is_ok());
    }

    #[tokio::test]
    async fn a_refusal_names_both_addresses() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let to = Endpoint::Tcp { tls: false, host: "localhost".to_owned(), port };
        let error = connect(&to, false, Duration::from_secs(5)).await.err().unwrap();
        assert_eq!(error.to_string(), format!("connection refused on 127.0.0.1:{port} and [::1]:{port}"));
    }
}
