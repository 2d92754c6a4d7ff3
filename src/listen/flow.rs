//! How much may be claimed: permits come before claims, and one batch ahead only while forwards are quick.

use std::time::Duration;

use crate::protocol::limits::MAX_LIMIT;

/// Claimed ahead only if a whole batch is forwarded within this time.
const BATCH_WITHIN: Duration = Duration::from_secs(2);
/// While one forward is open for longer than this, nothing is claimed ahead.
const SLOW: Duration = Duration::from_secs(1);
/// The weight of the newest duration in the running mean.
const WEIGHT: f64 = 0.1;

/// What is known of the pace.
#[derive(Debug)]
pub(super) struct Flow {
    max_in_flight: usize,
    parallel: usize,
    mean_ms: f64,
    seen: usize,
}

/// What is held at the moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// Claimed and not ended, parked ones included.
    pub held: usize,
    /// Of these, kept for a target whose port is closed.
    pub parked: usize,
    /// For how long the oldest open POST is open.
    pub oldest: Duration,
    /// How many more may end before `--until` is reached.
    pub left: Option<u64>,
}

impl Flow {
    /// A pace that isn't known yet.
    pub(super) fn new(max_in_flight: usize, ordered: bool) -> Self {
        Self { max_in_flight, parallel: if ordered { 1 } else { max_in_flight }, mean_ms: 0.0, seen: 0 }
    }

    /// Nothing is posted: as quick as it gets.
    pub(super) fn at_once() -> Self {
        let all = MAX_LIMIT as usize;
        Self { max_in_flight: all, parallel: all, mean_ms: 0.0, seen: all }
    }

    /// Takes note of how long a forward took.
    pub(super) fn took(&mut self, duration: Duration) {
        let ms = duration.as_secs_f64() * 1000.0;
        self.mean_ms = if self.seen == 0 { ms } else { self.mean_ms + WEIGHT * (ms - self.mean_ms) };
        self.seen += 1;
    }

    /// How many may be claimed now.
    pub(super) fn room(&self, load: Load) -> u32 {
        if load.parked >= self.max_in_flight {
            return 0;
        }
        let ahead = self.is_quick() && load.oldest < SLOW;
        let most = if ahead { MAX_LIMIT as usize } else { self.max_in_flight };
        let left = load.left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
        let most = most.min(left);
        // What is parked takes no permit, and is itself no more than that many.
        let under_way = load.held - load.parked.min(load.held);
        let mut room = most.saturating_sub(under_way).min(left.saturating_sub(load.held));
        // A claim for every POST that ends would be a poll for every event: wait for half a batch.
        if ahead && room < most / 2 && under_way > 0 {
            return 0;
        }
        if load.parked > 0 {
            room = room.min(self.max_in_flight - load.parked);
        }
        u32::try_from(room).unwrap_or(MAX_LIMIT)
    }

    fn is_quick(&self) -> bool {
        let batch_ms =
            self.mean_ms * f64::from(MAX_LIMIT) / f64::from(u32::try_from(self.parallel).unwrap_or(1));
        self.seen >= self.max_in_flight && batch_ms <= BATCH_WITHIN.as_secs_f64() * 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(held: usize) -> Load {
        Load { held, ..Load::default() }
    }

    fn paced(ms: u64) -> Flow {
        let mut flow = Flow::new(10, false);
        (0..100).for_each(|_| flow.took(Duration::from_millis(ms)));
        flow
    }

    #[test]
    fn permits_come_before_claims() {
        let flow = Flow::new(10, false);
        assert_eq!(flow.room(load(0)), 10);
        assert_eq!(flow.room(load(9)), 1);
        assert_eq!(flow.room(load(10)), 0);
        assert_eq!(paced(5000).room(load(10)), 0);
    }

    #[test]
    fn one_batch_ahead_while_quick_and_never_more() {
        let flow = paced(5);
        assert_eq!(flow.room(load(0)), 50);
        assert_eq!(flow.room(load(10)), 40);
        assert_eq!(flow.room(load(40)), 0, "not for a handful");
        assert_eq!(flow.room(load(50)), 0);
        assert_eq!(
            flow.room(Load { oldest: Duration::from_secs(60), ..load(10) }),
            0,
            "one stands at a breakpoint"
        );
    }

    #[test]
    fn what_a_closed_port_holds_back_stops_claiming() {
        let flow = paced(5);
        assert_eq!(flow.room(Load { parked: 10, ..load(10) }), 0);
        assert_eq!(flow.room(Load { parked: 9, ..load(9) }), 1);
    }

    #[test]
    fn until_is_never_overshot() {
        let flow = paced(5);
        assert_eq!(flow.room(Load { left: Some(3), ..load(1) }), 2);
        assert_eq!(flow.room(Load { left: Some(0), ..load(0) }), 0);
    }

    #[test]
    fn ordered_forwards_are_quick_only_one_by_one() {
        let mut flow = Flow::new(10, true);
        (0..100).for_each(|_| flow.took(Duration::from_millis(100)));
        assert_eq!(flow.room(load(0)), 10);
    }
}
