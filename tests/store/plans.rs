//! Plans: what runs for each event or poll finds its rows by an index, whatever the tables hold. This replaces
//! assertions about time.

use std::sync::{Arc, Mutex};

use pullhook::clock::Timestamp;
use pullhook::store::claims::{self, Poll};
use pullhook::store::event_list::{self, Search};
use pullhook::store::events::{self, NewEvent, Status};
use pullhook::store::listeners::{self, Open, Since};
use pullhook::store::retention::{self, Limits};
use pullhook::store::tx::{Lock, Row, Tx, Value};
use pullhook::store::{StoreError, dispatch, environments, idempotency, keys, logs, replay, sources};
use pullhook::wake::Topic;

use crate::harness::{DAY, World, ack, token};
use crate::on_both_engines;

/// What would look at every row of a table.
#[derive(Debug)]
struct Scan {
    sql: String,
    plan: String,
}

type Scans = Arc<Mutex<Vec<Scan>>>;

/// A transaction that asks the engine for its plan before each statement.
struct Explaining<'a> {
    tx: &'a mut dyn Tx,
    is_sqlite: bool,
    scans: Scans,
}

impl Explaining<'_> {
    fn explain(&mut self, sql: &str, args: &[Value<'_>]) -> Result<(), StoreError> {
        let column = if self.is_sqlite { 3 } else { 0 };
        let prefix = if self.is_sqlite { "EXPLAIN QUERY PLAN" } else { "EXPLAIN" };
        for mut row in self.tx.query(&format!("{prefix} {sql}"), args)? {
            let plan: String = row.take(column)?;
            if is_scan(&plan) || walks_the_window(sql, &plan) {
                self.scans.lock().unwrap().push(Scan { sql: sql.to_owned(), plan });
            }
        }
        Ok(())
    }
}

/// SQLite: a scan that no index narrows (a partial index is small by itself). PostgreSQL: a sequential one, though the
/// planner was told to avoid those.
fn is_scan(plan: &str) -> bool {
    let plan = plan.trim_start_matches([' ', '-', '>']);
    let sqlite =
        plan.starts_with("SCAN ") && !plan.contains("streams_behind") && !plan.contains("CONSTANT ROW");
    sqlite || plan.starts_with("Seq Scan")
}

/// An event's repeat has an index of its own; the one over time holds every event of the window.
fn walks_the_window(sql: &str, plan: &str) -> bool {
    sql.contains("provider_event_id =") && plan.contains("events_by_time")
}

impl Tx for Explaining<'_> {
    fn execute(&mut self, sql: &str, args: &[Value<'_>]) -> Result<u64, StoreError> {
        self.explain(sql, args)?;
        self.tx.execute(sql, args)
    }

    fn query(&mut self, sql: &str, args: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        self.explain(sql, args)?;
        self.tx.query(sql, args)
    }

    fn tell(&mut self, topic: Topic) -> Result<(), StoreError> {
        self.tx.tell(topic)
    }

    fn lock(&mut self, lock: Lock<'_>) -> Result<(), StoreError> {
        self.tx.lock(lock)
    }

    fn insist_on_own(&mut self) -> Result<(), StoreError> {
        self.tx.insist_on_own()
    }
}

/// Runs `work` with every plan looked at; the scans.
async fn scans<F>(world: &World, mut work: F) -> Vec<Scan>
where
    F: FnMut(&mut dyn Tx) -> Result<(), StoreError> + Send + 'static,
{
    let is_sqlite = world.store.engine() == "sqlite";
    let found = Scans::default();
    let scans = Arc::clone(&found);
    world
        .write(move |tx| {
            if !is_sqlite {
                tx.execute("SET LOCAL enable_seqscan = off", &[])?;
            }
            scans.lock().unwrap().clear();
            work(&mut Explaining { tx, is_sqlite, scans: Arc::clone(&scans) })
        })
        .await;
    std::mem::take(&mut *found.lock().unwrap())
}

async fn assert_indexed<F>(world: &World, work: F)
where
    F: FnMut(&mut dyn Tx) -> Result<(), StoreError> + Send + 'static,
{
    let found = scans(world, work).await;
    assert!(found.is_empty(), "{found:#?}");
}

/// Two listeners, one of them ordered, with deliveries in every state.
async fn populate(world: &World) -> (String, String) {
    let plain = world.open().await;
    let mut open = world.opening();
    open.listener.ordered = true;
    let (ordered, _) = world.open_with(open).await;
    for n in 0..6 {
        world.ingest(&n.to_string()).await;
    }
    let handed = world.claim(&plain).await;
    world.ack(&plain, vec![ack(&handed[0])]).await;
    (plain, ordered)
}

