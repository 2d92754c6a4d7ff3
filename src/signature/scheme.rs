//! The descriptor table: what each scheme signs, where, and how. A new scheme is a new row.

use std::fmt;

/// How the digest is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// HMAC-SHA256.
    HmacSha256,
    /// Nothing is signed; everything is taken.
    Unsigned,
}

/// How the key's bytes come out of the secret's text. A property of the scheme, never guessed from a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    /// The text's own bytes.
    Text,
    /// Standard base64 after `whsec_`.
    Whsec,
    /// There is no key.
    Keyless,
}

/// How the digest's bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Written in lower case, read in either.
    Hex,
    /// Standard alphabet, padded.
    Base64,
}

/// Where a text of the message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The whole value of this header.
    Header(&'static str),
}

impl Place {
    /// The header that holds it.
    pub(crate) const fn header(self) -> &'static str {
        match self {
            Self::Header(name) => name,
        }
    }
}

/// How one or more signatures are written at their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// One, after this text (which may be empty).
    Prefixed(&'static str),
    /// A list with spaces between; only items that begin with this text count, others are skipped.
    SpaceList(&'static str),
}

impl Syntax {
    /// The text before each signature.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Prefixed(prefix) | Self::SpaceList(prefix) => prefix,
        }
    }
}

/// One piece of the signed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The message id, as received.
    Id,
    /// The timestamp's text, as received.
    Timestamp,
    /// This text.
    Literal(&'static str),
    /// The raw body.
    Body,
}

/// One set of places. A scheme may know several; a message uses one of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// The signatures.
    pub(crate) signature: Place,
    /// The time of signing.
    pub(crate) timestamp: Option<Place>,
    /// The message id.
    pub(crate) id: Option<Place>,
}

impl Places {
    /// The headers that a complete message has.
    pub(crate) fn headers(&self) -> impl Iterator<Item = &'static str> {
        [self.id, self.timestamp, Some(self.signature)].into_iter().flatten().map(Place::header)
    }
}

/// The unit of a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Whole seconds since the Unix epoch.
    Seconds,
}

/// How far a timestamp may be from now, either way, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// What the timestamp counts.
    pub(crate) unit: Unit,
    /// The distance allowed.
    pub(crate) tolerance_s: i64,
}

/// Where an event's type or id is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locator {
    /// This header.
    Header(&'static str),
    /// This header, then `.` and the body's text at this path, when there is one.
    HeaderAnd(&'static str, &'static [&'static str]),
    /// A JSON string of the body.
    Body(&'static [&'static str]),
}

/// A scheme.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// For help texts.
    pub(crate) about: &'static str,
    pub(crate) algorithm: Algorithm,
    pub(crate) key: KeyForm,
    pub(crate) places: &'static [Places],
    pub(crate) syntax: Syntax,
    pub(crate) encoding: Encoding,
    pub(crate) parts: &'static [Part],
    pub(crate) window: Option<Window>,
    /// The first that is there gives the event's type.
    pub(crate) event_type: &'static [Locator],
    /// The first that is there gives the provider's event id.
    pub(crate) event_id: &'static [Locator],
    /// Headers that carry a credential, to be dropped before anything is stored.
    pub(crate) credentials: &'static [&'static str],
}

/// Dropped before storing, whatever the scheme.
const COMMON_CREDENTIALS: &[&str] = &["authorization", "cookie", "proxy-authorization"];

