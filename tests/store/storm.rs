//! Many at once: nothing is lost, doubled or refused, and nobody waits for a deadlock to be noticed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pullhook::clock::Timestamp;
use pullhook::id::{IdMaker, Kind};
use pullhook::store::claims::{self, Poll, Polled};
use pullhook::store::event_list::{self, Search};
use pullhook::store::events::{self, NewEvent};
use pullhook::store::listeners::{self, Open, Opened};
use pullhook::store::retention::{self, Limits};
use pullhook::store::{Durability, Store, replay};

use crate::harness::{DAY, Engine, World, ack, check, dispatch_all};
use crate::on_both_engines;

const EVENTS: usize = 200;

/// One of several relays on the database.
#[derive(Clone)]
struct Relay {
    store: Store,
    ids: IdMaker,
    now: Timestamp,
    posted: Arc<AtomicUsize>,
}

impl Relay {
    fn of(world: &World, store: Store, posted: &Arc<AtomicUsize>) -> Self {
        Self { store, ids: world.ids.clone(), now: world.now(), posted: Arc::clone(posted) }
    }

    async fn post(self, new: NewEvent) {
        let key = new.environment_id.clone();
        let append = move |tx: &mut dyn pullhook::store::tx::Tx| events::append(tx, &new);
        self.store.write_together(&key, Durability::Promised, append).await.unwrap();
        self.posted.fetch_add(1, Ordering::Relaxed);
    }

