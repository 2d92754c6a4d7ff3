//! The purge: what is too old goes, a little at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::protocol::limits;
use crate::store::{Durability, StoreError, retention};

/// Between two purges.
const EVERY: Duration = Duration::from_secs(600);
/// Rows of a kind in one transaction.
const BATCH: u64 = 500;

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    loop {
        let next = shared.clock.now() + EVERY;
        tokio::select! {
            () = shared.clock.sleep_until(next) => {}
            () = stop.cancelled() => return,
        }
        loop {
            match tick(&shared).await {
                Ok(0) => break,
                Ok(rows) => tracing::debug!(rows, "purged"),
                Err(error) => {
                    tracing::warn!(%error, "the purge failed and is tried again later");
                    break;
                }
            }
        }
    }
}

/// One round; how many rows went.
pub(super) async fn tick(shared: &Shared) -> Result<u64, StoreError> {
    let now = shared.clock.now();
    let limits = retention::Limits {
        events: now - shared.settings.event_retention,
        listeners: now - limits::LISTENER_KEPT,
        logs: now - shared.settings.log_retention,
        idempotency: now - limits::IDEMPOTENCY_KEPT,
        batch: BATCH,
    };
    shared.store.write(Durability::Relaxed, move |tx| retention::purge(tx, &limits)).await
}
