//! Finding events: lists by key, one by id, the deliveries of one.

use crate::clock::Timestamp;
use crate::glob;

use super::StoreError;
use super::claims::State;
use super::events::Status;
use super::tx::{Row, Tx, Value, args};

/// An event without its content.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its place among all events.
    pub position: i64,
    /// `evt_...`.
    pub id: String,
    /// Its source's name; empty when there is none.
    pub source: String,
    /// The scheme that verified it.
    pub scheme: String,
    /// Its number in its stream.
    pub sequence: u64,
    /// Its type.
    pub kind: String,
    /// The provider's own id of it.
    pub provider_event_id: Option<String>,
    /// The same provider id came before with other bytes.
    pub conflicting: bool,
    /// How often it arrived or was replayed.
    pub occurrences: u64,
    /// What became of its newest delivery.
    pub status: &'static str,
    /// The size of its body.
    pub size_bytes: u64,
    /// When it arrived.
    pub created_at: Timestamp,
}

/// An event's content.
#[derive(Clone, Debug)]
pub struct Content {
    /// The method with which it came.
    pub method: String,
    /// The path below the source.
    pub path: String,
    /// The query.
    pub query: String,
    /// The kept headers, as JSON.
    pub headers: String,
    /// The exact bytes.
    pub body: Vec<u8>,
}

/// One receiver's copy.
#[derive(Clone, Debug)]
pub struct DeliveryShown {
    /// `whlisdel_...`.
    pub id: String,
    /// Who took it.
    pub listener_id: String,
    /// Which occurrence of the event.
    pub occurrence: u64,
    /// What it is of, as stored.
    pub kind: i64,
    /// `waiting`, `leased`, ...
    pub status: &'static str,
    /// Hand-outs so far.
    pub attempt: u32,
    /// What the app answered.
    pub status_code: Option<u16>,
    /// Why it didn't.
    pub error: Option<String>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// When it was queued.
    pub created_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

/// Which events, in which order.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// Whose.
    pub environment_id: String,
    /// A pattern over types.
    pub kind: Option<String>,
    /// A source's name.
    pub source: Option<String>,
    /// Arrived at or after.
    pub from: Option<Timestamp>,
    /// Arrived before.
    pub to: Option<Timestamp>,
    /// Text in the body.
    pub text: Option<String>,
    /// What became of it.
    pub status: Option<Status>,
    /// Oldest first instead of newest first.
    pub ascending: bool,
    /// Beyond this event, in that order.
    pub after: Option<i64>,
    /// How many at most.
    pub limit: u64,
}

const COLUMNS: &str = "e.position, e.id, e.source, e.scheme, e.sequence, e.type, e.provider_event_id, e.conflicting, \
     e.occurrences, e.status, e.size_bytes, e.created_at";
/// Rows looked at in one step where a condition can't be asked of the database.
const STEP: u64 = 500;

fn read(row: &mut Row) -> Result<Listed, StoreError> {
    Ok(Listed {
        position: row.take(0)?,
        id: row.take(1)?,
        source: row.take(2)?,
        scheme: row.take(3)?,
        sequence: row.take(4)?,
        kind: row.take(5)?,
        provider_event_id: row.take(6)?,
        conflicting: row.take(7)?,
        occurrences: row.take(8)?,
        status: Status::text_of(row.take(9)?),
        size_bytes: row.take(10)?,
        created_at: row.take(11)?,
    })
}

/// A page of events, and whether there are more.
pub fn page(tx: &mut dyn Tx, search: &Search) -> Result<(Vec<Listed>, bool), StoreError> {
    let mut found = Vec::new();
    let mut after = search.after;
    let wanted = usize::try_from(search.limit).unwrap_or(usize::MAX);
    loop {
        let step = if search.is_exact() { search.limit + 1 } else { STEP };
        let rows = step_of(tx, search, after, step)?;
        let last_step = (rows.len() as u64) < step;
        for event in rows {
            after = Some(event.position);
            if search.holds(tx, &event)? {
                if found.len() == wanted {
                    return Ok((found, true));
                }
                found.push(event);
            }
        }
        if last_step {
            return Ok((found, false));
        }
    }
}

impl Search {
    /// Whether the database can decide every condition.
    fn is_exact(&self) -> bool {
        self.text.is_none() && !self.kind.as_ref().is_some_and(|kind| kind.contains('*'))
    }

    fn holds(&self, tx: &mut dyn Tx, event: &Listed) -> Result<bool, StoreError> {
        let kind = self.kind.as_ref().is_none_or(|pattern| glob::matches(pattern, &event.kind));
        match &self.text {
            Some(text) if kind && !text.is_empty() => Ok(contains(&body(tx, event)?, text.as_bytes())),
            _ => Ok(kind),
        }
    }
}

