//! Events: immutable, numbered by the writer inside the commit.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::clock::Timestamp;
use crate::wake::Topic;

use super::StoreError;
use super::tx::{Lock, Tx, args};

/// What became of an event's newest delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Nobody took it.
    None = 0,
    /// Handed out or waiting.
    Pending = 1,
    /// The app answered 2xx.
    Delivered = 2,
    /// It didn't, finally.
    Failed = 3,
    /// The client filtered it out.
    Skipped = 4,
}

impl Status {
    /// All, with their wire texts.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::None, "none"),
        (Self::Pending, "pending"),
        (Self::Delivered, "delivered"),
        (Self::Failed, "failed"),
        (Self::Skipped, "skipped"),
    ];

    /// As it is stored.
    pub const fn number(self) -> i64 {
        self as i64
    }

    /// The wire text of a stored number.
    pub fn text_of(number: i64) -> &'static str {
        Self::ALL.iter().find(|(status, _)| status.number() == number).map_or("none", |(_, text)| text)
    }

    /// Reads a wire text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == text).map(|(status, _)| *status)
    }
}

/// How repeats of a provider's id are treated.
#[derive(Clone, Copy, Debug)]
pub struct Dedupe {
    /// Events that arrived before this are forgotten.
    pub since: Timestamp,
    /// Only count a repeat, don't hand it on.
    pub drop: bool,
}

/// An event to be stored.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// `evt_...`, unless it turns out to be a repeat.
    pub id: String,
    /// Whose it is.
    pub environment_id: String,
    /// Its source's name; empty for one made over the API without a source.
    pub source: String,
    /// The scheme that verified it.
    pub scheme: String,
    /// Its type.
    pub kind: String,
    /// The provider's own id of it.
    pub provider_event_id: Option<String>,
    /// What to do about repeats of that id.
    pub dedupe: Dedupe,
    /// The method with which it came.
    pub method: String,
    /// The path below the source.
    pub path: String,
    /// The query.
    pub query: String,
    /// The kept headers, as JSON.
    pub headers: String,
    /// The exact bytes.
    pub body: Bytes,
    /// An envelope made here.
    pub envelope: bool,
    /// When it arrived.
    pub at: Timestamp,
}

/// What was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The event: the new one, or the one this was a repeat of.
    pub event_id: String,
    /// Whether it had arrived before.
    pub duplicate: bool,
}

/// Appends an event to its stream: a new one, or a further occurrence of one that came before.
pub fn append(tx: &mut dyn Tx, new: &NewEvent) -> Result<Appended, StoreError> {
    tx.lock(Lock::Arrivals(&new.environment_id))?;
    let earlier = match &new.provider_event_id {
        Some(id) => find_repeated(tx, new, id)?,
        None => Earlier::None,
    };
    if let Earlier::Same { position, id } = earlier {
        repeat(tx, new, position)?;
        return Ok(Appended { event_id: id, duplicate: true });
    }
    let (stream, sequence) = next_sequence(tx, &new.environment_id, &new.source)?;
    let position = insert(tx, new, sequence, matches!(earlier, Earlier::Different))?;
    arrive(tx, stream, sequence, position, 1, new.at)?;
    Ok(Appended { event_id: new.id.clone(), duplicate: false })
}

enum Earlier {
    None,
    /// The same id with other bytes: a new event, flagged.
    Different,
    Same {
        position: i64,
        id: String,
    },
}

fn find_repeated(tx: &mut dyn Tx, new: &NewEvent, provider_id: &str) -> Result<Earlier, StoreError> {
    // The plus keeps SQLite from the index over time, which would walk the whole window for each event.
    let sql = "SELECT e.position, e.id, CASE WHEN c.body = ?5 THEN 1 ELSE 0 END
        FROM events e JOIN event_contents c ON c.event = e.position
        WHERE e.environment_id = ?1 AND e.source = ?2 AND e.provider_event_id = ?3 AND +e.created_at >= ?4
        ORDER BY e.position";
    let since = new.dedupe.since;
    let rows = tx.query(sql, args![&new.environment_id, &new.source, provider_id, since, &new.body])?;
    let mut found = Earlier::None;
    for mut row in rows {
        if row.take(2)? {
            return Ok(Earlier::Same { position: row.take(0)?, id: row.take(1)? });
        }
        found = Earlier::Different;
    }
    Ok(found)
}

