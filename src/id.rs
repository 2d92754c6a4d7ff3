//! Ids: a prefix that says what it names, and 26 lower-case base32 characters that ascend within one process.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ulid::Ulid;

use crate::clock::{Clock, Dice, Timestamp};

/// What an id names; its wire prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An environment.
    Environment,
    /// An API key.
    Key,
    /// A source.
    Source,
    /// An event.
    Event,
    /// A listener.
    Listener,
    /// A listener's delivery.
    ListenerDelivery,
    /// A log line.
    Log,
    /// An audit event.
    Audit,
    /// A request.
    Request,
}

impl Kind {
    /// The prefix with its underscore.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Environment => "env_",
            Self::Key => "key_",
            Self::Source => "src_",
            Self::Event => "evt_",
            Self::Listener => "whlis_",
            Self::ListenerDelivery => "whlisdel_",
            Self::Log => "log_",
            Self::Audit => "audit_",
            Self::Request => "req_",
        }
    }
}

/// Makes ids from a clock and dice; two made by one maker ascend.
#[derive(Clone, Debug)]
pub struct IdMaker {
    clock: Arc<dyn Clock>,
    dice: Arc<dyn Dice>,
    last: Arc<Mutex<Ulid>>,
}

impl IdMaker {
    /// A maker on this clock and these dice.
    pub fn new(clock: Arc<dyn Clock>, dice: Arc<dyn Dice>) -> Self {
        Self { clock, dice, last: Arc::new(Mutex::new(Ulid::nil())) }
    }

    /// The next id of this kind.
    pub fn make(&self, kind: Kind) -> String {
        let fresh = self.roll(self.clock.now());
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that stands or steps back must not make ids descend.
        let next = if fresh > *last { fresh } else { Ulid(last.0.wrapping_add(1)) };
        *last = next;
        format!("{}{}", kind.prefix(), next.to_string().to_ascii_lowercase())
    }

    /// 128 random bits in hex: a token that can't be guessed.
    pub fn token(&self) -> String {
        let mut bytes = [0; 16];
        self.dice.fill(&mut bytes);
        bytes.iter().fold(String::with_capacity(32), |text, b| text + &format!("{b:02x}"))
    }

    fn roll(&self, now: Timestamp) -> Ulid {
        let mut random = [0; 16];
        self.dice.fill(&mut random);
        Ulid::from_parts(u64::try_from(now.millis()).unwrap_or(0), u128::from_le_bytes(random))
    }
}

/// Why a text is no id of the wanted kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAnId {
    /// The wanted kind.
    pub kind: Kind,
}

impl fmt::Display for NotAnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected an id that starts with `{}`", self.kind.prefix())
    }
}

/// Whether `text` has the shape of an id of this kind; other servers' ids may be of any length and alphabet.
pub fn looks_like(kind: Kind, text: &str) -> bool {
    text.strip_prefix(kind.prefix()).is_some_and(|rest| {
        !rest.is_empty()
            && rest.len() <= 64
            && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::system::SystemDice;

    #[test]
    fn ids_ascend_while_the_clock_stands() {
        let clock = ManualClock::at(Timestamp::from_millis(1_760_000_000_000));
        let maker = IdMaker::new(Arc::new(clock), Arc::new(SystemDice));
        let ids: Vec<String> = (0..1000).map(|_| maker.make(Kind::Event)).collect();
        assert!(ids.is_sorted());
        assert!(ids.iter().all(|id| id.len() == 30 && looks_like(Kind::Event, id)));
        assert!(ids.iter().all(|id| !id.contains('.') && *id == id.to_ascii_lowercase()));
    }

    #[test]
    fn shape_is_checked_by_prefix() {
        assert!(!looks_like(Kind::Event, "whlis_01k7"));
        assert!(!looks_like(Kind::Event, "evt_"));
        assert!(!looks_like(Kind::Event, "evt_../x"));
    }
}
