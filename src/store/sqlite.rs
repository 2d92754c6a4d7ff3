//! SQLite: one writer thread with group commit, two reader threads, WAL.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql};
use tokio::sync::mpsc;

use super::tx::{Cell, Lock, Row, Tx, Value};
use super::{Durability, QUEUE, Queue, Store, StoreError, Threads, Waiting, Work, migrations, strongest};
use crate::wake::{Topic, Wake};

const READERS: usize = 2;
/// Pages in the write-ahead log before they are moved into the file: 16 MiB. Rarer than SQLite's own default, since
/// moving them makes the commit that does it wait for the disk twice.
const CHECKPOINT_PAGES: i64 = 4000;

/// How long any lock of another one is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a rewrite of the log waits for readers. Short: whoever writes waits behind it, and each tries again.
const REWRITE_PATIENCE: Duration = Duration::from_millis(100);

/// How often, and after which pause, a file that another one is switching to the write-ahead log is asked again: 5 s
/// in all, as long as SQLite waits for any other lock here.
const SWITCH_TRIES: u32 = 250;
const SWITCH_PAUSE: Duration = Duration::from_millis(20);

pub(super) fn open(path: &Path, wake: Wake) -> Result<Store, StoreError> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists()) {
        let text = format!("the folder {} does not exist", parent.display());
        return Err(StoreError::Unavailable(text));
    }
    let mut writer = Writer::open(path.to_owned(), wake.clone())?;
    migrations::run(&mut writer)?;
    let (writes, queue) = mpsc::channel(QUEUE);
    spawn("store-write", move || writer.run(Waiting::new(queue)))?;
    let reads = start_readers(path)?;
    Ok(Store { writes, reads, wake, engine: "sqlite", _threads: Arc::new(Threads(None)) })
}

fn start_readers(path: &Path) -> Result<Queue, StoreError> {
    let (reads, queue) = mpsc::channel::<Box<dyn Work>>(QUEUE);
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..READERS {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(broken)?;
        configure(&connection)?;
        let queue = Arc::clone(&queue);
        spawn("store-read", move || read_loop(&connection, &queue))?;
    }
    Ok(reads)
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    let thread = thread::Builder::new().name(name.into()).stack_size(1 << 20);
    thread
        .spawn(body)
        .map(drop)
        .map_err(|error| StoreError::Unavailable(format!("no thread for the store: {error}")))
}

fn read_loop(connection: &Connection, queue: &Mutex<mpsc::Receiver<Box<dyn Work>>>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(mut work) = next else { return };
        let mut tx = SqliteTx { connection, topics: Vec::new() };
        let outcome = tx.run("BEGIN").and_then(|()| work.run(&mut tx));
        let ended = if connection.is_autocommit() { Ok(()) } else { tx.run("ROLLBACK") };
        work.finish(outcome.and(ended));
    }
}

/// The one connection that writes.
pub(super) struct Writer {
    path: PathBuf,
    connection: Connection,
    durability: Durability,
    /// Whether all that is in the file and its log is known to reach the disk.
    trusted: bool,
    wake: Wake,
}

impl Writer {
    fn open(path: PathBuf, wake: Wake) -> Result<Self, StoreError> {
        let connection = Connection::open(&path).map_err(broken)?;
        configure(&connection)?;
        let mode = use_write_ahead_log(&connection)?;
        if !mode.eq_ignore_ascii_case("wal") {
            return Err(StoreError::Unavailable(format!("no write-ahead log at {}", path.display())));
        }
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES).map_err(broken)?;
        connection.pragma_update(None, "journal_size_limit", 64_i64 << 20).map_err(broken)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(broken)?;
        Ok(Self { path, connection, durability: Durability::Promised, trusted: true, wake })
    }

    fn run(mut self, mut waiting: Waiting) {
        while let Some(batch) = waiting.next_batch() {
            self.commit_together(batch);
        }
    }

    /// One commit for the whole batch; where one of them fails, each gets its own.
    fn commit_together(&mut self, mut batch: Vec<Box<dyn Work>>) {
        let durability = strongest(&batch);
        match self.transaction(durability, |tx| batch.iter_mut().try_for_each(|work| work.run(tx))) {
            Ok(()) => batch.into_iter().for_each(|work| work.finish(Ok(()))),
            Err(error) if batch.len() == 1 => {
                batch.into_iter().for_each(|work| work.finish(Err(error.clone())));
            }
            Err(_) => {
                for mut work in batch {
                    let outcome = self.transaction(work.durability(), |tx| work.run(tx));
                    work.finish(outcome);
                }
            }
        }
    }

    pub(super) fn transaction<T>(
        &mut self,
        durability: Durability,
        body: impl FnOnce(&mut SqliteTx<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.regain_trust()?;
        if !self.connection.is_autocommit() {
            // A failed transaction was not to be undone: undo it now, or stay as unavailable as it is.
            self.connection.execute_batch("ROLLBACK").map_err(broken)?;
        }
        self.set_durability(durability)?;
        let mut tx = SqliteTx { connection: &self.connection, topics: Vec::new() };
        tx.run("BEGIN IMMEDIATE")?;
        let outcome = body(&mut tx);
        let topics = std::mem::take(&mut tx.topics);
        match outcome {
            Ok(value) => match tx.run("COMMIT") {
                Ok(()) => {
                    topics.iter().for_each(|topic| self.wake.tell(topic));
                    Ok(value)
                }
                Err(error) => {
                    tracing::error!(%error, "a commit failed; the store is opened anew before the next one");
                    self.trusted = false;
                    Err(error)
                }
            },
            Err(error) => {
                // A full disk or an I/O error ends the transaction by itself.
                if !self.connection.is_autocommit()
                    && let Err(undo) = tx.run("ROLLBACK")
                {
                    tracing::warn!(%undo, "a failed transaction could not be undone yet");
                }
                Err(error)
            }
        }
    }

    fn set_durability(&mut self, wanted: Durability) -> Result<(), StoreError> {
        if wanted != self.durability {
            let level = if wanted == Durability::Promised { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level).map_err(broken)?;
            self.durability = wanted;
        }
        Ok(())
    }

    /// After a failed commit nobody knows what of the log is on disk: a system may call a page written that it lost,
    /// and whatever follows a hole in the log is lost with it. So the store is opened anew, which replays only what
    /// the log's checksums vouch for, and all of that is written into the file; before, nothing more is committed.
    fn regain_trust(&mut self) -> Result<(), StoreError> {
        if self.trusted {
            return Ok(());
        }
        let fresh = Self::open(self.path.clone(), self.wake.clone())?;
        // First of all the old connection ends, and with it the locks of the transaction that failed.
        *self = Self { trusted: false, ..fresh };
        rewrite_log(&self.connection)?;
        self.trusted = true;
        tracing::info!("the store was opened anew and its log rewritten");
        Ok(())
    }
}

