//! One poll's work on the rows: touch, acks, holding, extend, claim; in that order, in one transaction.

use bytes::Bytes;

use crate::clock::Timestamp;
use crate::id::{IdMaker, Kind};

use super::StoreError;
use super::dispatch::Origin;
use super::events::{Status, Statuses};
use super::listeners::{self, Listener};
use super::logs;
use super::tx::{Row, Tx, args};
use crate::wake::Topic;

/// Where a delivery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waiting or leased.
    Open = 0,
    /// Acked: 2xx, or printed.
    Delivered = 1,
    /// Acked: anything else.
    Failed = 2,
    /// Acked: filtered out by the client.
    Skipped = 3,
    /// Handed out too often without an ack.
    Exhausted = 4,
}

impl State {
    /// As it is stored.
    pub const fn number(self) -> i64 {
        self as i64
    }
}

/// A delivery and a token that names one hand-out of it.
#[derive(Clone, Debug)]
pub struct Token {
    /// The delivery.
    pub delivery_id: String,
    /// The token.
    pub ack_token: String,
}

/// An outcome to record.
#[derive(Clone, Debug)]
pub struct Ack {
    /// For which hand-out.
    pub token: Token,
    /// What it ends as.
    pub state: State,
    /// What the app answered.
    pub status_code: Option<u16>,
    /// How long it took.
    pub duration_ms: u64,
    /// Why it didn't.
    pub error: Option<String>,
}

/// What a poll asks for.
#[derive(Clone, Debug)]
pub struct Poll {
    /// Whose.
    pub environment_id: String,
    /// Which listener.
    pub listener_id: String,
    /// Outcomes.
    pub acks: Vec<Ack>,
    /// What the client still holds, after a cut.
    pub holding: Option<Vec<Token>>,
    /// Leases to move on.
    pub extend: Vec<Token>,
    /// How many to hand out.
    pub limit: u32,
    /// The moment.
    pub now: Timestamp,
    /// When the listener will end.
    pub listener_expires_at: Timestamp,
    /// When the leases made here will end.
    pub lease_expires_at: Timestamp,
    /// Hand-outs of one delivery, at most.
    pub max_hand_outs: u32,
    /// Bodies in one answer, in bytes.
    pub max_bytes: u64,
}

/// What a poll did.
#[derive(Clone, Debug)]
pub struct Polled {
    /// The listener, its life moved on.
    pub listener: Listener,
    /// How many acks were recorded.
    pub acknowledged: u64,
    /// Deliveries whose ack came with a superseded token.
    pub stale_acks: Vec<String>,
    /// Deliveries whose lease was moved on.
    pub extended: Vec<String>,
    /// What was claimed.
    pub claimed: Claimed,
}

/// What was handed out, and what is left.
#[derive(Clone, Debug, Default)]
pub struct Claimed {
    /// The deliveries, oldest first.
    pub deliveries: Vec<HandOut>,
    /// How many more are ready.
    pub waiting: u64,
    /// When the next lease ends, unless it is acked or extended before.
    pub next_expiry: Option<Timestamp>,
}

/// A delivery, handed out.
#[derive(Clone, Debug)]
pub struct HandOut {
    /// `whlisdel_...`.
    pub id: String,
    /// Names this hand-out.
    pub ack_token: String,
    /// Which hand-out, from 1.
    pub attempt: u32,
    /// The event's id.
    pub event_id: String,
    /// Its type.
    pub kind: String,
    /// Its source's name.
    pub source: String,
    /// The scheme that verified it.
    pub scheme: String,
    /// Its number in its stream.
    pub sequence: u64,
    /// Which occurrence of the event.
    pub occurrence: u64,
    /// What it is of.
    pub origin: Origin,
    /// An envelope made here.
    pub envelope: bool,
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
    /// When the event arrived.
    pub created_at: Timestamp,
}

/// A poll while it runs.
struct Run<'a> {
    poll: &'a Poll,
    ids: &'a IdMaker,
    statuses: Statuses,
}

