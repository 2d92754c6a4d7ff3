//! A small cache of rows that seldom change, emptied whenever the store tells that they did.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::wake::{Topic, Waiter, Wake};

/// Entries before the cache starts anew: what strangers ask for must not fill the memory.
const CAPACITY: usize = 1024;

/// Keys to values, until [`Topic::Sources`] is told.
#[derive(Debug)]
pub(super) struct Cache<K, V>(Mutex<State<K, V>>);

#[derive(Debug)]
struct State<K, V> {
    changes: Waiter,
    generation: u64,
    entries: HashMap<K, V>,
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    pub(super) fn new(wake: &Wake) -> Self {
        let changes = wake.subscribe(Topic::Sources);
        Self(Mutex::new(State { changes, generation: 0, entries: HashMap::new() }))
    }

    /// The entry, or the generation to hand to [`Cache::put`] with what the store says.
    pub(super) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Result<V, u64>
    where
        K: Borrow<Q>,
    {
        let mut state = self.lock();
        if state.changes.take_change() {
            state.generation += 1;
            state.entries.clear();
        }
        state.entries.get(key).cloned().ok_or(state.generation)
    }

    /// Keeps what the store said, unless something changed since it was asked.
    pub(super) fn put(&self, generation: u64, key: K, value: V) {
        let mut state = self.lock();
        if state.changes.take_change() {
            state.generation += 1;
            state.entries.clear();
        }
        if state.generation == generation {
            if state.entries.len() >= CAPACITY {
                state.entries.clear();
            }
            state.entries.insert(key, value);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_before_a_change_is_not_kept() {
        let wake = Wake::default();
        let cache = Cache::<String, u8>::new(&wake);
        let generation = cache.get("a").unwrap_err();
        wake.tell(&Topic::Sources);
        cache.put(generation, "a".into(), 1);
        let generation = cache.get("a").unwrap_err();
        cache.put(generation, "a".into(), 2);
        assert_eq!(cache.get("a"), Ok(2));
        wake.tell(&Topic::Sources);
        assert!(cache.get("a").is_err());
    }
}
