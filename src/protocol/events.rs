//! `/v1/events`, `/v1/webhook_events/test`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::clock::Timestamp;
use crate::headers::Headers;

/// An event: in lists without headers, body and deliveries, by id with them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct Event {
    /// `event`.
    pub object: String,
    /// `evt_...`.
    pub id: String,
    /// Its type; `unknown` when its source names none.
    #[serde(rename = "type")]
    pub kind: String,
    /// The source's name; null when it was made over the API.
    pub source: Option<String>,
    /// Its number in the stream of its source.
    pub sequence: u64,
    /// The size of its body.
    pub size_bytes: u64,
    /// The provider's own id of it, when the scheme names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_event_id: Option<String>,
    /// The same provider id came before with other bytes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub conflicting: bool,
    /// How often it arrived or was replayed.
    pub occurrences: u64,
    /// `none` (nobody took it), `pending`, `delivered`, `failed` or `skipped`: the newest delivery decides.
    pub status: String,
    /// When it arrived.
    #[cfg_attr(feature = "relay", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// By id only: the method with which it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// By id only: the path below the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// By id only: the query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// By id only: the kept headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "relay", schema(value_type = Option<Vec<Vec<String>>>))]
    pub headers: Option<Headers>,
    /// By id only: the body as text, else empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// By id only: the body where it isn't UTF-8, or so large that base64 is the shorter form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    /// By id only: every delivery, oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliveries: Option<Vec<EventDelivery>>,
}

/// One receiver's copy of an event and what became of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct EventDelivery {
    /// `webhook_listener_delivery`.
    pub object: String,
    /// `whlisdel_...`.
    pub id: String,
    /// Who took it.
    pub listener_id: String,
    /// Which occurrence of the event this is.
    pub occurrence: u64,
    /// Whether somebody replayed it.
    pub replay: bool,
    /// Whether the provider sent it again.
    pub redelivery: bool,
    /// `waiting`, `leased`, `delivered`, `failed`, `skipped`, `exhausted` or `dropped`.
    pub status: String,
    /// Hand-outs so far.
    pub attempt: u32,
    /// What the app answered.
    pub status_code: Option<u16>,
    /// Why there is no answer.
    pub error: Option<String>,
    /// How long the forward took.
    pub duration_ms: Option<u64>,
    /// When it was queued.
    #[cfg_attr(feature = "relay", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// When it ended.
    #[cfg_attr(feature = "relay", schema(value_type = Option<String>, format = DateTime))]
    pub finished_at: Option<Timestamp>,
}

/// The body of `POST /v1/events`: `data` (an envelope is made) or `body` (sent as it is).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct CreateEvent {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The envelope's `data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "relay", schema(value_type = Option<Object>))]
    pub data: Option<Map<String, Value>>,
    /// The exact body, instead of `data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The stream it joins: a source's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// When it happened; stands in the envelope's `data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "relay", schema(value_type = Option<String>, format = DateTime))]
    pub occurred_at: Option<Timestamp>,
}

/// The envelope of an event made here, as a receiver gets it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct Envelope {
    /// `evt_...`.
    pub id: String,
    /// `event`.
    pub object: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The version in which `data` is rendered.
    pub api_version: String,
    /// When it was stored.
    #[cfg_attr(feature = "relay", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// What happened.
    #[cfg_attr(feature = "relay", schema(value_type = Object))]
    pub data: Map<String, Value>,
}

/// The answer to `POST /v1/webhook_events/test`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct TestEvent {
    /// `webhook_test_event`.
    pub object: String,
    /// What was sent.
    pub event: Envelope,
    /// How many endpoints it goes to.
    pub endpoints: u64,
    /// How many open listeners it goes to.
    pub listeners: u64,
}

/// The body of `POST /v1/events/replay`: `event_ids`, or a range.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ReplayEvents {
    /// These events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub event_ids: Vec<String>,
    /// Events that arrived at or after this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "relay", schema(value_type = Option<String>, format = DateTime))]
    pub from: Option<Timestamp>,
    /// Events that arrived before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "relay", schema(value_type = Option<String>, format = DateTime))]
    pub to_time: Option<Timestamp>,
    /// Only of types that match this pattern (`*` crosses dots).
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Only of this source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Only with this status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// `"listeners"` (every open one), `{"listener": id}`; with `from`, an ISO time means `to_time`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<ReplayTo>,
    /// Only say what would be replayed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// How many at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// Who gets a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum ReplayTo {
    /// `"listeners"`.
    Named(String),
    /// `{"listener": id}`.
    Listener {
        /// The listener.
        listener: String,
    },
}

/// The answer to `POST /v1/events/replay`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct EventReplay {
    /// `event_replay`.
    pub object: String,
    /// How many events.
    pub count: u64,
    /// Which, oldest first.
    pub event_ids: Vec<String>,
    /// To how many listeners.
    pub listeners: u64,
    /// Whether the range holds more.
    pub has_more: bool,
}
