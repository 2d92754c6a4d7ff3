//! Fan-out: what arrived in a stream becomes deliveries of whoever listens, in order, once.

use crate::clock::Timestamp;
use crate::id::{IdMaker, Kind};
use crate::wake::Topic;

use super::StoreError;
use super::events::{Status, Statuses};
use super::listeners::{self, Subscriber};
use super::tx::{Lock, Tx, Value, args};

/// What a delivery is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The event's first arrival.
    Arrival = 0,
    /// The provider sent it again.
    Redelivery = 1,
    /// Somebody replayed it.
    Replay = 2,
}

impl Origin {
    /// As it is stored.
    pub const fn number(self) -> i64 {
        self as i64
    }

    /// Of the how-many-eth arrival of an event.
    pub const fn of_arrival(occurrence: i64) -> Self {
        if occurrence == 1 { Self::Arrival } else { Self::Redelivery }
    }
}

/// Streams with events that aren't dispatched, oldest stream first.
pub fn behind(tx: &mut dyn Tx, limit: u64) -> Result<Vec<i64>, StoreError> {
    let sql = "SELECT id FROM streams WHERE head > dispatched ORDER BY id LIMIT ?1";
    tx.query(sql, args![limit])?.into_iter().map(|mut row| row.take(0)).collect()
}

/// One round on one stream: at most `batch` events fan out, and the stream's position moves, in this transaction.
/// How many there were.
pub fn advance(
    tx: &mut dyn Tx,
    stream: i64,
    batch: u64,
    now: Timestamp,
    ids: &IdMaker,
) -> Result<u64, StoreError> {
    let Some(mut row) =
        tx.first("SELECT environment_id, source FROM streams WHERE id = ?1", args![stream])?
    else {
        return Ok(0);
    };
    let (environment, source): (String, String) = (row.take(0)?, row.take(1)?);
    tx.lock(Lock::Dispatch(&environment))?;
    let arrived = arrivals(tx, stream, batch)?;
    let Some(last) = arrived.last().map(|arrival| arrival.sequence) else {
        return Ok(0);
    };
    let mut subscribers = listeners::subscribers(tx, &environment, now)?;
    subscribers.retain(|subscriber| subscriber.takes_source(&source));
    listeners::hold(tx, &subscribers)?;
    let mut statuses = Statuses::default();
    for subscriber in &subscribers {
        let wanted = arrived.iter().filter(|arrival| subscriber.takes_type(&arrival.kind));
        let mut count = 0;
        for arrival in wanted {
            count += deliver(tx, subscriber, &arrival.copy(stream), now, ids, &mut statuses)?;
        }
        listeners::add_pending(tx, &subscriber.id, count)?;
    }
    tx.execute("UPDATE streams SET dispatched = ?2 WHERE id = ?1", args![stream, last])?;
    statuses.write(tx)?;
    tx.tell(Topic::Environment(environment))?;
    Ok(arrived.len() as u64)
}

struct Arrival {
    sequence: i64,
    event: i64,
    occurrence: i64,
    kind: String,
    size: i64,
}

impl Arrival {
    fn copy(&self, stream: i64) -> Copy {
        Copy {
            event: self.event,
            stream,
            sequence: self.sequence,
            occurrence: self.occurrence,
            origin: Origin::of_arrival(self.occurrence),
            size: self.size,
        }
    }
}

fn arrivals(tx: &mut dyn Tx, stream: i64, batch: u64) -> Result<Vec<Arrival>, StoreError> {
    let sql = "SELECT a.sequence, a.event, a.occurrence, e.type, e.size_bytes
        FROM arrivals a JOIN events e ON e.position = a.event
        WHERE a.stream = ?1 AND a.sequence > (SELECT dispatched FROM streams WHERE id = ?1)
        ORDER BY a.sequence LIMIT ?2";
    let rows = tx.query(sql, args![stream, batch])?;
    rows.into_iter()
        .map(|mut row| {
            Ok(Arrival {
                sequence: row.take(0)?,
                event: row.take(1)?,
                occurrence: row.take(2)?,
                kind: row.take(3)?,
                size: row.take(4)?,
            })
        })
        .collect()
}

/// One event for one receiver.
#[derive(Clone, Debug)]
pub struct Copy {
    /// The event's position.
    pub event: i64,
    /// Its stream.
    pub stream: i64,
    /// Its number there.
    pub sequence: i64,
    /// Which occurrence.
    pub occurrence: i64,
    /// What it is of.
    pub origin: Origin,
    /// The size of its body.
    pub size: i64,
}

/// Queues one copy for one listener; 0 when it was queued before.
pub fn deliver(
    tx: &mut dyn Tx,
    to: &Subscriber,
    copy: &Copy,
    now: Timestamp,
    ids: &IdMaker,
    statuses: &mut Statuses,
) -> Result<u64, StoreError> {
    let sql = "INSERT INTO listener_deliveries (id, listener_id, event, lane, sequence, occurrence, kind, size_bytes,
        state, attempt, lease_expires_at, created_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, 0, 0, ?9) ON CONFLICT DO NOTHING";
    let lane = if to.ordered { Value::Int(copy.stream) } else { Value::Null };
    let id = ids.make(Kind::ListenerDelivery);
    let added = tx.execute(
        sql,
        &[
            Value::from(&id),
            Value::from(&to.id),
            Value::Int(copy.event),
            lane,
            Value::Int(copy.sequence),
            Value::Int(copy.occurrence),
            Value::Int(copy.origin.number()),
            Value::Int(copy.size),
            Value::from(now),
        ],
    )?;
    if added > 0 {
        statuses.note(copy.event, Status::Pending);
    }
    Ok(added)
}
