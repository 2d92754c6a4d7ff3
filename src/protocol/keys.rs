//! API keys, as local administration shows them (never over `/v1`).

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// An API key.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct ApiKey {
    /// `api_key`.
    pub object: String,
    /// `key_...`.
    pub id: String,
    /// The key itself; on creation only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What it is for.
    pub name: String,
    /// Its first characters, to tell keys apart.
    pub start: String,
    /// The environment's slug.
    pub environment: String,
    /// `full` or `restricted`.
    pub access: String,
    /// `resource:action`; empty for a full key.
    pub permissions: Vec<String>,
    /// When it was made.
    #[cfg_attr(feature = "relay", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// When it was last used, to the minute.
    #[serde(default)]
    #[cfg_attr(feature = "relay", schema(value_type = Option<String>, format = DateTime))]
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "relay", schema(value_type = Option<String>, format = DateTime))]
    pub revoked_at: Option<Timestamp>,
}
