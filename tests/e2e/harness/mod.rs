//! What the stories are told with.
//!
//! | module | owns |
//! | --- | --- |
//! | [`home`] | a person's home with projects in it |
//! | [`cli`] | the binary, running: its lines, signals, end |
//! | [`relay`] | `pullhook serve` with sources and a key; the embedded relay as a neighbour sees it |
//! | [`app`] | the app on localhost: records exact requests, answers as told |
//! | [`proxy`] | a network between two of them that cuts and stalls |
//! | [`http`], [`sign`] | a provider: plain requests, signatures made and checked here |
//! | [`log`], [`port`] | waiting for what happens; ports that nobody else takes |

pub mod app;
pub mod cli;
pub mod home;
pub mod http;
pub mod log;
pub mod port;
pub mod proxy;
pub mod relay;
pub mod sign;

pub use app::{App, Hold, Reply};
pub use cli::{Cli, Finished, Run};
pub use home::Home;
pub use port::Port;
pub use proxy::Proxy;
pub use relay::Relay;

pub use rustix::process::Signal;
