//! The signed bytes of a message, their digest, and how digests are written.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::Request;
use super::key::Key;
use super::rejection::Rejection;
use super::scheme::{Encoding, Part, Place, Places, Row};
use crate::headers::{Headers, from_latin1};

/// What a digest may cover, as received or as about to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    pub(super) id: Option<&'a str>,
    pub(super) timestamp: Option<&'a str>,
    pub(super) body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Takes id and timestamp from their places.
    pub(super) fn read(places: &Places, request: &Request<'a>) -> Result<Self, Rejection> {
        let take = |place: Option<Place>| {
            place.map(|place| {
                value(place, request.headers).ok_or(Rejection::MissingHeader { name: place.header() })
            })
        };
        Ok(Self {
            id: take(places.id).transpose()?,
            timestamp: take(places.timestamp).transpose()?,
            body: request.body,
        })
    }
}

/// The text at this place, unless it is empty.
fn value(place: Place, headers: &Headers) -> Option<&str> {
    let Place::Header(name) = place;
    headers.get(name).filter(|text| !text.is_empty())
}

/// The digest of the message under this key.
pub(super) fn digest(row: &Row, key: &Key, message: &Message<'_>) -> Vec<u8> {
    // HMAC takes a key of any length, so that there is no error to report.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.bytes()) else {
        return Vec::new();
    };
    for part in row.parts {
        match part {
            Part::Id => mac.update(&wire_bytes(message.id.unwrap_or_default())),
            Part::Timestamp => mac.update(&wire_bytes(message.timestamp.unwrap_or_default())),
            Part::Literal(literal) => mac.update(literal.as_bytes()),
            Part::Body => mac.update(message.body),
        }
    }
    mac.finalize().into_bytes().to_vec()
}

/// A header's text as the bytes that were on the wire.
fn wire_bytes(text: &str) -> Vec<u8> {
    from_latin1(text).unwrap_or_else(|| text.as_bytes().to_vec())
}

/// A digest as the scheme writes it.
pub(super) fn encode(row: &Row, digest: &[u8]) -> String {
    match row.encoding {
        Encoding::Base64 => STANDARD.encode(digest),
        Encoding::Hex => {
            digest.iter().fold(String::with_capacity(2 * digest.len()), |text, b| text + &format!("{b:02x}"))
        }
    }
}

/// The bytes behind a presented signature.
pub(super) fn decode(encoding: Encoding, text: &str) -> Option<Vec<u8>> {
    match encoding {
        Encoding::Base64 => STANDARD.decode(text).ok(),
        Encoding::Hex => {
            let nibble = |b: &u8| char::from(*b).to_digit(16).and_then(|n| u8::try_from(n).ok());
            let nibbles: Vec<u8> = text.as_bytes().iter().map(nibble).collect::<Option<_>>()?;
            let (pairs, rest) = nibbles.as_chunks::<2>();
            rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
        }
    }
}
