//! The relay inside: one process on this machine hosts it, the others join.
//!
//! | module | owns |
//! | --- | --- |
//! | [`home`] | the directory: store, keys, lock, `relay.json` |
//! | [`lock`] | who hosts, and who is next |
//! | [`state`] | `relay.json`: where the host is |
//! | [`proof`] | how a host proves who it is before it is told anything |
//! | [`host`] | hosting: port, store, server |
//! | [`admin`], [`local`] | `/local/*`: local administration, and its client |
//! | [`steward`] | takes over when the host ends, hands over when asked |

pub mod admin;
pub mod home;
pub mod host;
pub mod local;
pub mod lock;
pub mod proof;
pub mod state;
pub mod steward;

pub use home::Home;
pub use host::Host;
pub use local::Local;

use crate::cli::error::CliError;
use crate::relay::StartError;
use crate::store::StoreError;

impl From<StartError> for CliError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Store(error) => error.into(),
            StartError::Settings(problems) => Self::usage(problems.join("; ")),
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Newer { .. } => Self::usage(error.to_string()).hint("upgrade this pullhook"),
            StoreError::BadUrl(_) => Self::usage(error.to_string()),
            StoreError::Unavailable(_) | StoreError::Conflict(_) | StoreError::Corrupt(_) => {
                Self::internal(error.to_string())
            }
        }
    }
}
