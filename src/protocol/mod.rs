//! The wire types of the relay's API: the only thing that `listen` and the relay share.
//!
//! Requests are written by clients as these types and read by the relay field by field (so that every wrong field
//! is named); answers are written by the relay and read leniently: unknown fields are ignored, and every **ext**
//! field (ours, not in the public contract) is optional.

pub mod environment;
pub mod error;
pub mod events;
pub mod keys;
pub mod limits;
pub mod listeners;
pub mod sources;

use serde::{Deserialize, Serialize};

/// The version header, a date; `Coss-Version` is accepted in its place.
pub const VERSION_HEADER: &str = "pullhook-version";
/// The public contract's name of [`VERSION_HEADER`].
pub const VERSION_HEADER_ALIAS: &str = "coss-version";
/// The API versions this crate speaks, oldest first.
pub const VERSIONS: &[&str] = &["2026-10-10"];
/// The newest of [`VERSIONS`].
pub const CURRENT_VERSION: &str = "2026-10-10";

/// One page of a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct List<T> {
    /// `list`.
    #[serde(default = "list")]
    pub object: String,
    /// The items of this page.
    pub data: Vec<T>,
    /// Whether a further page follows; ask with `after` = the last id of this one.
    #[serde(default)]
    pub has_more: bool,
}

impl<T> List<T> {
    /// A page.
    pub fn new(data: Vec<T>, has_more: bool) -> Self {
        Self { object: list(), data, has_more }
    }
}

fn list() -> String {
    "list".to_owned()
}

/// The answer to a deletion.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct Deleted {
    /// What kind of object it was.
    pub object: String,
    /// Its id.
    pub id: String,
    /// `true`.
    pub deleted: bool,
}
