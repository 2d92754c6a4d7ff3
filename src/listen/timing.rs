//! The numbers of the pull loop that tests make short. Everything else is in [`crate::protocol::limits`].

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::protocol::limits;
use crate::retry::Backoff;

/// How long things take. Each field is read from JSON as whole milliseconds; what is left out keeps its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timing {
    /// For how long a server that doesn't say leases a delivery.
    #[serde(rename = "lease_ms", deserialize_with = "millis")]
    pub lease: Duration,
    /// How long a delivery that a closed port refused is kept where leases can't be extended.
    #[serde(rename = "keep_ms", deserialize_with = "millis")]
    pub keep: Duration,
    /// How long a listener lives after a poll.
    #[serde(rename = "listener_life_ms", deserialize_with = "millis")]
    pub listener_life: Duration,
    /// How long a poll waits at the server.
    #[serde(rename = "poll_wait_ms", deserialize_with = "millis")]
    pub poll_wait: Duration,
    /// How much longer than it asked the server to wait a poll may take; also the longest pause within its answer.
    #[serde(rename = "poll_slack_ms", deserialize_with = "millis")]
    pub poll_slack: Duration,
    /// For how long finished acks are gathered before a poll of their own takes them.
    #[serde(rename = "ack_delay_ms", deserialize_with = "millis")]
    pub ack_delay: Duration,
    /// How long an idle connection to the app is used again after its last answer.
    #[serde(rename = "keep_alive_ms", deserialize_with = "millis")]
    pub keep_alive: Duration,
    /// How often a closed port is tried.
    #[serde(rename = "probe_ms", deserialize_with = "millis")]
    pub probe: Duration,
    /// How long connecting to one address of the app, or resolving its name, may take.
    #[serde(rename = "connect_ms", deserialize_with = "millis")]
    pub connect: Duration,
    /// The first delay of the back-off; also the one after which a series counts as a fresh one.
    #[serde(rename = "backoff_base_ms", deserialize_with = "millis")]
    pub backoff_base: Duration,
    /// The longest delay of the back-off.
    #[serde(rename = "backoff_cap_ms", deserialize_with = "millis")]
    pub backoff_cap: Duration,
    /// How often the clocks are compared.
    #[serde(rename = "watch_ms", deserialize_with = "millis")]
    pub watch: Duration,
    /// By how much they may differ before the machine is taken to have slept.
    #[serde(rename = "jump_ms", deserialize_with = "millis")]
    pub jump: Duration,
    /// How long closing the listener may take.
    #[serde(rename = "close_ms", deserialize_with = "millis")]
    pub close: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease: limits::LEASE,
            keep: Duration::from_secs(100),
            listener_life: limits::LISTENER_LIFE,
            poll_wait: Duration::from_millis(limits::DEFAULT_WAIT_MS),
            poll_slack: Duration::from_secs(10),
            ack_delay: Duration::from_millis(5),
            keep_alive: Duration::from_secs(1),
            probe: Duration::from_millis(100),
            connect: Duration::from_secs(5),
            backoff_base: Backoff::RECONNECT.base,
            backoff_cap: Backoff::RECONNECT.cap,
            watch: Duration::from_secs(1),
            jump: Duration::from_secs(5),
            close: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// The back-off between failed polls.
    pub const fn backoff(&self) -> Backoff {
        Backoff { base: self.backoff_base, cap: self.backoff_cap }
    }

    /// How long a listener that can't be polled without claiming is left alone: 8 of its 10 minutes.
    pub fn quiet(&self) -> Duration {
        self.listener_life * 4 / 5
    }
}

fn millis<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_replaces_what_it_names() {
        let timing: Timing = serde_json::from_str(r#"{"lease_ms":2000}"#).unwrap();
        assert_eq!(timing, Timing { lease: Duration::from_secs(2), ..Timing::default() });
        assert!(serde_json::from_str::<Timing>(r#"{"leash_ms":1}"#).is_err());
        assert_eq!(Timing::default().quiet(), Duration::from_secs(480));
    }
}
