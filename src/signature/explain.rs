//! Why a signature doesn't match: nearly always somebody parsed the body and wrote it back. The suspicion is only
//! voiced after the signature over those other bytes was computed and found to match.

use std::fmt;

use serde_json::value::RawValue;

use super::digest::Message;
use super::{Key, Request, Scheme, matches_any, places_of, presented};
use crate::json::{self, Style};

/// Bodies over this size are not written anew to find an explanation.
const MAX_EXPLAINED_BYTES: usize = 1 << 20;

/// How a body may have been written anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// JSON without white space, as JavaScript's `JSON.stringify(x)` writes it.
    Compact,
    /// JSON with a space after `,` and `:`, non-ASCII escaped, as Python's `json.dumps(x)` writes it.
    Spaced,
    /// JSON with two spaces of indentation, as `JSON.stringify(x, null, 2)` writes it.
    Pretty,
    /// The same bytes with a line end after them.
    NewlineAdded,
    /// The same bytes without the line end after them.
    NewlineRemoved,
}

impl Kind {
    /// Every kind.
    pub const ALL: &[Self] =
        &[Self::Compact, Self::Spaced, Self::Pretty, Self::NewlineAdded, Self::NewlineRemoved];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Compact => "the body parsed and written again as compact JSON",
            Self::Spaced => "the body parsed and written again as JSON with spaces",
            Self::Pretty => "the body parsed and written again as indented JSON",
            Self::NewlineAdded => "the body with a line end added",
            Self::NewlineRemoved => "the body without its line end",
        })
    }
}

/// The ways in which this body may have been written anew that give other bytes: empty when a parsed body would be
/// the same body, so that a parsed body explains nothing.
pub fn reserialisations(body: &[u8]) -> Vec<(Kind, Vec<u8>)> {
    if body.len() > MAX_EXPLAINED_BYTES {
        return Vec::new();
    }
    let document = json::document(body);
    let all = Kind::ALL.iter().filter_map(|kind| Some((*kind, rewrite(*kind, body, document)?)));
    all.filter(|(_, other)| other != body).collect()
}

/// Which rewriting of the body the request's own signature matches, when one does. The timestamp's age is not looked
/// at: this is about bytes.
pub fn rewritten(scheme: Scheme, keys: &[Key], request: &Request<'_>) -> Option<Kind> {
    let places = places_of(scheme.0, request.headers).ok()?;
    let message = Message::read(places, request).ok()?;
    let presented = presented(scheme.0, places.signature, request.headers).ok()?;
    let fits = |body: &[u8]| matches_any(scheme.0, keys, &Message { body, ..message }, &presented);
    reserialisations(request.body).into_iter().find(|(_, body)| fits(body)).map(|(kind, _)| kind)
}

fn rewrite(kind: Kind, body: &[u8], document: Option<&RawValue>) -> Option<Vec<u8>> {
    let style = match kind {
        Kind::NewlineAdded => return Some([body, b"\n"].concat()),
        Kind::NewlineRemoved => {
            let line = body.strip_suffix(b"\n")?;
            return Some(line.strip_suffix(b"\r").unwrap_or(line).to_vec());
        }
        Kind::Compact => Style::SCRIPT,
        Kind::Spaced => Style::SPACED,
        Kind::Pretty => Style::SCRIPT_INDENTED,
    };
    style.write(document?).map(String::into_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn as_text(body: &str, wanted: Kind) -> Option<String> {
        let found = reserialisations(body.as_bytes()).into_iter().find(|(kind, _)| *kind == wanted);
        found.map(|(_, bytes)| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn writes_what_the_libraries_write() {
        let body =
            r#"{ "b": 1.0, "a": [1e21, 12345678901234567890, 1e-7, -0], "s": "a\/b \u00eb 😊", "a": {} }"#;
        let compact = r#"{"b":1,"a":{},"s":"a/b ë 😊"}"#;
        assert_eq!(as_text(body, Kind::Compact).as_deref(), Some(compact));
        let spaced = r#"{"b": 1.0, "a": {}, "s": "a/b \u00eb \ud83d\ude0a"}"#;
        assert_eq!(as_text(body, Kind::Spaced).as_deref(), Some(spaced));
        assert_eq!(as_text("[1, {}]", Kind::Pretty).as_deref(), Some("[\n  1,\n  {}\n]"));
        let numbers = "[ 1e21,12345678901234567890,1e-7,-0,0.1 ]";
        assert_eq!(
            as_text(numbers, Kind::Compact).as_deref(),
            Some("[1e+21,12345678901234567000,1e-7,0,0.1]")
        );
    }

    #[test]
    fn only_what_differs() {
        assert_eq!(as_text(r#"{"a":1}"#, Kind::Compact), None);
        assert_eq!(as_text("{\"a\":1}\n", Kind::NewlineRemoved).as_deref(), Some(r#"{"a":1}"#));
        assert_eq!(as_text("{\"a\":1}\r\n", Kind::NewlineRemoved).as_deref(), Some(r#"{"a":1}"#));
        assert_eq!(as_text("not JSON", Kind::Compact), None);
        assert_eq!(reserialisations(b"\xff").len(), 1);
        assert!(as_text(&("[ ".repeat(4000) + &"]".repeat(4000)), Kind::Compact).is_none());
    }
}
