//! Rows: one set of queries on two engines, SQLite (embedded) and PostgreSQL (shared by several relays).
//!
//! A query is a plain function over a [`Tx`]; [`Store::write`] and [`Store::read`] run one on a store thread. Writes
//! that wait together share a commit; only [`Durability::Promised`] ones pay for the disk. A closure may be run
//! again after a conflict or another's failure, so it changes nothing but the transaction.

mod backlog;
pub mod claims;
pub mod dispatch;
pub mod environments;
pub mod event_list;
pub mod events;
pub mod idempotency;
pub mod keys;
pub mod listeners;
pub mod logs;
pub mod migrations;
mod postgres;
pub mod replay;
pub mod retention;
pub mod sources;
mod sqlite;
pub mod tx;

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::secret::Secret;
use crate::wake::Wake;
use tx::Tx;

/// Why the store did not do what it was asked. Nothing was changed then.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// It can't be read or written now; trying later may help.
    #[error("the store can't be used now: {0}")]
    Unavailable(String),
    /// Two transactions met and this one gave way; it was tried again, to no avail.
    #[error("the store is too busy: {0}")]
    Conflict(String),
    /// What it holds can't be read.
    #[error("the store holds something unreadable: {0}")]
    Corrupt(String),
    /// It was written by a newer version of this program.
    #[error("the store has schema version {found}, this pullhook knows {known}: upgrade this pullhook")]
    Newer {
        /// Its version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// Its address can't be understood.
    #[error("{0}")]
    BadUrl(String),
}

/// Where a store is.
#[derive(Clone, Debug)]
pub enum StoreUrl {
    /// A database file, made when absent.
    Sqlite(PathBuf),
    /// A PostgreSQL database; the text may hold a password.
    Postgres(Secret),
}

impl StoreUrl {
    /// Reads `sqlite:PATH` or `postgres://...`.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let path = text.strip_prefix("sqlite:").map(|rest| rest.strip_prefix("//").unwrap_or(rest));
        if let Some(path) = path {
            return match path {
                "" => Err(StoreError::BadUrl("`sqlite:` needs a path: `sqlite:relay.db`".into())),
                path => Ok(Self::Sqlite(path.into())),
            };
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return match text.parse::<::postgres::Config>() {
                Ok(_) => Ok(Self::Postgres(Secret::new(text))),
                Err(error) => Err(StoreError::BadUrl(format!("not a PostgreSQL address: {error}"))),
            };
        }
        let shown = text.split([':', '/']).next().unwrap_or_default();
        Err(StoreError::BadUrl(format!(
            "unknown kind of store `{shown}`: write `sqlite:PATH` or `postgres://USER@HOST/DATABASE`"
        )))
    }
}

/// Whether a write is on disk when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Somebody is told so (a 202, an ack, a secret): on disk first.
    Promised,
    /// Can be done again from what is on disk (a lease, a fan-out).
    Relaxed,
}

/// One piece of work for a store thread.
trait Work: Send {
    fn durability(&self) -> Durability;
    fn group(&self) -> Option<&str>;
    fn run(&mut self, tx: &mut dyn Tx) -> Result<(), StoreError>;
    fn finish(self: Box<Self>, outcome: Result<(), StoreError>);
}

struct Job<T, F> {
    durability: Durability,
    group: Option<String>,
    work: F,
    value: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Work for Job<T, F>
where
    T: Send,
    F: FnMut(&mut dyn Tx) -> Result<T, StoreError> + Send,
{
    fn durability(&self) -> Durability {
        self.durability
    }

    fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    fn run(&mut self, tx: &mut dyn Tx) -> Result<(), StoreError> {
        // A bug in one piece of work must not end the thread that everybody's work needs; its transaction is
        // rolled back, and it is not looked into again.
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.work)(tx)));
        let panicked = |_| Err(StoreError::Corrupt("the work on it panicked".into()));
        self.value = Some(outcome.unwrap_or_else(panicked)?);
        Ok(())
    }

    fn finish(self: Box<Self>, outcome: Result<(), StoreError>) {
        let Self { value, reply, .. } = *self;
        let lost = || StoreError::Unavailable("the store stopped".into());
        // Nobody listens any more when the caller hung up; the work is done all the same.
        let _ = reply.send(outcome.and_then(|()| value.ok_or_else(lost)));
    }
}

type Queue = mpsc::Sender<Box<dyn Work>>;

/// What waits for store threads, as they see it.
struct Waiting {
    queue: mpsc::Receiver<Box<dyn Work>>,
    /// Taken from the queue, and left for the next thread.
    left: VecDeque<Box<dyn Work>>,
}

impl Waiting {
    fn new(queue: mpsc::Receiver<Box<dyn Work>>) -> Self {
        Self { queue, left: VecDeque::new() }
    }

