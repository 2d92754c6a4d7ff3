//! Opening: what is dispatched before is backlog, what comes after is live; nothing is lost or doubled between.

use std::time::Duration;

use pullhook::store::events::{self, NewEvent};
use pullhook::store::listeners::{self, Listener, Open, Opened, Since};
use pullhook::store::{Durability, dispatch};

use crate::harness::{DAY, LIFE, World, bodies, dispatch_all};
use crate::on_both_engines;

fn since(world: &World, since: Since) -> Open {
    Open { since: Some(since), ..world.opening() }
}

on_both_engines! {
    async fn without_since_only_what_comes_after(world: World) {
        world.ingest("before").await;
        world.append(world.event("arrived, not dispatched")).await;
        let listener = world.open().await;
        world.ingest("after").await;
        assert_eq!(bodies(&world.claim(&listener).await), ["arrived, not dispatched", "after"]);
    }

    async fn from_the_beginning_everything_once_in_order(world: World) {
        for source in ["b", "a", "b"] {
            world.append(NewEvent { source: source.to_owned(), ..world.event(source) }).await;
        }
        world.dispatch().await;
        world.append(world.event("live")).await;
        let (listener, backlog) = world.open_with(since(world, Since::Beginning)).await;
        assert_eq!(backlog, 3);
        world.check().await;
        world.dispatch().await;
        assert_eq!(bodies(&world.claim(&listener).await), ["b", "a", "b", "live"]);
    }

    async fn from_a_time_inclusive(world: World) {
        world.ingest("early").await;
        world.advance(Duration::from_millis(5));
        let at = world.now();
        world.ingest("at").await;
        world.advance(Duration::from_millis(5));
        world.ingest("late").await;
        let (listener, backlog) = world.open_with(since(world, Since::Time(at))).await;
        assert_eq!((backlog, bodies(&world.claim(&listener).await)), (2, vec!["at".to_owned(), "late".to_owned()]));
    }

    async fn from_an_event_exclusive(world: World) {
        world.ingest("first").await;
        let marker = world.ingest("marker").await;
        world.ingest("after").await;
        let (listener, _) = world.open_with(since(world, Since::Event(marker.clone()))).await;
        assert_eq!(bodies(&world.claim(&listener).await), ["after"]);
        let unknown = world.try_open(since(world, Since::Event("evt_unknown".to_owned()))).await;
        assert_eq!(unknown, Opened::NoSuchEvent);
        let mut foreign = since(world, Since::Event(marker));
        foreign.listener.environment_id = world.environment("other").await;
        assert_eq!(world.try_open(foreign).await, Opened::NoSuchEvent);
        assert_eq!(world.number("SELECT COUNT(*) FROM listeners").await, 1);
    }

    async fn the_backlog_is_of_the_listeners_sources_and_types(world: World) {
        for (source, kind) in [("a", "x.one"), ("b", "x.two"), ("a", "y")] {
            let new = NewEvent { source: source.to_owned(), kind: kind.to_owned(), ..world.event(kind) };
            world.append(new).await;
        }
        world.dispatch().await;
        let mut open = since(world, Since::Beginning);
        open.listener = Listener { sources: vec!["a".into()], event_types: vec!["x.*".into()], ..open.listener };
        open.max_backlog = 1;
        let (listener, backlog) = world.open_with(open).await;
        assert_eq!((backlog, bodies(&world.claim(&listener).await)), (1, vec!["x.one".to_owned()]));
    }

    async fn a_backlog_too_large_changes_nothing(world: World) {
        for n in 0..4 {
            world.ingest(&n.to_string()).await;
        }
        let old = world.open().await;
        world.ingest("4").await;
        let open = Open { max_backlog: 4, continues: Some(old.clone()), ..since(world, Since::Beginning) };
        assert_eq!(world.try_open(open).await, Opened::BacklogTooLarge { count: 5 });
        assert_eq!(world.number("SELECT COUNT(*) FROM listeners").await, 1);
        assert_eq!(bodies(&world.claim(&old).await), ["4"], "the old one is open and keeps what it has");
        let open = Open { max_backlog: 5, ..since(world, Since::Beginning) };
        assert_eq!(world.open_with(open).await.1, 5);
    }

    async fn a_redelivered_event_is_one_of_the_backlog(world: World) {
        let new = |world: &World| NewEvent { provider_event_id: Some("evt-1".to_owned()), ..world.event("x") };
        world.append(new(world)).await;
        world.append(new(world)).await;
        world.dispatch().await;
        let (listener, backlog) = world.open_with(since(world, Since::Beginning)).await;
        assert_eq!((backlog, world.claim(&listener).await.len()), (1, 1));
    }

    async fn at_most_five_are_open(world: World) {
        let mut first = world.opening();
        first.listener.expires_at = world.now() + LIFE / 2;
        let frees_up = first.listener.expires_at;
        let (first, _) = world.open_with(first).await;
        for _ in 0..4 {
            world.open().await;
        }
        assert_eq!(world.try_open(world.opening()).await, Opened::TooMany { frees_up });
        let other = world.environment("other").await;
        let mut elsewhere = world.opening();
        elsewhere.listener.environment_id = other;
        world.open_with(elsewhere).await;
        let replacing = Open { continues: Some(first), ..world.opening() };
        world.open_with(replacing).await;
        world.advance(LIFE);
        world.open().await;
    }

    async fn an_opening_says_who_else_is_there_and_what_came_last(world: World) {
        let Opened::Open { others, latest, .. } = world.try_open(world.opening()).await else { panic!() };
        assert_eq!((others, latest), (0, None));
        let event = world.ingest("x").await;
        let Opened::Open { others, latest, .. } = world.try_open(world.opening()).await else { panic!() };
        assert_eq!((others, latest), (1, Some(event)));
    }

    async fn opening_while_events_arrive_loses_and_doubles_nothing(world: World) {
        const EVENTS: i64 = 120;
        let arriving = {
            let (store, ids, now) = (world.store.clone(), world.ids.clone(), world.now());
            let news: Vec<_> = (0..EVENTS).map(|n| world.event(&n.to_string())).collect();
            tokio::spawn(async move {
                for new in news {
                    store.write(Durability::Promised, move |tx| events::append(tx, &new)).await.unwrap();
                    dispatch_all(&store, &ids, now).await;
                }
            })
        };
        let mut opened = Vec::new();
        for _ in 0..8 {
            let open = Open { limit: 100, ..since(world, Since::Beginning) };
            opened.push(world.open_with(open).await.0);
            tokio::task::yield_now().await;
        }
        arriving.await.unwrap();
        let per_listener = world.numbers(
            "SELECT COUNT(*), COUNT(DISTINCT event) FROM listener_deliveries GROUP BY listener_id").await;
        assert_eq!(per_listener, vec![vec![EVENTS, EVENTS]; opened.len()]);
        for listener in opened {
            let mut poll = world.polling(&listener);
            poll.limit = 200;
            let sequences: Vec<_> = world.poll_with(poll).await.claimed.deliveries.iter().map(|d| d.sequence).collect();
            assert!(sequences.is_sorted(), "backlog before live: {sequences:?}");
        }
    }

    async fn a_listener_is_found_listed_touched_and_closed(world: World) {
        let mut open = world.opening();
        open.listener.description = Some("mine".to_owned());
        open.listener.event_types = vec!["a".to_owned(), "b.*".to_owned()];
        let wanted = open.listener.clone();
        let (id, _) = world.open_with(open).await;
        world.advance(Duration::from_secs(1));
        let second = world.open().await;
        let (env, now, find) = (world.env.clone(), world.now(), id.clone());
        let (found, foreign, open) = world.read(move |tx| Ok((
            listeners::find(tx, &env, &find)?,
            listeners::find(tx, "env_other", &find)?,
            listeners::list_open(tx, &env, now)?,
        ))).await;
        assert_eq!((found, foreign), (Some(wanted), None));
        assert_eq!(open.iter().map(|l| l.id.clone()).collect::<Vec<_>>(), [id.clone(), second]);
        assert!(world.close(&id).await);
        assert!(!world.close(&id).await, "closed once");
        assert!(world.try_poll(world.polling(&id)).await.is_none());
        let (env, now) = (world.env.clone(), world.now());
        assert_eq!(world.read(move |tx| listeners::list_open(tx, &env, now)).await.len(), 1);
    }

    async fn a_stream_that_is_behind_is_seen_and_an_unknown_one_is_nothing(world: World) {
        assert!(world.read(|tx| dispatch::behind(tx, 10)).await.is_empty());
        let (ids, now) = (world.ids.clone(), world.now());
        assert_eq!(world.write(move |tx| dispatch::advance(tx, 12345, 10, now, &ids)).await, 0);
        world.append(world.event("x")).await;
        world.advance(DAY);
        assert_eq!(world.read(|tx| dispatch::behind(tx, 10)).await.len(), 1);
    }
}
