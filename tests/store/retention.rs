//! The purge: what is too old goes with all that hangs on it, and the counters stay right.

use std::time::Duration;

use pullhook::clock::Timestamp;
use pullhook::store::events::NewEvent;
use pullhook::store::idempotency::{self, Seen};
use pullhook::store::listeners::{Open, Since};
use pullhook::store::retention::{self, Limits};

use crate::harness::{DAY, LEASE, LIFE, MINUTE, T0_MS, World, ack, bodies};
use crate::on_both_engines;

/// Nothing is too old.
fn keep_all() -> Limits {
    let never = Timestamp::from_millis(0);
    Limits { events: never, listeners: never, logs: never, idempotency: never, batch: 100 }
}

async fn purge(world: &World, limits: Limits) -> u64 {
    world.write(move |tx| retention::purge(tx, &limits)).await
}

async fn purge_all(world: &World, limits: Limits) -> u64 {
    let mut gone = 0;
    loop {
        match purge(world, limits).await {
            0 => return gone,
            rows => gone += rows,
        }
    }
}

/// Rows per table.
async fn counts(world: &World) -> Vec<i64> {
    let sql = "SELECT (SELECT COUNT(*) FROM events), (SELECT COUNT(*) FROM event_contents),
        (SELECT COUNT(*) FROM arrivals), (SELECT COUNT(*) FROM listeners), (SELECT COUNT(*) FROM listener_deliveries)";
    world.numbers(sql).await.remove(0)
}

async fn take(world: &World, key: &'static str) -> Seen {
    let (env, now, long_ago) = (world.env.clone(), world.now(), Timestamp::from_millis(0));
    world.write(move |tx| idempotency::take(tx, &env, key, b"hash", now, long_ago, long_ago)).await
}

