//! What a relay can be told, with bounds, checked together before it starts.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::protocol::limits;

/// The relay's numbers and doors.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the world reaches this relay, without a trailing slash: the base of every `ingress_url`.
    pub public_url: String,
    /// Whether it is bound to loopback: then only allow-listed hosts may use the API.
    pub loopback: bool,
    /// Hosts beyond localhost that may use the API on loopback.
    pub allowed_hosts: Vec<String>,
    /// Whether `scheme = none` sources may be served beyond loopback.
    pub allow_unsigned: bool,
    /// How long a delivery is leased.
    pub lease: Duration,
    /// How long a listener lives after its last poll.
    pub listener_life: Duration,
    /// Open listeners of one environment, at most.
    pub listeners_per_environment: usize,
    /// How long events are kept.
    pub event_retention: Duration,
    /// How long log lines and audit events are kept.
    pub log_retention: Duration,
    /// For how long a provider's id is remembered, unless its source says otherwise.
    pub dedupe_window: Duration,
    /// The largest body of any source.
    pub max_body_bytes: u64,
    /// Polls and workers look by themselves after this long, should a wake-up have been lost.
    pub fallback_poll: Duration,
    /// How long a body may stall before it is refused.
    pub body_stall: Duration,
    /// How long a whole body may take.
    pub body_deadline: Duration,
    /// How long an API request may take, and the store over a webhook: one that hangs is one that can't be used.
    pub answer_deadline: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            public_url: "http://127.0.0.1:4750".to_owned(),
            loopback: true,
            allowed_hosts: Vec::new(),
            allow_unsigned: false,
            lease: limits::LEASE,
            listener_life: limits::LISTENER_LIFE,
            listeners_per_environment: limits::LISTENERS_PER_ENVIRONMENT,
            event_retention: DAY * 30,
            log_retention: DAY * 30,
            dedupe_window: DAY * 7,
            max_body_bytes: limits::DEFAULT_MAX_BODY_BYTES,
            fallback_poll: Duration::from_secs(60),
            body_stall: Duration::from_secs(10),
            body_deadline: Duration::from_secs(120),
            answer_deadline: Duration::from_secs(29),
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
/// The widest signature window of a scheme, in either direction.
const TOLERANCE: Duration = Duration::from_secs(300);
/// A larger body would not fit through what is behind the 202: the answer that hands it out.
const LARGEST_BODY: u64 = limits::LARGEST_BODY_BYTES as u64;

impl Settings {
    /// Every number out of its bounds, and every contradiction, which names both settings.
    pub fn problems(&self) -> Vec<String> {
        let out = self.bounds().into_iter().filter(|(_, value, range)| !range.contains(value));
        let mut problems: Vec<String> = out
            .map(|(name, value, range)| {
                format!("{name} ({value}) is not between {} and {}", range.start(), range.end())
            })
            .collect();
        if self.dedupe_window < TOLERANCE * 2 {
            problems.push(format!(
                "dedupe_window ({} s) is shorter than twice the signature tolerance ({} s): a replay inside the \
                 tolerance would pass",
                self.dedupe_window.as_secs(),
                TOLERANCE.as_secs()
            ));
        }
        if self.event_retention < self.dedupe_window {
            problems.push(format!(
                "event_retention ({} s) is shorter than dedupe_window ({} s): repeats are recognised by stored events",
                self.event_retention.as_secs(),
                self.dedupe_window.as_secs()
            ));
        }
        if self.listener_life < self.lease {
            problems.push(format!(
                "listener_life ({} ms) is shorter than lease ({} ms): a listener would end with work in hand",
                self.listener_life.as_millis(),
                self.lease.as_millis()
            ));
        }
        problems
    }

    /// What each number may be by itself. The least of `dedupe_window` and of `event_retention` follows from others.
    fn bounds(&self) -> [(&'static str, Amount, RangeInclusive<Amount>); 10] {
        use Amount::{Number, Time};
        const MILLISECOND: Duration = Duration::from_millis(1);
        let ages = DAY * 3650;
        [
            ("lease", Time(self.lease), Time(SECOND)..=Time(HOUR)),
            ("listener_life", Time(self.listener_life), Time(SECOND)..=Time(DAY)),
            (
                "listeners_per_environment",
                Number(self.listeners_per_environment as u64),
                Number(1)..=Number(1000),
            ),
            ("event_retention", Time(self.event_retention), Time(SECOND)..=Time(ages)),
            ("log_retention", Time(self.log_retention), Time(HOUR)..=Time(ages)),
            ("max_body_bytes", Number(self.max_body_bytes), Number(1)..=Number(LARGEST_BODY)),
            ("fallback_poll", Time(self.fallback_poll), Time(MILLISECOND)..=Time(HOUR)),
            ("body_stall", Time(self.body_stall), Time(MILLISECOND)..=Time(HOUR)),
            ("body_deadline", Time(self.body_deadline), Time(MILLISECOND)..=Time(HOUR)),
            ("answer_deadline", Time(self.answer_deadline), Time(MILLISECOND)..=Time(SECOND * 29)),
        ]
    }
}

/// A setting's value, as people write it.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Amount {
    Number(u64),
    Time(Duration),
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u128, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Time(Duration::ZERO) => f.write_str("0s"),
            Self::Time(time) => {
                let millis = time.as_millis();
                let whole = UNITS.iter().find(|(unit, _)| millis % unit == 0);
                let (unit, name) = whole.copied().unwrap_or((1, "ms"));
                write!(f, "{}{name}", millis / unit)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_agree_with_each_other() {
        assert_eq!(Settings::default().problems(), Vec::<String>::new());
    }

    #[test]
    fn contradictions_come_all_at_once_and_name_both_sides() {
        let settings = Settings {
            dedupe_window: Duration::from_secs(60),
            event_retention: Duration::from_secs(30),
            listener_life: Duration::from_secs(1),
            ..Settings::default()
        };
        let problems = settings.problems();
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].contains("dedupe_window") && problems[0].contains("tolerance"));
        assert!(problems[1].contains("event_retention") && problems[1].contains("dedupe_window"));
        assert!(problems[2].contains("listener_life") && problems[2].contains("lease"));
    }

    #[test]
    fn what_is_out_of_bounds_is_told_what_it_may_be() {
        let settings = Settings {
            lease: Duration::ZERO,
            listener_life: Duration::from_millis(86_400_001),
            listeners_per_environment: 0,
            event_retention: DAY * 3651,
            log_retention: Duration::from_secs(90),
            max_body_bytes: LARGEST_BODY + 1,
            ..Settings::default()
        };
        let told = [
            "lease (0s) is not between 1s and 1h",
            "listener_life (86400001ms) is not between 1s and 1d",
            "listeners_per_environment (0) is not between 1 and 1000",
            "event_retention (3651d) is not between 1s and 3650d",
            "log_retention (90s) is not between 1h and 3650d",
            "max_body_bytes (67108865) is not between 1 and 67108864",
        ];
        assert_eq!(settings.problems(), told);
    }
}
