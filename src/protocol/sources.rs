//! `/v1/sources`, and the answer of ingress.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::headers::Headers;

/// A source: who may send here, and how that is verified.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct Source {
    /// `source`.
    pub object: String,
    /// `src_...`.
    pub id: String,
    /// Unique in its environment.
    pub name: String,
    /// The signature scheme; `none` = unverified.
    pub scheme: String,
    /// Where the provider posts to, whole.
    pub ingress_url: String,
    /// The address the provider knows, for schemes that sign it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,
    /// How many secrets it has.
    pub secrets: u64,
    /// `mark` (a repeat is handed on, marked) or `drop` (only listed).
    pub dedupe: String,
    /// For how long a provider's id is remembered.
    pub dedupe_window_s: u64,
    /// The largest body it takes.
    pub max_body_bytes: u64,
    /// Whether it takes anything.
    pub enabled: bool,
    /// When it was made.
    #[cfg_attr(feature = "relay", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// When it was last changed.
    #[cfg_attr(feature = "relay", schema(value_type = String, format = DateTime))]
    pub updated_at: Timestamp,
}

/// The body of `POST /v1/sources`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct CreateSource {
    /// Unique in its environment: lower-case letters, digits, `-` and `_`.
    pub name: String,
    /// The signature scheme.
    pub scheme: String,
    /// Its secrets, as the provider shows them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// `mark` or `drop`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedupe: Option<String>,
    /// Seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedupe_window_s: Option<u64>,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_body_bytes: Option<u64>,
    /// The address the provider knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,
}

/// The body of `PATCH /v1/sources/{id or name}`: what is left out stays.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct UpdateSource {
    /// The signature scheme; a new one comes with its secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// All its secrets from now on, at least one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Vec<String>>,
    /// `mark` or `drop`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedupe: Option<String>,
    /// Seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedupe_window_s: Option<u64>,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_body_bytes: Option<u64>,
    /// The address the provider knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,
    /// Whether it takes anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// The body of `POST /v1/sources/{id or name}/rotate`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct RotateSource {
    /// The new secrets, which go before those that the source has.
    pub secrets: Vec<String>,
}

/// The body of `POST /v1/sources/{id or name}/sign`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct SignRequest {
    /// `POST` unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The path below the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The headers that will be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "relay", schema(value_type = Option<Vec<Vec<String>>>))]
    pub headers: Option<Headers>,
    /// The exact body.
    pub body_base64: String,
    /// The signature's time; now unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "relay", schema(value_type = Option<String>, format = DateTime))]
    pub at: Option<Timestamp>,
    /// A fault to build in: `bad_signature` or `stale`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// The answer of *sign*: the headers that a provider would add.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct SourceSignature {
    /// `source_signature`.
    pub object: String,
    /// Where to post.
    pub ingress_url: String,
    /// What to add.
    #[cfg_attr(feature = "relay", schema(value_type = Vec<Vec<String>>))]
    pub headers: Headers,
}

/// The 202 of ingress: the receipt is for custody, not for processing.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct Accepted {
    /// `accepted`.
    pub status: String,
    /// The event.
    pub event_id: String,
    /// Whether it had arrived before.
    pub duplicate: bool,
}
