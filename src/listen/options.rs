//! What `listen` is to do: validated before anything runs.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use url::Url;

use super::event::{Checkpoint, Received, Skip};
use super::timing::Timing;
use crate::clock::{Clock, Dice};
use crate::filter::Filter;
use crate::glob;
use crate::headers::{self, Headers};
use crate::http::RelaySettings;
use crate::protocol::limits;
use crate::secret::Secret;
use crate::signature::Key;
use crate::target::{Route, Target};

/// Everything that [`super::run`] needs to know.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// The relay's base URL.
    pub relay_url: Url,
    /// The key.
    pub api_key: Secret,
    /// Proxy and certificates of the relay leg.
    pub relay_http: RelaySettings,
    /// Knows where the relay is when it may move; asked before each new try.
    pub relocate: Option<Arc<dyn Relocate>>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Jitter.
    pub dice: Arc<dyn Dice>,
    /// How long things take.
    pub timing: Timing,
    /// Where events go that no route takes; `None` with no routes = print only.
    pub forward_to: Option<Target>,
    /// First match wins.
    pub routes: Vec<Route>,
    /// Whether a target may be elsewhere than on this machine.
    pub allow_remote: bool,
    /// Globs of types; none = all.
    pub events: Vec<String>,
    /// Globs of types to skip.
    pub exclude: Vec<String>,
    /// Globs of sources; none = all.
    pub sources: Vec<String>,
    /// What must hold, all of it.
    pub filters: Vec<Filter>,
    /// Headers to set on every forward.
    pub headers: Vec<UserHeader>,
    /// How forwards are signed.
    pub sign: SignAs,
    /// Where to begin.
    pub since: Since,
    /// How many stored events `since` may bring.
    pub max_backlog: u64,
    /// Take any certificate of the app.
    pub skip_verify: bool,
    /// A PEM file with certificates to trust on the local leg.
    pub ca: Option<PathBuf>,
    /// For how long a forward may take; `None` = for ever.
    pub timeout: Option<Duration>,
    /// POSTs open at most: 1 to 50.
    pub max_in_flight: usize,
    /// One POST at a time per source.
    pub ordered: bool,
    /// Join the path below the source, and the query, to the target's.
    pub append_path: bool,
    /// Claim nothing while nothing listens on the target.
    pub gate: bool,
    /// End after so many delivered and failed ones.
    pub until: Option<u64>,
    /// End when nothing happened for so long.
    pub idle_timeout: Option<Duration>,
    /// End at the first failed forward.
    pub exit_on_failure: bool,
    /// Failed tries in a row before giving up; `None` = never.
    pub max_connect_attempts: Option<u32>,
    /// How long open POSTs may go on after a stop.
    pub drain: Duration,
    /// What the run before left.
    pub previous: Option<Checkpoint>,
    /// Whether this process runs in a container, for the hint about `localhost`.
    pub in_container: bool,
    /// Shown in the relay's list of listeners.
    pub description: Option<String>,
}

impl ListenOptions {
    /// The default of every flag.
    pub fn new(relay_url: Url, api_key: Secret, clock: Arc<dyn Clock>, dice: Arc<dyn Dice>) -> Self {
        Self {
            relay_url,
            api_key,
            relay_http: RelaySettings::default(),
            relocate: None,
            clock,
            dice,
            timing: Timing::default(),
            forward_to: None,
            routes: Vec::new(),
            allow_remote: false,
            events: Vec::new(),
            exclude: Vec::new(),
            sources: Vec::new(),
            filters: Vec::new(),
            headers: Vec::new(),
            sign: SignAs::None,
            since: Since::Now,
            max_backlog: limits::DEFAULT_MAX_BACKLOG,
            skip_verify: false,
            ca: None,
            timeout: Some(Duration::from_secs(30)),
            max_in_flight: 10,
            ordered: false,
            append_path: false,
            gate: true,
            until: None,
            idle_timeout: None,
            exit_on_failure: false,
            max_connect_attempts: None,
            drain: Duration::from_secs(8),
            previous: None,
            in_container: false,
            description: None,
        }
    }

    /// Whether events are only shown.
    pub fn print_only(&self) -> bool {
        self.forward_to.is_none() && self.routes.is_empty()
    }

