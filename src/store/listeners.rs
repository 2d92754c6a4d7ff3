//! Listeners: who polls, for how long they live, and what they take over when they open.

use crate::clock::Timestamp;
use crate::glob;
use crate::id::IdMaker;
use crate::wake::Topic;

use super::StoreError;
use super::dispatch::{Copy, Origin, deliver};
use super::tx::{Lock, Row, Tx, args};

/// A listener as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// `whlis_...`.
    pub id: String,
    /// Whose it is.
    pub environment_id: String,
    /// The version in which envelopes are rendered.
    pub api_version: String,
    /// As given.
    pub description: Option<String>,
    /// Types it takes; none = all; a trailing `*` matches a prefix.
    pub event_types: Vec<String>,
    /// Sources it takes; none = all.
    pub sources: Vec<String>,
    /// One unacked delivery of a source at a time.
    pub ordered: bool,
    /// Deliveries neither acked nor ended.
    pub pending: u64,
    /// When it ends unless polled before.
    pub expires_at: Timestamp,
    /// When it last polled.
    pub last_polled_at: Option<Timestamp>,
    /// When it was opened.
    pub created_at: Timestamp,
}

/// What fan-out has to know of a listener.
#[derive(Clone, Debug)]
pub struct Subscriber {
    /// `whlis_...`.
    pub id: String,
    /// One unacked delivery of a source at a time.
    pub ordered: bool,
    event_types: Vec<String>,
    sources: Vec<String>,
}

impl Subscriber {
    /// Whether it takes events of this source.
    pub fn takes_source(&self, source: &str) -> bool {
        self.sources.is_empty() || self.sources.iter().any(|name| name == source)
    }

    /// Whether it takes events of this type.
    pub fn takes_type(&self, kind: &str) -> bool {
        self.event_types.is_empty() || self.event_types.iter().any(|pattern| glob::matches(pattern, kind))
    }
}

impl From<&Listener> for Subscriber {
    fn from(listener: &Listener) -> Self {
        Self {
            id: listener.id.clone(),
            ordered: listener.ordered,
            event_types: listener.event_types.clone(),
            sources: listener.sources.clone(),
        }
    }
}

const COLUMNS: &str = "id, environment_id, api_version, description, event_types, sources, ordered, pending, \
     expires_at, last_polled_at, created_at";

fn read(mut row: Row) -> Result<Listener, StoreError> {
    Ok(Listener {
        id: row.take(0)?,
        environment_id: row.take(1)?,
        api_version: row.take(2)?,
        description: row.take(3)?,
        event_types: lines(&row.take::<String>(4)?),
        sources: lines(&row.take::<String>(5)?),
        ordered: row.take(6)?,
        pending: row.take(7)?,
        expires_at: row.take(8)?,
        last_polled_at: row.take(9)?,
        created_at: row.take(10)?,
    })
}

/// Lists are kept as lines: neither a type nor a source name holds a line break.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// Where an opening listener's backlog begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Since {
    /// Everything that is stored.
    Beginning,
    /// What arrived at or after this.
    Time(Timestamp),
    /// What was stored after this event.
    Event(String),
}

/// What *open* asks for.
#[derive(Clone, Debug)]
pub struct Open {
    /// The listener, complete but for what it takes over.
    pub listener: Listener,
    /// Hand out stored events, too.
    pub since: Option<Since>,
    /// Take over from this listener.
    pub continues: Option<String>,
    /// More stored events than this refuse the opening.
    pub max_backlog: u64,
    /// Open listeners of one environment, at most.
    pub limit: usize,
    /// A listener that is gone since before this can't be continued.
    pub gone_since: Timestamp,
}

/// What became of an opening. Only [`Opened::Open`] changed anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// It is open.
    Open {
        /// As it is now.
        listener: Box<Listener>,
        /// Stored events that it was given.
        backlog: u64,
        /// Other open listeners of the environment.
        others: u64,
        /// The newest event stored before.
        latest: Option<String>,
    },
    /// Too many are open; the next one frees up then.
    TooMany {
        /// When.
        frees_up: Timestamp,
    },
    /// The backlog is larger than asked for.
    BacklogTooLarge {
        /// How many.
        count: u64,
    },
    /// `since` names no event of this environment.
    NoSuchEvent,
    /// `continues` names no listener of this environment that is open or gone for less than a day.
    NoSuchListener,
}

