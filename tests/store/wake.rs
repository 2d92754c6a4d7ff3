//! News: told after the commit, to every process on the same database, also after a gap.

use std::time::Duration;

use pullhook::store::dispatch;
use pullhook::store::{Durability, Store, StoreError};
use pullhook::wake::{Topic, Waiter};

use crate::harness::{Engine, World};
use crate::on_both_engines;

/// Ends the test if it takes longer: far more than news ever need.
async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("no news")
}

fn topic(name: &str) -> Topic {
    Topic::Environment(name.to_owned())
}

async fn tell(store: &Store, topic: Topic) {
    store.write(Durability::Relaxed, move |tx| tx.tell(topic.clone())).await.unwrap();
}

/// Ends the notification connections of every store on this database.
async fn kill_listeners(store: &Store) -> usize {
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    store.write(Durability::Relaxed, move |tx| tx.query(sql, &[])).await.unwrap().len()
}

on_both_engines! {
    async fn news_come_with_the_commit(world: World) {
        let mut waiter = world.store.wake().subscribe(topic("a"));
        tell(&world.store, topic("b")).await;
        assert!(!waiter.take_change());
        tell(&world.store, topic("a")).await;
        assert!(waiter.take_change());
    }

    async fn what_was_rolled_back_is_no_news(world: World) {
        let mut waiter = world.store.wake().subscribe(topic("a"));
        let outcome: Result<(), _> = world.store.write(Durability::Relaxed, |tx| {
            tx.tell(topic("a"))?;
            Err(StoreError::Unavailable("no".into()))
        }).await;
        outcome.unwrap_err();
        assert!(!waiter.take_change());
    }

    async fn each_step_of_an_event_is_told(world: World) {
        let mut arrived = world.store.wake().subscribe(Topic::Arrived);
        let mut deliveries = world.store.wake().subscribe(topic(&world.env));
        let listener = world.open().await;
        deliveries.take_change();
        world.append(world.event("x")).await;
        assert!(arrived.take_change() && !deliveries.take_change());
        world.dispatch().await;
        assert!(deliveries.take_change());
        world.close(&listener).await;
        assert!(deliveries.take_change(), "a parked poll has to learn that its listener is closed");
    }
}

#[tokio::test]
async fn news_cross_from_one_process_to_another() {
    let Some(world) = World::new(Engine::Postgres).await else { return };
    let other = world.another_store().await;
    let (mut arrived, mut deliveries) =
        (other.wake().subscribe(Topic::Arrived), other.wake().subscribe(topic(&world.env)));
    world.append(world.event("x")).await;
    within(arrived.changed()).await;
    assert!(!deliveries.take_change());
    assert_eq!(
        other.read(|tx| dispatch::behind(tx, 10)).await.unwrap().len(),
        1,
        "the news come after the commit"
    );
    world.dispatch().await;
    within(deliveries.changed()).await;
    let mut back = world.store.wake().subscribe(topic("back"));
    tell(&other, topic("back")).await;
    within(back.changed()).await;
}

#[tokio::test]
async fn a_process_hears_of_another_from_its_first_moment() {
    let Some(world) = World::new(Engine::Postgres).await else { return };
    for round in 0..5 {
        let other = world.another_store().await;
        let mut waiter = other.wake().subscribe(topic(&format!("t{round}")));
        tell(&world.store, topic(&format!("t{round}"))).await;
        within(waiter.changed()).await;
    }
}

#[tokio::test]
async fn after_a_gap_everybody_looks_and_news_flow_again() {
    let Some(world) = World::new(Engine::Postgres).await else { return };
    let other = world.another_store().await;
    let mut waiters: Vec<Waiter> =
        [topic("a"), topic("b"), Topic::Arrived, Topic::Sources].map(|t| other.wake().subscribe(t)).into();
    for _ in 0..2 {
        assert!(kill_listeners(&world.store).await > 0);
        for waiter in &mut waiters {
            within(waiter.changed()).await;
        }
        tell(&world.store, topic("a")).await;
        within(waiters[0].changed()).await;
        assert!(!waiters[1].take_change());
    }
}