    /// Waits for work, and takes what came meanwhile; `None` when the store is closed and everything is done.
    fn fill(&mut self) -> Option<()> {
        if self.left.is_empty() {
            self.left.push_back(self.queue.blocking_recv()?);
        }
        while self.left.len() < BATCH {
            match self.queue.try_recv() {
                Ok(work) => self.left.push_back(work),
                Err(_) => break,
            }
        }
        Some(())
    }

    /// All that waits.
    fn next_batch(&mut self) -> Option<Vec<Box<dyn Work>>> {
        self.fill()?;
        Some(self.left.drain(..).collect())
    }

    /// The first that waits, and what waits of its group.
    fn next_group(&mut self) -> Option<Vec<Box<dyn Work>>> {
        self.fill()?;
        let first = self.left.pop_front()?;
        let Some(group) = first.group().map(str::to_owned) else {
            return Some(vec![first]);
        };
        let mut together = vec![first];
        for work in std::mem::take(&mut self.left) {
            let is_of_group = work.group() == Some(&group);
            if is_of_group { together.push(work) } else { self.left.push_back(work) }
        }
        Some(together)
    }
}

/// How many pieces of work may wait for a store thread before callers wait to hand theirs over.
const QUEUE: usize = 1024;
/// How many writes share one commit at most.
const BATCH: usize = 256;

/// A store; cheap to clone. Its threads end when the last clone is dropped.
#[derive(Clone)]
pub struct Store {
    writes: Queue,
    reads: Queue,
    wake: Wake,
    engine: &'static str,
    _threads: Arc<Threads>,
}

impl Store {
    /// Opens the store, makes or migrates its schema, and starts its threads.
    pub async fn open(url: &StoreUrl, wake: Wake) -> Result<Self, StoreError> {
        let url = url.clone();
        let opened = tokio::task::spawn_blocking(move || match url {
            StoreUrl::Sqlite(path) => sqlite::open(&path, wake),
            StoreUrl::Postgres(address) => postgres::open(&address, wake),
        });
        opened.await.map_err(|error| StoreError::Unavailable(error.to_string()))?
    }

    /// Where its news is told.
    pub fn wake(&self) -> &Wake {
        &self.wake
    }

    /// `sqlite` or `postgres`.
    pub fn engine(&self) -> &'static str {
        self.engine
    }

    /// Runs `work` in a transaction and commits it. SQLite's one writer lets whatever waits share a commit.
    pub async fn write<T, F>(&self, durability: Durability, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut dyn Tx) -> Result<T, StoreError> + Send + 'static,
    {
        submit(&self.writes, durability, None, work).await
    }

    /// [`Store::write`], where PostgreSQL lets waiting work of the same group share a transaction, too. All work of a
    /// group takes the same locks in the same order: two mixed transactions would wait for each other for ever.
    pub async fn write_together<T, F>(
        &self,
        group: &str,
        durability: Durability,
        work: F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut dyn Tx) -> Result<T, StoreError> + Send + 'static,
    {
        submit(&self.writes, durability, Some(group.to_owned()), work).await
    }

    /// Runs `work` in a transaction that changes nothing.
    pub async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut dyn Tx) -> Result<T, StoreError> + Send + 'static,
    {
        submit(&self.reads, Durability::Relaxed, None, work).await
    }
}

async fn submit<T, F>(
    queue: &Queue,
    durability: Durability,
    group: Option<String>,
    work: F,
) -> Result<T, StoreError>
where
    T: Send + 'static,
    F: FnMut(&mut dyn Tx) -> Result<T, StoreError> + Send + 'static,
{
    let stopped = || StoreError::Unavailable("the store stopped".into());
    let (reply, answer) = oneshot::channel();
    let job = Box::new(Job { durability, group, work, value: None, reply });
    queue.send(job).await.map_err(|_| stopped())?;
    answer.await.map_err(|_| stopped())?
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("engine", &self.engine).finish_non_exhaustive()
    }
}

/// Something that has to be let go when the last clone of a store is dropped.
struct Threads(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end();
        }
    }
}

fn strongest(batch: &[Box<dyn Work>]) -> Durability {
    let promised = batch.iter().any(|work| work.durability() == Durability::Promised);
    if promised { Durability::Promised } else { Durability::Relaxed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert!(
            matches!(StoreUrl::parse("sqlite:a/b.db"), Ok(StoreUrl::Sqlite(p)) if p.as_path() == std::path::Path::new("a/b.db"))
        );
        assert!(
            matches!(StoreUrl::parse("sqlite:///a/b.db"), Ok(StoreUrl::Sqlite(p)) if p.as_path() == std::path::Path::new("/a/b.db"))
        );
        assert!(matches!(StoreUrl::parse("postgres://u:pw@localhost/d"), Ok(StoreUrl::Postgres(_))));
        for bad in ["", "sqlite:", "mysql://u:pw@h/d", "postgres://u:pw@h:notaport/d"] {
            let error = StoreUrl::parse(bad).unwrap_err().to_string();
            assert!(!error.contains("pw"), "{error}");
        }
    }
}
