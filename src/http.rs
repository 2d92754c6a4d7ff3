//! Every HTTP client: the relay leg ([`relay_client`]) and the local leg ([`Loopback`]). Nothing else builds one.
//!
//! The relay leg verifies TLS always and honours the proxy settings it is given, except towards this machine. The
//! local leg never uses a proxy, follows no redirect, adds no header, and connects only to an address that was
//! checked.

mod connect;
mod guard;
mod loopback;
mod relay;
mod tls;

pub use connect::{ConnectError, Endpoint};
pub use guard::{Challenge, Guard};
pub use loopback::{Answer, Loopback, LoopbackSettings, Outgoing, SendError};
pub use relay::{HttpError, RelaySettings, relay_client};
