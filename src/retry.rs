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

/// The longest wait that is granted to a server that asks for one: a mistake of its must not silence a client.
pub const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

/// The wait that a `Retry-After` asks for, as far as it is granted. Only whole seconds count: the header's other form,
/// a date, is of a clock that may differ from ours.
pub fn retry_after(text: &str) -> Option<Duration> {
    let digits = text.trim();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = || digits.parse().map_or(LONGEST_RETRY_AFTER, Duration::from_secs);
    is_number.then(seconds).map(|wanted| wanted.min(LONGEST_RETRY_AFTER))
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

    #[test]
    fn a_server_may_ask_for_minutes_and_not_for_ages() {
        assert_eq!(retry_after("7"), Some(Duration::from_secs(7)));
        assert_eq!(retry_after(" 0 "), Some(Duration::ZERO));
        for ages in ["301", "18446744073709551615", "99999999999999999999999"] {
            assert_eq!(retry_after(ages), Some(LONGEST_RETRY_AFTER), "{ages}");
        }
        for other in ["", "-1", "+1", "1.5", "soon", "Fri, 31 Dec 9999 23:59:59 GMT"] {
            assert_eq!(retry_after(other), None, "{other}");
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
