//! Why the relay could not be reached, told apart: name, connection, proxy, TLS, answer.

use std::fmt;
use std::time::Duration;

/// Why a call of the relay failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nothing listens there.
    Refused {
        /// Host and port.
        address: String,
    },
    /// The name doesn't resolve.
    Dns {
        /// The name.
        host: String,
    },
    /// The certificate or the handshake.
    Tls(String),
    /// The proxy.
    Proxy(String),
    /// Connecting failed in another way.
    Connect(String),
    /// No answer in time.
    TimedOut {
        /// After how long.
        after: Duration,
    },
    /// The connection ended before the answer did.
    Cut(String),
    /// An answer that isn't 2xx.
    Answered {
        /// The status.
        status: u16,
        /// The error's code; empty when the answer had none.
        code: String,
        /// The error's message; empty when the answer had none.
        message: String,
    },
    /// A 2xx answer that isn't the contract's JSON.
    Malformed(String),
    /// The machine slept, or the process was stopped.
    Slept {
        /// For how long.
        for_about: Duration,
    },
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { address } => write!(f, "connection refused by {address}"),
            Self::Dns { host } => write!(f, "the name {host} doesn't resolve"),
            Self::Tls(why) => write!(f, "TLS: {why}"),
            Self::Proxy(why) => write!(f, "the proxy failed: {why}"),
            Self::Connect(why) => write!(f, "can't connect: {why}"),
            Self::TimedOut { after } => write!(f, "no answer within {} s", after.as_secs_f64().ceil()),
            Self::Cut(why) => write!(f, "the connection was cut: {why}"),
            Self::Answered { status, message, .. } if message.is_empty() => {
                write!(f, "the relay answered {status}")
            }
            Self::Answered { status, message, .. } => write!(f, "the relay answered {status}: {message}"),
            Self::Malformed(why) => write!(f, "the answer is not what the contract says: {why}"),
            Self::Slept { for_about } => write!(f, "this machine slept for {} s", for_about.as_secs()),
        }
    }
}
