//! PostgreSQL: worker threads with a connection each, group commit, LISTEN/NOTIFY.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use postgres::config::{Host, SslMode};
use postgres::error::SqlState;
use postgres::fallible_iterator::FallibleIterator;
use postgres::types::{ToSql, Type};
use postgres::{Client, Config, NoTls, Statement, Transaction};
use postgres_rustls::MakeRustlsConnect;
use tokio::sync::mpsc;

use super::tx::{Cell, Lock, Row, Tx, Value};
use super::{Durability, QUEUE, Queue, Store, StoreError, Threads, Work, migrations, next_batch, strongest};
use crate::secret::Secret;
use crate::wake::{Topic, Wake};

const WRITERS: usize = 3;
const READERS: usize = 2;
/// The channel on which relays of one database tell each other.
const CHANNEL: &str = "pullhook";
/// How often a conflict (deadlock, serialization) is tried again before it is reported.
const CONFLICT_TRIES: u32 = 5;
/// How long the notification thread waits before it looks whether the store was closed, or connects again.
const LISTEN_PAUSE: Duration = Duration::from_secs(1);

pub(super) fn open(address: &Secret, wake: Wake) -> Result<Store, StoreError> {
    let config: Config = address.expose().parse().map_err(broken)?;
    let mut first = Worker::connect(config.clone(), wake.clone())?;
    first.transaction(Durability::Promised, migrations::run_postgres)?;
    let writes = start("store-write", WRITERS, &config, &wake)?;
    let reads = start("store-read", READERS, &config, &wake)?;
    let closed = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&closed);
    let news = wake.clone();
    spawn("store-notify", move || listen(&config, &news, &flag))?;
    let end = Threads(Some(Box::new(move || closed.store(true, Ordering::Relaxed))));
    Ok(Store { writes, reads, wake, engine: "postgres", _threads: Arc::new(end) })
}

fn start(name: &str, count: usize, config: &Config, wake: &Wake) -> Result<Queue, StoreError> {
    let (sender, queue) = mpsc::channel::<Box<dyn Work>>(QUEUE);
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..count {
        let mut worker = Worker::connect(config.clone(), wake.clone())?;
        let queue = Arc::clone(&queue);
        spawn(name, move || worker.run(&queue))?;
    }
    Ok(sender)
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    let thread = thread::Builder::new().name(name.into()).spawn(body);
    thread.map(drop).map_err(|error| StoreError::Unavailable(format!("no thread for the store: {error}")))
}

/// Connects; TLS with a verified certificate to any other machine, unless the address says `sslmode=disable`.
fn connect(config: &Config) -> Result<Client, StoreError> {
    let mut config = config.clone();
    config.connect_timeout(Duration::from_secs(5));
    let local = config.get_hosts().iter().all(is_local);
    let plain = match config.get_ssl_mode() {
        SslMode::Disable => true,
        SslMode::Prefer => local,
        _ => false,
    };
    if plain {
        config.ssl_mode(SslMode::Disable);
        return config.connect(NoTls).map_err(broken);
    }
    config.ssl_mode(SslMode::Require);
    let no_roots = |_| StoreError::Unavailable("no certificate roots on this machine".into());
    let (tls, unreadable) = MakeRustlsConnect::with_native_certs().map_err(no_roots)?;
    for error in unreadable {
        tracing::warn!(%error, "a certificate root could not be read");
    }
    config.connect(tls).map_err(broken)
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()),
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

/// Waits for other relays' news, for as long as the store lives; after a gap it tells everyone to look again.
fn listen(config: &Config, wake: &Wake, closed: &AtomicBool) {
    while !closed.load(Ordering::Relaxed) {
        if let Err(error) = listen_once(config, wake, closed) {
            tracing::warn!(%error, "the notification connection is gone; connecting again");
            thread::sleep(LISTEN_PAUSE);
        }
    }
}

fn listen_once(config: &Config, wake: &Wake, closed: &AtomicBool) -> Result<(), StoreError> {
    let mut client = connect(config)?;
    client.batch_execute(&format!("LISTEN {CHANNEL}")).map_err(broken)?;
    wake.tell_all();
    let mut notifications = client.notifications();
    while !closed.load(Ordering::Relaxed) {
        let mut news = notifications.timeout_iter(LISTEN_PAUSE);
        while let Some(notification) = news.next().map_err(broken)? {
            if let Some(topic) = Topic::parse(notification.payload()) {
                wake.tell(&topic);
            }
        }
    }
    Ok(())
}

/// A connection with its prepared statements.
struct Worker {
    config: Config,
    client: Client,
    statements: HashMap<String, Statement>,
    wake: Wake,
}

