//! Ordered listeners: of each source one delivery at a time.

use pullhook::store::claims::Poll;
use pullhook::store::events::NewEvent;
use pullhook::store::listeners::{Open, Since};

use crate::harness::{LEASE, World, ack, bodies, failure};
use crate::on_both_engines;

fn ordered(world: &World) -> Open {
    let mut open = world.opening();
    open.listener.ordered = true;
    open
}

async fn ingest(world: &World, source: &str, bodies: &[&str]) {
    for body in bodies {
        world.append(NewEvent { source: source.to_owned(), ..world.event(body) }).await;
    }
    world.dispatch().await;
}

on_both_engines! {
    async fn one_of_each_source_until_it_is_acked(world: World) {
        let (listener, _) = world.open_with(ordered(world)).await;
        ingest(world, "a", &["a1", "a2"]).await;
        ingest(world, "b", &["b1"]).await;
        let first = world.claim(&listener).await;
        assert_eq!(bodies(&first), ["a1", "b1"]);
        assert!(world.claim(&listener).await.is_empty());
        let polled = world.poll_with(Poll { acks: vec![failure(&first[0])], ..world.polling(&listener) }).await;
        assert_eq!(bodies(&polled.claimed.deliveries), ["a2"], "a final failure lets the next one go");
    }

    async fn a_lease_that_ended_is_handed_out_again_before_the_next(world: World) {
        let (listener, _) = world.open_with(ordered(world)).await;
        ingest(world, "a", &["a1", "a2"]).await;
        world.claim(&listener).await;
        world.advance(LEASE);
        let again = world.claim(&listener).await;
        assert_eq!((bodies(&again), again[0].attempt), (vec!["a1".to_owned()], 2));
    }

    async fn an_exhausted_one_lets_the_next_go(world: World) {
        let (listener, _) = world.open_with(ordered(world)).await;
        ingest(world, "a", &["a1", "a2"]).await;
        for _ in 0..5 {
            assert_eq!(bodies(&world.claim(&listener).await), ["a1"]);
            world.advance(LEASE);
        }
        assert_eq!(bodies(&world.claim(&listener).await), ["a2"]);
    }

    async fn the_limit_holds_and_takes_the_oldest(world: World) {
        let (listener, _) = world.open_with(ordered(world)).await;
        for source in ["c", "a", "b"] {
            ingest(world, source, &[source]).await;
        }
        let polled = world.poll_with(Poll { limit: 2, ..world.polling(&listener) }).await;
        assert_eq!(bodies(&polled.claimed.deliveries), ["c", "a"]);
    }

    async fn a_backlog_is_ordered_too(world: World) {
        ingest(world, "a", &["a1", "a2"]).await;
        let open = Open { since: Some(Since::Beginning), ..ordered(world) };
        let (listener, _) = world.open_with(open).await;
        ingest(world, "a", &["a3"]).await;
        for expected in ["a1", "a2", "a3"] {
            let handed = world.claim(&listener).await;
            assert_eq!(bodies(&handed), [expected]);
            world.ack(&listener, vec![ack(&handed[0])]).await;
        }
    }

    async fn an_ordered_one_takes_over_in_order(world: World) {
        let old = world.open().await;
        ingest(world, "a", &["a1", "a2", "a3"]).await;
        let handed = world.claim(&old).await;
        world.ack(&old, vec![ack(&handed[1])]).await;
        let (new, _) = world.open_with(Open { continues: Some(old), ..ordered(world) }).await;
        let first = world.claim(&new).await;
        assert_eq!(bodies(&first), ["a1"]);
        world.ack(&new, vec![ack(&first[0])]).await;
        assert_eq!(bodies(&world.claim(&new).await), ["a3"]);
    }

    async fn an_unordered_one_takes_over_from_an_ordered_one(world: World) {
        let (old, _) = world.open_with(ordered(world)).await;
        ingest(world, "a", &["a1", "a2"]).await;
        let (new, _) = world.open_with(Open { continues: Some(old), ..world.opening() }).await;
        assert_eq!(bodies(&world.claim(&new).await), ["a1", "a2"]);
    }
}
