//! The real clock and the real dice: the one place that asks the operating system for either.

use rand::TryRng;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::clock::{Clock, Dice, Sleep, Timestamp};

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the place")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn sleep_until(&self, at: Timestamp) -> Sleep {
        let wait = at.since(self.now());
        Box::pin(tokio::time::sleep(wait))
    }
}

/// The operating system's random numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDice;

impl Dice for SystemDice {
    fn fill(&self, bytes: &mut [u8]) {
        // Without entropy no secret can be made and no id is unique: there is nothing to go on with.
        rand::rngs::SysRng.try_fill_bytes(bytes).expect("the operating system gives random bytes");
    }
}