/// One poll; `None` when the listener is closed, expired, unknown or another environment's.
pub fn poll(tx: &mut dyn Tx, poll: &Poll, ids: &IdMaker) -> Result<Option<Polled>, StoreError> {
    let touched =
        listeners::touch(tx, &poll.environment_id, &poll.listener_id, poll.now, poll.listener_expires_at)?;
    let Some(listener) = touched else {
        return Ok(None);
    };
    let mut run = Run { poll, ids, statuses: Statuses::default() };
    let mut acknowledged = 0;
    let mut stale_acks = Vec::new();
    for ack in &poll.acks {
        if run.record(tx, ack)? {
            acknowledged += 1;
        } else if is_superseded(tx, &poll.listener_id, &ack.token)? {
            stale_acks.push(ack.token.delivery_id.clone());
        }
    }
    let extended = extend(tx, poll)?;
    if let Some(holding) = &poll.holding {
        release_all_but(tx, poll, holding)?;
    }
    if listener.ordered && acknowledged > 0 {
        // What was behind in its lane can go now; another poll may be waiting for it.
        tx.tell(Topic::Environment(poll.environment_id.clone()))?;
    }
    let claimed = run.claim(tx, listener.ordered)?;
    run.statuses.write(tx)?;
    Ok(Some(Polled { listener, acknowledged, stale_acks, extended, claimed }))
}

impl Run<'_> {
    /// Records an outcome where its token is the newest; check and write are one statement.
    fn record(&mut self, tx: &mut dyn Tx, ack: &Ack) -> Result<bool, StoreError> {
        let sql = "UPDATE listener_deliveries SET state = ?4, status_code = ?5, error = ?6, duration_ms = ?7,
            finished_at = ?8, lease_expires_at = 0
            WHERE id = ?1 AND listener_id = ?2 AND ack_token = ?3 AND state = 0 RETURNING event";
        let args = args![
            &ack.token.delivery_id,
            &self.poll.listener_id,
            &ack.token.ack_token,
            ack.state.number(),
            ack.status_code,
            ack.error.as_deref(),
            ack.duration_ms,
            self.poll.now
        ];
        let Some(mut row) = tx.first(sql, args)? else {
            return Ok(false);
        };
        self.end(tx, row.take(0)?, ack)?;
        Ok(true)
    }

    /// What follows a delivery's end, however it came: the event's status, the listener's count, a log line.
    fn end(&mut self, tx: &mut dyn Tx, event: i64, ack: &Ack) -> Result<(), StoreError> {
        let status = match ack.state {
            State::Delivered => Status::Delivered,
            State::Skipped => Status::Skipped,
            State::Open | State::Failed | State::Exhausted => Status::Failed,
        };
        // Somebody replayed it, or it was sent again, since: then that decides.
        let is_newest = "SELECT 1 FROM listener_deliveries d WHERE d.id = ?1 AND NOT EXISTS
            (SELECT 1 FROM listener_deliveries n WHERE n.event = d.event AND n.occurrence > d.occurrence)";
        if tx.first(is_newest, args![&ack.token.delivery_id])?.is_some() {
            self.statuses.note(event, status);
        }
        let listener = &self.poll.listener_id;
        tx.execute("UPDATE listeners SET pending = pending - 1 WHERE id = ?1", args![listener])?;
        let failed = status == Status::Failed;
        let line = logs::Line {
            id: self.ids.make(Kind::Log),
            environment_id: self.poll.environment_id.clone(),
            occurred_at: self.poll.now,
            source: "listener",
            level: if failed { "error" } else { "info" },
            kind: "webhook.forward",
            message: message(ack),
            status_code: ack.status_code,
            duration_ms: Some(ack.duration_ms),
            resource: Some(("webhook_listener_delivery", ack.token.delivery_id.clone())),
            attributes: format!("{{\"listener_id\":\"{listener}\"}}"),
        };
        logs::write(tx, &line)
    }

    /// Hands out the oldest deliveries that are neither acked nor leased.
    fn claim(&mut self, tx: &mut dyn Tx, ordered: bool) -> Result<Claimed, StoreError> {
        let mut deliveries = Vec::new();
        if self.poll.limit > 0 {
            let mut room = self.poll.max_bytes;
            for candidate in self.candidates(tx, ordered)? {
                // One delivery always fits, whatever its size.
                if candidate.size > room && !deliveries.is_empty() {
                    break;
                }
                room = room.saturating_sub(candidate.size);
                deliveries.push(hand_out(tx, self.poll, &candidate, self.ids)?);
            }
        }
        let (waiting, next_expiry) = left(tx, self.poll)?;
        Ok(Claimed { deliveries, waiting, next_expiry })
    }

    fn candidates(&mut self, tx: &mut dyn Tx, ordered: bool) -> Result<Vec<Candidate>, StoreError> {
        loop {
            let found = if ordered { heads(tx, self.poll)? } else { oldest(tx, self.poll)? };
            let (spent, fresh): (Vec<_>, Vec<_>) =
                found.into_iter().partition(|c| c.attempt >= self.poll.max_hand_outs);
            for candidate in &spent {
                self.exhaust(tx, candidate)?;
            }
            if spent.is_empty() || !fresh.is_empty() {
                return Ok(fresh);
            }
        }
    }

    /// Its last token names no hand-out any more: an ack that comes with it now is told that it came too late.
    fn exhaust(&mut self, tx: &mut dyn Tx, spent: &Candidate) -> Result<(), StoreError> {
        let error = format!("exhausted: handed out {} times without an ack", spent.attempt);
        let sql =
            "UPDATE listener_deliveries SET state = ?2, error = ?3, finished_at = ?4, lease_expires_at = 0,
            ack_token = NULL WHERE position = ?1";
        tx.execute(sql, args![spent.position, State::Exhausted.number(), &error, self.poll.now])?;
        let token = Token { delivery_id: spent.id.clone(), ack_token: String::new() };
        let ack =
            Ack { token, state: State::Exhausted, status_code: None, duration_ms: 0, error: Some(error) };
        self.end(tx, spent.event, &ack)
    }
}

