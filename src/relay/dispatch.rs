//! The dispatcher: takes each stream's events in order and commits their fan-out; streams don't wait for each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

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

/// One round over every stream that is behind: all of them in one transaction, or, where one of them fails, each in
/// its own.
pub(super) async fn tick(shared: &Arc<Shared>) -> Result<TickReport, StoreError> {
    if shared.retries.is_empty() {
        let (now, ids) = (shared.clock.now(), shared.ids.clone());
        let all = move |tx: &mut dyn Tx| {
            let mut dispatched = 0;
            for stream in dispatch::behind(tx, STREAMS)? {
                dispatched += dispatch::advance(tx, stream, BATCH, now, &ids)?;
            }
            Ok(dispatched)
        };
        if let Ok(dispatched) = shared.store.write(Durability::Relaxed, all).await {
            return Ok(TickReport { dispatched, ..TickReport::default() });
        }
    }
    each_by_itself(shared).await
}

async fn each_by_itself(shared: &Arc<Shared>) -> Result<TickReport, StoreError> {
    let mut report = TickReport::default();
    for stream in shared.store.read(|tx| dispatch::behind(tx, STREAMS)).await? {
        let now = shared.clock.now();
        if !shared.retries.is_due(stream, now) {
            report.waiting += 1;
            continue;
        }
        let ids = shared.ids.clone();
        let step = move |tx: &mut dyn Tx| dispatch::advance(tx, stream, BATCH, now, &ids);
        match shared.store.write(Durability::Relaxed, step).await {
            Ok(count) => {
                report.dispatched += count;
                shared.retries.forget(stream);
            }
            Err(error) => {
                report.failed += 1;
                let tries = shared.retries.note(stream, now, shared);
                tracing::warn!(%error, stream, tries, "a fan-out failed and is tried again");
            }
        }
    }
    Ok(report)
}
