//! `--override data.object.amount=5`: another value in a body, everything else as it was.

use serde_json::value::RawValue;

use crate::json::{self, Shape};

/// One value to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    path: Vec<String>,
    /// As JSON.
    value: String,
}

/// Why an override can't be read or applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// No `=`.
    #[error("`{text}`: write PATH=VALUE, as in data.object.amount=5")]
    NoValue {
        /// What was written.
        text: String,
    },
    /// An empty part of the path.
    #[error("`{path}`: a name is missing between the dots")]
    EmptyName {
        /// The path.
        path: String,
    },
    /// The body is no JSON.
    #[error("the body is no JSON, so that nothing in it can be set")]
    NotJson,
    /// The path leads into something that is neither object nor array.
    #[error("`{path}` is neither an object nor an array; nothing below it can be set")]
    NotAContainer {
        /// The path up to there.
        path: String,
    },
    /// The path leads to an item that the array doesn't have.
    #[error("`{path}`: the array there has {length} items, counted from 0")]
    NoItem {
        /// The path up to the item.
        path: String,
        /// How many there are.
        length: usize,
    },
}

impl Override {
    /// Reads `PATH=VALUE`: names and array indexes with dots between; a value that is JSON is taken as that
    /// (`5`, `true`, `null`, `"5"`, `{"a":1}`), anything else as a text.
    pub fn parse(text: &str) -> Result<Self, OverrideError> {
        let (path, value) =
            text.split_once('=').ok_or_else(|| OverrideError::NoValue { text: text.to_owned() })?;
        let path_names: Vec<String> = path.split('.').map(str::to_owned).collect();
        if path_names.iter().any(String::is_empty) {
            return Err(OverrideError::EmptyName { path: path.to_owned() });
        }
        let value = match json::document(value.as_bytes()) {
            Some(json) => json.get().to_owned(),
            None => quote(value),
        };
        Ok(Self { path: path_names, value })
    }

    /// The body with the value in its place; objects that are missing on the way are made.
    pub fn apply(&self, body: &[u8]) -> Result<Vec<u8>, OverrideError> {
        let document = json::document(body).ok_or(OverrideError::NotJson)?;
        self.set(document, 0).map(String::into_bytes)
    }

    /// `raw` with the value at the rest of the path from `depth` on.
    fn set(&self, raw: &RawValue, depth: usize) -> Result<String, OverrideError> {
        let Some(name) = self.path.get(depth) else {
            return Ok(self.value.clone());
        };
        match json::shape(raw) {
            Some(Shape::Object(members)) => {
                let mut found = false;
                let mut written = Vec::with_capacity(members.len() + 1);
                for (member, value) in &members {
                    let value =
                        if member == name { self.set(value, depth + 1)? } else { value.get().to_owned() };
                    found |= member == name;
                    written.push(format!("{}:{value}", quote(member)));
                }
                if !found {
                    written.push(format!("{}:{}", quote(name), self.made(depth + 1)));
                }
                Ok(format!("{{{}}}", written.join(",")))
            }
            Some(Shape::Array(items)) => {
                let no_item = || OverrideError::NoItem { path: self.path_to(depth + 1), length: items.len() };
                let index =
                    name.parse::<usize>().ok().filter(|index| *index < items.len()).ok_or_else(no_item)?;
                let mut written: Vec<String> = items.iter().map(|item| item.get().to_owned()).collect();
                written[index] = self.set(items[index], depth + 1)?;
                Ok(format!("[{}]", written.join(",")))
            }
            _ => Err(OverrideError::NotAContainer { path: self.path_to(depth) }),
        }
    }

    /// The value inside the objects that the rest of the path names.
    fn made(&self, depth: usize) -> String {
        let rest = self.path.get(depth..).unwrap_or_default();
        rest.iter().rev().fold(self.value.clone(), |value, name| format!("{{{}:{value}}}", quote(name)))
    }

    fn path_to(&self, depth: usize) -> String {
        let path = self.path.get(..depth).unwrap_or_default().join(".");
        if path.is_empty() { "the body".to_owned() } else { path }
    }
}

impl std::str::FromStr for Override {
    type Err = OverrideError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// A text as JSON.
fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(change: &str, body: &str) -> Result<String, OverrideError> {
        let body = Override::parse(change)?.apply(body.as_bytes())?;
        Ok(String::from_utf8(body).unwrap())
    }

    #[test]
    fn one_value_changes_and_nothing_else() {
        let body =
            r#"{"id":12345678901234567890,"data":{"object":{"amount":1.00,"tags":["a","b"]}},"z":"é\/"}"#;
        let amount = body.replace("1.00", "5");
        assert_eq!(apply("data.object.amount=5", body), Ok(amount));
        assert_eq!(apply("data.object.tags.1=x=y", body), Ok(body.replace("\"b\"", "\"x=y\"")));
        assert_eq!(
            apply("data.object={\"a\":null}", body).unwrap(),
            body.replace(r#"{"amount":1.00,"tags":["a","b"]}"#, r#"{"a":null}"#)
        );
        assert_eq!(apply("a.b.c=\"5\"", r#"{"x":1}"#).unwrap(), r#"{"x":1,"a":{"b":{"c":"5"}}}"#);
        assert_eq!(apply("x=", r#"{"x":1}"#).unwrap(), r#"{"x":""}"#);
    }

    #[test]
    fn faults_are_named() {
        let refused = |change: &str, body: &str| apply(change, body).unwrap_err().to_string();
        assert!(refused("amount", "{}").contains("PATH=VALUE"));
        assert!(refused("a..b=1", "{}").contains("name is missing"));
        assert!(refused("=1", "{}").contains("name is missing"));
        assert!(refused("a=1", "nope").contains("no JSON"));
        assert_eq!(
            refused("a.b.c=1", r#"{"a":{"b":7}}"#),
            "`a.b` is neither an object nor an array; nothing below it can be set"
        );
        assert_eq!(refused("a.2=1", r#"{"a":[1,2]}"#), "`a.2`: the array there has 2 items, counted from 0");
        assert!(refused("a=1", "7").contains("the body"));
    }
}