/// Standard Webhooks 1.0.0, also under the `svix-*` names.
static STANDARD: Row = Row {
    name: "standard-webhooks",
    about: "webhook-id, -timestamp, -signature (or svix-*): HMAC-SHA256 over id.timestamp.body",
    algorithm: Algorithm::HmacSha256,
    key: KeyForm::Whsec,
    places: &[
        Places {
            signature: Place::Header("webhook-signature"),
            timestamp: Some(Place::Header("webhook-timestamp")),
            id: Some(Place::Header("webhook-id")),
        },
        Places {
            signature: Place::Header("svix-signature"),
            timestamp: Some(Place::Header("svix-timestamp")),
            id: Some(Place::Header("svix-id")),
        },
    ],
    syntax: Syntax::SpaceList("v1,"),
    encoding: Encoding::Base64,
    parts: &[Part::Id, Part::Literal("."), Part::Timestamp, Part::Literal("."), Part::Body],
    window: Some(Window { unit: Unit::Seconds, tolerance_s: 300 }),
    event_type: &[Locator::Body(&["type"])],
    event_id: &[Locator::Header("webhook-id"), Locator::Header("svix-id")],
    credentials: COMMON_CREDENTIALS,
};

/// GitHub's SHA-256 signature; its SHA-1 header is ignored.
static GITHUB: Row = Row {
    name: "github",
    about: "X-Hub-Signature-256: HMAC-SHA256 over the body",
    algorithm: Algorithm::HmacSha256,
    key: KeyForm::Text,
    places: &[Places { signature: Place::Header("X-Hub-Signature-256"), timestamp: None, id: None }],
    syntax: Syntax::Prefixed("sha256="),
    encoding: Encoding::Hex,
    parts: &[Part::Body],
    window: None,
    event_type: &[Locator::HeaderAnd("X-GitHub-Event", &["action"])],
    event_id: &[Locator::Header("X-GitHub-Delivery")],
    credentials: COMMON_CREDENTIALS,
};

/// No signature at all.
static NONE: Row = Row {
    name: "none",
    about: "unverified: anything that reaches the URL is taken",
    algorithm: Algorithm::Unsigned,
    key: KeyForm::Keyless,
    places: &[],
    syntax: Syntax::Prefixed(""),
    encoding: Encoding::Hex,
    parts: &[],
    window: None,
    event_type: &[Locator::Body(&["type"]), Locator::Body(&["event_type"]), Locator::Body(&["event"])],
    event_id: &[],
    credentials: COMMON_CREDENTIALS,
};

/// Every scheme.
static TABLE: &[&Row] = &[&STANDARD, &GITHUB, &NONE];

/// A known scheme: one row of the table.
#[derive(Clone, Copy)]
pub struct Scheme(pub(super) &'static Row);

impl Scheme {
    /// Reads a scheme's name.
    pub fn parse(name: &str) -> Result<Self, UnknownScheme> {
        Self::all()
            .find(|scheme| scheme.name() == name)
            .ok_or_else(|| UnknownScheme { name: name.to_owned() })
    }

    /// Every scheme, in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().copied().map(Self)
    }

    /// Standard Webhooks.
    pub const fn standard() -> Self {
        Self(&STANDARD)
    }

    /// The scheme that verifies nothing.
    pub const fn none() -> Self {
        Self(&NONE)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// What it does, in one line.
    pub const fn about(self) -> &'static str {
        self.0.about
    }

    /// Whether it verifies anything; `none` doesn't.
    pub fn is_signed(self) -> bool {
        self.0.algorithm != Algorithm::Unsigned
    }

    /// Every header in which a message of this scheme carries id, timestamp or signature.
    pub fn signature_headers(self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.0.places.iter().flat_map(Places::headers).collect();
        names.dedup();
        names
    }

    /// How far a timestamp may be from now, in seconds, where the scheme has one.
    pub fn tolerance_s(self) -> Option<i64> {
        self.0.window.map(|window| window.tolerance_s)
    }
}

impl PartialEq for Scheme {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Scheme {}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scheme({})", self.name())
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no row has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown scheme `{name}`: known are {}", names())]
pub struct UnknownScheme {
    /// What was written.
    pub name: String,
}

/// The names of all schemes, for messages.
fn names() -> String {
    Scheme::all().map(|scheme| format!("`{}`", scheme.name())).collect::<Vec<_>>().join(", ")
}

/// The headers that carry a credential under this scheme; they are dropped before anything is stored.
pub fn credential_headers(scheme: Scheme) -> &'static [&'static str] {
    scheme.0.credentials
}
