//! PostgreSQL: worker threads with a connection each, group commit, LISTEN/NOTIFY.

mod news;
mod way;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use postgres::error::SqlState;
use postgres::types::{ToSql, Type};
use postgres::{Client, Config, Statement, Transaction};
use tokio::sync::mpsc;

use super::tx::{Cell, Lock, Row, Tx, Value, args};
use super::{Durability, QUEUE, Queue, Store, StoreError, Threads, Waiting, Work, migrations, strongest};
use crate::secret::Secret;
use crate::wake::{Topic, Wake};
use way::Way;

const WRITERS: usize = 3;
const READERS: usize = 2;
/// The channel on which relays of one database tell each other.
const CHANNEL: &str = "pullhook";
/// How often a transaction that met another one, or lost its connection, is tried before that is reported.
const TRIES: u32 = 5;

pub(super) fn open(address: &Secret, wake: Wake) -> Result<Store, StoreError> {
    let config: Config = address.expose().parse().map_err(|error| broken(&error))?;
    let way = Way::to(config);
    let mut first = Worker::connect(&way, &wake, Access::Writes)?;
    first.transaction(Durability::Promised, migrations::run_postgres).map_err(Failed::error)?;
    let writes = start("store-write", WRITERS, Access::Writes, &way, &wake)?;
    let reads = start("store-read", READERS, Access::Reads, &way, &wake)?;
    let closed = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&closed);
    // Heard from here on: whoever looks at this store hasn't looked yet.
    let listening = news::listen_on(&way)?;
    let told = wake.clone();
    spawn("store-notify", move || news::listen(listening, &way, &told, &flag))?;
    let end = Threads(Some(Box::new(move || closed.store(true, Ordering::Relaxed))));
    Ok(Store { writes, reads, wake, engine: "postgres", _threads: Arc::new(end) })
}

fn start(name: &str, count: usize, access: Access, way: &Arc<Way>, wake: &Wake) -> Result<Queue, StoreError> {
    let (sender, queue) = mpsc::channel::<Box<dyn Work>>(QUEUE);
    let waiting = Arc::new(Mutex::new(Waiting::new(queue)));
    for _ in 0..count {
        let mut worker = Worker::connect(way, wake, access)?;
        let waiting = Arc::clone(&waiting);
        spawn(name, move || worker.run(&waiting))?;
    }
    Ok(sender)
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    let thread = thread::Builder::new().name(name.into()).spawn(body);
    thread.map(drop).map_err(|error| StoreError::Unavailable(format!("no thread for the store: {error}")))
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Reads,
    Writes,
}

/// Sessions that only read can't do anything else; those that write keep what they promise, whatever the server's default.
const READ_SESSION: &str = "SET default_transaction_read_only = on";
const WRITE_SESSION: &str = "SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') = 'off'";

/// How a transaction failed.
enum Failed {
    /// Nothing was stored; another try would meet the same.
    Refused(StoreError),
    /// Nothing was stored; two met, or the connection broke: another try may do it.
    Again(StoreError),
    /// The connection broke during the commit: whether it was stored, nobody here knows.
    Unknown(StoreError),
}

impl Failed {
    fn error(self) -> StoreError {
        match self {
            Self::Refused(error) | Self::Again(error) | Self::Unknown(error) => error,
        }
    }
}

/// A connection with its prepared statements.
struct Worker {
    way: Arc<Way>,
    access: Access,
    client: Client,
    statements: HashMap<String, Statement>,
    is_broken: bool,
    wake: Wake,
}

impl Worker {
    fn connect(way: &Arc<Way>, wake: &Wake, access: Access) -> Result<Self, StoreError> {
        let client = Self::session(way, access)?;
        let (way, wake) = (Arc::clone(way), wake.clone());
        Ok(Self { way, access, client, statements: HashMap::new(), is_broken: false, wake })
    }

    fn session(way: &Arc<Way>, access: Access) -> Result<Client, StoreError> {
        let mut client = way.connect()?;
        let sql = if access == Access::Reads { READ_SESSION } else { WRITE_SESSION };
        client.batch_execute(sql).map_err(|error| broken(&error))?;
        Ok(client)
    }

    fn run(&mut self, waiting: &Mutex<Waiting>) {
        loop {
            let group = waiting.lock().unwrap_or_else(PoisonError::into_inner).next_group();
            match group {
                Some(group) => self.commit_together(group),
                None => return,
            }
        }
    }

