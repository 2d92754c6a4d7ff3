//! Webhook signatures: schemes as rows of one table (`scheme`), signing and verifying from the same row, and what can
//! be said about a signature that doesn't match ([`explain`]).
//!
//! ```
//! use pullhook::clock::Timestamp;
//! use pullhook::headers::Headers;
//! use pullhook::secret::Secret;
//! use pullhook::signature::{self, Key, Request, Scheme};
//!
//! let scheme = Scheme::parse("standard-webhooks")?;
//! let key = Key::new(scheme, &Secret::new("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="))?;
//! let now = Timestamp::from_millis(1_760_000_000_000);
//! let body = br#"{"type":"invoice.paid"}"#;
//! let bare = Request { method: "POST", url: None, headers: &Headers::new(), body };
//! let headers = signature::sign(scheme, &key, &bare, "msg_1", now);
//! let signed = Request { headers: &headers, ..bare };
//! assert_eq!(signature::verify(scheme, &[key], &signed, now), Ok(()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod digest;
pub mod explain;
mod facts;
mod key;
mod rejection;
mod scheme;
pub mod standard;

use subtle::{Choice, ConstantTimeEq};

use crate::clock::Timestamp;
use crate::headers::Headers;

use digest::{Message, decode, digest, encode};
pub use facts::{Facts, UNKNOWN_TYPE, facts};
pub use key::{BadSecret, Key, SecretWarning, secret_from_file};
pub use rejection::Rejection;
use scheme::{Algorithm, Place, Places, Row, Syntax, Unit, Window};
pub use scheme::{Scheme, UnknownScheme, credential_headers};

/// What a signature may cover.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The HTTP method.
    pub method: &'a str,
    /// The configured public URL, for schemes that sign it.
    pub url: Option<&'a str>,
    /// Every header, repeats kept.
    pub headers: &'a Headers,
    /// The bytes as they came.
    pub body: &'a [u8],
}

/// Checks a request: exact bytes, the scheme's window around `now`, every key tried. `Ok` for a scheme that verifies
/// nothing.
pub fn verify(scheme: Scheme, keys: &[Key], request: &Request<'_>, now: Timestamp) -> Result<(), Rejection> {
    let row = scheme.0;
    if row.algorithm == Algorithm::Unsigned {
        return Ok(());
    }
    if keys.is_empty() {
        return Err(Rejection::NoSecret);
    }
    let places = places_of(row, request.headers)?;
    let message = Message::read(places, request)?;
    if let (Some(window), Some(place)) = (row.window, places.timestamp) {
        check_window(window, place.header(), message.timestamp.unwrap_or_default(), now)?;
    }
    let presented = presented(row, places.signature, request.headers)?;
    if matches_any(row, keys, &message, &presented) { Ok(()) } else { Err(Rejection::NoMatch) }
}

/// The headers that sign a request: one signature, made at `at`, of a message with this id. Ids hold no `.`, the
/// separator of what is signed: [`sendable_id`] is what goes out.
pub fn sign(scheme: Scheme, key: &Key, request: &Request<'_>, id: &str, at: Timestamp) -> Headers {
    sign_all(scheme, std::slice::from_ref(key), request, id, at)
}

/// As [`sign`], with one signature for each key, first key first; a scheme whose syntax has no list takes the first.
pub fn sign_all(scheme: Scheme, keys: &[Key], request: &Request<'_>, id: &str, at: Timestamp) -> Headers {
    let row = scheme.0;
    let mut headers = Headers::new();
    let Some(places) = row.places.first() else {
        return headers;
    };
    let (id, timestamp) = (sendable_id(id), at.unix_seconds().to_string());
    let message = Message { id: Some(&id), timestamp: Some(&timestamp), body: request.body };
    let signatures =
        keys.iter().map(|key| row.syntax.prefix().to_owned() + &encode(row, &digest(row, key, &message)));
    let signature = match row.syntax {
        Syntax::SpaceList(_) => signatures.collect::<Vec<_>>().join(" "),
        Syntax::Prefixed(_) => signatures.take(1).collect(),
    };
    let texts = [(places.id, &*id), (places.timestamp, &*timestamp), (Some(places.signature), &*signature)];
    for (place, text) in texts {
        if let Some(Place::Header(name)) = place {
            headers.push(name, text);
        }
    }
    headers
}

