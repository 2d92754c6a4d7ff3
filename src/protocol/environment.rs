//! `GET /v1/environment`.

use serde::{Deserialize, Serialize};

/// The environment that a key belongs to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct Environment {
    /// `environment`.
    pub object: String,
    /// `env_...`.
    pub id: String,
    /// For people.
    pub name: String,
    /// For URLs and flags.
    pub slug: String,
    /// `live` or `sandbox`.
    pub mode: String,
    /// The project it is of.
    pub project: Named,
    /// The organization that is of.
    pub organization: Named,
    /// The key that asked.
    pub api_key: KeyShown,
}

/// Something with an id and names.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct Named {
    /// Its id.
    pub id: String,
    /// For people.
    pub name: String,
    /// For URLs.
    pub slug: String,
}

/// A key without its secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct KeyShown {
    /// `key_...`.
    pub id: String,
    /// What it is for.
    pub name: String,
    /// Its first characters.
    pub start: String,
    /// `full` or `restricted`.
    pub access: String,
    /// `resource:action`; empty for a full key.
    pub permissions: Vec<String>,
}
