//! Placeholders of the fixture files.
//!
//! | written | becomes |
//! | --- | --- |
//! | `{{>github.user}}` | the text of `fixtures/github/parts/user.json` |
//! | `{{uuid:NAME}}` | a random UUID; the same NAME is the same value within one event, here and below |
//! | `{{hex:40:NAME}}`, `{{digits:9:NAME}}`, `{{base62:16:NAME}}` | so many random characters |
//! | `{{hex:40:NAME/12}}` | the first 12 characters of that value |
//! | `{{time}}`, `{{time-90}}`, `{{time+60}}` | now, or so many seconds off, as `2026-08-21T20:53:11Z` |
//! | `{{time_ms}}` | the same with milliseconds |
//! | `{{unix}}` | the same in seconds since the Unix epoch |

use std::collections::HashMap;
use std::time::Duration;

use crate::clock::{Dice, Timestamp};
use crate::json::{self, Style};

macro_rules! parts {
    ($($provider:literal { $($name:literal)* })*) => {
        &[$($((
            concat!($provider, ".", $name),
            include_str!(concat!("fixtures/", $provider, "/parts/", $name, ".json")),
        ),)*)*]
    };
}

/// What several fixtures of a provider have in common.
static PARTS: &[(&str, &str)] = parts! {
    "github" {
        "ends" "head_commit" "issue_head" "issue_tail" "repository" "repository_rest" "repository_urls" "user"
    }
};

/// Parts in parts in parts, and no deeper.
const MAX_NESTING: usize = 8;

const HEX: &[u8] = b"0123456789abcdef";
const DIGITS: &[u8] = b"0123456789";
const BASE62: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The text with every placeholder filled. One that isn't known stays, which a test of the files would notice.
pub(super) fn fill(text: &str, now: Timestamp, dice: &dyn Dice) -> String {
    let mut values = HashMap::new();
    let mut out = String::with_capacity(2 * text.len());
    Filler { now, dice, values: &mut values }.fill(text, 0, &mut out);
    out
}

/// The body without the white space that makes it readable in its file; other text as it is.
pub(super) fn compact(body: &str) -> String {
    let body = body.trim();
    json::document(body.as_bytes())
        .and_then(|document| Style::COMPACT.write(document))
        .unwrap_or_else(|| body.to_owned())
}

struct Filler<'a> {
    now: Timestamp,
    dice: &'a dyn Dice,
    /// What each placeholder became.
    values: &'a mut HashMap<String, String>,
}

impl Filler<'_> {
    fn fill(&mut self, text: &str, depth: usize, out: &mut String) {
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            out.push_str(before);
            let Some((placeholder, after)) = after.split_once("}}") else {
                out.push_str("{{");
                rest = after;
                continue;
            };
            self.one(placeholder, depth, out);
            rest = after;
        }
        out.push_str(rest);
    }

    fn one(&mut self, placeholder: &str, depth: usize, out: &mut String) {
        let part =
            placeholder.strip_prefix('>').and_then(|name| PARTS.iter().find(|(known, _)| *known == name));
        if let Some((_, part)) = part
            && depth < MAX_NESTING
        {
            return self.fill(part.trim_end(), depth + 1, out);
        }
        let (whole, length) = match placeholder.split_once('/') {
            Some((whole, length)) => (whole, length.parse().ok()),
            None => (placeholder, None),
        };
        match self.value(whole) {
            Some(value) => out.extend(value.chars().take(length.unwrap_or(usize::MAX))),
            None => out.extend(["{{", placeholder, "}}"]),
        }
    }

    fn value(&mut self, placeholder: &str) -> Option<String> {
        if let Some(known) = self.values.get(placeholder) {
            return Some(known.clone());
        }
        let value = self.time(placeholder).or_else(|| self.random(placeholder))?;
        self.values.insert(placeholder.to_owned(), value.clone());
        Some(value)
    }

    fn time(&self, placeholder: &str) -> Option<String> {
        let (kind, offset) = placeholder.split_at(placeholder.find(['+', '-']).unwrap_or(placeholder.len()));
        let seconds = Duration::from_secs(offset.get(1..).unwrap_or("0").parse().ok()?);
        let at = if offset.starts_with('-') { self.now - seconds } else { self.now + seconds };
        match kind {
            "time_ms" => Some(at.to_string()),
            "time" => at.to_string().split_once('.').map(|(whole, _)| format!("{whole}Z")),
            "unix" => Some(at.unix_seconds().to_string()),
            _ => None,
        }
    }

    fn random(&self, placeholder: &str) -> Option<String> {
        let mut words = placeholder.split(':');
        let kind = words.next()?;
        if kind == "uuid" {
            return Some(self.uuid());
        }
        let length = words.next()?.parse().ok()?;
        match kind {
            "hex" => Some(self.text(HEX, length)),
            "base62" => Some(self.text(BASE62, length)),
            // A number must not begin with a zero.
            "digits" => {
                Some(self.text(&DIGITS[1..], 1) + &self.text(DIGITS, usize::saturating_sub(length, 1)))
            }
            _ => None,
        }
    }

    fn text(&self, alphabet: &[u8], length: usize) -> String {
        let mut bytes = vec![0; length];
        self.dice.fill(&mut bytes);
        bytes.iter().map(|byte| char::from(alphabet[usize::from(*byte) % alphabet.len()])).collect()
    }

    /// A random UUID (RFC 9562, version 4).
    fn uuid(&self) -> String {
        let mut bytes = [0; 16];
        self.dice.fill(&mut bytes);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let mut text = String::with_capacity(36);
        for (at, byte) in bytes.iter().enumerate() {
            if [4, 6, 8, 10].contains(&at) {
                text.push('-');
            }
            text += &format!("{byte:02x}");
        }
        text
    }
}