/// An id as our signer sends it: `.` and whatever a header can't hold become `_`. Ids made here never change.
pub fn sendable_id(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_graphic() && c != '.' { c } else { '_' }).collect()
}

/// The one set of places that the message uses. Another set beside it must be complete too, since half of one and
/// half of another is nobody's message.
fn places_of(row: &'static Row, headers: &Headers) -> Result<&'static Places, Rejection> {
    let used = |places: &&Places| places.headers().any(|name| headers.contains(name));
    let mut sets = row.places.iter().filter(used);
    let first = sets.next().or_else(|| row.places.first());
    let Some(chosen) = first else {
        return Err(Rejection::NoMatch);
    };
    let mixed = sets.next().is_some();
    for places in row.places.iter().filter(|places| mixed || std::ptr::eq(*places, chosen)) {
        for name in places.headers() {
            match headers.all(name).count() {
                0 if mixed => return Err(Rejection::MixedHeaders { name }),
                0 => return Err(Rejection::MissingHeader { name }),
                1 => {}
                _ => return Err(Rejection::DuplicateHeader { name }),
            }
        }
    }
    Ok(chosen)
}

/// Whether the timestamp's text is strictly an integer and inside the window.
fn check_window(window: Window, name: &'static str, text: &str, now: Timestamp) -> Result<(), Rejection> {
    let Unit::Seconds = window.unit;
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let at: i64 = Some(text)
        .filter(|_| digits)
        .and_then(|text| text.parse().ok())
        .ok_or(Rejection::MalformedTimestamp { name })?;
    let (now_s, limit_s) = (now.unix_seconds(), window.tolerance_s);
    let age_s = now_s.saturating_sub(at);
    if age_s > limit_s {
        return Err(Rejection::Stale { age_s, limit_s });
    }
    let ahead_s = at.saturating_sub(now_s);
    if ahead_s <= limit_s {
        return Ok(());
    }
    // A millisecond value stands thousands of years ahead; read as one it is near now.
    let near = (at / 1000).abs_diff(now_s) < 366 * 86_400;
    Err(if near { Rejection::Milliseconds } else { Rejection::Future { ahead_s, limit_s } })
}

/// The signatures in the request, decoded; what isn't of the scheme's form is skipped.
fn presented(row: &Row, place: Place, headers: &Headers) -> Result<Vec<Vec<u8>>, Rejection> {
    let name = place.header();
    let value = headers.get(name).unwrap_or_default();
    let texts: Vec<&str> = match row.syntax {
        Syntax::SpaceList(_) => value.split(' ').collect(),
        Syntax::Prefixed(_) => vec![value],
    };
    if value.trim().is_empty() {
        return Err(Rejection::MissingHeader { name });
    }
    let expected = row.syntax.prefix();
    let found: Vec<_> = texts.iter().filter_map(|text| text.strip_prefix(expected)).map(str::trim).collect();
    if found.is_empty() {
        return Err(Rejection::MalformedSignature { name, expected });
    }
    Ok(found.into_iter().filter_map(|text| decode(row.encoding, text)).collect())
}

/// Whether any key made any of the signatures. Every pair is compared, in constant time, so that the time tells
/// nothing about which one it was.
fn matches_any(row: &Row, keys: &[Key], message: &Message<'_>, presented: &[Vec<u8>]) -> bool {
    let mut matched = Choice::from(0);
    for key in keys {
        let wanted = digest(row, key, message);
        for signature in presented {
            matched |= wanted.as_slice().ct_eq(signature);
        }
    }
    matched.into()
}

#[cfg(test)]
mod tests;
