//! Reading JSON without changing it: members in their order, numbers as their text.

mod write;

use std::fmt;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

pub(crate) use write::Style;

/// One JSON value, looked at one level deep.
#[derive(Debug)]
pub(crate) enum Shape<'a> {
    /// `null`, `true` or `false`.
    Word,
    /// As it is written.
    Number(&'a str),
    Text(String),
    Array(Vec<&'a RawValue>),
    /// In the order of the text, repeats included.
    Object(Vec<(String, &'a RawValue)>),
}

/// The document, when all of `body` is one JSON value.
pub(crate) fn document(body: &[u8]) -> Option<&RawValue> {
    serde_json::from_slice(body).ok()
}

/// What kind of value this is, with its parts.
pub(crate) fn shape(raw: &RawValue) -> Option<Shape<'_>> {
    let text = raw.get();
    Some(match text.as_bytes().first()? {
        b'n' | b't' | b'f' => Shape::Word,
        b'"' => Shape::Text(serde_json::from_str(text).ok()?),
        b'[' => Shape::Array(serde_json::from_str(text).ok()?),
        b'{' => Shape::Object(serde_json::Deserializer::from_str(text).deserialize_map(Members).ok()?),
        _ => Shape::Number(text),
    })
}

/// The member of an object (the last of that name, as JSON readers have it), or the item of an array.
pub(crate) fn child<'a>(raw: &'a RawValue, key: &str) -> Option<&'a RawValue> {
    match shape(raw)? {
        Shape::Object(members) => {
            members.into_iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
        }
        Shape::Array(items) => items.get(key.parse::<usize>().ok()?).copied(),
        _ => None,
    }
}

/// The value at the end of `path`.
pub(crate) fn at<'a>(body: &'a [u8], path: &[impl AsRef<str>]) -> Option<&'a RawValue> {
    path.iter().try_fold(document(body)?, |raw, key| child(raw, key.as_ref()))
}

/// The text at the end of `path`, when it is a JSON string.
pub(crate) fn text_at(body: &[u8], path: &[&str]) -> Option<String> {
    match shape(at(body, path)?)? {
        Shape::Text(text) => Some(text),
        _ => None,
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_text_and_the_last_repeat_counts() {
        let body = br#"{"n":12345678901234567890123,"a":1,"a":2.0,"deep":[{"x":"y"}]}"#;
        assert_eq!(at(body, &["n"]).unwrap().get(), "12345678901234567890123");
        assert_eq!(at(body, &["a"]).unwrap().get(), "2.0");
        assert_eq!(text_at(body, &["deep", "0", "x"]).as_deref(), Some("y"));
        assert!(at(body, &["deep", "1"]).is_none());
        assert!(at(b"{\"a\":1} trailing", &["a"]).is_none());
        assert!(at(b"{\"a\":\xff}", &["a"]).is_none());
    }

    #[test]
    fn depth_is_no_danger() {
        let deep = "[".repeat(200_000) + &"]".repeat(200_000);
        assert!(at(deep.as_bytes(), &["0", "0"]).is_some());
    }
}
