//! Replay: a further occurrence, late, for who is open now.

use pullhook::store::claims::Ack;
use pullhook::store::dispatch::Origin;
use pullhook::store::event_list::{self, Listed, Search};
use pullhook::store::listeners::{Listener, Open, Since};
use pullhook::store::replay::{self, Replayed};

use crate::harness::{World, ack, bodies};
use crate::on_both_engines;

async fn all(world: &World) -> Vec<Listed> {
    let search =
        Search { environment_id: world.env.clone(), ascending: true, limit: 100, ..Search::default() };
    world.read(move |tx| Ok(event_list::page(tx, &search)?.0)).await
}

async fn replay(world: &World, only: Option<&str>) -> Replayed {
    let (env, now, ids) = (world.env.clone(), world.now(), world.ids.clone());
    let (events, only) = (all(world).await, only.map(str::to_owned));
    world.write(move |tx| replay::to_listeners(tx, &env, only.as_deref(), &events, now, &ids)).await
}

on_both_engines! {
    async fn each_replay_is_an_occurrence_of_its_own(world: World) {
        let listener = world.open().await;
        for body in ["1", "2"] {
            world.ingest(body).await;
        }
        let first = world.claim(&listener).await;
        world.ack(&listener, first.iter().map(ack).collect::<Vec<Ack>>()).await;
        assert_eq!(replay(world, None).await, Replayed::To { listeners: 1 });
        world.check().await;
        assert_eq!(replay(world, None).await, Replayed::To { listeners: 1 });
        let again = world.claim(&listener).await;
        assert_eq!(bodies(&again), ["1", "2", "1", "2"]);
        assert!(again.iter().all(|d| d.origin == Origin::Replay));
        assert_eq!(again.iter().map(|d| (d.sequence, d.occurrence)).collect::<Vec<_>>(), [(1, 2), (2, 2), (1, 3), (2, 3)]);
        assert_eq!(world.numbers("SELECT occurrences FROM events ORDER BY position").await, [[3], [3]]);
        assert_eq!(world.numbers("SELECT head, dispatched FROM streams").await, [[2, 2]], "it rewinds nothing");
        assert_eq!(all(world).await[0].status, "pending");
    }

    async fn to_one_or_to_all_whatever_they_subscribed_to(world: World) {
        world.ingest("x").await;
        let mut picky = world.opening();
        picky.listener = Listener { event_types: vec!["other".into()], sources: vec!["b".into()], ..picky.listener };
        let (picky, _) = world.open_with(picky).await;
        let other = world.open().await;
        assert_eq!(replay(world, Some(&picky)).await, Replayed::To { listeners: 1 });
        assert_eq!((world.claim(&picky).await.len(), world.claim(&other).await.len()), (1, 0));
        assert_eq!(replay(world, None).await, Replayed::To { listeners: 2 });
        assert_eq!((world.claim(&picky).await.len(), world.claim(&other).await.len()), (1, 1));
    }

    async fn nobody_there_changes_nothing(world: World) {
        world.ingest("x").await;
        assert_eq!(replay(world, None).await, Replayed::NoListener);
        let closed = world.open().await;
        world.close(&closed).await;
        let open = world.open().await;
        assert_eq!(replay(world, Some(&closed)).await, Replayed::NoListener);
        assert_eq!(world.number("SELECT occurrences FROM events").await, 1);
        assert!(world.claim(&open).await.is_empty());
    }

    async fn an_ordered_listener_replays_in_order(world: World) {
        let mut open = world.opening();
        open.listener.ordered = true;
        let (listener, _) = world.open_with(Open { since: Some(Since::Beginning), ..open }).await;
        for body in ["1", "2"] {
            world.ingest(body).await;
        }
        replay(world, None).await;
        for expected in ["1", "2", "1", "2"] {
            let handed = world.claim(&listener).await;
            assert_eq!(bodies(&handed), [expected]);
            world.ack(&listener, vec![ack(&handed[0])]).await;
        }
    }

    async fn a_purged_event_is_passed_over(world: World) {
        let listener = world.open().await;
        world.ingest("gone").await;
        world.ingest("kept").await;
        let events = all(world).await;
        world.execute("DELETE FROM events WHERE sequence = 1").await;
        world.execute("UPDATE listeners SET pending = 1").await;
        let (env, now, ids) = (world.env.clone(), world.now(), world.ids.clone());
        let outcome = world.write(move |tx| replay::to_listeners(tx, &env, None, &events, now, &ids)).await;
        assert_eq!(outcome, Replayed::To { listeners: 1 });
        assert_eq!(bodies(&world.claim(&listener).await), ["kept", "kept"]);
    }
}
