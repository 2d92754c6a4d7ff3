//! A fresh store with one environment, a clock that the test moves, and words for what happens to events.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pullhook::clock::{Clock, ManualClock, Timestamp};
use pullhook::id::{IdMaker, Kind};
use pullhook::store::claims::{self, Ack, HandOut, Poll, Polled, State, Token};
use pullhook::store::environments::{self, Environment};
use pullhook::store::events::{self, Appended, Dedupe, NewEvent};
use pullhook::store::listeners::{self, Listener, Open, Opened};
use pullhook::store::tx::{Row, Tx, Value};
use pullhook::store::{Durability, Store, StoreError, dispatch};
use pullhook::system::SystemDice;
use pullhook::wake::Wake;

pub use crate::support::{Engine, TestStore};

/// 2025-10-09T08:53:20Z.
pub const T0_MS: i64 = 1_760_000_000_000;
pub const MINUTE: Duration = Duration::from_secs(60);
pub const DAY: Duration = Duration::from_secs(86_400);
/// A lease, as the relay makes them.
pub const LEASE: Duration = Duration::from_secs(120);
/// A listener's life after a poll.
pub const LIFE: Duration = Duration::from_secs(600);

/// A store with one environment. Fields drop in this order: the store before its database.
pub struct World {
    pub store: Store,
    pub clock: ManualClock,
    pub ids: IdMaker,
    pub env: String,
    pub test: Arc<TestStore>,
}

impl World {
    /// `None` when the engine isn't here.
    pub async fn new(engine: Engine) -> Option<Self> {
        let test = Arc::new(TestStore::new(engine)?);
        let store = Store::open(&test.url, Wake::default()).await.unwrap();
        Some(Self::on(store, test, "shop").await)
    }

    /// A fresh environment, with a clock of its own, on the same store.
    pub async fn beside(&self, name: &str) -> Self {
        Self::on(self.store.clone(), Arc::clone(&self.test), name).await
    }

