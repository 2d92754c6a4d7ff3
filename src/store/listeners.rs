//! Listeners: who polls, for how long they live, and what they take over when they open.

use crate::clock::Timestamp;
use crate::glob;
use crate::id::IdMaker;
use crate::wake::Topic;

use super::StoreError;
use super::backlog::{backlog, mark_positions};
use super::dispatch::deliver;
use super::events::Statuses;
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
    let (to, mut statuses) = (Subscriber::from(new), Statuses::default());
    for copy in &stored {
        pending += deliver(tx, &to, copy, new.created_at, ids, &mut statuses)?;
    }
    statuses.write(tx)?;
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
    let sql = format!(
        "INSERT INTO listeners ({COLUMNS}, opened_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, NULL, ?9, ?10)"
    );
    let (types, sources) = (new.event_types.join("\n"), new.sources.join("\n"));
    let opened_at = mark_positions(tx, &new.environment_id)?;
    let args = args![
        &new.id,
        &new.environment_id,
        &new.api_version,
        new.description.as_deref(),
        &types,
        &sources,
        new.ordered,
        new.expires_at,
        new.created_at,
        &opened_at
    ];
    tx.execute(&sql, args).map(drop)
}

/// Closes the old listener and moves its unacked deliveries to the new one, to be handed out at once. Their tokens
/// stay: a result of the old hand-out counts until the next one.
fn take_over(tx: &mut dyn Tx, old: &Listener, new: &Listener) -> Result<u64, StoreError> {
    // The listener before its deliveries, as in every transaction: two that meet wait for each other, never both.
    let sql = "UPDATE listeners SET pending = 0, continued_by = ?3,
        expires_at = CASE WHEN expires_at > ?2 THEN ?2 ELSE expires_at END WHERE id = ?1";
    tx.execute(sql, args![&old.id, new.created_at, &new.id])?;
    let lane = if new.ordered {
        "(SELECT s.id FROM streams s JOIN events e ON e.environment_id = s.environment_id AND e.source = s.source
          WHERE e.position = listener_deliveries.event)"
    } else {
        "NULL"
    };
    let sql = format!(
        "UPDATE listener_deliveries SET listener_id = ?2, lease_expires_at = 0, lane = {lane}
         WHERE listener_id = ?1 AND state = 0"
    );
    let moved = tx.execute(&sql, args![&old.id, &new.id])?;
    tx.tell(Topic::Environment(new.environment_id.clone()))?;
    Ok(moved)
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

/// Holds these listeners' rows until the transaction ends. Whoever changes deliveries or events for more than one
/// listener takes them first, in this order, as a poll takes its own first.
pub fn hold(tx: &mut dyn Tx, listeners: &[Subscriber]) -> Result<(), StoreError> {
    let mut ids: Vec<&str> = listeners.iter().map(|listener| listener.id.as_str()).collect();
    ids.sort_unstable();
    ids.into_iter().try_for_each(|id| tx.lock(Lock::Listener(id)))
}

/// Counts deliveries that were queued for a listener.
pub fn add_pending(tx: &mut dyn Tx, id: &str, count: u64) -> Result<(), StoreError> {
    if count == 0 {
        return Ok(());
    }
    tx.execute("UPDATE listeners SET pending = pending + ?2 WHERE id = ?1", args![id, count]).map(drop)
}