on_both_engines! {
    async fn nothing_goes_before_its_time(world: World) {
        world.open().await;
        world.ingest("x").await;
        let at = world.now();
        assert_eq!(purge(world, Limits { events: at, listeners: at + LIFE, logs: at, idempotency: at, batch: 100 }).await, 0);
        assert_eq!(counts(world).await, [1, 1, 1, 1, 1]);
    }

    async fn an_event_takes_its_deliveries_along(world: World) {
        let (first, second) = (world.open().await, world.open().await);
        world.ingest("old").await;
        let handed = world.claim(&first).await;
        world.ack(&first, vec![ack(&handed[0])]).await;
        world.ingest("leased").await;
        world.claim(&first).await;
        world.advance(MINUTE);
        world.ingest("new").await;
        assert_eq!(purge_all(world, Limits { events: world.now(), ..keep_all() }).await, 2);
        world.check().await;
        assert_eq!(counts(world).await, [1, 1, 1, 2, 2]);
        world.advance(LEASE);
        assert_eq!(bodies(&world.claim(&first).await), ["new"]);
        assert_eq!(bodies(&world.claim(&second).await), ["new"]);
        assert_eq!(world.numbers("SELECT pending FROM listeners").await, [[1], [1]]);
    }

    async fn batches_are_small_and_end(world: World) {
        world.open().await;
        for n in 0..7 {
            world.append(world.event(&n.to_string())).await;
        }
        world.dispatch().await;
        world.advance(DAY);
        let limits = Limits { events: world.now(), batch: 3, ..keep_all() };
        for gone in [3, 3, 1, 0] {
            assert_eq!(purge(world, limits).await, gone);
            world.check().await;
        }
    }

    async fn an_event_that_is_not_dispatched_stays(world: World) {
        world.append(world.event("waits")).await;
        world.advance(DAY);
        assert_eq!(purge(world, Limits { events: world.now(), ..keep_all() }).await, 0);
        let listener = world.open().await;
        world.dispatch().await;
        assert_eq!(bodies(&world.claim(&listener).await), ["waits"]);
        assert_eq!(purge(world, Limits { events: world.now(), ..keep_all() }).await, 1);
    }

    async fn a_redelivery_that_is_not_dispatched_keeps_its_event(world: World) {
        let named = |world: &World| NewEvent { provider_event_id: Some("evt-1".to_owned()), ..world.event("x") };
        world.append(named(world)).await;
        world.dispatch().await;
        world.advance(DAY);
        world.append(named(world)).await;
        assert_eq!(purge(world, Limits { events: world.now(), ..keep_all() }).await, 0);
        let listener = world.open().await;
        world.dispatch().await;
        assert_eq!(world.claim(&listener).await[0].occurrence, 2);
        assert_eq!(purge(world, Limits { events: world.now(), ..keep_all() }).await, 1);
        assert_eq!(world.numbers("SELECT head - dispatched FROM streams").await, [[0]]);
    }

    async fn a_purged_backlog_is_no_backlog(world: World) {
        world.ingest("old").await;
        world.advance(DAY);
        world.ingest("new").await;
        purge_all(world, Limits { events: world.now(), ..keep_all() }).await;
        let (listener, backlog) = world.open_with(Open { since: Some(Since::Beginning), ..world.opening() }).await;
        assert_eq!((backlog, bodies(&world.claim(&listener).await)), (1, vec!["new".to_owned()]));
        assert!(!world.append(world.event("next")).await.duplicate);
        assert_eq!(world.number("SELECT MAX(sequence) FROM events").await, 3, "numbers go on");
    }

    async fn an_id_of_a_purged_event_is_new_again(world: World) {
        let named = |world: &World| NewEvent { provider_event_id: Some("evt-1".to_owned()), ..world.event("x") };
        world.append(named(world)).await;
        world.dispatch().await;
        world.advance(MINUTE);
        purge_all(world, Limits { events: world.now(), ..keep_all() }).await;
        assert!(!world.append(named(world)).await.duplicate);
    }

    async fn listeners_go_a_day_after_expiry_with_their_deliveries(world: World) {
        let old = world.open().await;
        world.ingest("x").await;
        world.advance(LIFE);
        let young = world.open().await;
        world.advance(DAY);
        let limits = Limits { listeners: world.now() - DAY, ..keep_all() };
        assert_eq!(purge_all(world, limits).await, 0, "exactly a day is not more than a day");
        world.advance(Duration::from_millis(1));
        let limits = Limits { listeners: world.now() - DAY, ..keep_all() };
        assert_eq!(purge_all(world, limits).await, 1);
        assert_eq!(world.texts("SELECT id FROM listeners").await, [young]);
        assert_eq!(counts(world).await, [1, 1, 1, 1, 0]);
        assert!(world.try_poll(world.polling(&old)).await.is_none());
    }

    async fn log_lines_and_idempotency_keys_go(world: World) {
        let listener = world.open().await;
        world.ingest("x").await;
        let handed = world.claim(&listener).await;
        world.ack(&listener, vec![ack(&handed[0])]).await;
        assert_eq!(take(world, "a").await, Seen::New);
        world.advance(DAY);
        assert_eq!(take(world, "b").await, Seen::New);
        let limits = Limits { logs: world.now(), idempotency: world.now(), ..keep_all() };
        assert_eq!(purge_all(world, limits).await, 2);
        assert_eq!(world.number("SELECT COUNT(*) FROM logs").await, 0);
        assert_eq!(take(world, "b").await, Seen::Running);
        assert_eq!(take(world, "a").await, Seen::New);
    }

    async fn every_environment_is_purged(world: World) {
        for name in ["one", "two"] {
            let environment_id = world.environment(name).await;
            world.append(NewEvent { environment_id, ..world.event("x") }).await;
        }
        world.ingest("y").await;
        world.advance(Duration::from_millis(1));
        assert_eq!(world.now().millis(), T0_MS + 1);
        assert_eq!(purge_all(world, Limits { events: world.now(), batch: 2, ..keep_all() }).await, 3);
        assert_eq!(counts(world).await, [0, 0, 0, 0, 0]);
    }
}