fn contains(body: &[u8], text: &[u8]) -> bool {
    body.windows(text.len()).any(|window| window == text)
}

/// One body at a time: a page of the largest would not fit into memory.
fn body(tx: &mut dyn Tx, event: &Listed) -> Result<Vec<u8>, StoreError> {
    let sql = "SELECT body FROM event_contents WHERE event = ?1";
    tx.first(sql, args![event.position])?.map_or_else(|| Ok(Vec::new()), |mut row| row.take(0))
}

fn step_of(
    tx: &mut dyn Tx,
    search: &Search,
    after: Option<i64>,
    step: u64,
) -> Result<Vec<Listed>, StoreError> {
    let (beyond, order) = if search.ascending { (">", "ASC") } else { ("<", "DESC") };
    let edge = if search.ascending { 0 } else { i64::MAX };
    let mut sql =
        format!("SELECT {COLUMNS} FROM events e WHERE e.environment_id = ?1 AND e.position {beyond} ?2");
    let mut values = vec![Value::from(&search.environment_id), Value::Int(after.unwrap_or(edge))];
    let mut and = |condition: &str, value| {
        values.push(value);
        sql.push_str(&format!(" AND {condition} ?{}", values.len()));
    };
    if let Some(kind) = search.kind.as_ref().filter(|kind| !kind.contains('*')) {
        and("e.type =", Value::from(kind));
    }
    if let Some(source) = &search.source {
        and("e.source =", Value::from(source));
    }
    if let Some(from) = search.from {
        and("e.created_at >=", Value::from(from));
    }
    if let Some(to) = search.to {
        and("e.created_at <", Value::from(to));
    }
    if let Some(status) = search.status {
        and("e.status =", Value::Int(status.number()));
    }
    values.push(Value::from(step));
    sql.push_str(&format!(" ORDER BY e.position {order} LIMIT ?{}", values.len()));
    tx.query(&sql, &values)?.iter_mut().map(read).collect()
}

/// By id.
pub fn by_id(tx: &mut dyn Tx, environment: &str, id: &str) -> Result<Option<Listed>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM events e WHERE e.environment_id = ?1 AND e.id = ?2");
    tx.first(&sql, args![environment, id])?.map(|mut row| read(&mut row)).transpose()
}

/// The id of the newest event of an environment.
pub fn latest_id(tx: &mut dyn Tx, environment: &str) -> Result<Option<String>, StoreError> {
    let sql = "SELECT id FROM events WHERE environment_id = ?1 ORDER BY position DESC LIMIT 1";
    tx.first(sql, args![environment])?.map(|mut row| row.take(0)).transpose()
}

/// An event's content.
pub fn content(tx: &mut dyn Tx, position: i64) -> Result<Option<Content>, StoreError> {
    let sql = "SELECT method, path, query, headers, body FROM event_contents WHERE event = ?1";
    let read = |mut row: Row| {
        Ok(Content {
            method: row.take(0)?,
            path: row.take(1)?,
            query: row.take(2)?,
            headers: row.take(3)?,
            body: row.take(4)?,
        })
    };
    tx.first(sql, args![position])?.map(read).transpose()
}

/// Every delivery of an event, oldest first.
pub fn deliveries(tx: &mut dyn Tx, position: i64, now: Timestamp) -> Result<Vec<DeliveryShown>, StoreError> {
    let sql = "SELECT d.id, d.listener_id, d.occurrence, d.kind, d.state, d.attempt, d.status_code, d.error,
        d.duration_ms, d.created_at, d.finished_at, d.lease_expires_at, l.expires_at
        FROM listener_deliveries d JOIN listeners l ON l.id = d.listener_id WHERE d.event = ?1 ORDER BY d.position";
    let read = |mut row: Row| {
        Ok(DeliveryShown {
            id: row.take(0)?,
            listener_id: row.take(1)?,
            occurrence: row.take(2)?,
            kind: row.take(3)?,
            status: shown(row.take(4)?, row.take(11)?, row.take(12)?, now),
            attempt: row.take(5)?,
            status_code: row.take(6)?,
            error: row.take(7)?,
            duration_ms: row.take(8)?,
            created_at: row.take(9)?,
            finished_at: row.take(10)?,
        })
    };
    tx.query(sql, args![position])?.into_iter().map(read).collect()
}

fn shown(state: i64, lease: Timestamp, listener_expires: Timestamp, now: Timestamp) -> &'static str {
    match state {
        n if n == State::Delivered.number() => "delivered",
        n if n == State::Failed.number() => "failed",
        n if n == State::Skipped.number() => "skipped",
        n if n == State::Exhausted.number() => "exhausted",
        _ if listener_expires <= now => "dropped",
        _ if lease > now => "leased",
        _ => "waiting",
    }
}