/// Moves all of the log into the file, and begins it anew.
fn rewrite_log(connection: &Connection) -> Result<(), StoreError> {
    connection.busy_timeout(REWRITE_PATIENCE).map_err(broken)?;
    let is_busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
    if is_busy.map_err(broken)? {
        return Err(StoreError::Unavailable("its log can't be rewritten while it is read".into()));
    }
    connection.busy_timeout(PATIENCE).map_err(broken)
}

/// Asks for the write-ahead log; the mode that the file has then. Of several that open a fresh file at once, one
/// switches it and SQLite refuses the others without its usual patience: so the patience is here.
fn use_write_ahead_log(connection: &Connection) -> Result<String, StoreError> {
    let mut tries = 0;
    loop {
        let asked = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0));
        match asked {
            Err(error)
                if tries < SWITCH_TRIES && error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) =>
            {
                tries += 1;
                thread::sleep(SWITCH_PAUSE);
            }
            asked => return asked.map_err(broken),
        }
    }
}

fn configure(connection: &Connection) -> Result<(), StoreError> {
    connection.busy_timeout(PATIENCE).map_err(broken)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(broken)?;
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(broken)?;
    // A plan may not depend on what was bound: else SQLite plans anew whenever that differs.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(broken)?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(())
}

/// An open transaction on SQLite.
pub(super) struct SqliteTx<'c> {
    connection: &'c Connection,
    topics: Vec<Topic>,
}

impl SqliteTx<'_> {
    pub(super) fn run(&mut self, sql: &str) -> Result<(), StoreError> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]))
            .map_err(broken)?;
        Ok(())
    }

    pub(super) fn script(&mut self, sql: &str) -> Result<(), StoreError> {
        self.connection.execute_batch(sql).map_err(broken)
    }
}

impl Tx for SqliteTx<'_> {
    fn execute(&mut self, sql: &str, args: &[Value<'_>]) -> Result<u64, StoreError> {
        let mut statement = self.connection.prepare_cached(sql).map_err(broken)?;
        let touched = statement.execute(rusqlite::params_from_iter(args)).map_err(broken)?;
        Ok(touched as u64)
    }

    fn query(&mut self, sql: &str, args: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        let mut statement = self.connection.prepare_cached(sql).map_err(broken)?;
        let columns = statement.column_count();
        let rows = statement.query_map(rusqlite::params_from_iter(args), |row| {
            (0..columns).map(|index| cell(row.get_ref(index)?)).collect::<Result<_, _>>().map(Row)
        });
        rows.map_err(broken)?.collect::<Result<_, _>>().map_err(broken)
    }

    fn tell(&mut self, topic: Topic) -> Result<(), StoreError> {
        if !self.topics.contains(&topic) {
            self.topics.push(topic);
        }
        Ok(())
    }

    fn lock(&mut self, _: Lock<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    fn insist_on_own(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

fn cell(value: ValueRef<'_>) -> Result<Cell, rusqlite::Error> {
    Ok(match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Int(number),
        ValueRef::Text(text) => Cell::Text(String::from_utf8(text.to_vec()).map_err(|e| e.utf8_error())?),
        ValueRef::Blob(bytes) => Cell::Blob(bytes.to_vec()),
        ValueRef::Real(_) => return Err(rusqlite::Error::InvalidQuery),
    })
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn broken(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt(error.to_string()),
        _ => StoreError::Unavailable(error.to_string()),
    }
}
