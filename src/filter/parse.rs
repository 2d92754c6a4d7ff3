//! The grammar of a filter: a path, and perhaps an operator with a value.

use super::{Filter, Operator, Subject, Test};

/// Longer operators first, so that `>=` isn't read as `>`.
const OPERATORS: &[(&str, Operator)] = &[
    ("!=", Operator::Unequal),
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    ("=", Operator::Equal),
    (">", Operator::Greater),
    ("<", Operator::Less),
    ("~", Operator::Glob),
];

/// Why a text is no filter, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault} (at position {position} of `{text}`)")]
pub struct FilterError {
    /// What was written.
    pub text: String,
    /// Where the fault is, counted in characters from 1.
    pub position: usize,
    /// What it is.
    pub fault: FilterFault,
}

/// A fault of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterFault {
    /// Nothing is there.
    #[error("the filter is empty: write body.PATH, header.NAME or query.NAME")]
    Empty,
    /// The first word is none of the three.
    #[error("a filter begins with `body.`, `header.` or `query.`")]
    Subject,
    /// No name where one must stand.
    #[error("a name is missing")]
    Name,
    /// A quote that doesn't end.
    #[error("the quote is not closed")]
    Quote,
    /// Text after a closing quote.
    #[error("nothing may follow a closing quote but a dot, a bracket or an operator")]
    AfterQuote,
    /// `[x]`.
    #[error("an index is a number in brackets, as in [0]")]
    Index,
    /// `==`, `=>`, `!`, ...
    #[error("no such operator: write = != > >= < <= or ~")]
    Operator,
    /// A character that a header name can't have.
    #[error("a header name can't have this character")]
    HeaderName,
    /// `>` or `<` without a value, and so on.
    #[error("a value is missing: write `=\"\"` for an empty one")]
    Value,
}

pub(super) fn filter(text: &str) -> Result<Filter, FilterError> {
    let mut reader = Reader { text, at: 0 };
    let parsed = reader.filter();
    parsed.map_err(|fault| FilterError {
        text: text.to_owned(),
        position: text[..reader.at].chars().count() + 1,
        fault,
    })
}

/// A place in the text; on a fault it stands where the fault is.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn filter(&mut self) -> Result<Filter, FilterFault> {
        if self.text.trim().is_empty() {
            return Err(FilterFault::Empty);
        }
        let subject = self.subject()?;
        let test = self.test()?;
        Ok(Filter { text: self.text.to_owned(), subject, test })
    }

    fn subject(&mut self) -> Result<Subject, FilterFault> {
        match self.plain(|c| c.is_ascii_alphabetic()) {
            "body" => self.path().map(Subject::Body),
            "header" => {
                self.dot()?;
                let start = self.at;
                let name = self.plain(|c| !is_operator(c));
                if name.is_empty() {
                    return Err(FilterFault::Name);
                }
                match name.find(|c| !is_token(c)) {
                    None => Ok(Subject::Header(name.to_owned())),
                    Some(at) => {
                        self.at = start + at;
                        Err(FilterFault::HeaderName)
                    }
                }
            }
            "query" => {
                self.dot()?;
                self.name(|c| !is_operator(c)).map(Subject::Query)
            }
            _ => {
                self.at = 0;
                Err(FilterFault::Subject)
            }
        }
    }

    /// `.a."b.c"[0].d`, or nothing for the whole body.
    fn path(&mut self) -> Result<Vec<String>, FilterFault> {
        let mut path = Vec::new();
        loop {
            if self.take(".") {
                path.push(self.name(|c| !is_operator(c) && !matches!(c, '.' | '[' | ']' | '"'))?);
            } else if self.take("[") {
                let index = self.plain(|c| c.is_ascii_digit());
                if index.is_empty() || !self.take("]") {
                    return Err(FilterFault::Index);
                }
                path.push(index.to_owned());
            } else if self.rest().is_empty() || self.rest().starts_with(is_operator) {
                return Ok(path);
            } else {
                let quoted = self.text[..self.at].ends_with('"');
                return Err(if quoted { FilterFault::AfterQuote } else { FilterFault::Name });
            }
        }
    }

    fn test(&mut self) -> Result<Option<Test>, FilterFault> {
        if self.rest().is_empty() {
            return Ok(None);
        }
        let found = OPERATORS.iter().find(|(text, _)| self.rest().starts_with(text));
        let Some((text, operator)) = found else {
            let quoted = self.text[..self.at].ends_with('"');
            return Err(if quoted { FilterFault::AfterQuote } else { FilterFault::Operator });
        };
        self.at += text.len();
        if self.rest().starts_with(['=', '>', '<']) {
            return Err(FilterFault::Operator);
        }
        let quoted = self.rest().starts_with('"');
        let value = if quoted { self.quoted()? } else { self.rest().to_owned() };
        if value.is_empty() && !quoted {
            return Err(FilterFault::Value);
        }
        if quoted && !self.rest().is_empty() {
            return Err(FilterFault::AfterQuote);
        }
        Ok(Some(Test { operator: *operator, value, quoted }))
    }

    fn dot(&mut self) -> Result<(), FilterFault> {
        if self.take(".") { Ok(()) } else { Err(FilterFault::Subject) }
    }

    /// A name in quotes, or as long as its characters fit.
    fn name(&mut self, fits: fn(char) -> bool) -> Result<String, FilterFault> {
        if self.rest().starts_with('"') {
            return self.quoted();
        }
        let name = self.plain(fits);
        if name.is_empty() { Err(FilterFault::Name) } else { Ok(name.to_owned()) }
    }

    /// The text between quotes; `\"` and `\\` stand for themselves.
    fn quoted(&mut self) -> Result<String, FilterFault> {
        let mut text = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += at + 1;
                    return Ok(text);
                }
                '\\' => match chars.next() {
                    Some((_, c @ ('"' | '\\'))) => text.push(c),
                    Some((_, c)) => text.extend(['\\', c]),
                    None => break,
                },
                c => text.push(c),
            }
        }
        Err(FilterFault::Quote)
    }

    fn plain(&mut self, fits: fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let found = &rest[..rest.find(|c| !fits(c)).unwrap_or(rest.len())];
        self.at += found.len();
        found
    }

    fn take(&mut self, text: &str) -> bool {
        let there = self.rest().starts_with(text);
        if there {
            self.at += text.len();
        }
        there
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }
}

/// Whether an operator begins so; in a path such a character stands in quotes.
const fn is_operator(c: char) -> bool {
    matches!(c, '=' | '!' | '>' | '<' | '~')
}

/// Whether a header's name may have it (RFC 9110, section 5.6.2).
fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}
