//! The dispatcher: takes each stream's events in order and commits their fan-out; streams don't wait for each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::clock::Timestamp;
use crate::retry::Backoff;
use crate::store::tx::Tx;
use crate::store::{Durability, StoreError, dispatch};
use crate::wake::Topic;

/// Events that one transaction fans out at most: long enough to be cheap, short enough that nobody waits for it.
const BATCH: u64 = 128;
/// Streams that one round looks at.
const STREAMS: u64 = 1000;
/// Streams that are dispatched at once.
const AT_ONCE: usize = 16;

/// What one round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TickReport {
    /// Events that were fanned out.
    pub dispatched: u64,
    /// Streams whose head failed and is tried again later.
    pub failed: u64,
    /// Streams that wait for their next try.
    pub waiting: u64,
}

/// Streams whose head failed: tried again without limit, each on its own schedule.
#[derive(Debug, Default)]
pub(super) struct Retries(Mutex<HashMap<i64, (u32, Timestamp)>>);

impl Retries {
    fn is_due(&self, stream: i64, now: Timestamp) -> bool {
        self.lock().get(&stream).is_none_or(|(_, at)| *at <= now)
    }

    fn note(&self, stream: i64, now: Timestamp, shared: &Shared) -> u32 {
        let mut retries = self.lock();
        let (tries, at) = retries.entry(stream).or_insert((0, now));
        *at = now + Backoff::DISPATCH.delay(*tries, &*shared.dice);
        *tries += 1;
        *tries
    }

    fn forget(&self, stream: i64) {
        self.lock().remove(&stream);
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn next(&self) -> Option<Timestamp> {
        self.lock().values().map(|(_, at)| *at).min()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<i64, (u32, Timestamp)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rounds until `stop`: at once when something arrives, else when a retry is due.
pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let mut arrived = shared.store.wake().subscribe(Topic::Arrived);
    while !stop.is_cancelled() {
        let more = match tick(&shared).await {
            // Less than a batch: every stream was emptied, and what came since has been told.
            Ok(report) => report.dispatched >= BATCH,
            Err(error) => {
                tracing::warn!(%error, "the streams can't be looked at now");
                shared.retries.note(NO_STREAM, shared.clock.now(), &shared);
                false
            }
        };
        if more {
            continue;
        }
        let fallback = shared.clock.now() + shared.settings.fallback_poll;
        let next = shared.retries.next().map_or(fallback, |at| at.min(fallback));
        tokio::select! {
            () = arrived.changed() => {}
            () = shared.clock.sleep_until(next) => shared.retries.forget(NO_STREAM),
            () = stop.cancelled() => {}
        }
    }
}

/// Stands for "no stream could even be read" among the retries.
const NO_STREAM: i64 = -1;

/// One round over every stream that is behind, each in a transaction of its own; those that wait together share a
/// commit where the store's engine can.
pub(super) async fn tick(shared: &Arc<Shared>) -> Result<TickReport, StoreError> {
    let (mut report, behind) = match first(shared).await {
        Some((dispatched, rest)) => (TickReport { dispatched, ..TickReport::default() }, rest),
        None => (TickReport::default(), shared.store.read(|tx| dispatch::behind(tx, STREAMS)).await?),
    };
    let now = shared.clock.now();
    let (due, waiting): (Vec<_>, Vec<_>) =
        behind.into_iter().partition(|stream| shared.retries.is_due(*stream, now));
    report.waiting = waiting.len() as u64;
    let mut steps = stream::iter(due).map(|stream| advance(shared, stream, now)).buffer_unordered(AT_ONCE);
    while let Some(dispatched) = steps.next().await {
        match dispatched {
            Some(count) => report.dispatched += count,
            None => report.failed += 1,
        }
    }
    Ok(report)
}

/// The first stream that is behind, looked for and dispatched in one transaction: mostly it is the only one. How many
/// events there were, and the other streams; `None` where something failed, now or before.
async fn first(shared: &Arc<Shared>) -> Option<(u64, Vec<i64>)> {
    if !shared.retries.is_empty() {
        return None;
    }
    let (now, ids) = (shared.clock.now(), shared.ids.clone());
    let step = move |tx: &mut dyn Tx| {
        let behind = dispatch::behind(tx, STREAMS)?;
        match behind.split_first() {
            Some((first, rest)) => Ok((dispatch::advance(tx, *first, BATCH, now, &ids)?, rest.to_vec())),
            None => Ok((0, Vec::new())),
        }
    };
    shared.store.write(Durability::Relaxed, step).await.ok()
}

/// One stream's next batch; how many events there were, `None` where it failed and is tried again later.
async fn advance(shared: &Shared, stream: i64, now: Timestamp) -> Option<u64> {
    let ids = shared.ids.clone();
    let step = move |tx: &mut dyn Tx| dispatch::advance(tx, stream, BATCH, now, &ids);
    match shared.store.write(Durability::Relaxed, step).await {
        Ok(count) => {
            shared.retries.forget(stream);
            Some(count)
        }
        Err(error) => {
            let tries = shared.retries.note(stream, now, shared);
            tracing::warn!(%error, stream, tries, "a fan-out failed and is tried again");
            None
        }
    }
}
