//! What a relay can be told, with bounds, checked together before it starts.

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

const DAY: Duration = Duration::from_secs(86_400);
/// The widest signature window of a scheme, in either direction.
const TOLERANCE: Duration = Duration::from_secs(300);
/// A larger body would not fit through what is behind the 202: the answer that hands it out.
const LARGEST_BODY: u64 = limits::LARGEST_BODY_BYTES as u64;

impl Settings {
    /// Every contradiction, each naming both settings.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
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
        if self.max_body_bytes == 0 || self.max_body_bytes > LARGEST_BODY {
            problems.push(format!(
                "max_body_bytes ({}) is not between 1 and {LARGEST_BODY}: a larger body could not be handed out",
                self.max_body_bytes
            ));
        }
        if self.listeners_per_environment == 0 {
            problems.push("listeners_per_environment is 0: nobody could listen".to_owned());
        }
        problems
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
            max_body_bytes: LARGEST_BODY + 1,
            ..Settings::default()
        };
        let problems = settings.problems();
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert!(problems[0].contains("dedupe_window") && problems[0].contains("tolerance"));
        assert!(problems[1].contains("event_retention") && problems[1].contains("dedupe_window"));
        assert!(problems[2].contains("listener_life") && problems[2].contains("lease"));
        assert!(problems[3].starts_with("max_body_bytes (67108865) is not between 1 and 67108864"));
    }
}
