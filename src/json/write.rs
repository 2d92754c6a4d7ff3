//! Writing JSON as one or another library does.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::{Shape, shape};

/// JSON that is nested deeper is not written.
const MAX_DEPTH: usize = 128;

/// How a JSON library writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    comma: &'static str,
    colon: &'static str,
    indent: Option<&'static str>,
    numbers: Numbers,
    /// Whether everything beyond ASCII is escaped.
    ascii: bool,
}

/// What becomes of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    /// They stay as they are written.
    Kept,
    /// Each is read as a double and written as JavaScript does.
    Doubles,
}

impl Style {
    /// Without white space, numbers as they were.
    pub(crate) const COMPACT: Self =
        Self { comma: ",", colon: ":", indent: None, numbers: Numbers::Kept, ascii: false };
    /// As JavaScript's `JSON.stringify(x)`.
    pub(crate) const SCRIPT: Self = Self { numbers: Numbers::Doubles, ..Self::COMPACT };
    /// As JavaScript's `JSON.stringify(x, null, 2)`.
    pub(crate) const SCRIPT_INDENTED: Self = Self { colon: ": ", indent: Some("  "), ..Self::SCRIPT };
    /// As Python's `json.dumps(x)`.
    pub(crate) const SPACED: Self = Self { comma: ", ", colon: ": ", ascii: true, ..Self::COMPACT };

    /// The document in this style; of members with the same name the last. `None` when it is nested too deeply.
    pub(crate) fn write(self, document: &RawValue) -> Option<String> {
        let mut out = String::with_capacity(document.get().len());
        self.value(document, 0, &mut out)?;
        Some(out)
    }

    fn value(self, raw: &RawValue, depth: usize, out: &mut String) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match shape(raw)? {
            Shape::Word => out.push_str(raw.get()),
            Shape::Number(text) if self.numbers == Numbers::Doubles => out.push_str(&script_number(text)?),
            Shape::Number(text) => out.push_str(text),
            Shape::Text(text) => self.text(&text, out)?,
            Shape::Array(items) => {
                self.all('[', ']', depth, out, &items, |item, out| self.value(item, depth + 1, out))?;
            }
            Shape::Object(members) => {
                let members = last_of_each(members);
                self.all('{', '}', depth, out, &members, |(name, value), out| {
                    self.text(name, out)?;
                    out.push_str(self.colon);
                    self.value(value, depth + 1, out)
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
        if !self.ascii {
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
    let mut at = HashMap::with_capacity(members.len());
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
