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
        self.to - self.from + 1
    }
}

/// What was seen of each source.
#[derive(Debug, Default)]
pub(super) struct Sequences(HashMap<String, Seen>);

#[derive(Debug)]
struct Seen {
    /// The highest number of a first arrival.
    high: u64,
    /// Numbers of redeliveries above that: they come with their event, which may be before their turn.
    ahead: BTreeSet<u64>,
}

impl Sequences {
    /// Takes note of the first arrival of an event; the gaps before it.
    pub(super) fn saw(&mut self, source: &str, sequence: u64) -> Vec<Gap> {
        let Some(seen) = self.0.get_mut(source) else {
            self.0.insert(source.to_owned(), Seen { high: sequence, ahead: BTreeSet::new() });
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
            from = known + 1;
        }
        seen.high = sequence;
        gaps
    }

    /// Takes note of a redelivery, which has a number of its own.
    pub(super) fn saw_again(&mut self, source: &str, sequence: u64) {
        if let Some(seen) = self.0.get_mut(source).filter(|seen| sequence > seen.high) {
            seen.ahead.insert(sequence);
        }
    }

    /// Starts over: what comes next is not compared with what came before (the listener was opened from now).
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_replay_or_a_first_sight_is_no_gap() {
        let mut seen = Sequences::default();
        assert_eq!(seen.saw("a", 7), []);
        assert_eq!(seen.saw("a", 8), []);
        assert_eq!(seen.saw("b", 3), []);
        assert_eq!(seen.saw("a", 2), []);
        let gaps = seen.saw("a", 11);
        assert_eq!((gaps.len(), gaps[0].from, gaps[0].to, gaps[0].count()), (1, 9, 10, 2));
        seen.forget();
        assert_eq!(seen.saw("a", 90), []);
    }

    #[test]
    fn a_redelivery_that_came_before_its_turn_is_not_missing() {
        let mut seen = Sequences::default();
        seen.saw_again("a", 4);
        seen.saw("a", 5);
        seen.saw_again("a", 8);
        assert_eq!(seen.saw("a", 6), []);
        let gaps = seen.saw("a", 10);
        let runs: Vec<_> = gaps.iter().map(|gap| (gap.from, gap.to)).collect();
        assert_eq!(runs, [(7, 7), (9, 9)]);
    }

    proptest! {
        #[test]
        fn what_is_missing_is_what_was_left_out(dropped in proptest::collection::btree_set(2_u64..100, 0..40)) {
            let mut seen = Sequences::default();
            let missing: u64 = (1..=100)
                .filter(|n| !dropped.contains(n))
                .flat_map(|n| seen.saw("s", n))
                .map(|gap| gap.count())
                .sum();
            prop_assert_eq!(missing, dropped.len() as u64);
        }
    }
}
