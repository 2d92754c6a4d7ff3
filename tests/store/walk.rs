//! A random walk: whatever happens in whatever order, the rows are those of the reference model, the counters are
//! right, and whoever listens without a gap is owed nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use pullhook::clock::Timestamp;
use pullhook::store::claims::{Ack, Poll, State, Token};
use pullhook::store::event_list;
use pullhook::store::events::{Dedupe, NewEvent};
use pullhook::store::listeners::{Open, Opened, Since};
use pullhook::store::replay;
use pullhook::store::retention::{self, Limits};
use pullhook::store::{Durability, StoreError, dispatch};

use crate::harness::{Engine, T0_MS, World, token};
use crate::model::{EventKey, KEPT, LEASE, LIFE, ListenerKey, Model};

/// One thing that happens. Picks are taken modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    Post { source: usize, named: Option<usize>, body: usize },
    Advance { stream: usize, batch: usize },
    AdvanceAndCrash { stream: usize },
    Open { ordered: bool, from_the_beginning: bool },
    Continue { listener: usize, ordered: bool },
    Close { listener: usize },
    Poll { listener: usize, limit: u32, acks: u16, extend: u16, holding: Option<u16> },
    Replay { events: u16 },
    Purge { events_older_than_s: i64 },
    Wait { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let pick = 0..6_usize;
    let named = prop_oneof![Just(None), (0..3_usize).prop_map(Some)];
    prop_oneof![
        8 => (0..2_usize, named, 0..2_usize).prop_map(|(source, named, body)| Step::Post { source, named, body }),
        8 => (0..2_usize, 1..4_usize).prop_map(|(stream, batch)| Step::Advance { stream, batch }),
        1 => (0..2_usize).prop_map(|stream| Step::AdvanceAndCrash { stream }),
        3 => (any::<bool>(), any::<bool>()).prop_map(|(ordered, from_the_beginning)| Step::Open { ordered, from_the_beginning }),
        3 => (pick.clone(), any::<bool>()).prop_map(|(listener, ordered)| Step::Continue { listener, ordered }),
        1 => pick.clone().prop_map(|listener| Step::Close { listener }),
        16 => (pick, prop_oneof![0..4_u32, Just(50)], any::<u16>(), any::<u16>(), proptest::option::weighted(0.2, any::<u16>()))
            .prop_map(|(listener, limit, acks, extend, holding)| Step::Poll { listener, limit, acks, extend, holding }),
        1 => any::<u16>().prop_map(|events| Step::Replay { events }),
        1 => prop_oneof![Just(0_i64), Just(300)].prop_map(|events_older_than_s| Step::Purge { events_older_than_s }),
        4 => prop_oneof![Just(1_u64), Just(119), Just(121), Just(601), Just(1100)].prop_map(|seconds| Step::Wait { seconds }),
    ]
}

/// A store and its model, side by side.
struct Walk {
    world: World,
    model: Model,
    /// Ids of the model's events and listeners.
    events: Vec<String>,
    listeners: Vec<String>,
    /// Every hand-out's token, by its number.
    tokens: Vec<Token>,
}

impl Walk {
    async fn begin(beside: &World) -> Self {
        let world = beside.beside("walk").await;
        let model = Model::at(T0_MS);
        Self { world, model, events: Vec::new(), listeners: Vec::new(), tokens: Vec::new() }
    }

    async fn step(&mut self, step: &Step) {
        // No two things happen in the same millisecond.
        self.wait(Duration::from_millis(1));
        match *step {
            Step::Post { source, named, body } => self.post(source, named, body).await,
            Step::Advance { stream, batch } => self.advance(stream, batch).await,
            Step::AdvanceAndCrash { stream } => self.advance_and_crash(stream).await,
            Step::Open { ordered, from_the_beginning } => self.open(ordered, from_the_beginning).await,
            Step::Continue { listener, ordered } => self.take_over(listener, ordered).await,
            Step::Close { listener } => self.close(listener).await,
            Step::Poll { listener, limit, acks, extend, holding } => {
                self.poll(listener, limit, acks, extend, holding).await;
            }
            Step::Replay { events } => self.replay(events).await,
            Step::Purge { events_older_than_s } => self.purge(events_older_than_s).await,
            Step::Wait { seconds } => self.wait(Duration::from_secs(seconds)),
        }
        self.compare().await;
    }

    fn wait(&mut self, time: Duration) {
        self.world.advance(time);
        self.model.now = self.world.now().millis();
    }

    async fn post(&mut self, source: usize, named: Option<usize>, body: usize) {
        let new = NewEvent {
            source: format!("s{source}"),
            provider_event_id: named.map(|n| format!("n{n}")),
            dedupe: Dedupe { since: Timestamp::from_millis(0), drop: false },
            ..self.world.event(&body.to_string())
        };
        let appended = self.world.append(new).await;
        let event = self.model.post(source, named, body);
        assert_eq!(appended.duplicate, event < self.events.len());
        if event == self.events.len() {
            self.events.push(appended.event_id.clone());
        }
        assert_eq!(self.events[event], appended.event_id);
    }