fn repeat(tx: &mut dyn Tx, new: &NewEvent, position: i64) -> Result<(), StoreError> {
    // It changes an event that others may change, too, where a group's order of events is anyone's.
    tx.insist_on_own()?;
    let next = match new.dedupe.drop {
        true => None,
        false => Some(next_sequence(tx, &new.environment_id, &new.source)?),
    };
    let Some(occurrence) = next_occurrence(tx, position)? else {
        return Err(StoreError::Corrupt("an event vanished within a transaction".into()));
    };
    match next {
        Some((stream, sequence)) => arrive(tx, stream, sequence, position, occurrence, new.at),
        None => Ok(()),
    }
}

/// Counts a further occurrence of an event, a redelivery or a replay; `None` when there is no such event.
pub fn next_occurrence(tx: &mut dyn Tx, position: i64) -> Result<Option<i64>, StoreError> {
    let sql = "UPDATE events SET occurrences = occurrences + 1 WHERE position = ?1 RETURNING occurrences";
    tx.first(sql, args![position])?.map(|mut row| row.take(0)).transpose()
}

/// The stream of a source, made when absent, and its next number.
fn next_sequence(tx: &mut dyn Tx, environment: &str, source: &str) -> Result<(i64, i64), StoreError> {
    let advance =
        "UPDATE streams SET head = head + 1 WHERE environment_id = ?1 AND source = ?2 RETURNING id, head";
    if let Some(mut row) = tx.first(advance, args![environment, source])? {
        return Ok((row.take(0)?, row.take(1)?));
    }
    let make =
        "INSERT INTO streams (environment_id, source, head, dispatched) VALUES (?1, ?2, 1, 0) RETURNING id";
    match tx.first(make, args![environment, source])? {
        Some(mut row) => Ok((row.take(0)?, 1)),
        None => Err(StoreError::Corrupt("a stream could not be made".into())),
    }
}

fn insert(tx: &mut dyn Tx, new: &NewEvent, sequence: i64, conflicting: bool) -> Result<i64, StoreError> {
    let sql = "INSERT INTO events (id, environment_id, source, scheme, sequence, type, provider_event_id, conflicting,
        occurrences, status, size_bytes, envelope, created_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, 0, ?9, ?10, ?11) RETURNING position";
    let args = args![
        &new.id,
        &new.environment_id,
        &new.source,
        &new.scheme,
        sequence,
        &new.kind,
        new.provider_event_id.as_deref(),
        conflicting,
        new.body.len(),
        new.envelope,
        new.at,
    ];
    let Some(mut row) = tx.first(sql, args)? else {
        return Err(StoreError::Corrupt("an event could not be stored".into()));
    };
    let position = row.take(0)?;
    let sql = "INSERT INTO event_contents (event, method, path, query, headers, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    tx.execute(sql, args![position, &new.method, &new.path, &new.query, &new.headers, &new.body])?;
    Ok(position)
}

fn arrive(
    tx: &mut dyn Tx,
    stream: i64,
    sequence: i64,
    event: i64,
    occurrence: i64,
    at: Timestamp,
) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO arrivals (stream, sequence, event, occurrence, arrived_at) VALUES (?1, ?2, ?3, ?4, ?5)";
    tx.execute(sql, args![stream, sequence, event, occurrence, at])?;
    tx.tell(Topic::Arrived)
}

/// What became of events' newest deliveries in a transaction. Written at its end, in the events' order: two that touch
/// the same events wait for each other, never both.
#[derive(Debug, Default)]
pub struct Statuses(BTreeMap<i64, Status>);

impl Statuses {
    /// The last one noted of an event, by its position, holds.
    pub fn note(&mut self, position: i64, status: Status) {
        self.0.insert(position, status);
    }

    /// Writes them.
    pub fn write(self, tx: &mut dyn Tx) -> Result<(), StoreError> {
        let sql = "UPDATE events SET status = ?2 WHERE position = ?1";
        self.0
            .into_iter()
            .try_for_each(|(position, status)| tx.execute(sql, args![position, status.number()]).map(drop))
    }
}