/// Opens a listener. In its transaction no stream of the environment advances: what is dispatched before is backlog,
/// what comes after is live.
pub fn open(tx: &mut dyn Tx, open: &Open, ids: &IdMaker) -> Result<Opened, StoreError> {
    let new = &open.listener;
    tx.lock(Lock::Dispatch(&new.environment_id))?;
    let old = match &open.continues {
        None => None,
        Some(id) => match continued(tx, &new.environment_id, id)? {
            Some(old) if old.expires_at > open.gone_since => Some(old),
            _ => return Ok(Opened::NoSuchListener),
        },
    };
    let others = opened(tx, &new.environment_id, new.created_at, old.as_ref())?;
    if others.len() >= open.limit {
        let frees_up = others.iter().min().copied().unwrap_or(new.created_at);
        return Ok(Opened::TooMany { frees_up });
    }
    let latest = super::event_list::latest_id(tx, &new.environment_id)?;
    let Some(stored) = backlog(tx, open, old.as_ref())? else {
        return Ok(Opened::NoSuchEvent);
    };
    if stored.len() as u64 > open.max_backlog {
        return Ok(Opened::BacklogTooLarge { count: stored.len() as u64 });
    }
    insert(tx, new)?;
    let mut pending = match &old {
        Some(old) => take_over(tx, old, new)?,
        None => 0,
    };
    let to = Subscriber::from(new);
    for copy in &stored {
        pending += deliver(tx, &to, copy, new.created_at, ids)?;
    }
    add_pending(tx, &new.id, pending)?;
    let listener = Box::new(Listener { pending, ..new.clone() });
    Ok(Opened::Open { listener, backlog: stored.len() as u64, others: others.len() as u64, latest })
}

/// The listener that `continues` means: the one that is named, or the one that took over from it and was never polled.
/// Then the answer that named the latter was lost, and its client asks once more.
fn continued(tx: &mut dyn Tx, environment: &str, id: &str) -> Result<Option<Listener>, StoreError> {
    let Some(mut old) = find(tx, environment, id)? else {
        return Ok(None);
    };
    let heir = format!(
        "SELECT {COLUMNS} FROM listeners WHERE environment_id = ?1 AND last_polled_at IS NULL
         AND id = (SELECT continued_by FROM listeners WHERE id = ?2)"
    );
    while let Some(row) = tx.first(&heir, args![environment, &old.id])? {
        old = read(row)?;
    }
    Ok(Some(old))
}

/// When each open listener (but `except`) expires.
fn opened(
    tx: &mut dyn Tx,
    environment: &str,
    now: Timestamp,
    except: Option<&Listener>,
) -> Result<Vec<Timestamp>, StoreError> {
    let sql = "SELECT expires_at FROM listeners WHERE environment_id = ?1 AND expires_at > ?2 AND id <> ?3";
    let except = except.map_or("", |old| old.id.as_str());
    tx.query(sql, args![environment, now, except])?.into_iter().map(|mut row| row.take(0)).collect()
}

fn insert(tx: &mut dyn Tx, new: &Listener) -> Result<(), StoreError> {
    let sql =
        format!("INSERT INTO listeners ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, NULL, ?9)");
    let (types, sources) = (new.event_types.join("\n"), new.sources.join("\n"));
    let args = args![
        &new.id,
        &new.environment_id,
        &new.api_version,
        new.description.as_deref(),
        &types,
        &sources,
        new.ordered,
        new.expires_at,
        new.created_at
    ];
    tx.execute(&sql, args).map(drop)
}

/// Moves the old listener's unacked deliveries to the new one, to be handed out at once, and closes the old one.
fn take_over(tx: &mut dyn Tx, old: &Listener, new: &Listener) -> Result<u64, StoreError> {
    let lane = if new.ordered {
        "(SELECT s.id FROM streams s JOIN events e ON e.environment_id = s.environment_id AND e.source = s.source
          WHERE e.position = listener_deliveries.event)"
    } else {
        "NULL"
    };
    let sql = format!(
        "UPDATE listener_deliveries SET listener_id = ?2, lease_expires_at = 0, ack_token = NULL, lane = {lane}
         WHERE listener_id = ?1 AND state = 0"
    );
    let moved = tx.execute(&sql, args![&old.id, &new.id])?;
    let sql = "UPDATE listeners SET expires_at = ?2 WHERE id = ?1 AND expires_at > ?2";
    tx.execute(sql, args![&old.id, new.created_at])?;
    let sql = "UPDATE listeners SET pending = 0, continued_by = ?2 WHERE id = ?1";
    tx.execute(sql, args![&old.id, &new.id])?;
    tx.tell(Topic::Environment(new.environment_id.clone()))?;
    Ok(moved)
}

/// The stored events that the new listener gets, oldest first; `None` when `since` names none of this environment.
fn backlog(tx: &mut dyn Tx, open: &Open, old: Option<&Listener>) -> Result<Option<Vec<Copy>>, StoreError> {
    let new = &open.listener;
    let (condition, number) = match (&open.since, old) {
        (None, None) => return Ok(Some(Vec::new())),
        (None, Some(old)) => return missed(tx, new, old).map(Some),
        (Some(Since::Beginning), _) => ("e.position > ?2", 0),
        (Some(Since::Time(at)), _) => ("e.created_at >= ?2", at.millis()),
        (Some(Since::Event(id)), _) => {
            let sql = "SELECT position FROM events WHERE environment_id = ?1 AND id = ?2";
            let Some(mut row) = tx.first(sql, args![&new.environment_id, id])? else {
                return Ok(None);
            };
            ("e.position > ?2", row.take(0)?)
        }
    };
    let sql = format!(
        "SELECT e.position, s.id, a.sequence, a.occurrence, e.size_bytes, e.source, e.type
         FROM events e JOIN streams s ON s.environment_id = e.environment_id AND s.source = e.source
         JOIN arrivals a ON a.stream = s.id AND a.sequence = e.sequence AND a.sequence <= s.dispatched
         WHERE e.environment_id = ?1 AND {condition} ORDER BY e.position"
    );
    let rows = tx.query(&sql, args![&new.environment_id, number])?;
    copies(new, rows).map(Some)
}