    /// One commit for the whole group; where one of them fails, each gets its own.
    fn commit_together(&mut self, mut group: Vec<Box<dyn Work>>) {
        if group.len() > 1 {
            let durability = strongest(&group);
            let all = |tx: &mut PostgresTx<'_>| {
                tx.is_shared = true;
                group.iter_mut().try_for_each(|work| work.run(tx))
            };
            match self.transaction(durability, all) {
                Ok(()) => return group.into_iter().for_each(|work| work.finish(Ok(()))),
                Err(Failed::Unknown(error)) => {
                    return group.into_iter().for_each(|work| work.finish(Err(error.clone())));
                }
                Err(Failed::Refused(_) | Failed::Again(_)) => {}
            }
        }
        group.into_iter().for_each(|work| self.commit_alone(work));
    }

    fn commit_alone(&mut self, mut work: Box<dyn Work>) {
        let mut tries = 0;
        let outcome = loop {
            let outcome = self.transaction(work.durability(), |tx| work.run(tx));
            tries += 1;
            match outcome {
                Err(Failed::Again(_)) if tries < TRIES => {}
                outcome => break outcome.map_err(Failed::error),
            }
        };
        work.finish(outcome);
    }

    fn transaction<T>(
        &mut self,
        durability: Durability,
        body: impl FnOnce(&mut PostgresTx<'_>) -> Result<T, StoreError>,
    ) -> Result<T, Failed> {
        if self.is_broken || self.client.is_closed() {
            self.client = Self::session(&self.way, self.access).map_err(Failed::Refused)?;
            self.statements.clear();
            self.is_broken = false;
        }
        let (topics, committed) = {
            let inner = match self.client.transaction() {
                Ok(inner) => inner,
                Err(error) => {
                    self.is_broken = true;
                    return Err(Failed::Again(broken(&error)));
                }
            };
            let mut tx = PostgresTx {
                inner,
                statements: &mut self.statements,
                topics: Vec::new(),
                is_shared: false,
                is_broken: false,
            };
            let is_relaxed = durability == Durability::Relaxed && self.access == Access::Writes;
            let value = tx.relax(is_relaxed).and_then(|()| body(&mut tx));
            let value = value.and_then(|value| tx.notify().map(|()| value));
            let PostgresTx { inner, topics, is_broken, .. } = tx;
            match value {
                Ok(value) => (topics, inner.commit().map(|()| value)),
                Err(error) => {
                    self.is_broken = is_broken;
                    let again = is_broken || matches!(error, StoreError::Conflict(_));
                    return Err(if again { Failed::Again(error) } else { Failed::Refused(error) });
                }
            }
        };
        match committed {
            Ok(value) => {
                topics.iter().for_each(|topic| self.wake.tell(topic));
                Ok(value)
            }
            Err(error) => {
                self.is_broken = is_lost(&error);
                let told = broken(&error);
                Err(if self.is_broken { Failed::Unknown(told) } else { Failed::Again(told) })
            }
        }
    }
}

/// An open transaction on PostgreSQL.
pub(super) struct PostgresTx<'c> {
    inner: Transaction<'c>,
    statements: &'c mut HashMap<String, Statement>,
    topics: Vec<Topic>,
    /// Several pieces of work are in it.
    is_shared: bool,
    /// The connection was lost on the way.
    is_broken: bool,
}

impl PostgresTx<'_> {
    pub(super) fn script(&mut self, sql: &str) -> Result<(), StoreError> {
        let done = self.inner.batch_execute(sql);
        self.note(done)
    }

    fn relax(&mut self, is_relaxed: bool) -> Result<(), StoreError> {
        if is_relaxed { self.script("SET LOCAL synchronous_commit = off") } else { Ok(()) }
    }

    fn notify(&mut self) -> Result<(), StoreError> {
        for topic in std::mem::take(&mut self.topics) {
            let sent = self.inner.execute("SELECT pg_notify($1, $2)", &[&CHANNEL, &topic.text()]);
            self.note(sent)?;
            self.topics.push(topic);
        }
        Ok(())
    }

    fn note<T>(&mut self, outcome: Result<T, postgres::Error>) -> Result<T, StoreError> {
        outcome.map_err(|error| {
            self.is_broken |= is_lost(&error);
            broken(&error)
        })
    }

    fn prepared(&mut self, sql: &str) -> Result<Statement, StoreError> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let made = self.inner.prepare(&sql.replace('?', "$"));
        let statement = self.note(made)?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

