//! `--route PATTERN=TARGET`: which events go elsewhere.

use std::fmt;

use super::{Target, TargetError};
use crate::glob;

/// Events that match go to this target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pattern: Pattern,
    target: Target,
}

/// What a route looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Source(String),
    Type(String),
    Either(String),
}

impl Route {
    /// Reads `source:github=3000/gh`, `type:invoice.*=:4000/billing` or, for either, `invoice.*=4000`.
    pub fn parse(text: &str) -> Result<Self, RouteError> {
        let (pattern, target) =
            text.split_once('=').ok_or_else(|| RouteError::NoTarget { text: text.to_owned() })?;
        let (kind, glob) = match pattern.split_once(':') {
            Some(("source", glob)) => (Pattern::Source as fn(String) -> Pattern, glob),
            Some(("type", glob)) => (Pattern::Type as fn(String) -> Pattern, glob),
            Some((word, _)) => return Err(RouteError::UnknownWord { word: word.to_owned() }),
            None => (Pattern::Either as fn(String) -> Pattern, pattern),
        };
        if glob.is_empty() || glob.contains(char::is_whitespace) {
            return Err(RouteError::BadPattern { pattern: pattern.to_owned() });
        }
        Ok(Self { pattern: kind(glob.to_owned()), target: Target::parse(target)? })
    }

    /// Whether an event of this source (none for one made over the API) and type goes this way.
    pub fn matches(&self, source: Option<&str>, event_type: &str) -> bool {
        let source_fits = |pattern: &str| source.is_some_and(|source| glob::matches(pattern, source));
        match &self.pattern {
            Pattern::Source(pattern) => source_fits(pattern),
            Pattern::Type(pattern) => glob::matches(pattern, event_type),
            Pattern::Either(pattern) => source_fits(pattern) || glob::matches(pattern, event_type),
        }
    }

    /// Where it leads.
    pub const fn target(&self) -> &Target {
        &self.target
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Pattern::Source(pattern) => write!(f, "source:{pattern}={}", self.target),
            Pattern::Type(pattern) => write!(f, "type:{pattern}={}", self.target),
            Pattern::Either(pattern) => write!(f, "{pattern}={}", self.target),
        }
    }
}

impl std::str::FromStr for Route {
    type Err = RouteError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// Why a text is no route.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// No `=`.
    #[error("`{text}` has no target: write PATTERN=TARGET, as in type:invoice.*=:4000/billing")]
    NoTarget {
        /// What was written.
        text: String,
    },
    /// Something else than `source:` or `type:`.
    #[error("`{word}:` is unknown: write source:NAME=TARGET or type:TYPE=TARGET")]
    UnknownWord {
        /// What was written.
        word: String,
    },
    /// No pattern, or white space in it.
    #[error("`{pattern}` is no pattern: write a name or a type, with * for any text")]
    BadPattern {
        /// What was written.
        pattern: String,
    },
    /// The target is wrong.
    #[error(transparent)]
    Target(#[from] TargetError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_look_where_they_say() {
        let goes = |route: &str, source, kind| Route::parse(route).unwrap().matches(source, kind);
        assert!(goes("source:github=3000/gh", Some("github"), "push"));
        assert!(!goes("source:github=3000/gh", Some("stripe"), "github"));
        assert!(!goes("source:*=3000", None, "push"));
        assert!(goes("type:invoice.*=:4000/billing", None, "invoice.line.paid"));
        assert!(!goes("type:invoice.*=:4000/billing", Some("invoice.x"), "push"));
        assert!(goes("git*=3000", Some("github"), "push") && goes("pu*=3000", Some("github"), "push"));
        assert_eq!(Route::parse("a=3000/x?y=z").unwrap().to_string(), "a=http://localhost:3000/x?y=z");
    }

    #[test]
    fn faults_are_named() {
        let refused = |text: &str| Route::parse(text).unwrap_err().to_string();
        assert!(refused("github").contains("no target"));
        assert!(refused("kind:x=3000").contains("`kind:` is unknown"));
        assert!(refused("source:=3000").contains("no pattern"));
        assert!(refused("=3000").contains("no pattern"));
        assert!(refused("type:x=").contains("the target is empty"));
    }
}
