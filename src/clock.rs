//! Time and chance as the domain sees them: a [`Timestamp`], a [`Clock`] to ask, [`Dice`] to throw.
//! The real ones live in [`crate::system`]; tests bring [`ManualClock`].

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment in UTC, in whole milliseconds since the Unix epoch; on the wire ISO 8601 with milliseconds and `Z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From milliseconds since the Unix epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, as signatures use them.
    pub const fn unix_seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// The time from `earlier` to here; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Reads any RFC 3339 time.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|at| Self(at.as_millisecond()))
    }

    /// `2026-08-21 20:53:11` in the machine's own time zone, for people.
    pub fn local(self) -> String {
        let zone = jiff::tz::TimeZone::system();
        self.to_jiff().to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S").to_string()
    }

    fn to_jiff(self) -> jiff::Timestamp {
        jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl std::ops::Sub<Duration> for Timestamp {
    type Output = Self;
    fn sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.to_jiff())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("expected an RFC 3339 time"))
    }
}

/// A future that ends at a moment of some [`Clock`].
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where the time comes from.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Timestamp;
    /// Ends once [`Clock::now`] is at or past `at`.
    fn sleep_until(&self, at: Timestamp) -> Sleep;
}

/// Where chance comes from: ids, tokens, secrets and jitter.
pub trait Dice: fmt::Debug + Send + Sync + 'static {
    /// Fills `bytes` with (for the real one: cryptographically strong) random bytes.
    fn fill(&self, bytes: &mut [u8]);
}

/// A clock that stands still until it is told to move.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<Mutex<Manual>>);

#[derive(Debug, Default)]
struct Manual {
    now: Timestamp,
    next_id: u64,
    sleepers: BTreeMap<u64, Sleeper>,
}

#[derive(Debug)]
struct Sleeper {
    at: Timestamp,
    waker: Waker,
}

impl ManualClock {
    /// A clock that stands at `now`.
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(Manual { now, ..Manual::default() })))
    }

    /// Moves on by `by` and wakes whoever waited for a moment that has come.
    pub fn advance(&self, by: Duration) {
        let due: Vec<Waker> = {
            let mut manual = self.lock();
            manual.now = manual.now + by;
            let now = manual.now;
            manual.sleepers.extract_if(.., |_, sleeper| sleeper.at <= now).map(|(_, s)| s.waker).collect()
        };
        due.into_iter().for_each(Waker::wake);
    }

    /// The moments that somebody waits for now, earliest first: a test sees by them that a task is parked.
    pub fn awaited(&self) -> Vec<Timestamp> {
        let mut moments: Vec<_> = self.lock().sleepers.values().map(|sleeper| sleeper.at).collect();
        moments.sort_unstable();
        moments
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Manual> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.lock().now
    }

    fn sleep_until(&self, at: Timestamp) -> Sleep {
        let id = {
            let mut manual = self.lock();
            manual.next_id += 1;
            manual.next_id
        };
        Box::pin(ManualSleep { clock: self.clone(), at, id })
    }
}

struct ManualSleep {
    clock: ManualClock,
    at: Timestamp,
    id: u64,
}

impl Future for ManualSleep {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut manual = self.clock.lock();
        if manual.now >= self.at {
            return Poll::Ready(());
        }
        manual.sleepers.insert(self.id, Sleeper { at: self.at, waker: cx.waker().clone() });
        Poll::Pending
    }
}

impl Drop for ManualSleep {
    fn drop(&mut self) {
        self.clock.lock().sleepers.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_form_has_milliseconds_and_z() {
        let at = Timestamp::from_millis(1_760_000_000_000);
        assert_eq!(at.to_string(), "2025-10-09T08:53:20.000Z");
        assert_eq!(Timestamp::parse("2025-10-09T10:53:20+02:00"), Some(at));
        assert_eq!(Timestamp::parse("yesterday"), None);
    }

    #[test]
    fn a_manual_clock_wakes_who_is_due_and_forgets_who_left() {
        let clock = ManualClock::at(Timestamp::from_millis(0));
        let mut cx = Context::from_waker(Waker::noop());
        let moment = Timestamp::from_millis;
        let (mut soon, mut late) = (clock.sleep_until(moment(10)), clock.sleep_until(moment(20)));
        assert!(soon.as_mut().poll(&mut cx).is_pending() && late.as_mut().poll(&mut cx).is_pending());
        assert_eq!(clock.awaited(), [moment(10), moment(20)]);
        clock.advance(Duration::from_millis(10));
        assert!(soon.as_mut().poll(&mut cx).is_ready() && late.as_mut().poll(&mut cx).is_pending());
        assert_eq!(clock.awaited(), [moment(20)]);
        drop(late);
        assert_eq!(clock.awaited(), []);
    }

    #[test]
    fn seconds_round_down_before_the_epoch_too() {
        assert_eq!(Timestamp::from_millis(-1).unix_seconds(), -1);
        assert_eq!(Timestamp::from_millis(1999).unix_seconds(), 1);
    }
}
