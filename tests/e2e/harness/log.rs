//! A list that grows, and that can be waited for.

use std::fmt::Debug;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a story waits for anything before it says what is missing. Nothing is measured with it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The list.
pub struct Log<T>(Arc<Inner<T>>);

struct Inner<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    items: Vec<T>,
    closed: bool,
}

impl<T> Clone for Log<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Clone + Debug> Default for Log<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Clone + Debug> Log<T> {
    pub fn new() -> Self {
        let state = Mutex::new(State { items: Vec::new(), closed: false });
        Self(Arc::new(Inner { state, changed: Condvar::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn push(&self, item: T) {
        self.lock().items.push(item);
        self.0.changed.notify_all();
    }

    /// Nothing more will come.
    pub fn close(&self) {
        self.lock().closed = true;
        self.0.changed.notify_all();
    }

    pub fn all(&self) -> Vec<T> {
        self.lock().items.clone()
    }

    pub fn len(&self) -> usize {
        self.lock().items.len()
    }

    /// Waits for the first item from position `from` on that is `wanted`, and says where it is.
    #[track_caller]
    pub fn find(&self, from: usize, what: &str, wanted: impl Fn(&T) -> bool) -> (usize, T) {
        let found = self.search(|items| {
            let at = items.iter().skip(from).position(&wanted)? + from;
            Some((at, items[at].clone()))
        });
        found.unwrap_or_else(|seen| panic!("never came: {what}; from {from} on there is {seen:#?}"))
    }

    /// Waits until there are `count` items, and returns them.
    #[track_caller]
    pub fn wait_for(&self, count: usize, what: &str) -> Vec<T> {
        let found = self.search(|items| (items.len() >= count).then(|| items.to_vec()));
        found.unwrap_or_else(|seen| panic!("waited for {count} {what}; there is {seen:#?}"))
    }

    /// Waits until nothing more comes, and returns everything.
    #[track_caller]
    pub fn whole(&self, what: &str) -> Vec<T> {
        let mut state = self.lock();
        let give_up = Instant::now() + PATIENCE;
        while !state.closed {
            let left = give_up.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{what} did not end; there is {:#?}", state.items);
            state = self.0.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.items.clone()
    }

    fn search<F>(&self, look: impl Fn(&[T]) -> Option<F>) -> Result<F, Vec<T>> {
        let mut state = self.lock();
        let give_up = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look(&state.items) {
                return Ok(found);
            }
            let left = give_up.saturating_duration_since(Instant::now());
            if left.is_zero() || state.closed {
                return Err(state.items.clone());
            }
            state = self.0.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Looks again and again until something that tells nobody has happened.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let give_up = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < give_up, "it never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
