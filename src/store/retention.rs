//! Purging what is too old, a little at a time, so that nobody waits long for the writer.

use crate::clock::Timestamp;

use super::StoreError;
use super::events::Status;
use super::tx::{Lock, Row, Tx, args};

/// Before which moments things are too old.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Events, by arrival.
    pub events: Timestamp,
    /// Listeners, by expiry; their deliveries go along.
    pub listeners: Timestamp,
    /// Log lines and audit events.
    pub logs: Timestamp,
    /// Idempotency keys.
    pub idempotency: Timestamp,
    /// Rows of a kind in one round, at most.
    pub batch: u64,
}

/// One round, in one environment: the first that holds something too old. How many rows went; call again until it is 0.
pub fn purge(tx: &mut dyn Tx, limits: &Limits) -> Result<u64, StoreError> {
    for mut row in tx.query("SELECT id FROM environments ORDER BY id", args![])? {
        let environment: String = row.take(0)?;
        let gone = purge_events(tx, &environment, limits)?
            + purge_listeners(tx, &environment, limits)?
            + purge_rest(tx, &environment, limits)?;
        if gone > 0 {
            return Ok(gone);
        }
    }
    Ok(0)
}

fn purge_events(tx: &mut dyn Tx, environment: &str, limits: &Limits) -> Result<u64, StoreError> {
    if too_old(tx, environment, limits)?.is_empty() {
        return Ok(0);
    }
    // Nothing arrives again, fans out or is acked under our hands; in the order of all others.
    tx.lock(Lock::Arrivals(environment))?;
    tx.lock(Lock::Dispatch(environment))?;
    let busy = "SELECT id FROM listeners WHERE environment_id = ?1 AND pending > 0 ORDER BY id";
    for mut row in tx.query(busy, args![environment])? {
        tx.lock(Lock::Listener(&row.take::<String>(0)?))?;
    }
    let positions = too_old(tx, environment, limits)?;
    for position in &positions {
        let uncount = "UPDATE listeners SET pending = pending -
            (SELECT COUNT(*) FROM listener_deliveries d WHERE d.listener_id = listeners.id AND d.event = ?1 AND d.state = 0)
            WHERE id IN (SELECT listener_id FROM listener_deliveries WHERE event = ?1 AND state = 0)";
        tx.execute(uncount, args![*position])?;
        tx.execute("DELETE FROM events WHERE position = ?1", args![*position])?;
    }
    Ok(positions.len() as u64)
}

/// Events that may go. One whose arrival, or a repeat of it, isn't dispatched stays, however old: nobody had the
/// chance to see it.
fn too_old(tx: &mut dyn Tx, environment: &str, limits: &Limits) -> Result<Vec<i64>, StoreError> {
    let sql = "SELECT e.position FROM events e JOIN streams s
        ON s.environment_id = e.environment_id AND s.source = e.source
        WHERE e.environment_id = ?1 AND e.created_at < ?2
        AND NOT EXISTS (SELECT 1 FROM arrivals a WHERE a.event = e.position AND a.sequence > s.dispatched)
        ORDER BY e.created_at LIMIT ?3";
    let rows = tx.query(sql, args![environment, limits.events, limits.batch])?;
    let mut positions = rows.into_iter().map(|mut row: Row| row.take(0)).collect::<Result<Vec<_>, _>>()?;
    positions.sort_unstable();
    Ok(positions)
}

/// Until here somebody could have continued them; now nobody takes what they held.
fn purge_listeners(tx: &mut dyn Tx, environment: &str, limits: &Limits) -> Result<u64, StoreError> {
    let chosen =
        "SELECT id FROM listeners WHERE environment_id = ?1 AND expires_at < ?2 ORDER BY expires_at LIMIT ?3";
    let rows = tx.query(chosen, args![environment, limits.listeners, limits.batch])?;
    if rows.is_empty() {
        return Ok(0);
    }
    tx.lock(Lock::Dispatch(environment))?;
    let gone = rows.len() as u64;
    for mut row in rows {
        let id: String = row.take(0)?;
        forget_held(tx, &id)?;
        tx.execute("DELETE FROM listeners WHERE id = ?1", args![&id])?;
    }
    Ok(gone)
}

/// What only this listener held is held by nobody now.
fn forget_held(tx: &mut dyn Tx, listener: &str) -> Result<(), StoreError> {
    let held = "SELECT DISTINCT h.event FROM listener_deliveries h WHERE h.listener_id = ?1 AND h.state = 0
        AND NOT EXISTS (SELECT 1 FROM listener_deliveries d
            WHERE d.event = h.event AND d.state = 0 AND d.listener_id <> ?1) ORDER BY h.event";
    let forget = "UPDATE events SET status = ?2 WHERE position = ?1 AND status = ?3";
    for mut row in tx.query(held, args![listener])? {
        let position: i64 = row.take(0)?;
        tx.execute(forget, args![position, Status::None.number(), Status::Pending.number()])?;
    }
    Ok(())
}

/// What has a time and nothing else to look at: a table, its key, its time.
const TIMED: [(&str, &str, &str); 3] = [
    ("logs", "position", "occurred_at"),
    ("audit_events", "position", "occurred_at"),
    ("idempotency_keys", "idempotency_key", "created_at"),
];

fn purge_rest(tx: &mut dyn Tx, environment: &str, limits: &Limits) -> Result<u64, StoreError> {
    let before = [limits.logs, limits.logs, limits.idempotency];
    let mut gone = 0;
    for ((table, key, time), before) in TIMED.into_iter().zip(before) {
        let sql = format!(
            "DELETE FROM {table} WHERE environment_id = ?1 AND {key} IN (SELECT {key} FROM {table}
             WHERE environment_id = ?1 AND {time} < ?2 ORDER BY {time} LIMIT ?3)"
        );
        gone += tx.execute(&sql, args![environment, before, limits.batch])?;
    }
    Ok(gone)
}
