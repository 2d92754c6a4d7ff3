//! What is missing, from the numbers that each source gives its events. Nothing is guessed: a source is judged from
//! the first number seen on.

use std::collections::HashMap;

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

/// The highest number seen of each source.
#[derive(Debug, Default)]
pub(super) struct Sequences(HashMap<String, u64>);

impl Sequences {
    /// Takes note of a delivery; the gap before it, when there is one.
    pub(super) fn saw(&mut self, source: &str, sequence: u64) -> Option<Gap> {
        let Some(high) = self.0.get_mut(source) else {
            self.0.insert(source.to_owned(), sequence);
            return None;
        };
        let before = std::mem::replace(high, sequence.max(*high));
        (sequence > before + 1).then(|| Gap { source: source.to_owned(), from: before + 1, to: sequence - 1 })
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
        assert_eq!(seen.saw("a", 7), None);
        assert_eq!(seen.saw("a", 8), None);
        assert_eq!(seen.saw("b", 3), None);
        assert_eq!(seen.saw("a", 2), None);
        let gap = seen.saw("a", 11).unwrap();
        assert_eq!((gap.from, gap.to, gap.count()), (9, 10, 2));
        seen.forget();
        assert_eq!(seen.saw("a", 90), None);
    }

    proptest! {
        #[test]
        fn what_is_missing_is_what_was_left_out(dropped in proptest::collection::btree_set(2_u64..100, 0..40)) {
            let mut seen = Sequences::default();
            let missing: u64 = (1..=100)
                .filter(|n| !dropped.contains(n))
                .filter_map(|n| seen.saw("s", n))
                .map(|gap| gap.count())
                .sum();
            prop_assert_eq!(missing, dropped.len() as u64);
        }
    }
}
