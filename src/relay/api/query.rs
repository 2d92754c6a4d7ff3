//! Reads a query string parameter by parameter, so that every wrong one is named in one answer.

use std::ops::RangeInclusive;

use axum::extract::FromRequestParts;
use http::request::Parts;

use crate::clock::Timestamp;
use crate::protocol::error::Issue;
use crate::protocol::limits;

use super::error::Failure;

/// The parameters of a request; unknown ones are ignored, of repeats the last counts.
#[derive(Debug)]
pub(crate) struct Query {
    pairs: Vec<(String, String)>,
    issues: Vec<Issue>,
}

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = url::form_urlencoded::parse(text.as_bytes()).into_owned().collect();
        Self { pairs, issues: Vec::new() }
    }

    /// The parameter unless it is absent or empty.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        let found = self.pairs.iter().rev().find(|(key, _)| key == name);
        let text = found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())?;
        if text.contains('\0') {
            self.issue(name, "must not hold a NUL character".to_owned());
            return None;
        }
        Some(text)
    }

    pub(crate) fn integer(&mut self, name: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let text = self.text(name)?;
        let number = text.parse().ok().filter(|number| range.contains(number));
        if number.is_none() {
            self.issue(name, format!("must be an integer from {} to {}", range.start(), range.end()));
        }
        number
    }

    pub(crate) fn time(&mut self, name: &str) -> Option<Timestamp> {
        let at = Timestamp::parse(&self.text(name)?);
        if at.is_none() {
            self.issue(name, "must be an ISO 8601 time, such as 2026-08-21T20:53:11.000Z".to_owned());
        }
        at
    }

    pub(crate) fn word<T: Copy>(&mut self, name: &str, words: &[(T, &str)]) -> Option<T> {
        let text = self.text(name)?;
        let found = words.iter().find(|(_, word)| *word == text).map(|(value, _)| *value);
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(_, word)| *word).collect();
            self.issue(name, format!("must be one of {}", known.join(", ")));
        }
        found
    }

    /// `limit`, 1 to 100.
    pub(crate) fn page(&mut self) -> u64 {
        self.integer("limit", 1..=limits::MAX_PAGE).unwrap_or(limits::DEFAULT_PAGE)
    }

    pub(crate) fn issue(&mut self, name: &str, message: String) {
        self.issues.push(Issue { path: name.to_owned(), message });
    }

    /// Fails when any parameter was wrong.
    pub(crate) fn check(self) -> Result<(), Failure> {
        if self.issues.is_empty() { Ok(()) } else { Err(Failure::fields(self.issues)) }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default()))
    }
}