on_both_engines! {
    async fn a_scan_is_seen(world: World) {
        let found = scans(world, |tx| tx.query("SELECT id FROM events WHERE size_bytes = 5", &[]).map(drop)).await;
        assert_eq!(found.len(), 1, "the test would notice");
    }

    async fn appending(world: World) {
        populate(world).await;
        let new = |id: Option<&str>, body: &str| NewEvent { provider_event_id: id.map(str::to_owned), ..world.event(body) };
        let news = [new(None, "x"), new(Some("a"), "x"), new(Some("a"), "x"), new(Some("a"), "y")];
        let first = NewEvent { source: "fresh".to_owned(), ..new(None, "x") };
        assert_indexed(world, move |tx| {
            news.iter().chain([&first]).try_for_each(|new| events::append(tx, new).map(drop))
        }).await;
    }

    async fn fanning_out(world: World) {
        populate(world).await;
        for n in 0..3 {
            world.append(world.event(&n.to_string())).await;
        }
        let (ids, now) = (world.ids.clone(), world.now());
        assert_indexed(world, move |tx| {
            let behind = dispatch::behind(tx, 100)?;
            assert_eq!(behind.len(), 1);
            dispatch::advance(tx, behind[0], 100, now, &ids).map(drop)
        }).await;
    }

    async fn polling(world: World) {
        let (plain, ordered) = populate(world).await;
        let handed = world.claim(&plain).await;
        assert!(handed.is_empty());
        let first = world.poll_with(Poll { limit: 1, ..world.polling(&ordered) }).await.claimed.deliveries;
        let mut stale = ack(&first[0]);
        stale.token.ack_token = "old".to_owned();
        let polls = [
            Poll { acks: vec![stale, ack(&first[0])], extend: vec![token(&first[0])], ..world.polling(&ordered) },
            Poll { holding: Some(vec![token(&first[0])]), ..world.polling(&plain) },
            Poll { max_hand_outs: 0, ..world.polling(&plain) },
            Poll { now: world.now() + DAY / 1440, max_hand_outs: 0, ..world.polling(&ordered) },
        ];
        let ids = world.ids.clone();
        assert_indexed(world, move |tx| polls.iter().try_for_each(|poll| claims::poll(tx, poll, &ids).map(drop))).await;
    }

    async fn opening_and_closing(world: World) {
        let (plain, ordered) = populate(world).await;
        let marker = world.ingest("marker").await;
        let since = |since| Open { since: Some(since), limit: 100, ..world.opening() };
        let mut continues_ordered = Open { continues: Some(ordered), limit: 100, ..world.opening() };
        continues_ordered.listener.ordered = true;
        let opens = [
            Open { limit: 100, ..world.opening() },
            since(Since::Beginning),
            since(Since::Time(world.now())),
            since(Since::Event(marker)),
            Open { continues: Some(plain), limit: 100, ..world.opening() },
            continues_ordered,
        ];
        let (ids, env, now) = (world.ids.clone(), world.env.clone(), world.now());
        assert_indexed(world, move |tx| {
            opens.iter().try_for_each(|open| {
                assert!(matches!(listeners::open(tx, open, &ids)?, listeners::Opened::Open { .. }));
                Ok(())
            })?;
            listeners::list_open(tx, &env, now)?;
            listeners::close(tx, &env, &opens[0].listener.id, now).map(drop)
        }).await;
    }

    async fn listing(world: World) {
        populate(world).await;
        let env = world.env.clone();
        let all = || Search { environment_id: env.clone(), limit: 3, ..Search::default() };
        let searches = [
            all(),
            Search { ascending: true, after: Some(2), ..all() },
            Search { kind: Some("invoice.paid".to_owned()), source: Some("raw".to_owned()), ..all() },
            Search { kind: Some("invoice.*".to_owned()), status: Some(Status::Pending), ..all() },
            Search { from: Some(world.now()), to: Some(world.now() + DAY), ..all() },
            Search { text: Some("3".to_owned()), ..all() },
        ];
        let (env, now) = (world.env.clone(), world.now());
        assert_indexed(world, move |tx| {
            for search in &searches {
                for event in event_list::page(tx, search)?.0 {
                    event_list::by_id(tx, &env, &event.id)?;
                    event_list::content(tx, event.position)?;
                    event_list::deliveries(tx, event.position, now)?;
                }
            }
            event_list::latest_id(tx, &env)?;
            logs::trail(tx, &env).map(drop)
        }).await;
    }

    async fn replaying(world: World) {
        populate(world).await;
        let search = Search { environment_id: world.env.clone(), limit: 3, ..Search::default() };
        let events = world.read(move |tx| Ok(event_list::page(tx, &search)?.0)).await;
        let (env, now, ids) = (world.env.clone(), world.now(), world.ids.clone());
        assert_indexed(world, move |tx| {
            replay::to_listeners(tx, &env, None, &events, now, &ids).map(drop)
        }).await;
    }

    async fn purging(world: World) {
        populate(world).await;
        world.advance(DAY);
        let now = world.now();
        let everything = Limits { events: now, listeners: now, logs: now, idempotency: now, batch: 100 };
        let before = world.number("SELECT COUNT(*) FROM events").await;
        let found = scans(world, move |tx| retention::purge(tx, &everything).map(drop)).await;
        assert!(found.iter().all(|scan| is_environments(&scan.plan)), "{found:#?}");
        let after = world.number("SELECT COUNT(*) FROM events").await;
        assert_eq!((before, after), (6, 0));
    }

    async fn knocking(world: World) {
        populate(world).await;
        let (env, now) = (world.env.clone(), world.now());
        assert_indexed(world, move |tx| {
            keys::by_hash(tx, b"hash")?;
            keys::touch(tx, "key_1", now)?;
            keys::revoke(tx, "key_1", now)?;
            sources::by_slug(tx, "gh")?;
            sources::find(tx, &env, "gh")?;
            sources::list(tx, &env, Some("gh"), 10)?;
            keys::is_valid(tx, "key_1")?;
            environments::by_id(tx, &env)?;
            environments::by_slug(tx, "shop")?;
            environments::by_project(tx, "/home/me")?;
            let long_ago = Timestamp::from_millis(0);
            idempotency::take(tx, &env, "key", b"hash", now, long_ago, long_ago)?;
            idempotency::answer(tx, &env, "key", "{}")?;
            idempotency::release(tx, &env, "key")
        }).await;
    }
}

/// There are few environments, and each of them is asked for what is old there.
fn is_environments(plan: &str) -> bool {
    plan.contains(" environments")
}
