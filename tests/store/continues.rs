//! `continues`: a new listener takes over what the old one left, and what it missed.

use std::time::Duration;

use pullhook::store::claims::Poll;
use pullhook::store::events::NewEvent;
use pullhook::store::listeners::{Open, Opened, Since};

use crate::harness::{DAY, LEASE, LIFE, MINUTE, World, ack, bodies};
use crate::on_both_engines;

fn continuing(world: &World, old: &str) -> Open {
    Open { continues: Some(old.to_owned()), ..world.opening() }
}

fn named(world: &World, id: &str) -> NewEvent {
    NewEvent { provider_event_id: Some(id.to_owned()), ..world.event(id) }
}

on_both_engines! {
    async fn an_open_one_hands_over_and_closes(world: World) {
        let old = world.open().await;
        for body in ["acked", "leased", "waiting"] {
            world.ingest(body).await;
        }
        let handed = world.poll_with(Poll { limit: 2, ..world.polling(&old) }).await.claimed.deliveries;
        world.ack(&old, vec![ack(&handed[0])]).await;
        let (new, backlog) = world.open_with(continuing(world, &old)).await;
        world.check().await;
        assert_eq!(backlog, 0, "nothing was missed");
        assert!(world.try_poll(world.polling(&old)).await.is_none());
        let taken = world.claim(&new).await;
        assert_eq!(bodies(&taken), ["leased", "waiting"]);
        assert_eq!((taken[0].id.as_str(), taken[0].attempt), (handed[1].id.as_str(), 2));
    }

    async fn a_result_of_the_old_hand_out_counts_until_the_next(world: World) {
        let old = world.open().await;
        world.ingest("x").await;
        let handed = world.claim(&old).await;
        let (new, _) = world.open_with(continuing(world, &old)).await;
        let polled = world.poll_with(Poll { acks: vec![ack(&handed[0])], ..world.polling(&new) }).await;
        assert_eq!((polled.acknowledged, polled.claimed.deliveries.len()), (1, 0));
    }

    async fn a_result_of_the_old_hand_out_is_stale_after_the_next(world: World) {
        let old = world.open().await;
        world.ingest("x").await;
        let handed = world.claim(&old).await;
        let (new, _) = world.open_with(continuing(world, &old)).await;
        world.claim(&new).await;
        let polled = world.ack(&new, vec![ack(&handed[0])]).await;
        assert_eq!((polled.acknowledged, polled.stale_acks), (0, vec![handed[0].id.clone()]));
    }

    async fn what_a_gone_one_missed_is_backlog(world: World) {
        let old = world.open().await;
        world.ingest("handed").await;
        world.advance(MINUTE);
        let handed = world.claim(&old).await;
        world.ack(&old, vec![ack(&handed[0])]).await;
        world.advance(MINUTE);
        world.ingest("waiting").await;
        world.advance(LIFE);
        world.ingest("missed").await;
        world.append(world.event("not dispatched yet")).await;
        world.advance(DAY - LIFE - MINUTE);
        let (new, backlog) = world.open_with(continuing(world, &old)).await;
        assert_eq!(backlog, 1);
        world.dispatch().await;
        assert_eq!(bodies(&world.claim(&new).await), ["waiting", "missed", "not dispatched yet"]);
    }

    async fn one_that_closed_at_once_misses_nothing(world: World) {
        let old = world.open().await;
        world.close(&old).await;
        world.ingest("missed").await;
        let (new, _) = world.open_with(continuing(world, &old)).await;
        assert_eq!(bodies(&world.claim(&new).await), ["missed"]);
    }

    async fn a_redelivery_in_the_gap_is_not_lost(world: World) {
        let old = world.open().await;
        let event = world.append(named(world, "evt-1")).await.event_id;
        world.dispatch().await;
        let handed = world.claim(&old).await;
        world.ack(&old, vec![ack(&handed[0])]).await;
        world.advance(LIFE);
        world.append(named(world, "evt-1")).await;
        world.dispatch().await;
        let (new, backlog) = world.open_with(continuing(world, &old)).await;
        let taken = world.claim(&new).await;
        assert_eq!((backlog, taken.len()), (1, 1), "somebody pressed redeliver while nobody listened");
        assert_eq!((&taken[0].event_id, taken[0].occurrence), (&event, 2));
        assert_eq!(taken[0].origin, pullhook::store::dispatch::Origin::Redelivery);
    }

    async fn arrivals_and_redeliveries_in_the_gap_come_in_order(world: World) {
        let old = world.open().await;
        world.close(&old).await;
        world.advance(MINUTE);
        for id in ["one", "two", "one"] {
            world.append(named(world, id)).await;
        }
        world.dispatch().await;
        let (new, _) = world.open_with(continuing(world, &old)).await;
        let taken = world.claim(&new).await;
        let order: Vec<_> = taken.iter().map(|d| (d.sequence, d.occurrence)).collect();
        assert_eq!((bodies(&taken), order), (vec!["one".into(), "two".into(), "one".into()], vec![(1, 1), (2, 1), (3, 2)]));
    }

    async fn a_day_after_it_went_it_is_unknown(world: World) {
        let old = world.open().await;
        world.advance(LIFE + DAY - Duration::from_millis(1));
        let (_, _) = world.open_with(continuing(world, &old)).await;
        let late = world.open().await;
        world.advance(LIFE + DAY);
        assert_eq!(world.try_open(continuing(world, &late)).await, Opened::NoSuchListener);
        assert_eq!(world.try_open(continuing(world, "whlis_unknown")).await, Opened::NoSuchListener);
        let mut foreign = continuing(world, &late);
        foreign.listener.environment_id = world.environment("other").await;
        foreign.gone_since = world.now() - DAY * 9;
        assert_eq!(world.try_open(foreign).await, Opened::NoSuchListener);
    }

    async fn a_second_one_that_continues_the_same_gets_only_what_was_missed_since(world: World) {
        let old = world.open().await;
        world.ingest("x").await;
        let (first, _) = world.open_with(continuing(world, &old)).await;
        assert_eq!(world.claim(&first).await.len(), 1);
        world.advance(MINUTE);
        let (second, _) = world.open_with(continuing(world, &first)).await;
        let taken = world.claim(&second).await;
        assert_eq!((bodies(&taken), taken[0].attempt), (vec!["x".to_owned()], 2));
    }

    async fn with_since_both_and_each_once(world: World) {
        world.ingest("before").await;
        let old = world.open().await;
        world.ingest("acked").await;
        let handed = world.claim(&old).await;
        world.ack(&old, vec![ack(&handed[0])]).await;
        world.ingest("waiting").await;
        let open = Open { since: Some(Since::Beginning), ..continuing(world, &old) };
        let (new, _) = world.open_with(open).await;
        world.check().await;
        let mut got = bodies(&world.claim(&new).await);
        got.sort();
        assert_eq!(got, ["acked", "before", "waiting"], "since asks for what was acked, too");
    }

    async fn hand_outs_are_counted_across_listeners(world: World) {
        let mut listener = world.open().await;
        world.ingest("poison").await;
        for attempt in 1..=5 {
            assert_eq!(world.claim(&listener).await[0].attempt, attempt);
            world.advance(LEASE);
            listener = world.open_with(continuing(world, &listener)).await.0;
        }
        assert!(world.claim(&listener).await.is_empty());
        assert_eq!(world.number("SELECT COUNT(*) FROM listener_deliveries WHERE state = 4").await, 1);
    }
}
