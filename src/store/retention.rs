//! Purging what is too old, a little at a time, so that nobody waits long for the writer.

use crate::clock::Timestamp;

use super::StoreError;
use super::events::Status;
use super::tx::{Tx, args};

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

/// One round; how many rows went. Call again until it is 0.
pub fn purge(tx: &mut dyn Tx, limits: &Limits) -> Result<u64, StoreError> {
    let mut gone = purge_events(tx, limits)?;
    gone += purge_listeners(tx, limits)?;
    for table in ["logs", "audit_events"] {
        let sql = format!(
            "DELETE FROM {table} WHERE position IN (SELECT position FROM {table} WHERE occurred_at < ?1
             ORDER BY position LIMIT ?2)"
        );
        gone += tx.execute(&sql, args![limits.logs, limits.batch])?;
    }
    let keys = "DELETE FROM idempotency_keys WHERE created_at < ?1";
    gone += tx.execute(keys, args![limits.idempotency])?;
    Ok(gone)
}

/// Until here somebody could have continued them; now nobody takes what they held.
fn purge_listeners(tx: &mut dyn Tx, limits: &Limits) -> Result<u64, StoreError> {
    let chosen = "SELECT id FROM listeners WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2";
    let held = "UPDATE events SET status = ?2 WHERE status = ?3 AND position IN
        (SELECT event FROM listener_deliveries WHERE listener_id = ?1 AND state = 0) AND NOT EXISTS
        (SELECT 1 FROM listener_deliveries d WHERE d.event = events.position AND d.state = 0 AND d.listener_id <> ?1)";
    let rows = tx.query(chosen, args![limits.listeners, limits.batch])?;
    let gone = rows.len() as u64;
    for mut row in rows {
        let id: String = row.take(0)?;
        tx.execute(held, args![&id, Status::None.number(), Status::Pending.number()])?;
        tx.execute("DELETE FROM listeners WHERE id = ?1", args![&id])?;
    }
    Ok(gone)
}

fn purge_events(tx: &mut dyn Tx, limits: &Limits) -> Result<u64, StoreError> {
    // An event that its stream hasn't dispatched stays, however old: nobody had the chance to see it.
    let chosen = "SELECT e.position FROM events e JOIN streams s
        ON s.environment_id = e.environment_id AND s.source = e.source
        WHERE e.created_at < ?1 AND e.sequence <= s.dispatched ORDER BY e.position LIMIT ?2";
    let rows = tx.query(chosen, args![limits.events, limits.batch])?;
    let gone = rows.len() as u64;
    for mut row in rows {
        let position: i64 = row.take(0)?;
        let uncount = "UPDATE listeners SET pending = pending -
            (SELECT COUNT(*) FROM listener_deliveries d WHERE d.listener_id = listeners.id AND d.event = ?1 AND d.state = 0)
            WHERE id IN (SELECT listener_id FROM listener_deliveries WHERE event = ?1 AND state = 0)";
        tx.execute(uncount, args![position])?;
        tx.execute("DELETE FROM events WHERE position = ?1", args![position])?;
    }
    Ok(gone)
}
