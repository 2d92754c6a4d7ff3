//! `/v1/webhook_listeners`: open, poll, close, and the listing that is ours.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::headers::Headers;

use super::limits;

/// The body of *open*; everything is optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct OpenListener {
    /// Types to receive; none = all. Ours: a trailing `*` matches a prefix.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub event_types: Vec<String>,
    /// The version in which envelopes are rendered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Shown in lists; at most 256 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Ours: only events of these sources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Ours: also stored events from here on: an ISO time (inclusive), an event id (exclusive) or `beginning`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Ours: how many stored events `since` may bring before opening is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_backlog: Option<u64>,
    /// Ours: take over what this listener left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continues: Option<String>,
    /// Ours: nothing of a source while an older delivery of it is unacked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ordered: bool,
}

/// A listener, as every answer shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct Listener {
    /// `webhook_listener`.
    #[serde(default)]
    pub object: String,
    /// `whlis_...`.
    pub id: String,
    /// The version in which envelopes are rendered.
    #[serde(default)]
    pub api_version: String,
    /// Types it receives; none = all.
    #[serde(default)]
    pub event_types: Vec<String>,
    /// As given.
    #[serde(default)]
    pub description: Option<String>,
    /// When it ends unless polled before.
    #[cfg_attr(feature = "relay", schema(value_type = String, format = DateTime))]
    pub expires_at: Timestamp,
    /// When it was opened.
    #[cfg_attr(feature = "relay", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// Ours: sources it receives; none = all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<String>>,
    /// Ours: whether it is ordered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordered: Option<bool>,
    /// Ours: deliveries that wait for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    /// Ours: on open with `since` or `continues`, how many stored events it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u64>,
    /// Ours: when it last polled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "relay", schema(value_type = Option<String>, format = DateTime))]
    pub last_polled_at: Option<Timestamp>,
    /// Ours, on open: how many other listeners of this environment are open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_open: Option<u64>,
    /// Ours, on open: the newest event stored before it opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_event_id: Option<String>,
}

/// The body of *poll*; everything is optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct PollListener {
    /// Outcomes of deliveries handed out before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub acks: Vec<Ack>,
    /// How long to wait for a delivery, in milliseconds: 0 to 25,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// How many deliveries to hand out: 1 to 50, ours: 0 = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Ours: leases to move on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extend: Vec<Held>,
    /// Ours: what the client still holds after a cut; other leases of this listener end now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holding: Option<Vec<Held>>,
}

/// A delivery together with the token of its newest hand-out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct Held {
    /// The delivery.
    pub delivery_id: String,
    /// Its token.
    pub ack_token: String,
}

/// The outcome of one forward.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct Ack {
    /// The delivery.
    pub delivery_id: String,
    /// The token it was handed out with.
    pub ack_token: String,
    /// What the app answered: 100 to 599, or null.
    pub status_code: Option<u16>,
    /// How long it took: 0 to 3,600,000.
    pub duration_ms: u64,
    /// Why there is no status, or null.
    pub error: Option<String>,
    /// Ours: the client filtered it out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
}

/// The answer to *poll*.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct Poll {
    /// `webhook_listener_poll`.
    #[serde(default)]
    pub object: String,
    /// The listener, its life moved on.
    pub listener: Listener,
    /// How many acks were recorded.
    #[serde(default)]
    pub acknowledged: u64,
    /// What was handed out.
    #[serde(default)]
    pub deliveries: Vec<Delivery>,
    /// Ours: how many more are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    /// Ours: deliveries whose ack came with a superseded token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_acks: Option<Vec<String>>,
    /// Ours: deliveries whose lease was moved on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended: Option<Vec<String>>,
}