/// What arrived since the old listener's last poll and never became its own, redeliveries too.
fn missed(tx: &mut dyn Tx, new: &Listener, old: &Listener) -> Result<Vec<Copy>, StoreError> {
    // A stream is numbered by the writer, its times are the senders': nearly the same order, so that walking back
    // from its end for a minute more finds all of them.
    let sql = "SELECT e.position, s.id, a.sequence, a.occurrence, e.size_bytes, e.source, e.type
        FROM streams s JOIN arrivals a ON a.stream = s.id AND a.sequence <= s.dispatched AND a.sequence > COALESCE(
            (SELECT b.sequence FROM arrivals b WHERE b.stream = s.id AND b.arrived_at + 60000 < ?2
             ORDER BY b.sequence DESC LIMIT 1), 0)
        JOIN events e ON e.position = a.event
        WHERE s.environment_id = ?1 AND a.arrived_at >= ?2 AND NOT EXISTS (SELECT 1 FROM listener_deliveries d
            WHERE d.listener_id = ?3 AND d.event = e.position AND d.occurrence = a.occurrence)
        ORDER BY e.position, a.occurrence";
    let since = old.last_polled_at.unwrap_or(old.created_at);
    let rows = tx.query(sql, args![&new.environment_id, since, &old.id])?;
    copies(new, rows)
}

/// Those of the sources and types that the listener takes.
fn copies(new: &Listener, rows: Vec<Row>) -> Result<Vec<Copy>, StoreError> {
    let takes = Subscriber::from(new);
    let mut copies = Vec::new();
    for mut row in rows {
        if takes.takes_source(&row.take::<String>(5)?) && takes.takes_type(&row.take::<String>(6)?) {
            let occurrence = row.take(3)?;
            copies.push(Copy {
                event: row.take(0)?,
                stream: row.take(1)?,
                sequence: row.take(2)?,
                occurrence,
                origin: Origin::of_arrival(occurrence),
                size: row.take(4)?,
            });
        }
    }
    Ok(copies)
}

/// The listeners of an environment that are open at `now`, as fan-out sees them.
pub fn subscribers(
    tx: &mut dyn Tx,
    environment: &str,
    now: Timestamp,
) -> Result<Vec<Subscriber>, StoreError> {
    Ok(list_open(tx, environment, now)?.iter().map(Subscriber::from).collect())
}

/// The listeners of an environment that are open at `now`, oldest first.
pub fn list_open(tx: &mut dyn Tx, environment: &str, now: Timestamp) -> Result<Vec<Listener>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM listeners WHERE environment_id = ?1 AND expires_at > ?2 ORDER BY created_at, id"
    );
    tx.query(&sql, args![environment, now])?.into_iter().map(read).collect()
}

/// A listener of this environment, open or not.
pub fn find(tx: &mut dyn Tx, environment: &str, id: &str) -> Result<Option<Listener>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM listeners WHERE environment_id = ?1 AND id = ?2");
    tx.first(&sql, args![environment, id])?.map(read).transpose()
}

/// Moves an open listener's life on; `None` when it is not open or not of this environment.
pub fn touch(
    tx: &mut dyn Tx,
    environment: &str,
    id: &str,
    now: Timestamp,
    expires_at: Timestamp,
) -> Result<Option<Listener>, StoreError> {
    let sql = format!(
        "UPDATE listeners SET expires_at = ?4, last_polled_at = ?3
         WHERE environment_id = ?1 AND id = ?2 AND expires_at > ?3 RETURNING {COLUMNS}"
    );
    tx.first(&sql, args![environment, id, now, expires_at])?.map(read).transpose()
}

/// Ends a listener now, softly: its row stays, so that a fan-out can't race it.
pub fn close(tx: &mut dyn Tx, environment: &str, id: &str, now: Timestamp) -> Result<bool, StoreError> {
    tx.lock(Lock::Dispatch(environment))?;
    let sql =
        "UPDATE listeners SET expires_at = ?3 WHERE environment_id = ?1 AND id = ?2 AND expires_at > ?3";
    let closed = tx.execute(sql, args![environment, id, now])? > 0;
    tx.tell(Topic::Environment(environment.to_owned()))?;
    Ok(closed)
}

/// Counts deliveries that were queued for a listener.
pub fn add_pending(tx: &mut dyn Tx, id: &str, count: u64) -> Result<(), StoreError> {
    if count == 0 {
        return Ok(());
    }
    tx.execute("UPDATE listeners SET pending = pending + ?2 WHERE id = ?1", args![id, count]).map(drop)
}
