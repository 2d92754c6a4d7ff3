//! Fan-out: in order, once, also when it is cut short and done again.

use pullhook::store::events::NewEvent;
use pullhook::store::listeners::{Listener, Open};
use pullhook::store::{Durability, StoreError, dispatch};

use crate::harness::{LIFE, World, ack, bodies};
use crate::on_both_engines;

async fn stream_ids(world: &World) -> Vec<i64> {
    world.read(|tx| dispatch::behind(tx, 100)).await
}

async fn advance(world: &World, stream: i64, batch: u64) -> u64 {
    let (ids, now) = (world.ids.clone(), world.now());
    world.write(move |tx| dispatch::advance(tx, stream, batch, now, &ids)).await
}

/// A fan-out whose transaction is lost before its commit.
async fn advance_and_crash(world: &World, stream: i64) {
    let (ids, now) = (world.ids.clone(), world.now());
    let outcome: Result<(), _> = world
        .store
        .write(Durability::Relaxed, move |tx| {
            dispatch::advance(tx, stream, 100, now, &ids)?;
            Err(StoreError::Unavailable("crash".into()))
        })
        .await;
    outcome.unwrap_err();
}

on_both_engines! {
    async fn a_stream_advances_in_order_batch_by_batch(world: World) {
        let listener = world.open().await;
        for n in 0..5 {
            world.append(world.event(&n.to_string())).await;
        }
        let stream = stream_ids(world).await[0];
        assert_eq!(advance(world, stream, 2).await, 2);
        world.check().await;
        assert_eq!(advance(world, stream, 2).await, 2);
        assert_eq!(advance(world, stream, 2).await, 1);
        assert_eq!(advance(world, stream, 2).await, 0);
        assert!(stream_ids(world).await.is_empty());
        let claimed = world.claim(&listener).await;
        assert_eq!(bodies(&claimed), ["0", "1", "2", "3", "4"]);
        assert_eq!(claimed.iter().map(|d| d.sequence).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    }

    async fn a_fan_out_that_crashed_is_done_again_once(world: World) {
        let listener = world.open().await;
        world.append(world.event("x")).await;
        let stream = stream_ids(world).await[0];
        advance_and_crash(world, stream).await;
        assert_eq!(world.number("SELECT COUNT(*) FROM listener_deliveries").await, 0);
        assert_eq!(stream_ids(world).await, [stream], "it is behind as before");
        assert_eq!(advance(world, stream, 100).await, 1);
        assert_eq!(advance(world, stream, 100).await, 0);
        assert_eq!(world.claim(&listener).await.len(), 1);
    }

    async fn a_fan_out_that_is_repeated_after_its_commit_adds_nothing(world: World) {
        let (first, second) = (world.open().await, world.open().await);
        world.ingest("x").await;
        let claimed = world.claim(&first).await;
        world.ack(&first, vec![ack(&claimed[0])]).await;
        // As if its position had been lost, as a stream outside the database may lose it.
        world.execute("UPDATE streams SET dispatched = 0").await;
        world.dispatch().await;
        world.check().await;
        assert!(world.claim(&first).await.is_empty(), "acked stays acked");
        assert_eq!(world.claim(&second).await.len(), 1);
        assert_eq!(world.texts("SELECT CASE status WHEN 2 THEN 'delivered' ELSE 'other' END FROM events").await,
            ["delivered"]);
    }

    async fn a_listener_gets_its_sources_and_types(world: World) {
        let of = |types: &[&str], sources: &[&str]| {
            let text = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
            let mut open = world.opening();
            open.listener = Listener { event_types: text(types), sources: text(sources), ..open.listener };
            open
        };
        let (all, _) = world.open_with(of(&[], &[])).await;
        let (paid, _) = world.open_with(of(&["invoice.paid", "order.*"], &[])).await;
        let (github, _) = world.open_with(of(&["*"], &["github", "gitlab"])).await;
        for (source, kind) in [("stripe", "invoice.paid"), ("github", "push"), ("shop", "order.a.b"), ("gitlab", "order")] {
            let new = NewEvent { source: source.to_owned(), kind: kind.to_owned(), ..world.event(kind) };
            world.append(new).await;
        }
        world.dispatch().await;
        assert_eq!(world.claim(&all).await.len(), 4);
        assert_eq!(bodies(&world.claim(&paid).await), ["invoice.paid", "order.a.b"]);
        assert_eq!(bodies(&world.claim(&github).await), ["push", "order"]);
    }

    async fn who_is_not_open_gets_nothing(world: World) {
        let closed = world.open().await;
        let expiring = world.open().await;
        world.close(&closed).await;
        world.advance(LIFE);
        let open = world.open().await;
        world.ingest("x").await;
        assert_eq!(world.claim(&open).await.len(), 1);
        assert!(world.try_poll(world.polling(&expiring)).await.is_none());
        assert_eq!(world.number("SELECT COUNT(*) FROM listener_deliveries").await, 1);
    }

    async fn environments_do_not_see_each_other(world: World) {
        let other = world.environment("other").await;
        let mut open = world.opening();
        open.listener.environment_id.clone_from(&other);
        let (stranger, _) = world.open_with(Open { ..open }).await;
        world.ingest("x").await;
        let mut poll = world.polling(&stranger);
        assert!(world.try_poll(poll.clone()).await.is_none(), "another environment's listener is unknown here");
        poll.environment_id = other;
        assert!(world.poll_with(poll).await.claimed.deliveries.is_empty());
    }

    async fn a_redelivery_is_a_further_occurrence_of_the_same_event(world: World) {
        let listener = world.open().await;
        let new = |world: &World| NewEvent { provider_event_id: Some("evt-1".to_owned()), ..world.event("x") };
        let id = world.append(new(world)).await.event_id;
        world.dispatch().await;
        let first = world.claim(&listener).await;
        world.ack(&listener, vec![ack(&first[0])]).await;
        world.append(new(world)).await;
        world.dispatch().await;
        let second = world.claim(&listener).await;
        assert_eq!((first[0].occurrence, first[0].origin), (1, dispatch::Origin::Arrival));
        assert_eq!((second[0].occurrence, second[0].origin), (2, dispatch::Origin::Redelivery));
        assert_eq!((&second[0].event_id, &second[0].body), (&id, &first[0].body));
        assert_eq!((first[0].sequence, second[0].sequence), (1, 2));
    }

    async fn one_stream_waits_for_no_other(world: World) {
        let listener = world.open().await;
        for source in ["a", "b"] {
            world.append(NewEvent { source: source.to_owned(), ..world.event(source) }).await;
        }
        let streams = stream_ids(world).await;
        advance_and_crash(world, streams[0]).await;
        advance(world, streams[1], 100).await;
        assert_eq!(bodies(&world.claim(&listener).await), ["b"]);
    }
}