    async fn on(store: Store, test: Arc<TestStore>, name: &str) -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(T0_MS));
        let ids = IdMaker::new(Arc::new(clock.clone()), Arc::new(SystemDice));
        let mut world = Self { store, clock, ids, env: String::new(), test };
        world.env = world.environment(name).await;
        world
    }

    /// Another process on the same database.
    pub async fn another_store(&self) -> Store {
        Store::open(&self.test.url, Wake::default()).await.unwrap()
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    pub async fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut dyn Tx) -> Result<T, StoreError> + Send + 'static,
    ) -> T {
        self.store.write(Durability::Relaxed, work).await.unwrap()
    }

    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut dyn Tx) -> Result<T, StoreError> + Send + 'static,
    ) -> T {
        self.store.read(work).await.unwrap()
    }

    /// A further environment; its id.
    pub async fn environment(&self, name: &str) -> String {
        let new = Environment {
            id: self.ids.make(Kind::Environment),
            name: name.to_owned(),
            slug: name.to_owned(),
            mode: "sandbox".to_owned(),
            project: None,
            created_at: self.now(),
        };
        let id = new.id.clone();
        assert!(self.write(move |tx| environments::insert(tx, &new)).await);
        id
    }

    /// An event of source `raw`, as it would arrive now.
    pub fn event(&self, body: &str) -> NewEvent {
        NewEvent {
            id: self.ids.make(Kind::Event),
            environment_id: self.env.clone(),
            source: "raw".to_owned(),
            scheme: "none".to_owned(),
            kind: "invoice.paid".to_owned(),
            provider_event_id: None,
            dedupe: Dedupe { since: self.now() - DAY * 7, drop: false },
            method: "POST".to_owned(),
            path: String::new(),
            query: String::new(),
            headers: "[]".to_owned(),
            body: Bytes::from(body.to_owned()),
            envelope: false,
            at: self.now(),
        }
    }

    pub async fn append(&self, new: NewEvent) -> Appended {
        self.store.write(Durability::Promised, move |tx| events::append(tx, &new)).await.unwrap()
    }

    /// Stores an event of source `raw` and fans it out; its id.
    pub async fn ingest(&self, body: &str) -> String {
        let id = self.append(self.event(body)).await.event_id;
        self.dispatch().await;
        id
    }

    /// Rounds of fan-out until no stream is behind.
    pub async fn dispatch(&self) {
        dispatch_all(&self.store, &self.ids, self.now()).await;
    }

    /// What a plain *open* asks for.
    pub fn opening(&self) -> Open {
        Open {
            listener: Listener {
                id: self.ids.make(Kind::Listener),
                environment_id: self.env.clone(),
                api_version: "2026-10-10".to_owned(),
                description: None,
                event_types: Vec::new(),
                sources: Vec::new(),
                ordered: false,
                pending: 0,
                expires_at: self.now() + LIFE,
                last_polled_at: None,
                created_at: self.now(),
            },
            since: None,
            continues: None,
            max_backlog: 1000,
            limit: 5,
            gone_since: self.now() - DAY,
        }
    }

    pub async fn try_open(&self, open: Open) -> Opened {
        let ids = self.ids.clone();
        self.write(move |tx| listeners::open(tx, &open, &ids)).await
    }

    /// Opens a listener that must open; its id and its backlog.
    pub async fn open_with(&self, open: Open) -> (String, u64) {
        match self.try_open(open).await {
            Opened::Open { listener, backlog, .. } => (listener.id, backlog),
            refused => panic!("not opened: {refused:?}"),
        }
    }

    pub async fn open(&self) -> String {
        self.open_with(self.opening()).await.0
    }

    pub async fn close(&self, listener: &str) -> bool {
        let (env, listener, now) = (self.env.clone(), listener.to_owned(), self.now());
        self.write(move |tx| listeners::close(tx, &env, &listener, now)).await
    }

    /// What a plain poll asks for.
    pub fn polling(&self, listener: &str) -> Poll {
        Poll {
            environment_id: self.env.clone(),
            listener_id: listener.to_owned(),
            acks: Vec::new(),
            holding: None,
            extend: Vec::new(),
            limit: 10,
            now: self.now(),
            listener_expires_at: self.now() + LIFE,
            lease_expires_at: self.now() + LEASE,
            max_hand_outs: 5,
            max_bytes: 4 << 20,
        }
    }

    pub async fn try_poll(&self, poll: Poll) -> Option<Polled> {
        let ids = self.ids.clone();
        self.write(move |tx| claims::poll(tx, &poll, &ids)).await
    }

    pub async fn poll_with(&self, poll: Poll) -> Polled {
        self.try_poll(poll).await.expect("the listener is open")
    }

    /// A plain poll's deliveries.
    pub async fn claim(&self, listener: &str) -> Vec<HandOut> {
        self.poll_with(self.polling(listener)).await.claimed.deliveries
    }

    /// A poll that only records `acks`.
    pub async fn ack(&self, listener: &str, acks: Vec<Ack>) -> Polled {
        self.poll_with(Poll { acks, limit: 0, ..self.polling(listener) }).await
    }

    /// Rows of numbers, by SQL of the test's own.
    pub async fn numbers(&self, sql: &'static str) -> Vec<Vec<i64>> {
        self.read(move |tx| tx.query(sql, &[])?.into_iter().map(all_numbers).collect()).await
    }

    /// One number, by SQL of the test's own.
    pub async fn number(&self, sql: &'static str) -> i64 {
        self.numbers(sql).await[0][0]
    }

    /// One text per row, by SQL of the test's own.
    pub async fn texts(&self, sql: &'static str) -> Vec<String> {
        self.read(move |tx| tx.query(sql, &[])?.into_iter().map(|mut row| row.take(0)).collect()).await
    }

    /// Runs a statement of the test's own.
    pub async fn execute(&self, sql: &'static str) -> u64 {
        self.write(move |tx| tx.execute(sql, &[])).await
    }

    /// What must hold at any time, whatever happened before.
    pub async fn check(&self) {
        check(&self.store).await;
    }
}

