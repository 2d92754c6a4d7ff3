//! Where events are forwarded to: what `--forward-to` and `--route` say, read by our own grammar before any URL
//! parser, so that what is meant is what is asked for, to the byte.
//!
//! | written | means |
//! | --- | --- |
//! | `3000`, `3000/p`, `:3000/p` | `http://localhost:3000/p` |
//! | `/p` | `http://localhost:3000/p` |
//! | `host:4000/p`, `[::1]:4000/p` | `http://` and that |
//! | `http://...`, `https://...` | itself; the port may be left out |
//! | `unix:/run/app.sock:/p` | HTTP over a Unix socket |

mod grammar;
mod route;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

pub use route::{Route, RouteError};

/// The port of a target that is only a path.
pub const DEFAULT_PORT: u16 = 3000;

/// One place to forward to. Its `Display` is the exact URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    place: Place,
    path_and_query: String,
}

/// What a target connects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// TCP, with or without TLS.
    Tcp {
        /// Whether the URL is an `https` one.
        tls: bool,
        /// The host.
        host: Host,
        /// The port.
        port: u16,
    },
    /// A Unix socket at an absolute path.
    Unix {
        /// Where it is.
        socket: PathBuf,
    },
}

/// A host as it is written in a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A name, in lower case.
    Name(String),
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 address.
    V6(Ipv6Addr),
}

impl Target {
    /// Reads a target.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        grammar::target(text)
    }

    /// What to connect to.
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// Path and query exactly as written; begins with `/`.
    pub fn path_and_query(&self) -> &str {
        &self.path_and_query
    }

    /// The `host` header: without the port where it is the scheme's own. `localhost` for a Unix socket.
    pub fn host_header(&self) -> String {
        match &self.place {
            Place::Unix { .. } => "localhost".to_owned(),
            Place::Tcp { tls, host, port } if *port == default_port(*tls) => host.to_string(),
            Place::Tcp { host, port, .. } => format!("{host}:{port}"),
        }
    }

    /// The Unix socket, when it is one.
    pub fn socket(&self) -> Option<&Path> {
        match &self.place {
            Place::Unix { socket } => Some(socket),
            Place::Tcp { .. } => None,
        }
    }

    /// Whether the written form alone says that it is this machine: a loopback address, `localhost` or a name below
    /// it, a Unix socket. Any other name is known only after it was resolved: [`address_is_loopback`].
    pub fn is_loopback(&self) -> bool {
        match &self.place {
            Place::Unix { .. } => true,
            Place::Tcp { host, .. } => host.is_loopback(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Unix { socket } => write!(f, "unix:{}:{}", socket.display(), self.path_and_query),
            Place::Tcp { tls, .. } => {
                let scheme = if *tls { "https" } else { "http" };
                write!(f, "{scheme}://{}{}", self.host_header(), self.path_and_query)
            }
        }
    }
}

impl std::str::FromStr for Target {
    type Err = TargetError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl Host {
    /// The host as resolvers take it: an IPv6 address without brackets.
    pub fn bare(&self) -> String {
        match self {
            Self::V6(address) => address.to_string(),
            _ => self.to_string(),
        }
    }

    /// Whether it is a loopback address, `localhost`, or a name below it.
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::V4(address) => address_is_loopback(IpAddr::V4(*address)),
            Self::V6(address) => address_is_loopback(IpAddr::V6(*address)),
            Self::Name(name) => name_is_localhost(name),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::V4(address) => address.fmt(f),
            Self::V6(address) => write!(f, "[{address}]"),
        }
    }
}

/// Whether a host is this machine by its text alone: a loopback address, in brackets or not, or such a name.
pub fn host_is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    bare.parse().map_or_else(|_| name_is_localhost(host), address_is_loopback)
}

/// Whether a name is `localhost`, or below it.
pub fn name_is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether an address is this machine's own, also an IPv4 one wrapped in IPv6.
pub fn address_is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// The port that a URL of this scheme leaves out.
const fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

/// Why a text is no target: the fault, and what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Nothing is there.
    #[error("the target is empty: write a port (3000), host:port/path, or a URL")]
    Empty,
    /// White space or a control character.
    #[error("the target has white space or a control character at position {at}: percent-encode it (%20)")]
    Blank {
        /// Where, counted in characters from 1.
        at: usize,
    },
    /// A character beyond ASCII in the path.
    #[error("`{found}` in the path: percent-encode it as UTF-8")]
    NotAscii {
        /// The character.
        found: char,
    },
    /// A scheme that is not HTTP.
    #[error("scheme `{scheme}`: only http://, https:// and unix: can be forwarded to")]
    Scheme {
        /// What was written.
        scheme: String,
    },
    /// `http:` without its slashes.
    #[error("`{scheme}:` needs two slashes: write {scheme}://host:port/path")]
    Slashes {
        /// What was written.
        scheme: String,
    },
    /// No host between `//` and the path.
    #[error("no host: write {scheme}://localhost:3000/path, or only /path")]
    NoHost {
        /// The URL's scheme.
        scheme: String,
    },
    /// A host without a port and without a scheme.
    #[error("no port: write {host}:3000, or http://{host} for port 80")]
    NoPort {
        /// The host.
        host: String,
    },
    /// Something that is no port.
    #[error("port `{port}`: a port is a number from 1 to 65535, as in localhost:3000")]
    Port {
        /// What was written.
        port: String,
    },
    /// Something that is no host.
    #[error("host `{host}`: {why}")]
    Host {
        /// What was written.
        host: String,
        /// The rule.
        why: &'static str,
    },
    /// A user name or a password.
    #[error("a user name or password in the target: use --header 'Authorization: ...' instead")]
    UserInfo,
    /// `#...`.
    #[error("a fragment (#...) is never sent: leave it out, or write %23")]
    Fragment,
    /// A path that HTTP can't carry.
    #[error("the path `{path}` has a character that HTTP doesn't allow: percent-encode it")]
    Path {
        /// What was written.
        path: String,
    },
    /// `unix:` without an absolute path.
    #[error("a Unix socket is written unix:/absolute/path.sock, or unix:/absolute/path.sock:/path")]
    Socket,
}

#[cfg(test)]
mod tests;