impl Tx for PostgresTx<'_> {
    fn execute(&mut self, sql: &str, args: &[Value<'_>]) -> Result<u64, StoreError> {
        let statement = self.prepared(sql)?;
        let args: Vec<&(dyn ToSql + Sync)> = args.iter().map(|arg| arg as _).collect();
        let touched = self.inner.execute(&statement, &args);
        self.note(touched)
    }

    fn query(&mut self, sql: &str, args: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepared(sql)?;
        let args: Vec<&(dyn ToSql + Sync)> = args.iter().map(|arg| arg as _).collect();
        let found = self.inner.query(&statement, &args);
        let rows = self.note(found)?;
        rows.iter()
            .map(|row| (0..row.len()).map(|index| cell(row, index)).collect::<Result<_, _>>().map(Row))
            .collect()
    }

    fn tell(&mut self, topic: Topic) -> Result<(), StoreError> {
        if !self.topics.contains(&topic) {
            self.topics.push(topic);
        }
        Ok(())
    }

    fn insist_on_own(&mut self) -> Result<(), StoreError> {
        let shared = || Err(StoreError::Conflict("it needs a transaction of its own".into()));
        if self.is_shared { shared() } else { Ok(()) }
    }

    fn lock(&mut self, lock: Lock<'_>) -> Result<(), StoreError> {
        let (class, name): (i64, _) = match lock {
            Lock::Global => (0x70_75_00, ""),
            Lock::Arrivals(environment) => (0x70_75_01, environment),
            Lock::Dispatch(environment) => (0x70_75_02, environment),
            Lock::Listener(id) => {
                let sql = "SELECT 1 FROM listeners WHERE id = ?1 FOR NO KEY UPDATE";
                return self.query(sql, args![id]).map(drop);
            }
        };
        let sql = "SELECT pg_advisory_xact_lock(?1::int, hashtext(?2))";
        self.query(sql, args![class, name]).map(drop)
    }
}

fn cell(row: &postgres::Row, index: usize) -> Result<Cell, StoreError> {
    let column = row.columns()[index].type_().clone();
    let read = match column {
        Type::INT8 => row.try_get::<_, Option<i64>>(index).map(|v| v.map(Cell::Int)),
        Type::INT4 => row.try_get::<_, Option<i32>>(index).map(|v| v.map(|n| Cell::Int(n.into()))),
        Type::BOOL => row.try_get::<_, Option<bool>>(index).map(|v| v.map(|b| Cell::Int(b.into()))),
        Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(index).map(|v| v.map(Cell::Blob)),
        Type::VOID => Ok(None),
        _ => row.try_get::<_, Option<String>>(index).map(|v| v.map(Cell::Text)),
    };
    read.map(|value| value.unwrap_or(Cell::Null)).map_err(|error| broken(&error))
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut postgres::types::private::BytesMut,
    ) -> Result<postgres::types::IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(postgres::types::IsNull::Yes),
            Self::Int(number) if *ty == Type::INT4 => i32::try_from(*number)?.to_sql(ty, out),
            Self::Int(number) => number.to_sql(ty, out),
            Self::Text(text) => text.to_sql(ty, out),
            Self::Blob(bytes) => bytes.to_sql(ty, out),
        }
    }

    fn accepts(ty: &Type) -> bool {
        [Type::INT8, Type::INT4, Type::TEXT, Type::VARCHAR, Type::BYTEA].contains(ty)
    }

    postgres::types::to_sql_checked!();
}

fn broken(error: &postgres::Error) -> StoreError {
    let again = [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE];
    // The database's own message, without the address (which may hold a password) that a source error could carry.
    let text = error.as_db_error().map_or_else(|| error.to_string(), |db| db.message().to_owned());
    match error.code() {
        Some(code) if again.contains(code) => StoreError::Conflict(text),
        _ => StoreError::Unavailable(text),
    }
}

/// Whether the connection is of no more use: it broke, or the server ended it (class 57P).
fn is_lost(error: &postgres::Error) -> bool {
    error.is_closed() || error.code().is_none_or(|code| code.code().starts_with("57P"))
}
