//! The one type that holds secrets: it can be used, not printed.

use std::fmt;

use subtle::ConstantTimeEq;

/// A secret text. It has no `Display`, its `Debug` hides it, and it compares in constant time.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes a secret as the operator pasted it.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether nothing but white space is there.
    pub fn is_blank(&self) -> bool {
        self.0.trim().is_empty()
    }

    /// `whsec_abcd…`, where a person has to recognise it and others may look on.
    pub fn masked(&self) -> String {
        let shown = if self.0.starts_with("whsec_") { 10 } else { 4 };
        if self.0.chars().count() <= shown + 4 {
            return "…".to_owned();
        }
        self.0.chars().take(shown).chain(['…']).collect()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_printed() {
        let secret = Secret::new("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=");
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert_eq!(secret.masked(), "whsec_MDEy…");
        assert_eq!(Secret::new("short").masked(), "…");
    }
}
