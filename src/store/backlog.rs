//! What an opening listener is given of what was dispatched before: from a point on, or what the one missed that it
//! continues. Positions decide, not clocks: a dispatch may come long after the arrival.

use std::collections::HashMap;

use crate::clock::Timestamp;

use super::StoreError;
use super::dispatch::{Copy, Origin};
use super::listeners::{Listener, Open, Since, Subscriber};
use super::tx::{Row, Tx, args};

/// Arrivals that are looked at in one step.
const STEP: u64 = 200;

/// The dispatched events that the new listener gets, oldest first; `None` when `since` names none of this environment.
pub(super) fn backlog(
    tx: &mut dyn Tx,
    open: &Open,
    old: Option<&Listener>,
) -> Result<Option<Vec<Copy>>, StoreError> {
    let new = &open.listener;
    Ok(Some(match (&open.since, old) {
        (None, None) => Vec::new(),
        (None, Some(old)) => missed(tx, new, old)?,
        (Some(Since::Beginning), _) => stored(tx, new, "e.position > ?2", 0)?,
        (Some(Since::Time(at)), _) => stored(tx, new, "e.created_at >= ?2", at.millis())?,
        (Some(Since::Event(id)), _) => {
            let sql = "SELECT position FROM events WHERE environment_id = ?1 AND id = ?2";
            let Some(mut row) = tx.first(sql, args![&new.environment_id, id])? else {
                return Ok(None);
            };
            stored(tx, new, "e.position > ?2", row.take(0)?)?
        }
    }))
}

/// First arrivals that are dispatched, of the sources and types that the listener takes, where `condition` holds.
fn stored(tx: &mut dyn Tx, new: &Listener, condition: &str, from: i64) -> Result<Vec<Copy>, StoreError> {
    let sql = format!(
        "SELECT e.position, s.id, a.sequence, a.occurrence, e.size_bytes, e.source, e.type
         FROM events e JOIN streams s ON s.environment_id = e.environment_id AND s.source = e.source
         JOIN arrivals a ON a.stream = s.id AND a.sequence = e.sequence AND a.sequence <= s.dispatched
         WHERE e.environment_id = ?1 AND {condition} ORDER BY e.position"
    );
    let takes = Subscriber::from(new);
    let mut copies = Vec::new();
    for mut row in tx.query(&sql, args![&new.environment_id, from])? {
        if takes.takes_source(&row.take::<String>(5)?) && takes.takes_type(&row.take::<String>(6)?) {
            copies.push(copy(&mut row)?);
        }
    }
    Ok(copies)
}

fn copy(row: &mut Row) -> Result<Copy, StoreError> {
    let occurrence = row.take(3)?;
    Ok(Copy {
        event: row.take(0)?,
        stream: row.take(1)?,
        sequence: row.take(2)?,
        occurrence,
        origin: Origin::of_arrival(occurrence),
        size: row.take(4)?,
    })
}

/// Arrivals and redeliveries that were dispatched while the old listener was not open any more; and, of what only the
/// new one takes, those since the old one's last poll.
fn missed(tx: &mut dyn Tx, new: &Listener, old: &Listener) -> Result<Vec<Copy>, StoreError> {
    let positions = positions(tx, &old.id)?;
    let sql = "SELECT id, source, dispatched FROM streams WHERE environment_id = ?1";
    let takes = Subscriber::from(new);
    let mut keyed = Vec::new();
    for mut row in tx.query(sql, args![&new.environment_id])? {
        let (stream, source): (i64, String) = (row.take(0)?, row.take(1)?);
        if takes.takes_source(&source) {
            let from = positions.get(&stream).copied().unwrap_or(0);
            let walk = Walk { stream, source, from, to: row.take(2)? };
            keyed.extend(in_order(missed_of(tx, &walk, &takes, old)?));
        }
    }
    // Each stream in its own order; the streams among each other by the newest event that had come by then.
    keyed.sort_by_key(|(newest, copy)| (*newest, copy.sequence));
    Ok(keyed.into_iter().map(|(_, copy)| copy).collect())
}

/// Oldest first, each with the newest event so far.
fn in_order(newest_first: Vec<Copy>) -> Vec<(i64, Copy)> {
    let mut newest = 0;
    let keyed = newest_first.into_iter().rev().map(|copy| {
        newest = newest.max(copy.event);
        (newest, copy)
    });
    keyed.collect()
}

/// One stream, from where the old listener opened to where it is dispatched.
struct Walk {
    stream: i64,
    source: String,
    from: i64,
    to: i64,
}

/// Walks back from the newest: dispatch is serial, so the newest that the old listener was given ends it.
fn missed_of(
    tx: &mut dyn Tx,
    walk: &Walk,
    new: &Subscriber,
    old: &Listener,
) -> Result<Vec<Copy>, StoreError> {
    let sql = "SELECT a.event, a.stream, a.sequence, a.occurrence, e.size_bytes, e.type, a.arrived_at,
        (SELECT COUNT(*) FROM listener_deliveries d
         WHERE d.listener_id = ?4 AND d.event = a.event AND d.occurrence = a.occurrence)
        FROM arrivals a JOIN events e ON e.position = a.event
        WHERE a.stream = ?1 AND a.sequence > ?2 AND a.sequence <= ?3 ORDER BY a.sequence DESC LIMIT ?5";
    let old_takes = Subscriber::from(old);
    let polled_at = old.last_polled_at.unwrap_or(old.created_at);
    let (mut missed, mut to) = (Vec::new(), walk.to);
    loop {
        let rows = tx.query(sql, args![walk.stream, walk.from, to, &old.id, STEP])?;
        let is_last = (rows.len() as u64) < STEP;
        for mut row in rows {
            let kind: String = row.take(5)?;
            let (since_poll, given) = (row.take::<Timestamp>(6)? >= polled_at, row.take::<bool>(7)?);
            if given {
                return Ok(missed);
            }
            let copy = copy(&mut row)?;
            to = copy.sequence - 1;
            let was_due = old_takes.takes_source(&walk.source) && old_takes.takes_type(&kind);
            if new.takes_type(&kind) && (was_due || since_poll) {
                missed.push(copy);
            }
        }
        if is_last {
            return Ok(missed);
        }
    }
}

/// Where each stream of an environment is dispatched to, to be kept with a listener that opens there.
pub(super) fn mark_positions(tx: &mut dyn Tx, environment: &str) -> Result<String, StoreError> {
    let sql = "SELECT id, dispatched FROM streams WHERE environment_id = ?1 AND dispatched > 0 ORDER BY id";
    let mark = |mut row: Row| Ok(format!("{} {}", row.take::<i64>(0)?, row.take::<i64>(1)?));
    let marks: Result<Vec<String>, StoreError> =
        tx.query(sql, args![environment])?.into_iter().map(mark).collect();
    Ok(marks?.join("\n"))
}

/// Reads what [`mark_positions`] kept.
fn positions(tx: &mut dyn Tx, listener: &str) -> Result<HashMap<i64, i64>, StoreError> {
    let sql = "SELECT opened_at FROM listeners WHERE id = ?1";
    let Some(mut row) = tx.first(sql, args![listener])? else {
        return Ok(HashMap::new());
    };
    let text: String = row.take(0)?;
    let read = |line: &str| {
        let (stream, dispatched) = line.split_once(' ')?;
        Some((stream.parse().ok()?, dispatched.parse().ok()?))
    };
    let broken = || StoreError::Corrupt(format!("where {listener} opened can't be read"));
    text.lines().map(|line| read(line).ok_or_else(broken)).collect()
}
