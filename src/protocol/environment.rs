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
    pub organization: Organization,
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

/// Who the projects belong to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct Organization {
    /// Its id.
    pub id: String,
    /// For people.
    pub name: String,
    /// For URLs.
    pub slug: String,
    /// The version of an answer to a request that names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
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