fn message(ack: &Ack) -> String {
    match (ack.state, ack.status_code, &ack.error) {
        (State::Skipped, ..) => "skipped by the listener's filter".to_owned(),
        (_, Some(status), _) => format!("forwarded: {status}"),
        (_, None, Some(error)) => format!("not forwarded: {error}"),
        (_, None, None) => "printed".to_owned(),
    }
}

fn is_superseded(tx: &mut dyn Tx, listener: &str, token: &Token) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM listener_deliveries
        WHERE id = ?1 AND listener_id = ?2 AND ack_token IS DISTINCT FROM ?3";
    Ok(tx.first(sql, args![&token.delivery_id, listener, &token.ack_token])?.is_some())
}

fn extend(tx: &mut dyn Tx, poll: &Poll) -> Result<Vec<String>, StoreError> {
    let sql = "UPDATE listener_deliveries SET lease_expires_at = ?4
        WHERE id = ?1 AND listener_id = ?2 AND ack_token = ?3 AND state = 0 AND lease_expires_at > 0";
    let mut extended = Vec::new();
    for token in &poll.extend {
        let args = args![&token.delivery_id, &poll.listener_id, &token.ack_token, poll.lease_expires_at];
        if tx.execute(sql, args)? > 0 {
            extended.push(token.delivery_id.clone());
        }
    }
    Ok(extended)
}

/// After a cut: leases that the client doesn't know of end now, and the hand-out that never reached it doesn't count.
fn release_all_but(tx: &mut dyn Tx, poll: &Poll, holding: &[Token]) -> Result<(), StoreError> {
    let sql = "SELECT id, ack_token FROM listener_deliveries
        WHERE listener_id = ?1 AND state = 0 AND lease_expires_at > 0";
    let release =
        "UPDATE listener_deliveries SET lease_expires_at = 0, attempt = attempt - 1, ack_token = NULL
        WHERE id = ?1 AND ack_token = ?2";
    for mut row in tx.query(sql, args![&poll.listener_id])? {
        let (id, token): (String, Option<String>) = (row.take(0)?, row.take(1)?);
        let token = token.unwrap_or_default();
        let held = holding.iter().any(|held| held.delivery_id == id && held.ack_token == token);
        if !held {
            tx.execute(release, args![&id, &token])?;
        }
    }
    Ok(())
}

struct Candidate {
    position: i64,
    id: String,
    event: i64,
    attempt: u32,
    size: u64,
}

