//! What is missing, from the numbers that each source gives its arrivals. Nothing is guessed: a source is judged from
//! the first number seen on.

use std::collections::{BTreeSet, HashMap};

/// A run of numbers that never came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// The source.
    pub source: String,
    /// The first missing number.
    pub from: u64,
    /// The last missing number.
    pub to: u64,
}

impl Gap {
    /// How many are missing.
    pub(super) fn count(&self) -> u64 {
        (self.to - self.from).saturating_add(1)
    }
}

/// What was seen of each source, and what is missing.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    sources: HashMap<String, Seen>,
    missing: Vec<Gap>,
}

#[derive(Debug)]
struct Seen {
    /// The highest number of a first arrival.
    high: u64,
    /// Numbers of redeliveries above that: they come with their event, which may be before their turn.
    ahead: BTreeSet<u64>,
}

impl Sequences {
    /// Takes note of the first arrival of an event: what lies before it and never came is missing.
    pub(super) fn saw(&mut self, source: &str, sequence: u64) {
        let gaps = self.step(source, sequence);
        self.missing.extend(gaps);
    }

    /// Takes note of an event that was stored before: nothing is missing before it.
    pub(super) fn saw_stored(&mut self, source: &str, sequence: u64) {
        self.step(source, sequence);
    }

    /// What is missing and wasn't taken yet.
    pub(super) fn missing(&self) -> &[Gap] {
        &self.missing
    }

    /// Takes what is missing, to tell it.
    pub(super) fn take_missing(&mut self) -> Vec<Gap> {
        std::mem::take(&mut self.missing)
    }

    fn step(&mut self, source: &str, sequence: u64) -> Vec<Gap> {
        let Some(seen) = self.sources.get_mut(source) else {
            self.sources.insert(source.to_owned(), Seen { high: sequence, ahead: BTreeSet::new() });
            return Vec::new();
        };
        if sequence <= seen.high {
            return Vec::new();
        }
        let after = seen.ahead.split_off(&sequence);
        let before = std::mem::replace(&mut seen.ahead, after);
        let mut gaps = Vec::new();
        let mut from = seen.high + 1;
        for known in before.into_iter().chain([sequence]) {
            if known > from {
                gaps.push(Gap { source: source.to_owned(), from, to: known - 1 });
            }
            from = known.saturating_add(1);
        }
        seen.high = sequence;
        gaps
    }

    /// Takes note of a redelivery, which has a number of its own.
    pub(super) fn saw_again(&mut self, source: &str, sequence: u64) {
        if let Some(seen) = self.sources.get_mut(source).filter(|seen| sequence > seen.high) {
            seen.ahead.insert(sequence);
        }
    }

    /// Starts over: what comes next is not compared with what came before (the listener was opened from now).
    pub(super) fn forget(&mut self) {
        self.sources.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn runs(seen: &mut Sequences) -> Vec<(u64, u64)> {
        seen.take_missing().iter().map(|gap| (gap.from, gap.to)).collect()
    }

    #[test]
    fn a_replay_or_a_first_sight_is_no_gap() {
        let mut seen = Sequences::default();
        for (source, sequence) in [("a", 7), ("a", 8), ("b", 3), ("a", 2)] {
            seen.saw(source, sequence);
        }
        assert_eq!(seen.missing(), []);
        seen.saw("a", 11);
        assert_eq!(seen.missing()[0].count(), 2);
        assert_eq!(runs(&mut seen), [(9, 10)]);
        seen.saw_stored("a", 20);
        seen.forget();
        seen.saw("a", 90);
        assert_eq!(seen.missing(), []);
    }

    #[test]
    fn a_redelivery_that_came_before_its_turn_is_not_missing() {
        let mut seen = Sequences::default();
        seen.saw_again("a", 4);
        seen.saw("a", 5);
        seen.saw_again("a", 8);
        seen.saw("a", 6);
        assert_eq!(seen.missing(), []);
        seen.saw("a", 10);
        assert_eq!(runs(&mut seen), [(7, 7), (9, 9)]);
    }

    #[test]
    fn the_last_number_there_is_is_a_number_too() {
        let mut seen = Sequences::default();
        seen.saw("a", 0);
        seen.saw("a", u64::MAX);
        assert_eq!(seen.missing()[0].count(), u64::MAX - 1);
        seen.saw("b", u64::MAX);
        seen.saw("b", u64::MAX);
        assert_eq!(runs(&mut seen), [(1, u64::MAX - 1)]);
    }

    proptest! {
        #[test]
        fn what_is_missing_is_what_was_left_out(dropped in proptest::collection::btree_set(2_u64..100, 0..40)) {
            let mut seen = Sequences::default();
            (1..=100).filter(|n| !dropped.contains(n)).for_each(|n| seen.saw("s", n));
            let missing: u64 = seen.missing().iter().map(Gap::count).sum();
            prop_assert_eq!(missing, dropped.len() as u64);
        }
    }
}
