//! Why a webhook is refused: a label for metrics, a text for the operator. The sender hears neither.

/// The reason of a refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// There is no key to verify with.
    #[error("no secret is configured, and a signed scheme is never taken unverified")]
    NoSecret,
    /// A header is absent or empty.
    #[error("`{name}` is missing or empty")]
    MissingHeader {
        /// Which.
        name: &'static str,
    },
    /// A header is there more than once.
    #[error("`{name}` is there more than once")]
    DuplicateHeader {
        /// Which.
        name: &'static str,
    },
    /// Two families of headers, one of them incomplete.
    #[error("`{name}` is missing: two families of signature headers are mixed")]
    MixedHeaders {
        /// The absent one.
        name: &'static str,
    },
    /// The timestamp is no whole number.
    #[error("timestamp not an integer: `{name}` must be whole unix seconds")]
    MalformedTimestamp {
        /// The header.
        name: &'static str,
    },
    /// Signed too long ago.
    #[error("timestamp {age_s} s old, at most {limit_s} s are allowed: an old message, or a clock is wrong")]
    Stale {
        /// How old.
        age_s: i64,
        /// How old it may be.
        limit_s: i64,
    },
    /// Signed too far ahead.
    #[error("timestamp {ahead_s} s in the future, at most {limit_s} s are allowed: a clock is wrong")]
    Future {
        /// How far.
        ahead_s: i64,
        /// How far it may be.
        limit_s: i64,
    },
    /// Far ahead, but near now when read as milliseconds.
    #[error("timestamp out of the window: looks like milliseconds, the scheme has seconds")]
    Milliseconds,
    /// No signature of the wanted form is there.
    #[error("no `{expected}` signature in `{name}`")]
    MalformedSignature {
        /// The header.
        name: &'static str,
        /// What each signature begins with.
        expected: &'static str,
    },
    /// Signatures are there, none is right.
    #[error("no signature matches: another secret, or the body was changed on its way")]
    NoMatch,
}

impl Rejection {
    /// A short label for metrics.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::NoSecret => "no_secret",
            Self::MissingHeader { .. } => "missing_header",
            Self::DuplicateHeader { .. } => "duplicate_header",
            Self::MixedHeaders { .. } => "mixed_headers",
            Self::MalformedTimestamp { .. } => "malformed_timestamp",
            Self::Stale { .. } => "stale",
            Self::Future { .. } => "future",
            Self::Milliseconds => "milliseconds",
            Self::MalformedSignature { .. } => "malformed_signature",
            Self::NoMatch => "no_match",
        }
    }
}
