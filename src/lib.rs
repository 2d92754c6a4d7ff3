//! Webhooks on localhost, *pulled*.
//!
//! `pullhook listen` opens a listener at a relay, long-polls it, signs each body with a local secret and POSTs it to
//! an app on this machine. The relay is a library in the same crate: embedded by default, `pullhook serve` for a team.
//!
//! | module | owns | may use |
//! | --- | --- | --- |
//! | [`clock`], [`id`], [`secret`], [`headers`], [`glob`], [`retry`] | the small values of the domain | nothing of ours but each other |
//! | [`signature`] | schemes: signing, verifying, explaining | the small values |
//! | `json` | JSON read and written without loss | nothing of ours |
//! | [`target`], [`filter`] | what `--forward-to` and `--filter` say | the small values |
//! | [`protocol`] | the wire types, the only thing `listen` and the relay share | the small values |
//! | [`system`] | the real clock and dice | domain |
//! | [`http`] | every HTTP client | domain |
//! | [`listen`] | the pull loop: poll, gate, forward, ack | domain, `protocol`, `http` |
//! | [`client`] | a typed client of the relay's API | domain, `protocol`, `http` |
//! | [`store`] | rows: the streams of sources, events, listeners, deliveries | domain, `wake` |
//! | [`wake`] | wake-ups for what waits | domain |
//! | [`relay`] | ingress, dispatch, listeners, replay, the API | domain, `protocol`, `store`, `wake`, `system` |
//! | [`providers`] | fixtures: what providers send | domain |
//! | [`cli`] | commands, configuration, output, the embedded relay's lock | everything above |
//!
//! Domain modules are pure: no tokio, no I/O, no clock or dice of their own. `listen` and `relay` never import each
//! other. A test reads `src/` and fails on a forbidden edge.

#![warn(missing_docs)]

#[cfg(feature = "cli")]
pub mod cli;
pub mod client;
pub mod clock;
pub mod filter;
pub mod glob;
pub mod headers;
pub mod http;
pub mod id;
mod json;
pub mod listen;
pub mod protocol;
pub mod providers;
#[cfg(feature = "relay")]
pub mod relay;
pub mod retry;
pub mod secret;
pub mod signature;
#[cfg(feature = "relay")]
pub mod store;
pub mod system;
pub mod target;
pub mod wake;
