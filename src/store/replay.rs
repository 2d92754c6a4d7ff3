//! Replay: a late delivery of stored events; it rewinds nothing.

use crate::clock::Timestamp;
use crate::id::IdMaker;
use crate::wake::Topic;

use super::StoreError;
use super::dispatch::{Copy, Origin, deliver};
use super::event_list::Listed;
use super::events::{Statuses, next_occurrence};
use super::listeners::{self, Subscriber};
use super::tx::{Lock, Tx, args};

/// What a replay did. Only [`Replayed::To`] changed anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// Deliveries were made, for so many listeners.
    To {
        /// How many.
        listeners: u64,
    },
    /// Nobody listens (or not the one that was named).
    NoListener,
}

/// Hands `events`, in their order, once more to every open listener, or to the one that is named.
pub fn to_listeners(
    tx: &mut dyn Tx,
    environment: &str,
    only: Option<&str>,
    events: &[Listed],
    now: Timestamp,
    ids: &IdMaker,
) -> Result<Replayed, StoreError> {
    tx.lock(Lock::Arrivals(environment))?;
    tx.lock(Lock::Dispatch(environment))?;
    let receivers = receivers(tx, environment, only, now)?;
    if receivers.is_empty() {
        return Ok(Replayed::NoListener);
    }
    listeners::hold(tx, &receivers)?;
    let mut statuses = Statuses::default();
    let mut counts = vec![0; receivers.len()];
    for event in events {
        let Some(copy) = late_copy(tx, environment, event)? else { continue };
        for (receiver, count) in receivers.iter().zip(&mut counts) {
            *count += deliver(tx, receiver, &copy, now, ids, &mut statuses)?;
        }
    }
    statuses.write(tx)?;
    for (receiver, count) in receivers.iter().zip(counts) {
        listeners::add_pending(tx, &receiver.id, count)?;
    }
    tx.tell(Topic::Environment(environment.to_owned()))?;
    Ok(Replayed::To { listeners: receivers.len() as u64 })
}

/// Who would get a replay: a person asked for it, so subscriptions don't matter.
pub fn receivers(
    tx: &mut dyn Tx,
    environment: &str,
    only: Option<&str>,
    now: Timestamp,
) -> Result<Vec<Subscriber>, StoreError> {
    let mut open = listeners::subscribers(tx, environment, now)?;
    if let Some(id) = only {
        open.retain(|listener| listener.id == id);
    }
    Ok(open)
}

/// `None` when the event was purged meanwhile.
fn late_copy(tx: &mut dyn Tx, environment: &str, event: &Listed) -> Result<Option<Copy>, StoreError> {
    let sql = "SELECT id FROM streams WHERE environment_id = ?1 AND source = ?2";
    let Some(mut row) = tx.first(sql, args![environment, &event.source])? else {
        return Ok(None);
    };
    let Some(occurrence) = next_occurrence(tx, event.position)? else {
        return Ok(None);
    };
    Ok(Some(Copy {
        event: event.position,
        stream: row.take(0)?,
        sequence: i64::try_from(event.sequence).unwrap_or(i64::MAX),
        occurrence,
        origin: Origin::Replay,
        size: i64::try_from(event.size_bytes).unwrap_or(i64::MAX),
    }))
}
