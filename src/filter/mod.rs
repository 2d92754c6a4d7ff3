//! `--filter EXPR`: which events are forwarded, by what is in them.
//!
//! `body.amount>=100`, `body.data.object.status=paid`, `body.items[0].sku~AB-*`, `header.x-shop=acme`, `query.a=1`, and
//! a bare path, which holds where there is such a value. Operators: `=` `!=` `>` `>=` `<` `<=` and `~` (a glob).
//! What is missing, or no JSON, never holds, whatever the operator. A segment or a value with special characters
//! stands in double quotes: `body."a.b"="x=y"`; a quoted value is a text and no number.

mod decimal;
mod parse;

use std::cmp::Ordering;
use std::fmt;

use serde_json::value::RawValue;

use crate::glob;
use crate::headers::Headers;
use crate::json::{self, Shape};
use decimal::Decimal;
pub use parse::{FilterError, FilterFault};

/// One condition on an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    text: String,
    subject: Subject,
    test: Option<Test>,
}

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    /// The value at this path of a JSON body.
    Body(Vec<String>),
    /// A header.
    Header(String),
    /// A field of the query.
    Query(String),
}

/// What it is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Test {
    operator: Operator,
    value: String,
    /// It was quoted: a text, even where it looks like a number.
    quoted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    Unequal,
    Greater,
    AtLeast,
    Less,
    AtMost,
    Glob,
}

/// A value found in an event.
#[derive(Debug)]
enum Found {
    /// A JSON string, a header's or a query field's value.
    Text(String),
    /// A JSON number as written.
    Number(String),
    /// `true`, `false` or `null`.
    Word(String),
    /// An array or an object.
    Compound,
}

impl Filter {
    /// Reads an expression.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        parse::filter(text)
    }

    /// Whether the event satisfies it.
    pub fn holds(&self, headers: &Headers, query: Option<&str>, body: &[u8]) -> bool {
        let found = self.subject.find(headers, query, body);
        match &self.test {
            None => !found.is_empty(),
            Some(test) if test.operator == Operator::Unequal => {
                !found.is_empty() && !found.iter().any(|found| test.equals(found))
            }
            Some(test) => found.iter().any(|found| test.holds(found)),
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Filter {
    type Err = FilterError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl Subject {
    /// The values there: none where it is missing, several where a header or a field repeats.
    fn find(&self, headers: &Headers, query: Option<&str>, body: &[u8]) -> Vec<Found> {
        match self {
            Self::Body(path) => json::at(body, path).and_then(read).into_iter().collect(),
            Self::Header(name) => headers.all(name).map(|value| Found::Text(value.to_owned())).collect(),
            Self::Query(name) => url::form_urlencoded::parse(query.unwrap_or_default().as_bytes())
                .filter(|(field, _)| field == name)
                .map(|(_, value)| Found::Text(value.into_owned()))
                .collect(),
        }
    }
}

fn read(raw: &RawValue) -> Option<Found> {
    Some(match json::shape(raw)? {
        Shape::Text(text) => Found::Text(text),
        Shape::Number(text) => Found::Number(text.to_owned()),
        Shape::Word => Found::Word(raw.get().to_owned()),
        Shape::Array(_) | Shape::Object(_) => Found::Compound,
    })
}

impl Test {
    fn holds(&self, found: &Found) -> bool {
        let ordered = |wanted: fn(Ordering) -> bool| self.compare(found).is_some_and(wanted);
        match self.operator {
            Operator::Equal => self.equals(found),
            Operator::Unequal => !self.equals(found),
            Operator::Greater => ordered(Ordering::is_gt),
            Operator::AtLeast => ordered(Ordering::is_ge),
            Operator::Less => ordered(Ordering::is_lt),
            Operator::AtMost => ordered(Ordering::is_le),
            Operator::Glob => match found {
                Found::Text(text) | Found::Number(text) | Found::Word(text) => {
                    glob::matches(&self.value, text)
                }
                Found::Compound => false,
            },
        }
    }

    /// Numbers are equal by value (`1.0` is `1`), everything else to the letter.
    fn equals(&self, found: &Found) -> bool {
        match found {
            Found::Text(text) => *text == self.value,
            Found::Word(word) => !self.quoted && *word == self.value,
            Found::Number(_) => self.compare(found) == Some(Ordering::Equal),
            Found::Compound => false,
        }
    }

    /// Numbers with numbers, also where a text holds one; texts with texts by their characters, which is right for
    /// ISO times; nothing else has an order.
    fn compare(&self, found: &Found) -> Option<Ordering> {
        let wanted = if self.quoted { None } else { Decimal::parse(&self.value) };
        match (found, wanted) {
            (Found::Number(text) | Found::Text(text), Some(wanted)) => {
                Some(Decimal::parse(text)?.cmp(&wanted))
            }
            (Found::Text(text), None) => Some(text.as_str().cmp(&self.value)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