/// One event, handed out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct Delivery {
    /// `webhook_listener_delivery`.
    #[serde(default)]
    pub object: String,
    /// `whlisdel_...`.
    pub id: String,
    /// Fences the ack: names this hand-out.
    pub ack_token: String,
    /// The event.
    pub event_id: String,
    /// Its type.
    pub event_type: String,
    /// Which hand-out this is, from 1.
    pub attempt: u32,
    /// The body as text, else empty (then `body_base64` holds it).
    pub body: String,
    /// When the event arrived.
    #[cfg_attr(feature = "relay", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// Ours: the body where it isn't UTF-8, or so large that base64 is the shorter form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    /// Ours: the headers as they came, `[[name, value], ...]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "relay", schema(value_type = Option<Vec<Vec<String>>>))]
    pub headers: Option<Headers>,
    /// Ours: the method with which it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Ours: the path below the source, with its leading slash; empty when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Ours: the query, without its question mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Ours: the source's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Ours: the scheme with which the source verified it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// Ours: when the hand-out ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "relay", schema(value_type = Option<String>, format = DateTime))]
    pub lease_expires_at: Option<Timestamp>,
    /// Ours: its number in the stream of its source; without gaps, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// Ours: 1 = the first arrival; each redelivery and each replay is a further one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<u64>,
    /// Ours: whether somebody replayed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<bool>,
    /// Ours: whether the provider sent it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redelivery: Option<bool>,
}

impl Delivery {
    /// The exact bytes; an error when `body_base64` is no base64.
    pub fn bytes(&self) -> Result<Bytes, base64::DecodeError> {
        match &self.body_base64 {
            Some(text) => STANDARD.decode(text).map(Bytes::from),
            None => Ok(Bytes::copy_from_slice(self.body.as_bytes())),
        }
    }
}

/// Bytes as the wire's pair (`body`, `body_base64`): text where it is one, so that every client can read it. A text that
/// fills an answer alone goes as base64 where JSON's escapes would make it longer: up to six times its size otherwise.
pub fn body_fields(bytes: &[u8]) -> (String, Option<String>) {
    let is_cheap =
        |text: &str| text.len() <= limits::MAX_POLL_BYTES || escaped_len(text) <= text.len().div_ceil(3) * 4;
    match std::str::from_utf8(bytes) {
        Ok(text) if is_cheap(text) => (text.to_owned(), None),
        _ => (String::new(), Some(STANDARD.encode(bytes))),
    }
}

/// How many bytes a text takes within a JSON string.
fn escaped_len(text: &str) -> usize {
    let written = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        ..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(written).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_field_is_optional() {
        assert_eq!(serde_json::from_str::<OpenListener>("{}").unwrap(), OpenListener::default());
        assert_eq!(serde_json::to_string(&PollListener::default()).unwrap(), "{}");
    }

    #[test]
    fn a_foreign_server_may_leave_out_every_ext_field() {
        let text = r#"{"object":"webhook_listener_delivery","id":"d1","ack_token":"t","event_id":"e1",
            "event_type":"a.b","attempt":1,"body":"{}","created_at":"2026-01-01T00:00:00.000Z","news":1}"#;
        let delivery: Delivery = serde_json::from_str(text).unwrap();
        assert_eq!(delivery.bytes().unwrap(), "{}".as_bytes());
        assert_eq!(delivery.sequence, None);
    }

    #[test]
    fn bytes_that_are_not_utf8_travel_as_base64() {
        let (body, encoded) = body_fields(b"{\"a\":\"\xff\"}");
        assert_eq!((body.as_str(), encoded.as_deref()), ("", Some("eyJhIjoi/yJ9")));
    }

    #[test]
    fn escapes_are_counted_as_they_are_written() {
        let every: String = ('\0'..='\u{100}').chain(['\u{7ff}', '\u{2028}', '\u{10ffff}']).collect();
        for text in ["", "plain", &every] {
            assert_eq!(escaped_len(text), serde_json::to_string(text).unwrap().len() - 2, "{text:?}");
        }
    }

    #[test]
    fn only_a_large_text_that_escapes_badly_travels_as_base64() {
        let small = vec![b'\x01'; limits::MAX_POLL_BYTES];
        assert_eq!(body_fields(&small).1, None);
        let (large, worst) =
            (vec![b'x'; limits::MAX_POLL_BYTES + 1], vec![b'\x01'; limits::MAX_POLL_BYTES + 1]);
        assert_eq!(body_fields(&large).1, None);
        let (body, encoded) = body_fields(&worst);
        assert_eq!((body, encoded.map(|text| STANDARD.decode(text).unwrap())), (String::new(), Some(worst)));
    }

    #[test]
    fn the_largest_body_fits_into_what_a_client_reads() {
        let (text, encoded) = body_fields(&vec![b'"'; limits::LARGEST_BODY_BYTES]);
        let written = escaped_len(&text) + encoded.map_or(0, |text| text.len());
        assert!(written + (60 << 20) < limits::MAX_ANSWER_BYTES, "{written}");
    }
}