    /// Every target, `forward_to` first.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.forward_to.iter().chain(self.routes.iter().map(Route::target))
    }

    /// Where an event of this source and type goes, as its place in [`ListenOptions::targets`].
    pub(super) fn target_of(&self, source: Option<&str>, event_type: &str) -> Option<usize> {
        let route = self.routes.iter().position(|route| route.matches(source, event_type));
        let first_route = usize::from(self.forward_to.is_some());
        route.map(|n| n + first_route).or(self.forward_to.as_ref().map(|_| 0))
    }

    /// Why an event is held back, if it is. A server that tells no source is not asked for one.
    pub(super) fn skips(&self, event: &Received) -> Option<Skip> {
        let any = |globs: &[String], text: &str| globs.iter().any(|glob| glob::matches(glob, text));
        let source = event.source.as_deref();
        if !self.sources.is_empty() && source.is_some_and(|source| !any(&self.sources, source)) {
            return Some(Skip::Source);
        }
        if !self.events.is_empty() && !any(&self.events, &event.event_type) {
            return Some(Skip::Events);
        }
        if any(&self.exclude, &event.event_type) {
            return Some(Skip::Exclude);
        }
        let none = Headers::new();
        let headers = event.headers.as_ref().unwrap_or(&none);
        let all =
            self.filters.iter().all(|filter| filter.holds(headers, event.query.as_deref(), &event.body));
        (!all).then_some(Skip::Filter)
    }
}

/// Knows where a relay is that may move: the embedded one, when another process takes it over.
pub trait Relocate: fmt::Debug + Send + Sync + 'static {
    /// Its present base URL; `None` when that isn't known now.
    fn relay_url(&self) -> Option<Url>;
}

/// Where to begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Since {
    /// With what arrives after opening.
    #[default]
    Now,
    /// Where the run before ended.
    Last,
    /// The wire's text: an RFC 3339 time (inclusive), an event id (exclusive) or `beginning`.
    At(String),
}

/// How forwards are signed.
#[derive(Clone, Debug)]
pub enum SignAs {
    /// The headers stay as they came.
    None,
    /// With this key, as its scheme has it; Standard Webhooks with the local secret is the default of the command.
    With(Key),
}

/// A header of the user's, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserHeader {
    pub(super) name: HeaderName,
    pub(super) value: HeaderValue,
}

/// Why a `-H` is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadHeader {
    /// There is no `Name: value` in it.
    Form(String),
    /// The name has characters that no header name has, or is empty.
    Name(String),
    /// The value has control characters.
    Value(String),
    /// The signature's headers can't be set by hand.
    Signature(String),
    /// The connection's own headers can't be set by hand.
    Framing(String),
}

impl fmt::Display for BadHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(text) => write!(f, "{text:?} is no header, expected `Name: value`"),
            Self::Name(text) => write!(f, "{text:?} has no valid header name, expected `Name: value`"),
            Self::Value(text) => {
                write!(f, "{text:?} has a control character in its value, expected `Name: value`")
            }
            Self::Signature(name) => {
                write!(f, "`{name}` can't be set: the webhook-* headers are made at each forward")
            }
            Self::Framing(name) => write!(f, "`{name}` can't be set: it belongs to the connection"),
        }
    }
}

impl std::error::Error for BadHeader {}

impl UserHeader {
    /// Reads `Name: value`; an empty value is valid.
    pub fn parse(text: &str) -> Result<Self, BadHeader> {
        let (name, value) = text.split_once(':').ok_or_else(|| BadHeader::Form(text.to_owned()))?;
        let name = name.trim();
        let parsed: HeaderName = name.parse().map_err(|_| BadHeader::Name(text.to_owned()))?;
        let value = HeaderValue::from_str(value.trim_matches([' ', '\t']))
            .map_err(|_| BadHeader::Value(text.to_owned()))?;
        if parsed.as_str().starts_with("webhook-") {
            return Err(BadHeader::Signature(name.to_owned()));
        }
        let mut framing: Headers = [(name, "")].into_iter().collect();
        framing.remove_hop_by_hop();
        if framing.is_empty() {
            return Err(BadHeader::Framing(name.to_owned()));
        }
        Ok(Self { name: parsed, value })
    }

    /// The name, in lower case.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The value as text.
    pub fn value(&self) -> String {
        headers::latin1(self.value.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_headers_are_checked_at_the_edge() {
        let header = UserHeader::parse("X-Env:  a,b ").unwrap();
        assert_eq!((header.name(), header.value().as_str()), ("x-env", "a,b"));
        assert_eq!(UserHeader::parse("X-Empty:").unwrap().value(), "");
        let refused = |text: &str| UserHeader::parse(text).unwrap_err();
        assert_eq!(refused("ACT-AS-USER=1"), BadHeader::Form("ACT-AS-USER=1".to_owned()));
        assert!(matches!(refused(": v"), BadHeader::Name(_)));
        assert!(matches!(refused("X Y: v"), BadHeader::Name(_)));
        assert!(matches!(refused("X: a\r\nY: b"), BadHeader::Value(_)));
        assert!(matches!(refused("Webhook-Signature: v1,AAAA"), BadHeader::Signature(_)));
        assert!(matches!(refused("Content-Length: 1"), BadHeader::Framing(_)));
        assert!(refused("ACT-AS-USER=1").to_string().contains("Name: value"));
    }
}
