//! Claiming: oldest first, leased, counted, cut to size, and not for ever.

use std::time::Duration;

use bytes::Bytes;
use pullhook::store::claims::Poll;
use pullhook::store::events::NewEvent;
use pullhook::store::{event_list, logs};

use crate::harness::{LEASE, LIFE, MINUTE, World, ack, bodies, token};
use crate::on_both_engines;

on_both_engines! {
    async fn the_oldest_first_up_to_the_limit(world: World) {
        let listener = world.open().await;
        for n in 0..5 {
            world.ingest(&n.to_string()).await;
        }
        let polled = world.poll_with(Poll { limit: 2, ..world.polling(&listener) }).await;
        assert_eq!((bodies(&polled.claimed.deliveries), polled.claimed.waiting), (vec!["0".into(), "1".into()], 3));
        let polled = world.poll_with(Poll { limit: 2, ..world.polling(&listener) }).await;
        assert_eq!((bodies(&polled.claimed.deliveries), polled.claimed.waiting), (vec!["2".into(), "3".into()], 1));
        let nothing = world.poll_with(Poll { limit: 0, ..world.polling(&listener) }).await;
        assert_eq!((nothing.claimed.deliveries.len(), nothing.claimed.waiting), (0, 1));
    }

    async fn a_lease_hides_until_it_ends_and_the_next_hand_out_has_a_token_of_its_own(world: World) {
        let listener = world.open().await;
        world.ingest("x").await;
        let polled = world.poll_with(world.polling(&listener)).await;
        let first = &polled.claimed.deliveries[0];
        assert_eq!((first.attempt, polled.claimed.next_expiry), (1, Some(world.now() + LEASE)));
        assert_eq!(first.ack_token.len(), 32);
        world.advance(LEASE - Duration::from_millis(1));
        let hidden = world.poll_with(world.polling(&listener)).await.claimed;
        assert_eq!((hidden.deliveries.len(), hidden.waiting), (0, 0));
        world.advance(Duration::from_millis(1));
        let again = world.claim(&listener).await;
        assert_eq!((again[0].id.as_str(), again[0].attempt), (first.id.as_str(), 2));
        assert_ne!(again[0].ack_token, first.ack_token);
    }

    async fn what_returned_comes_before_what_is_new(world: World) {
        let listener = world.open().await;
        world.ingest("old").await;
        world.claim(&listener).await;
        world.ingest("new").await;
        world.advance(LEASE);
        assert_eq!(bodies(&world.claim(&listener).await), ["old", "new"]);
    }

    async fn each_listener_has_its_own_copy(world: World) {
        let (first, second) = (world.open().await, world.open().await);
        world.ingest("x").await;
        let (a, b) = (world.claim(&first).await, world.claim(&second).await);
        assert_eq!(a[0].event_id, b[0].event_id);
        assert_ne!(a[0].id, b[0].id);
        world.ack(&first, vec![ack(&a[0])]).await;
        assert_eq!(world.ack(&second, vec![ack(&b[0])]).await.acknowledged, 1);
    }

    async fn after_five_hand_outs_it_is_exhausted_with_a_log_line(world: World) {
        let listener = world.open().await;
        let event = world.ingest("poison").await;
        for attempt in 1..=5 {
            let handed = world.claim(&listener).await;
            assert_eq!(handed[0].attempt, attempt);
            world.advance(LEASE);
        }
        world.ingest("next").await;
        let after = world.poll_with(world.polling(&listener)).await.claimed;
        assert_eq!((bodies(&after.deliveries), after.waiting), (vec!["next".to_owned()], 0));
        let (env, now) = (world.env.clone(), world.now());
        let (shown, trail, status) = world.read(move |tx| {
            let listed = event_list::by_id(tx, &env, &event)?.unwrap();
            Ok((event_list::deliveries(tx, listed.position, now)?, logs::trail(tx, &env)?, listed.status))
        }).await;
        assert_eq!((shown[0].status, shown[0].attempt, status), ("exhausted", 5, "failed"));
        assert_eq!(trail, [("webhook.forward".to_owned(), shown[0].id.clone())]);
        assert_eq!(world.texts("SELECT level FROM logs").await, ["error"]);
    }

    async fn many_exhausted_ones_do_not_hide_what_is_behind(world: World) {
        let listener = world.open().await;
        for n in 0..12 {
            world.ingest(&n.to_string()).await;
        }
        for _ in 0..5 {
            world.poll_with(Poll { limit: 8, ..world.polling(&listener) }).await;
            world.advance(LEASE);
        }
        let left = world.poll_with(Poll { limit: 4, ..world.polling(&listener) }).await.claimed;
        assert_eq!(bodies(&left.deliveries), ["8", "9", "10", "11"]);
        assert_eq!(world.number("SELECT COUNT(*) FROM listener_deliveries WHERE state = 4").await, 8);
    }

    async fn an_answer_is_cut_to_size_but_never_to_nothing(world: World) {
        let listener = world.open().await;
        for size in [60, 60, 30, 500, 10] {
            world.append(NewEvent { body: Bytes::from(vec![b'x'; size]), ..world.event("") }).await;
        }
        world.dispatch().await;
        let mut sizes = Vec::new();
        for _ in 0..4 {
            let claimed = world.poll_with(Poll { max_bytes: 100, ..world.polling(&listener) }).await.claimed;
            sizes.push(claimed.deliveries.iter().map(|d| d.body.len()).collect::<Vec<_>>());
        }
        assert_eq!(sizes, [vec![60], vec![60, 30], vec![500], vec![10]]);
    }

    async fn a_poll_moves_the_listeners_life_on(world: World) {
        let listener = world.open().await;
        world.advance(LIFE - Duration::from_millis(1));
        let polled = world.poll_with(world.polling(&listener)).await;
        assert_eq!(polled.listener.expires_at, world.now() + LIFE);
        assert_eq!(polled.listener.last_polled_at, Some(world.now()));
        world.advance(LIFE);
        assert!(world.try_poll(world.polling(&listener)).await.is_none(), "the end is exclusive");
        assert!(world.try_poll(world.polling("whlis_unknown")).await.is_none());
    }

    async fn a_poll_of_a_listener_that_is_gone_records_nothing(world: World) {
        let listener = world.open().await;
        world.ingest("x").await;
        let handed = world.claim(&listener).await;
        world.close(&listener).await;
        let poll = Poll { acks: vec![ack(&handed[0])], ..world.polling(&listener) };
        assert!(world.try_poll(poll).await.is_none());
        assert_eq!(world.number("SELECT state FROM listener_deliveries").await, 0);
        let env = world.env.clone();
        let now = world.now();
        let shown = world.read(move |tx| {
            let listed = event_list::page(tx, &event_list::Search { environment_id: env.clone(), limit: 1, ..Default::default() })?;
            event_list::deliveries(tx, listed.0[0].position, now)
        }).await;
        assert_eq!(shown[0].status, "dropped");
    }

    async fn polls_at_once_hand_nothing_out_twice(world: World) {
        let listener = world.open().await;
        for n in 0..40 {
            world.append(world.event(&n.to_string())).await;
        }
        world.dispatch().await;
        let polls = (0..8).map(|_| world.poll_with(Poll { limit: 5, ..world.polling(&listener) }));
        let polled = futures_util::future::join_all(polls).await;
        let mut sequences: Vec<_> = polled.iter().flat_map(|p| &p.claimed.deliveries).map(|d| d.sequence).collect();
        sequences.sort_unstable();
        assert_eq!(sequences, (1..=40).collect::<Vec<_>>());
    }

    async fn extend_moves_a_lease_and_keeps_its_token(world: World) {
        let listener = world.open().await;
        world.ingest("x").await;
        let handed = world.claim(&listener).await;
        world.advance(MINUTE);
        let polled = world.poll_with(Poll { extend: vec![token(&handed[0])], ..world.polling(&listener) }).await;
        assert_eq!(polled.extended, [handed[0].id.as_str()]);
        world.advance(LEASE - Duration::from_millis(1));
        assert!(world.claim(&listener).await.is_empty());
        assert_eq!(world.ack(&listener, vec![ack(&handed[0])]).await.acknowledged, 1);
    }

    async fn extend_is_fenced(world: World) {
        let (listener, other) = (world.open().await, world.open().await);
        world.ingest("x").await;
        let old = world.claim(&listener).await;
        let foreign = world.claim(&other).await;
        world.advance(LEASE);
        let new = world.claim(&listener).await;
        let mut made_up = token(&new[0]);
        made_up.ack_token.push('0');
        let extend = vec![token(&old[0]), token(&foreign[0]), made_up];
        assert!(world.poll_with(Poll { extend, ..world.polling(&listener) }).await.extended.is_empty());
        world.ack(&listener, vec![ack(&new[0])]).await;
        let acked = Poll { extend: vec![token(&new[0])], ..world.polling(&listener) };
        assert!(world.poll_with(acked).await.extended.is_empty());
    }

    async fn after_a_cut_what_is_not_held_comes_again_and_costs_nothing(world: World) {
        let listener = world.open().await;
        for n in 0..3 {
            world.ingest(&n.to_string()).await;
        }
        let held = world.poll_with(Poll { limit: 1, ..world.polling(&listener) }).await.claimed.deliveries;
        let lost = world.poll_with(Poll { limit: 2, ..world.polling(&listener) }).await.claimed.deliveries;
        let holding = Some(vec![token(&held[0])]);
        let polled = world.poll_with(Poll { holding, ..world.polling(&listener) }).await;
        let again = &polled.claimed.deliveries;
        assert_eq!(bodies(again), ["1", "2"]);
        assert!(again.iter().all(|d| d.attempt == 1), "a hand-out that never arrived doesn't count");
        assert!(again.iter().zip(&lost).all(|(new, old)| new.ack_token != old.ack_token));
        assert_eq!(world.ack(&listener, vec![ack(&held[0])]).await.acknowledged, 1, "what was held stays leased");
    }

    async fn holding_nothing_a_hundred_times_never_exhausts(world: World) {
        let listener = world.open().await;
        world.ingest("x").await;
        for _ in 0..100 {
            let poll = Poll { holding: Some(Vec::new()), ..world.polling(&listener) };
            assert_eq!(world.poll_with(poll).await.claimed.deliveries[0].attempt, 1);
        }
    }

    async fn holding_ends_only_this_listeners_leases(world: World) {
        let (listener, other) = (world.open().await, world.open().await);
        world.ingest("x").await;
        let theirs = world.claim(&other).await;
        world.claim(&listener).await;
        world.poll_with(Poll { holding: Some(Vec::new()), ..world.polling(&listener) }).await;
        assert!(world.claim(&other).await.is_empty());
        assert_eq!(world.ack(&other, vec![ack(&theirs[0])]).await.acknowledged, 1);
    }
}
