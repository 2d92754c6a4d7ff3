//! Notices that the machine slept or the process stood still: the wall clock and a monotonic one are compared.

use std::time::{Duration, Instant};

use crate::clock::Timestamp;

/// The readings of the last comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    wall: Timestamp,
    monotonic: Instant,
    every: Duration,
    jump: Duration,
}

impl Watch {
    /// Starts now; to be asked again `every` so often.
    pub(super) fn new(wall: Timestamp, every: Duration, jump: Duration) -> Self {
        Self { wall, monotonic: Instant::now(), every, jump }
    }

    /// When to compare next.
    pub(super) fn due(&self) -> Instant {
        self.monotonic + self.every
    }

    /// Compares. A machine that sleeps stops its monotonic clock, not the wall clock; a stopped process finds both
    /// further on than it asked for. Returns about how long it was away.
    pub(super) fn look(&mut self, wall: Timestamp) -> Option<Duration> {
        self.compare(wall, Instant::now())
    }

    fn compare(&mut self, wall: Timestamp, monotonic: Instant) -> Option<Duration> {
        let by_wall = wall.since(self.wall);
        let by_monotonic = monotonic.saturating_duration_since(self.monotonic);
        (self.wall, self.monotonic) = (wall, monotonic);
        let asleep = by_wall.saturating_sub(by_monotonic);
        let late = by_monotonic.saturating_sub(self.every);
        let away = asleep.max(late);
        (away > self.jump).then_some(away)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_and_stop_are_noticed_and_a_clock_set_back_is_not() {
        let second = Duration::from_secs(1);
        let start = Timestamp::from_millis(1_760_000_000_000);
        let watch = || Watch::new(start, second, second * 5);
        let away = |wall: Timestamp, monotonic: Duration| {
            let mut watch = watch();
            let at = watch.monotonic + monotonic;
            watch.compare(wall, at)
        };
        assert_eq!(away(start + second, second), None);
        assert_eq!(away(start + second * 61, second), Some(second * 60), "the machine slept");
        assert_eq!(away(start + second * 61, second * 61), Some(second * 60), "the process was stopped");
        assert_eq!(away(start - second * 60, second), None, "the clock was set back");
    }
}