fn oldest(tx: &mut dyn Tx, poll: &Poll) -> Result<Vec<Candidate>, StoreError> {
    let sql = "SELECT position, id, event, attempt, size_bytes FROM listener_deliveries
        WHERE listener_id = ?1 AND state = 0 AND lease_expires_at <= ?2 ORDER BY position LIMIT ?3";
    tx.query(sql, args![&poll.listener_id, poll.now, poll.limit])?.into_iter().map(candidate).collect()
}

/// The oldest unacked delivery of each lane, where it isn't leased.
fn heads(tx: &mut dyn Tx, poll: &Poll) -> Result<Vec<Candidate>, StoreError> {
    let lanes = tx.query("SELECT id FROM streams WHERE environment_id = ?1", args![&poll.environment_id])?;
    let sql = "SELECT position, id, event, attempt, size_bytes, lease_expires_at FROM listener_deliveries
        WHERE listener_id = ?1 AND lane = ?2 AND state = 0 ORDER BY position LIMIT 1";
    let mut heads = Vec::new();
    for mut lane in lanes {
        if let Some(mut row) = tx.first(sql, args![&poll.listener_id, lane.take::<i64>(0)?])?
            && row.take::<Timestamp>(5)? <= poll.now
        {
            heads.push(candidate(row)?);
        }
    }
    heads.sort_by_key(|head| head.position);
    heads.truncate(poll.limit as usize);
    Ok(heads)
}

fn candidate(mut row: Row) -> Result<Candidate, StoreError> {
    Ok(Candidate {
        position: row.take(0)?,
        id: row.take(1)?,
        event: row.take(2)?,
        attempt: row.take(3)?,
        size: row.take(4)?,
    })
}

fn hand_out(
    tx: &mut dyn Tx,
    poll: &Poll,
    candidate: &Candidate,
    ids: &IdMaker,
) -> Result<HandOut, StoreError> {
    let ack_token = ids.token();
    let sql = "UPDATE listener_deliveries SET attempt = attempt + 1, ack_token = ?2, lease_expires_at = ?3
        WHERE position = ?1 RETURNING sequence, occurrence, kind, attempt";
    let Some(mut row) = tx.first(sql, args![candidate.position, &ack_token, poll.lease_expires_at])? else {
        return Err(StoreError::Corrupt("a delivery vanished within a transaction".into()));
    };
    let sql = "SELECT e.id, e.type, e.source, e.scheme, e.envelope, e.created_at, c.method, c.path, c.query, c.headers,
        c.body FROM events e JOIN event_contents c ON c.event = e.position WHERE e.position = ?1";
    let Some(mut event) = tx.first(sql, args![candidate.event])? else {
        return Err(StoreError::Corrupt(format!("the event of {} is gone", candidate.id)));
    };
    Ok(HandOut {
        id: candidate.id.clone(),
        ack_token,
        attempt: row.take(3)?,
        event_id: event.take(0)?,
        kind: event.take(1)?,
        source: event.take(2)?,
        scheme: event.take(3)?,
        sequence: row.take(0)?,
        occurrence: row.take(1)?,
        origin: origin(row.take(2)?),
        envelope: event.take(4)?,
        method: event.take(6)?,
        path: event.take(7)?,
        query: event.take(8)?,
        headers: event.take(9)?,
        body: event.take::<Vec<u8>>(10)?.into(),
        created_at: event.take(5)?,
    })
}

fn origin(number: i64) -> Origin {
    match number {
        1 => Origin::Redelivery,
        2 => Origin::Replay,
        _ => Origin::Arrival,
    }
}

/// How many more are ready, and when the next lease ends.
fn left(tx: &mut dyn Tx, poll: &Poll) -> Result<(u64, Option<Timestamp>), StoreError> {
    let sql = "SELECT COUNT(*), MIN(lease_expires_at) FROM listener_deliveries
        WHERE listener_id = ?1 AND state = 0 AND lease_expires_at > 0 AND lease_expires_at > ?2";
    let (leased, next) = match tx.first(sql, args![&poll.listener_id, poll.now])? {
        Some(mut row) => (row.take::<u64>(0)?, row.take(1)?),
        None => (0, None),
    };
    let sql = "SELECT pending FROM listeners WHERE id = ?1";
    let pending = match tx.first(sql, args![&poll.listener_id])? {
        Some(mut row) => row.take::<u64>(0)?,
        None => 0,
    };
    Ok((pending.saturating_sub(leased), next))
}
