//! Why a signature doesn't match: nearly always somebody parsed the body and wrote it back. The suspicion is only
//! voiced after the signature over those other bytes was computed and found to match.

use std::fmt;

use serde_json::value::RawValue;

use super::digest::Message;
use super::{Key, Request, Scheme, matches_any, places_of, presented};
use crate::json::{self, Shape};

/// Bodies over this size are not written anew to find an explanation.
const MAX_EXPLAINED_BYTES: usize = 1 << 20;
/// JSON that is nested deeper is left alone.
const MAX_DEPTH: usize = 128;

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
        Kind::Compact => Style { comma: ",", colon: ":", indent: None, script: true },
        Kind::Spaced => Style { comma: ", ", colon: ": ", indent: None, script: false },
        Kind::Pretty => Style { comma: ",", colon: ": ", indent: Some("  "), script: true },
    };
    let mut out = String::with_capacity(body.len());
    style.write(document?, 0, &mut out)?;
    Some(out.into_bytes())
}

/// How a JSON library writes.
#[derive(Clone, Copy)]
struct Style {
    comma: &'static str,
    colon: &'static str,
    indent: Option<&'static str>,
    /// As JavaScript does: every number a double, text unescaped.
    script: bool,
}

impl Style {
    fn write(self, raw: &RawValue, depth: usize, out: &mut String) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match json::shape(raw)? {
            Shape::Word => out.push_str(raw.get()),
            Shape::Number(text) if self.script => out.push_str(&script_number(text)?),
            Shape::Number(text) => out.push_str(text),
            Shape::Text(text) => self.text(&text, out)?,
            Shape::Array(items) => {
                self.all('[', ']', depth, out, &items, |item, out| self.write(item, depth + 1, out))?;
            }
            Shape::Object(members) => {
                let members = last_of_each(members);
                self.all('{', '}', depth, out, &members, |(name, value), out| {
                    self.text(name, out)?;
                    out.push_str(self.colon);
                    self.write(value, depth + 1, out)
                })?;
            }
        }
        Some(())
    }

    /// Writes the parts of an array or an object with what belongs around and between them.
    fn all<T>(
        self,
        open: char,
        close: char,
        depth: usize,
        out: &mut String,
        parts: &[T],
        mut one: impl FnMut(&T, &mut String) -> Option<()>,
    ) -> Option<()> {
        out.push(open);
        for (n, part) in parts.iter().enumerate() {
            if n > 0 {
                out.push_str(self.comma);
            }
            self.line(depth + 1, out);
            one(part, out)?;
        }
        if !parts.is_empty() {
            self.line(depth, out);
        }
        out.push(close);
        Some(())
    }

    fn line(self, depth: usize, out: &mut String) {
        if let Some(indent) = self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(indent, depth));
        }
    }

    fn text(self, text: &str, out: &mut String) -> Option<()> {
        let written = serde_json::to_string(text).ok()?;
        if self.script {
            out.push_str(&written);
            return Some(());
        }
        for c in written.chars() {
            if c.is_ascii() {
                out.push(c);
            } else {
                let units = c
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .map(|unit| format!("\\u{unit:04x}"))
                    .collect::<String>();
                out.push_str(&units);
            }
        }
        Some(())
    }
}

/// An object as parsers keep it: of repeated names the last value, at the place of the first.
fn last_of_each(members: Vec<(String, &RawValue)>) -> Vec<(String, &RawValue)> {
    let mut at = std::collections::HashMap::with_capacity(members.len());
    let mut kept: Vec<(String, &RawValue)> = Vec::with_capacity(members.len());
    for (name, value) in members {
        match at.get(&name) {
            Some(&n) => kept[n] = (name, value),
            None => {
                at.insert(name.clone(), kept.len());
                kept.push((name, value));
            }
        }
    }
    kept
}

/// A number as JavaScript writes it back: read as a double, shortest digits, an exponent only when far from one.
fn script_number(text: &str) -> Option<String> {
    let number: f64 = text.parse().ok()?;
    if number == 0.0 {
        return Some("0".to_owned());
    }
    if !number.is_finite() {
        return Some("null".to_owned());
    }
    let size = number.abs();
    if (1e-6..1e21).contains(&size) {
        return Some(number.to_string());
    }
    let written = format!("{number:e}");
    Some(if size >= 1e21 { written.replace('e', "e+") } else { written })
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