/// Rounds of fan-out until no stream is behind.
pub async fn dispatch_all(store: &Store, ids: &IdMaker, now: Timestamp) {
    loop {
        let behind = store.read(|tx| dispatch::behind(tx, 100)).await.unwrap();
        if behind.is_empty() {
            return;
        }
        for stream in behind {
            let ids = ids.clone();
            let step = move |tx: &mut dyn Tx| dispatch::advance(tx, stream, 128, now, &ids);
            store.write(Durability::Relaxed, step).await.unwrap();
        }
    }
}

fn all_numbers(mut row: Row) -> Result<Vec<i64>, StoreError> {
    (0..row.0.len()).map(|index| row.take(index)).collect()
}

/// Each statement finds what breaks an invariant.
const INVARIANTS: [(&str, &str); 6] = [
    (
        "a listener's pending counter is the count of its open deliveries",
        "SELECT id FROM listeners WHERE pending <> (SELECT COUNT(*) FROM listener_deliveries d
         WHERE d.listener_id = listeners.id AND d.state = 0)",
    ),
    (
        "an ended delivery has no lease and knows when it ended",
        "SELECT id FROM listener_deliveries WHERE state <> 0 AND (lease_expires_at <> 0 OR finished_at IS NULL)",
    ),
    (
        "a lease has a token, and a hand-out that counts",
        "SELECT id FROM listener_deliveries WHERE lease_expires_at > 0 AND (ack_token IS NULL OR attempt < 1)",
    ),
    (
        "no more than five hand-outs",
        "SELECT id FROM listener_deliveries WHERE attempt < 0 OR attempt > 5",
    ),
    (
        "a stream's head is at or past what is dispatched and what is kept",
        "SELECT source FROM streams s WHERE head < dispatched
         OR head < (SELECT MAX(a.sequence) FROM arrivals a WHERE a.stream = s.id)",
    ),
    (
        "an event's content and its stream are there",
        "SELECT id FROM events e WHERE NOT EXISTS (SELECT 1 FROM event_contents c WHERE c.event = e.position)
         OR NOT EXISTS (SELECT 1 FROM streams s WHERE s.environment_id = e.environment_id AND s.source = e.source)",
    ),
];

/// What must hold at any time.
pub async fn check(store: &Store) {
    for (rule, sql) in INVARIANTS {
        let broken: Vec<String> = store
            .read(move |tx| tx.query(sql, &[])?.into_iter().map(|mut row| row.take(0)).collect())
            .await
            .unwrap();
        assert!(broken.is_empty(), "{rule}: {broken:?}");
    }
}

pub fn token(hand_out: &HandOut) -> Token {
    Token { delivery_id: hand_out.id.clone(), ack_token: hand_out.ack_token.clone() }
}

/// The ack of an app that answered 200.
pub fn ack(hand_out: &HandOut) -> Ack {
    Ack {
        token: token(hand_out),
        state: State::Delivered,
        status_code: Some(200),
        duration_ms: 5,
        error: None,
    }
}

/// The ack of an app that answered 500.
pub fn failure(hand_out: &HandOut) -> Ack {
    Ack { state: State::Failed, status_code: Some(500), ..ack(hand_out) }
}

pub fn bodies(deliveries: &[HandOut]) -> Vec<String> {
    deliveries.iter().map(|d| String::from_utf8(d.body.to_vec()).unwrap()).collect()
}

/// One text argument.
pub fn text(value: &str) -> [Value<'_>; 1] {
    [Value::Text(value)]
}

/// Runs a story on every engine that is here, and looks afterwards that nothing is out of joint.
#[macro_export]
macro_rules! on_both_engines {
    ($($(#[$meta:meta])* async fn $name:ident($world:ident: World) $body:block)*) => {
        $($(#[$meta])* mod $name {
            #[allow(unused_imports)]
            use super::*;
            async fn story($world: &World) $body
            #[tokio::test]
            async fn sqlite() {
                let world = World::new($crate::harness::Engine::Sqlite).await.unwrap();
                story(&world).await;
                world.check().await;
            }
            #[tokio::test]
            async fn postgres() {
                if let Some(world) = World::new($crate::harness::Engine::Postgres).await {
                    story(&world).await;
                    world.check().await;
                }
            }
        })*
    };
}
