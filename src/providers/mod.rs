//! What providers send: realistic events as data files, with fresh ids and times for each send.
//!
//! A fixture is a file under `fixtures/`: a line about it, the headers as the provider sends them, an empty line, the
//! body as a template (`template`). Adding one means adding a file and its line in the table. Nothing is signed here:
//! whoever sends it signs, with the scheme of its provider.

mod overrides;
mod template;

use std::fmt;

use bytes::Bytes;

use crate::clock::{Clock, Dice};
use crate::headers::Headers;
use crate::signature::{self, Scheme};

pub use overrides::{Override, OverrideError};

/// A provider: the first word of its fixtures' names, and how it signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its name, which is also the name for a source of it.
    pub name: &'static str,
    scheme: &'static str,
}

/// Every provider with a fixture.
const PROVIDERS: &[Provider] = &[
    Provider { name: "github", scheme: "github" },
    Provider { name: "standard", scheme: "standard-webhooks" },
];

macro_rules! fixtures {
    ($($provider:literal { $($event:literal)* })*) => {
        &[$($(Fixture {
            name: concat!($provider, ".", $event),
            provider: $provider,
            text: include_str!(concat!("fixtures/", $provider, "/", $event, ".http")),
        },)*)*]
    };
}

/// Every fixture.
static FIXTURES: &[Fixture] = fixtures! {
    "github" {
        "issue_comment.created"
        "issues.opened"
        "ping"
        "pull_request.opened"
        "push"
        "release.published"
        "workflow_run.completed"
    }
    "standard" {
        "customer.created"
        "invoice.paid"
        "invoice.payment_failed"
        "order.created"
        "order.shipped"
        "subscription.canceled"
    }
};

impl Provider {
    /// How it signs.
    pub fn scheme(self) -> Scheme {
        // A test holds the table to schemes that exist.
        Scheme::parse(self.scheme).unwrap_or(Scheme::none())
    }
}

/// An event as a provider sends it.
#[derive(Debug, PartialEq, Eq)]
pub struct Fixture {
    name: &'static str,
    provider: &'static str,
    text: &'static str,
}

/// A fixture made into one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// How its provider signs.
    pub scheme: Scheme,
    /// The headers without the signature's own.
    pub headers: Headers,
    /// The exact bytes.
    pub body: Bytes,
    /// The type that a receiver will read from it.
    pub event_type: String,
    /// The id that its signature carries; for a scheme without one the provider's own id of the event.
    pub event_id: String,
}

/// Every fixture, by name.
pub fn all() -> &'static [Fixture] {
    FIXTURES
}

/// The fixture of this name.
pub fn find(name: &str) -> Result<&'static Fixture, UnknownFixture> {
    FIXTURES
        .iter()
        .find(|fixture| fixture.name == name)
        .ok_or_else(|| UnknownFixture { name: name.to_owned(), suggestions: near(name) })
}

impl Fixture {
    /// `github.push`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Whose event it is.
    pub fn provider(&self) -> Provider {
        let found = PROVIDERS.iter().find(|provider| provider.name == self.provider);
        found.copied().unwrap_or(Provider { name: self.provider, scheme: "none" })
    }

    /// What happened, in one line.
    pub fn about(&self) -> &'static str {
        self.text.strip_prefix("# ").and_then(|text| text.lines().next()).unwrap_or_default()
    }

    /// One event with fresh ids and times.
    pub fn render(&self, clock: &dyn Clock, dice: &dyn Dice) -> Rendered {
        let scheme = self.provider().scheme();
        let text = template::fill(self.text, clock.now(), dice);
        let (head, body) = text.split_once("\n\n").unwrap_or((&text, ""));
        let mut headers: Headers = head
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name, value.trim()))
            .collect();
        let body = Bytes::from(template::compact(body));
        let facts = signature::facts(scheme, &headers, &body);
        for name in scheme.signature_headers() {
            headers.remove(name);
        }
        let event_type = facts.type_or_unknown().to_owned();
        Rendered { scheme, headers, body, event_type, event_id: facts.event_id.unwrap_or_default() }
    }
}

impl Rendered {
    /// The same event with other values in its body.
    pub fn with(mut self, overrides: &[Override]) -> Result<Self, OverrideError> {
        for change in overrides {
            self.body = Bytes::from(change.apply(&self.body)?);
        }
        let facts = signature::facts(self.scheme, &self.headers, &self.body);
        self.event_type = facts.type_or_unknown().to_owned();
        Ok(self)
    }
}

/// A name that no fixture has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFixture {
    /// What was written.
    pub name: String,
    /// Names that are near, nearest first.
    pub suggestions: Vec<&'static str>,
}

impl fmt::Display for UnknownFixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no fixture `{}`", self.name)?;
        let names: Vec<String> = self.suggestions.iter().map(|name| format!("`{name}`")).collect();
        if names.is_empty() { Ok(()) } else { write!(f, "; near it are {}", names.join(", ")) }
    }
}

impl std::error::Error for UnknownFixture {}

/// How many near names are named.
const MAX_SUGGESTIONS: usize = 3;
/// The least likeness that is worth naming.
const MIN_LIKENESS: usize = 3;

/// The names most like this one.
fn near(name: &str) -> Vec<&'static str> {
    let name = name.to_ascii_lowercase();
    let mut scored: Vec<_> =
        FIXTURES.iter().map(|fixture| (likeness(&name, fixture.name), fixture.name)).collect();
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    let near = scored.into_iter().filter(|(score, _)| *score >= MIN_LIKENESS);
    near.take(MAX_SUGGESTIONS).map(|(_, name)| name).collect()
}

/// Words that both have count most, then how much they begin and end alike.
fn likeness(a: &str, b: &str) -> usize {
    let shared =
        a.split(['.', '_', '-']).filter(|word| b.split(['.', '_']).any(|other| other == *word)).count();
    let prefix = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let suffix = a.chars().rev().zip(b.chars().rev()).take_while(|(a, b)| a == b).count();
    10 * shared + prefix + suffix
}

#[cfg(test)]
mod tests;
