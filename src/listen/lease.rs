//! How long a delivery is ours: what the relay said, counted on the relay's own clock.

use std::time::{Duration, Instant};

use crate::clock::Timestamp;
use crate::protocol::listeners::Delivery;

/// A shorter lease could not be extended over a network; what claims to be one is taken for nonsense.
const SHORTEST: Duration = Duration::from_millis(100);

/// A lease that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    since: Instant,
    length: Duration,
}

impl Lease {
    /// The lease of a delivery that came at `now`. When it ends is said on the relay's clock, which may be far from
    /// ours, and so is `polled_at`, the moment of the poll that made it: what lies between them is its length.
    /// `unsaid` is the length where the relay doesn't tell both, or tells nonsense.
    pub(super) fn of(
        delivery: &Delivery,
        polled_at: Option<Timestamp>,
        unsaid: Duration,
        now: Instant,
    ) -> Self {
        let said = delivery.lease_expires_at.zip(polled_at).map(|(end, start)| end.since(start));
        Self::new(now, said.filter(|length| *length >= SHORTEST).unwrap_or(unsaid))
    }

    /// A lease of this length.
    pub(super) const fn new(since: Instant, length: Duration) -> Self {
        Self { since, length }
    }

    /// The same, begun anew.
    pub(super) const fn renewed(self, since: Instant) -> Self {
        Self { since, ..self }
    }

    /// When it began.
    pub(super) const fn since(&self) -> Instant {
        self.since
    }

    /// When it is to be extended: at half of it, so that one try may fail.
    pub(super) fn extend_at(&self) -> Instant {
        self.since + self.length / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(ends: Option<i64>, polled: Option<i64>) -> Duration {
        let mut delivery: Delivery = serde_json::from_str(
            r#"{"id":"d","ack_token":"t","event_id":"e","event_type":"a.b","attempt":1,"body":"",
                "created_at":"2026-01-01T00:00:00.000Z"}"#,
        )
        .unwrap();
        delivery.lease_expires_at = ends.map(Timestamp::from_millis);
        let polled = polled.map(Timestamp::from_millis);
        Lease::of(&delivery, polled, Duration::from_secs(120), Instant::now()).length
    }

    #[test]
    fn it_is_as_long_as_the_relay_says_whatever_its_clock() {
        assert_eq!(length(Some(2_000), Some(0)), Duration::from_secs(2));
        let far = 4_102_444_800_000;
        assert_eq!(length(Some(far + 2_000), Some(far)), Duration::from_secs(2));
    }

    #[test]
    fn what_is_unsaid_or_nonsense_is_the_contracts() {
        for (ends, polled) in
            [(None, None), (Some(2_000), None), (None, Some(0)), (Some(0), Some(1)), (Some(7), Some(0))]
        {
            assert_eq!(length(ends, polled), Duration::from_secs(120), "{ends:?} {polled:?}");
        }
        let longest = Lease::new(Instant::now(), Duration::from_millis(i64::MAX as u64));
        assert!(length(Some(i64::MAX), Some(0)) == longest.length && longest.extend_at() > Instant::now());
    }
}
