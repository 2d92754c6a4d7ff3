//! Reads a JSON object field by field, so that every wrong field is named, with its path, in one answer.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::clock::Timestamp;
use crate::protocol::error::{Code, Issue};

use super::error::Failure;

/// The fields of one object; unknown ones are ignored, null reads as absent.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
    issues: &'a mut Vec<Issue>,
}

/// Reads a body as an object; an empty body is `{}`.
pub(crate) fn object(body: &[u8]) -> Result<Map<String, Value>, Failure> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(Failure::new(Code::InvalidJson, "the body is JSON but no object; send `{...}`")),
        Err(error) => Err(Failure::new(Code::InvalidJson, format!("the body is not JSON: {error}"))),
    }
}

/// Reads `body` through `read`; all issues come back together.
pub(crate) fn read<T>(body: &[u8], read: impl FnOnce(&mut Fields<'_>) -> T) -> Result<T, Failure> {
    let map = object(body)?;
    let mut issues = Vec::new();
    let value = read(&mut Fields { map: &map, path: String::new(), issues: &mut issues });
    if issues.is_empty() { Ok(value) } else { Err(Failure::fields(issues)) }
}

impl Fields<'_> {
    /// Notes what is wrong with a field; the first thing is enough.
    pub(crate) fn issue(&mut self, name: &str, message: impl Into<String>) {
        let path = self.path_of(name);
        if !self.issues.iter().any(|known| known.path == path) {
            self.issues.push(Issue { path, message: message.into() });
        }
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// The field unless it is absent or null.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn integer(&mut self, name: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.value(name)?;
        match value.as_u64().filter(|number| range.contains(number)) {
            Some(number) => Some(number),
            None => {
                self.issue(name, format!("must be an integer from {} to {}", range.start(), range.end()));
                None
            }
        }
    }

    /// A text of at most `max` characters, without control characters that no store keeps.
    pub(crate) fn text(&mut self, name: &str, max: usize) -> Option<String> {
        match self.value(name)? {
            Value::String(text) if text.chars().count() <= max && !text.contains('\0') => Some(text.clone()),
            _ => {
                let text = format!("must be a string of at most {max} characters, without NUL");
                self.issue(name, text);
                None
            }
        }
    }

    /// A text of any length, which goes where every character may.
    pub(crate) fn string(&mut self, name: &str) -> Option<String> {
        match self.value(name)? {
            Value::String(text) => Some(text.clone()),
            _ => {
                self.issue(name, "must be a string");
                None
            }
        }
    }

    /// A text that must be there and not empty.
    pub(crate) fn required(&mut self, name: &str, max: usize) -> String {
        let text = match self.value(name) {
            Some(_) => self.text(name, max),
            None => {
                self.issue(name, "is required");
                return String::new();
            }
        };
        if text.as_deref() == Some("") {
            self.issue(name, "must not be empty");
        }
        text.unwrap_or_default()
    }

    pub(crate) fn flag(&mut self, name: &str) -> Option<bool> {
        match self.value(name)? {
            Value::Bool(truth) => Some(*truth),
            _ => {
                self.issue(name, "must be true or false");
                None
            }
        }
    }

    pub(crate) fn time(&mut self, name: &str) -> Option<Timestamp> {
        let at = self.value(name)?.as_str().and_then(Timestamp::parse);
        if at.is_none() {
            self.issue(name, "must be an ISO 8601 time, such as 2026-08-21T20:53:11.000Z");
        }
        at
    }

    /// One of these words.
    pub(crate) fn word(&mut self, name: &str, words: &[&str]) -> Option<String> {
        match self.value(name)?.as_str().filter(|text| words.contains(text)) {
            Some(text) => Some(text.to_owned()),
            None => {
                self.issue(name, format!("must be one of {}", words.join(", ")));
                None
            }
        }
    }

    /// A list of texts, each of at most `longest` characters and not empty.
    pub(crate) fn texts(&mut self, name: &str, most: usize, longest: usize) -> Vec<String> {
        let Some(items) = self.items(name, most) else { return Vec::new() };
        let mut texts = Vec::new();
        for (index, item) in items.iter().enumerate() {
            match item.as_str() {
                Some(text) if !text.is_empty() && text.chars().count() <= longest && is_plain(text) => {
                    texts.push(text.to_owned());
                }
                _ => self.issue(
                    &format!("{name}.{index}"),
                    format!("must be a string of 1 to {longest} characters without control characters"),
                ),
            }
        }
        texts
    }

    /// A list of objects, each read by `read`.
    pub(crate) fn objects<T>(
        &mut self,
        name: &str,
        most: usize,
        mut read: impl FnMut(&mut Fields<'_>) -> T,
    ) -> Option<Vec<T>> {
        let items = self.items(name, most)?;
        let mut values = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let path = self.path_of(&format!("{name}.{index}"));
            match item {
                Value::Object(map) => values.push(read(&mut Fields { map, path, issues: self.issues })),
                _ => self.issues.push(Issue { path, message: "must be an object".to_owned() }),
            }
        }
        Some(values)
    }

    fn items(&mut self, name: &str, most: usize) -> Option<Vec<Value>> {
        match self.value(name)? {
            Value::Array(items) if items.len() <= most => Some(items.clone()),
            Value::Array(items) => {
                let text = format!("holds {} items, at most {most} are allowed", items.len());
                self.issue(name, text);
                None
            }
            _ => {
                self.issue(name, "must be a list");
                None
            }
        }
    }
}

fn is_plain(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_field_is_named_with_its_path() {
        let body =
            br#"{"wait_ms":25001,"acks":[{"status_code":99},7],"types":["a",""],"since":"soon","ordered":1}"#;
        let failure = read(body, |fields| {
            fields.integer("wait_ms", 0..=25_000);
            fields.objects("acks", 50, |ack| ack.integer("status_code", 100..=599));
            fields.texts("types", 100, 10);
            fields.time("since");
            fields.flag("ordered");
            fields.required("name", 5);
        });
        let text = format!("{:?}", failure.unwrap_err());
        for path in ["wait_ms", "acks.0.status_code", "acks.1", "types.1", "since", "ordered", "name"] {
            assert!(text.contains(&format!("path: \"{path}\"")), "{path}: {text}");
        }
    }

    #[test]
    fn null_and_unknown_fields_are_absent_and_nothing_is_an_object() {
        assert_eq!(read(br#"{"wait_ms":null,"news":1}"#, |f| f.integer("wait_ms", 0..=1)).unwrap(), None);
        assert_eq!(read(b"", |f| f.flag("x")).unwrap(), None);
        assert_eq!(read(b"[1]", |_| ()).unwrap_err().code(), Code::InvalidJson);
        assert_eq!(read(b"{", |_| ()).unwrap_err().code(), Code::InvalidJson);
    }
}