    async fn stream(&self, stream: usize) -> Option<i64> {
        let source = format!("s{}", self.model.streams.get(stream)?.source);
        let env = self.world.env.clone();
        let find = move |tx: &mut dyn pullhook::store::tx::Tx| {
            let sql = "SELECT id FROM streams WHERE environment_id = ?1 AND source = ?2";
            tx.first(sql, &[(&env).into(), (&source).into()])?.unwrap().take(0)
        };
        Some(self.world.read(find).await)
    }

    async fn advance(&mut self, stream: usize, batch: usize) {
        let Some(id) = self.stream(stream).await else { return };
        let (ids, now) = (self.world.ids.clone(), self.world.now());
        self.world.write(move |tx| dispatch::advance(tx, id, batch as u64, now, &ids)).await;
        self.model.advance(stream, batch);
    }

    async fn advance_and_crash(&mut self, stream: usize) {
        let Some(id) = self.stream(stream).await else { return };
        let (ids, now) = (self.world.ids.clone(), self.world.now());
        let crash = move |tx: &mut dyn pullhook::store::tx::Tx| {
            dispatch::advance(tx, id, 100, now, &ids)?;
            Err::<(), _>(StoreError::Unavailable("crash".into()))
        };
        self.world.store.write(Durability::Relaxed, crash).await.unwrap_err();
    }

    async fn try_open(&mut self, open: Open) -> bool {
        let open = Open {
            limit: 100,
            gone_since: self.world.now() - Duration::from_millis(KEPT.unsigned_abs()),
            ..open
        };
        match self.world.try_open(open).await {
            Opened::Open { listener, .. } => {
                self.listeners.push(listener.id);
                true
            }
            Opened::NoSuchListener => false,
            refused => panic!("{refused:?}"),
        }
    }

    async fn open(&mut self, ordered: bool, from_the_beginning: bool) {
        let mut open = Open { since: from_the_beginning.then_some(Since::Beginning), ..self.world.opening() };
        open.listener.ordered = ordered;
        assert!(self.try_open(open).await);
        self.model.open(ordered, from_the_beginning);
    }

    fn pick(&self, listener: usize) -> Option<ListenerKey> {
        listener.checked_rem(self.listeners.len())
    }

    async fn take_over(&mut self, listener: usize, ordered: bool) {
        let Some(old) = self.pick(listener) else { return };
        let mut open = Open { continues: Some(self.listeners[old].clone()), ..self.world.opening() };
        open.listener.ordered = ordered;
        let continued = self.model.continued(old);
        assert_eq!(self.try_open(open).await, continued.is_some());
        if let Some(old) = continued {
            self.model.take_over(old, ordered);
        }
    }

    async fn close(&mut self, listener: usize) {
        let Some(key) = self.pick(listener) else { return };
        assert_eq!(self.world.close(&self.listeners[key]).await, self.model.is_open(key));
        self.model.close(key);
    }