    /// Fans out until `total` posts are there and nothing is behind.
    async fn dispatch(self, total: usize) {
        loop {
            let finished = self.posted.load(Ordering::Relaxed) == total;
            dispatch_all(&self.store, &self.ids, self.now).await;
            if finished {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn poll(&self, poll: Poll) -> Option<Polled> {
        let ids = self.ids.clone();
        self.store.write(Durability::Promised, move |tx| claims::poll(tx, &poll, &ids)).await.unwrap()
    }

    /// Leases and acks until `total` are acked; how often each delivery came.
    async fn listen(self, poll: Poll, total: usize) -> BTreeMap<String, usize> {
        let mut seen = BTreeMap::new();
        let (mut acks, mut acked) = (Vec::new(), 0);
        while acked < total {
            let polled = self.poll(Poll { acks: std::mem::take(&mut acks), ..poll.clone() }).await.unwrap();
            acked += usize::try_from(polled.acknowledged).unwrap();
            for hand_out in &polled.claimed.deliveries {
                *seen.entry(hand_out.id.clone()).or_insert(0) += 1;
            }
            acks = polled.claimed.deliveries.iter().map(ack).collect();
            tokio::task::yield_now().await;
        }
        seen
    }

    /// Polls, acks, and now and then lets a new listener take over, for so many rounds and until nothing is open.
    async fn listen_and_move_on(self, first: Open, rounds: usize, total: usize) {
        let template = first.clone();
        let mut poll = self.open(first).await;
        let mut acks = Vec::new();
        for round in 0.. {
            if round < rounds && round % 4 == 3 {
                let mut next = template.clone();
                next.listener.id = self.ids.make(Kind::Listener);
                next.continues = Some(poll.listener_id.clone());
                poll = self.open(next).await;
            }
            let polled = self.poll(Poll { acks: std::mem::take(&mut acks), ..poll.clone() }).await.unwrap();
            acks = polled.claimed.deliveries.iter().map(ack).collect();
            let finished = self.posted.load(Ordering::Relaxed) == total && round >= rounds;
            if finished && acks.is_empty() && polled.claimed.waiting == 0 {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn open(&self, open: Open) -> Poll {
        let ids = self.ids.clone();
        let opened = self.store.write(Durability::Promised, move |tx| listeners::open(tx, &open, &ids)).await;
        let Opened::Open { listener, .. } = opened.unwrap() else { panic!("not opened") };
        Poll {
            environment_id: listener.environment_id.clone(),
            listener_id: listener.id.clone(),
            acks: Vec::new(),
            holding: None,
            extend: Vec::new(),
            limit: 7,
            now: self.now,
            listener_expires_at: self.now + DAY,
            lease_expires_at: self.now + DAY,
            max_hand_outs: 1000,
            max_bytes: 4 << 20,
        }
    }

    async fn replay(self, environment: String, rounds: usize) {
        for _ in 0..rounds {
            let (ids, now, env) = (self.ids.clone(), self.now, environment.clone());
            let search = Search { environment_id: env.clone(), limit: 5, ..Search::default() };
            let work = move |tx: &mut dyn pullhook::store::tx::Tx| {
                let events = event_list::page(tx, &search)?.0;
                replay::to_listeners(tx, &env, None, &events, now, &ids)
            };
            self.store.write(Durability::Promised, work).await.unwrap();
            tokio::task::yield_now().await;
        }
    }

    async fn purge(self, rounds: usize) {
        let never = Timestamp::from_millis(0);
        let limits =
            Limits { events: self.now, listeners: never, logs: never, idempotency: never, batch: 10 };
        for _ in 0..rounds {
            let purge = move |tx: &mut dyn pullhook::store::tx::Tx| retention::purge(tx, &limits);
            self.store.write(Durability::Relaxed, purge).await.unwrap();
            tokio::task::yield_now().await;
        }
    }
}

/// Posts to two environments, some of them repeats, some so old that the purge takes them at once.
fn posts(world: &World, other: &str) -> Vec<NewEvent> {
    let post = |n: usize| {
        let mut new = world.event(&(n % 60).to_string());
        new.source = format!("s{}", n % 3);
        match n % 5 {
            0 => new.environment_id = other.to_owned(),
            1 => new.provider_event_id = Some(format!("evt-{}", n % 60)),
            2 => new.at = world.now() - DAY,
            _ => {}
        }
        new
    };
    (0..EVENTS).map(post).collect()
}

/// Two relays, two environments, three listeners in one of them, replays, purges, all at once.
async fn everything_at_once(world: &World) {
    let other = world.environment("other").await;
    let second =
        if world.store.engine() == "postgres" { world.another_store().await } else { world.store.clone() };
    let posted = Arc::new(AtomicUsize::new(0));
    let relays = [Relay::of(world, world.store.clone(), &posted), Relay::of(world, second, &posted)];
    let mut tasks = Vec::new();
    for n in 0..3 {
        let mut open = Open { limit: 100, ..world.opening() };
        open.listener.ordered = n == 2;
        open.listener.expires_at = world.now() + DAY;
        tasks.push(tokio::spawn(relays[n % 2].clone().listen_and_move_on(open, 40, EVENTS)));
    }
    for (n, new) in posts(world, &other).into_iter().enumerate() {
        tasks.push(tokio::spawn(relays[n % 2].clone().post(new)));
    }
    for relay in &relays {
        tasks.push(tokio::spawn(relay.clone().dispatch(EVENTS)));
        tasks.push(tokio::spawn(relay.clone().replay(world.env.clone(), 15)));
        tasks.push(tokio::spawn(relay.clone().purge(15)));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for relay in relays {
        check(&relay.store).await;
    }
}

/// How many deadlocks the server had to break up in this database. Its counters are whole once everybody has left.
fn deadlocks(world: World) -> String {
    let World { store, test, .. } = world;
    drop(store);
    while !test.administer("SELECT pid FROM pg_stat_activity WHERE datname = '{}'").is_empty() {
        std::thread::yield_now();
    }
    test.administer("SELECT deadlocks FROM pg_stat_database WHERE datname = '{}'").remove(0)
}

on_both_engines! {
    async fn two_hundred_posts_while_a_listener_leases_and_acks(world: World) {
        let listener = world.open().await;
        let relay = Relay::of(world, world.store.clone(), &Arc::default());
        let posts: Vec<_> = (0..EVENTS).map(|n| tokio::spawn(relay.clone().post(world.event(&n.to_string())))).collect();
        let dispatcher = tokio::spawn(relay.clone().dispatch(EVENTS));
        let seen = relay.listen(world.polling(&listener), EVENTS).await;
        for post in posts {
            post.await.unwrap();
        }
        dispatcher.await.unwrap();
        assert_eq!(seen.len(), EVENTS);
        assert!(seen.values().all(|count| *count == 1), "nothing is handed out twice");
        let delivered = world.number("SELECT COUNT(*) FROM events WHERE status = 2").await;
        assert_eq!(usize::try_from(delivered).unwrap(), EVENTS);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_at_once_sqlite() {
    let world = World::new(Engine::Sqlite).await.unwrap();
    everything_at_once(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_at_once_postgres_and_no_deadlock() {
    let Some(world) = World::new(Engine::Postgres).await else { return };
    everything_at_once(&world).await;
    assert_eq!(deadlocks(world), "0");
}