impl Worker {
    fn connect(config: Config, wake: Wake) -> Result<Self, StoreError> {
        let client = connect(&config)?;
        Ok(Self { config, client, statements: HashMap::new(), wake })
    }

    fn run(&mut self, queue: &Mutex<mpsc::Receiver<Box<dyn Work>>>) {
        loop {
            let batch = next_batch(&mut queue.lock().unwrap_or_else(PoisonError::into_inner));
            match batch {
                Some(batch) => self.commit_together(batch),
                None => return,
            }
        }
    }

    /// One commit for the whole batch; where one of them fails, each gets its own.
    fn commit_together(&mut self, mut batch: Vec<Box<dyn Work>>) {
        if self.client.is_closed()
            && let Ok(fresh) = Self::connect(self.config.clone(), self.wake.clone())
        {
            *self = fresh;
        }
        let durability = strongest(&batch);
        match self.transaction(durability, |tx| batch.iter_mut().try_for_each(|work| work.run(tx))) {
            Ok(()) => batch.into_iter().for_each(|work| work.finish(Ok(()))),
            Err(_) => batch.into_iter().for_each(|work| self.commit_alone(work)),
        }
    }

    fn commit_alone(&mut self, mut work: Box<dyn Work>) {
        let mut tries = 0;
        let outcome = loop {
            let outcome = self.transaction(work.durability(), |tx| work.run(tx));
            tries += 1;
            match outcome {
                Err(StoreError::Conflict(_)) if tries < CONFLICT_TRIES => {}
                outcome => break outcome,
            }
        };
        work.finish(outcome);
    }

    fn transaction<T>(
        &mut self,
        durability: Durability,
        body: impl FnOnce(&mut PostgresTx<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let inner = self.client.transaction().map_err(broken)?;
        let mut tx = PostgresTx { inner, statements: &mut self.statements, topics: Vec::new() };
        if durability == Durability::Relaxed {
            tx.script("SET LOCAL synchronous_commit = off")?;
        }
        let value = body(&mut tx)?;
        for topic in &tx.topics {
            let text = topic.text();
            tx.inner.execute("SELECT pg_notify($1, $2)", &[&CHANNEL, &text]).map_err(broken)?;
        }
        let PostgresTx { inner, topics, .. } = tx;
        inner.commit().map_err(broken)?;
        topics.iter().for_each(|topic| self.wake.tell(topic));
        Ok(value)
    }
}

/// An open transaction on PostgreSQL.
pub(super) struct PostgresTx<'c> {
    inner: Transaction<'c>,
    statements: &'c mut HashMap<String, Statement>,
    topics: Vec<Topic>,
}

impl PostgresTx<'_> {
    pub(super) fn script(&mut self, sql: &str) -> Result<(), StoreError> {
        self.inner.batch_execute(sql).map_err(broken)
    }

    fn prepared(&mut self, sql: &str) -> Result<Statement, StoreError> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.inner.prepare(&sql.replace('?', "$")).map_err(broken)?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

impl Tx for PostgresTx<'_> {
    fn execute(&mut self, sql: &str, args: &[Value<'_>]) -> Result<u64, StoreError> {
        let statement = self.prepared(sql)?;
        let args: Vec<&(dyn ToSql + Sync)> = args.iter().map(|arg| arg as _).collect();
        self.inner.execute(&statement, &args).map_err(broken)
    }

    fn query(&mut self, sql: &str, args: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepared(sql)?;
        let args: Vec<&(dyn ToSql + Sync)> = args.iter().map(|arg| arg as _).collect();
        let rows = self.inner.query(&statement, &args).map_err(broken)?;
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

    fn lock(&mut self, lock: Lock<'_>) -> Result<(), StoreError> {
        let (class, name) = match lock {
            Lock::Global => (0x70_75_00, ""),
            Lock::Arrivals(environment) => (0x70_75_01, environment),
            Lock::Dispatch(environment) => (0x70_75_02, environment),
        };
        let sql = "SELECT pg_advisory_xact_lock($1, hashtext($2))";
        self.inner.execute(sql, &[&class, &name]).map(drop).map_err(broken)
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
    read.map(|value| value.unwrap_or(Cell::Null)).map_err(broken)
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

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn broken(error: postgres::Error) -> StoreError {
    let again = [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE];
    // The database's own message, without the address (which may hold a password) that a source error could carry.
    let text = error.as_db_error().map_or_else(|| error.to_string(), |db| db.message().to_owned());
    match error.code() {
        Some(code) if again.contains(code) => StoreError::Conflict(text),
        _ => StoreError::Unavailable(text),
    }
}