    /// The tokens among the last sixteen that `bits` names.
    fn named_by(&self, bits: u16) -> Vec<usize> {
        let last = self.tokens.len().saturating_sub(16)..self.tokens.len();
        last.enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, token)| token).collect()
    }

    async fn poll(&mut self, listener: usize, limit: u32, acks: u16, extend: u16, holding: Option<u16>) {
        let Some(key) = self.pick(listener) else { return };
        let (acks, extend) = (self.named_by(acks), self.named_by(extend));
        let holding = holding.map(|bits| self.named_by(bits));
        let tokens = |numbers: &[usize]| numbers.iter().map(|n| self.tokens[*n].clone()).collect::<Vec<_>>();
        let ack = |token| Ack {
            token,
            state: State::Delivered,
            status_code: Some(200),
            duration_ms: 1,
            error: None,
        };
        let poll = Poll {
            acks: tokens(&acks).into_iter().map(ack).collect(),
            extend: tokens(&extend),
            holding: holding.as_deref().map(tokens),
            limit,
            listener_expires_at: Timestamp::from_millis(self.model.now + LIFE),
            lease_expires_at: Timestamp::from_millis(self.model.now + LEASE),
            ..self.world.polling(&self.listeners[key])
        };
        let polled = self.world.try_poll(poll).await;
        assert_eq!(polled.is_some(), self.model.is_open(key));
        let Some(polled) = polled else { return };

        let model = &mut self.model;
        model.touch(key);
        let recorded = acks.iter().filter(|token| model.ack(key, **token)).count();
        let extended = extend.iter().filter(|token| model.extend(key, **token)).count();
        if let Some(held) = holding {
            model.release_all_but(key, &held);
        }
        let expected = model.claim(key, limit as usize, self.tokens.len());
        let claimed = &polled.claimed;
        self.tokens.extend(claimed.deliveries.iter().map(token));
        let handed: Vec<(EventKey, i64)> = claimed
            .deliveries
            .iter()
            .map(|d| (self.number(&d.event_id), i64::try_from(d.occurrence).unwrap()))
            .collect();
        assert_eq!(handed, expected);
        assert_eq!(polled.acknowledged, recorded as u64);
        assert_eq!(polled.extended.len(), extended);
        assert_eq!(claimed.waiting, self.model.waiting(key) as u64);
    }

    fn number(&self, event: &str) -> EventKey {
        self.events.iter().position(|id| id == event).unwrap()
    }

    async fn replay(&mut self, bits: u16) {
        let kept = (0..self.events.len()).filter(|key| !self.model.events[*key].purged);
        let chosen: Vec<_> = kept.filter(|key| bits >> (key % 16) & 1 == 1).collect();
        let ids: Vec<_> = chosen.iter().map(|key| self.events[*key].clone()).collect();
        let (env, now, maker) = (self.world.env.clone(), self.world.now(), self.world.ids.clone());
        self.world
            .write(move |tx| {
                let mut events = Vec::new();
                for id in &ids {
                    events.push(event_list::by_id(tx, &env, id)?.unwrap());
                }
                replay::to_listeners(tx, &env, None, &events, now, &maker)
            })
            .await;
        self.model.replay(&chosen);
    }

    async fn purge(&mut self, events_older_than_s: i64) {
        let never = Timestamp::from_millis(0);
        let (events, listeners) = (self.model.now - events_older_than_s * 1000, self.model.now - KEPT);
        let limits = Limits {
            events: Timestamp::from_millis(events),
            listeners: Timestamp::from_millis(listeners),
            logs: never,
            idempotency: never,
            batch: 1000,
        };
        self.world.write(move |tx| retention::purge(tx, &limits)).await;
        self.model.purge(events, listeners);
    }

    /// Every row as the model has it; the invariants; nobody is owed anything.
    async fn compare(&self) {
        self.world.check().await;
        assert_eq!(self.stored_deliveries().await, self.model.deliveries());
        let env = self.world.env.clone();
        let sql = "SELECT id, occurrences, status FROM events WHERE environment_id = ?1 ORDER BY position";
        let events: Vec<(String, i64, i64)> = self
            .world
            .read(move |tx| {
                let rows = tx.query(sql, &[(&env).into()])?;
                rows.into_iter().map(|mut row| Ok((row.take(0)?, row.take(1)?, row.take(2)?))).collect()
            })
            .await;
        let kept = self.model.events.iter().enumerate().filter(|(_, event)| !event.purged);
        let expected: Vec<_> =
            kept.map(|(key, e)| (self.events[key].clone(), e.occurrences, e.status)).collect();
        assert_eq!(events, expected);
        for listener in self.model.open_listeners() {
            let owed = self.model.owed(listener);
            assert!(owed.is_empty(), "{listener} was not given {owed:?}");
        }
    }

    async fn stored_deliveries(&self) -> BTreeMap<ListenerKey, Vec<[i64; 5]>> {
        let env = self.world.env.clone();
        let sql = "SELECT l.id, e.id, d.occurrence, d.state, d.attempt, d.lease_expires_at FROM listeners l
            LEFT JOIN listener_deliveries d ON d.listener_id = l.id LEFT JOIN events e ON e.position = d.event
            WHERE l.environment_id = ?1 ORDER BY l.id, d.position";
        let rows = self.world.read(move |tx| tx.query(sql, &[(&env).into()])).await;
        let mut stored = BTreeMap::<_, Vec<_>>::new();
        for mut row in rows {
            let listener: String = row.take(0).unwrap();
            let key = self.listeners.iter().position(|id| *id == listener).unwrap();
            let deliveries = stored.entry(key).or_default();
            if let Some(event) = row.take::<Option<String>>(1).unwrap() {
                let mut number = |index| row.take::<i64>(index).unwrap();
                let event = i64::try_from(self.number(&event)).unwrap();
                deliveries.push([event, number(2), number(3), number(4), number(5)]);
            }
        }
        stored
    }

    /// Everything goes with its environment.
    async fn end(self) {
        self.world.execute("DELETE FROM environments WHERE slug = 'walk'").await;
    }
}

async fn walk(world: &World, steps: &[Step]) {
    let mut walk = Walk::begin(world).await;
    for step in steps {
        walk.step(step).await;
    }
    walk.end().await;
}

fn random_walks(engine: Engine, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let Some(world) = runtime.block_on(World::new(engine)) else { return };
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 500, ..Config::default() };
    let steps = proptest::collection::vec(step(), 1..60);
    let outcome = TestRunner::new(config).run(&steps, |steps| {
        runtime.block_on(async {
            // A walk that failed before left its environment behind.
            world.execute("DELETE FROM environments WHERE slug = 'walk'").await;
            walk(&world, &steps).await;
        });
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

#[test]
fn random_walks_sqlite() {
    random_walks(Engine::Sqlite, 96);
}

#[test]
fn random_walks_postgres() {
    random_walks(Engine::Postgres, 24);
}
