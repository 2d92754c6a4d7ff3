//! How long to wait before trying again: one pure function of the attempt and the dice.

use std::time::Duration;

use crate::clock::Dice;

/// A bounded exponential back-off with equal jitter: half of the delay is fixed, half random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The delay of the first retry.
    pub base: Duration,
    /// The longest delay.
    pub cap: Duration,
}

impl Backoff {
    /// Transient failures of the dispatcher: 2 s doubling to 5 min.
    pub const DISPATCH: Self = Self { base: Duration::from_secs(2), cap: Duration::from_secs(300) };
    /// A listener that can't reach its relay: 0.25 s doubling to 30 s.
    pub const RECONNECT: Self = Self { base: Duration::from_millis(250), cap: Duration::from_secs(30) };

    /// The delay before retry number `attempt` (from 0).
    pub fn delay(&self, attempt: u32, dice: &dyn Dice) -> Duration {
        let full =
            self.base.saturating_mul(1_u32.checked_shl(attempt.min(30)).unwrap_or(u32::MAX)).min(self.cap);
        let mut bytes = [0; 4];
        dice.fill(&mut bytes);
        let share = f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX);
        full / 2 + (full / 2).mul_f64(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug)]
    struct Fixed(u32);

    impl Dice for Fixed {
        fn fill(&self, bytes: &mut [u8]) {
            let len = bytes.len();
            bytes.copy_from_slice(&self.0.to_le_bytes()[..len]);
        }
    }

    proptest! {
        #[test]
        fn between_half_and_whole_and_never_over_the_cap(attempt in 0_u32..100, roll: u32) {
            for policy in [Backoff::DISPATCH, Backoff::RECONNECT] {
                let full = policy.base.saturating_mul(2_u32.saturating_pow(attempt)).min(policy.cap);
                let delay = policy.delay(attempt, &Fixed(roll));
                prop_assert!(delay >= full / 2 && delay <= full);
            }
        }
    }
}
