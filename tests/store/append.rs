//! Appending: numbers without gaps, one event per provider id, redeliveries as occurrences.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use pullhook::store::events::{self, Dedupe, NewEvent};
use pullhook::store::{Durability, StoreError, event_list};

use crate::harness::{DAY, MINUTE, World};
use crate::on_both_engines;

/// An event that its provider calls `id`.
fn named(world: &World, id: &str, body: &str) -> NewEvent {
    NewEvent { provider_event_id: Some(id.to_owned()), ..world.event(body) }
}

/// Appends all of them at once; each one's answer.
async fn at_once(world: &World, news: Vec<NewEvent>) -> Vec<events::Appended> {
    let tasks: Vec<_> = news
        .into_iter()
        .map(|new| {
            let store = world.store.clone();
            tokio::spawn(async move {
                store.write(Durability::Promised, move |tx| events::append(tx, &new)).await.unwrap()
            })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    answers
}

on_both_engines! {
    async fn each_stream_counts_from_one(world: World) {
        for (source, body) in [("a", "1"), ("b", "2"), ("a", "3"), ("", "4"), ("a", "5")] {
            world.append(NewEvent { source: source.to_owned(), ..world.event(body) }).await;
        }
        let other = world.environment("other").await;
        world.append(NewEvent { environment_id: other, source: "a".to_owned(), ..world.event("6") }).await;
        let sequences = world.numbers("SELECT sequence FROM events ORDER BY position").await;
        assert_eq!(sequences, [[1], [1], [2], [1], [3], [1]]);
        assert_eq!(world.numbers("SELECT head, dispatched FROM streams ORDER BY id").await,
            [[3, 0], [1, 0], [1, 0], [1, 0]]);
    }

    async fn two_hundred_writers_at_once_lose_nothing_and_leave_no_gap(world: World) {
        let news = (0..200).map(|n| world.event(&n.to_string())).collect();
        let answers = at_once(world, news).await;
        assert!(answers.iter().all(|answer| !answer.duplicate));
        let ids: BTreeSet<_> = answers.iter().map(|answer| answer.event_id.clone()).collect();
        assert_eq!(ids.len(), 200);
        let by_position = world.numbers("SELECT sequence FROM events ORDER BY position").await;
        let expected: Vec<_> = (1..=200).map(|n| vec![n]).collect();
        assert_eq!(by_position, expected, "the order of events and that of their stream are one");
        assert_eq!(world.numbers("SELECT sequence FROM arrivals ORDER BY sequence").await, expected);
        let bodies: BTreeSet<String> = world.read(|tx| {
            let rows = tx.query("SELECT body FROM event_contents", &[])?;
            rows.into_iter().map(|mut row| Ok(String::from_utf8(row.take(0)?).unwrap())).collect()
        }).await;
        assert_eq!(bodies, (0..200).map(|n| n.to_string()).collect());
    }

    async fn first_events_of_a_stream_at_once_make_one_stream(world: World) {
        let news = (0..20).map(|n| NewEvent { source: format!("s{}", n % 4), ..world.event("x") }).collect();
        at_once(world, news).await;
        assert_eq!(world.numbers("SELECT head FROM streams").await, [[5], [5], [5], [5]]);
    }

    async fn a_hundred_copies_at_once_are_one_event(world: World) {
        let news = (0..100).map(|_| named(world, "evt-1", "same")).collect();
        let answers = at_once(world, news).await;
        assert_eq!(answers.iter().filter(|answer| !answer.duplicate).count(), 1);
        assert!(answers.iter().all(|answer| answer.event_id == answers[0].event_id));
        assert_eq!(world.numbers("SELECT occurrences, conflicting FROM events").await, [[100, 0]]);
        let occurrences = world.numbers("SELECT occurrence FROM arrivals ORDER BY sequence").await;
        assert_eq!(occurrences, (1..=100).map(|n| vec![n]).collect::<Vec<_>>());
    }

    async fn the_same_id_with_other_bytes_is_a_new_event_and_flagged(world: World) {
        let first = world.append(named(world, "evt-1", "one")).await;
        let other = world.append(named(world, "evt-1", "two")).await;
        assert!(!other.duplicate && other.event_id != first.event_id);
        assert_eq!(world.numbers("SELECT conflicting FROM events ORDER BY position").await, [[0], [1]]);
        let again = world.append(named(world, "evt-1", "two")).await;
        assert!(again.duplicate && again.event_id == other.event_id, "a repeat is of the one with its bytes");
        let first_again = world.append(named(world, "evt-1", "one")).await;
        assert!(first_again.duplicate && first_again.event_id == first.event_id);
    }

    async fn an_id_is_one_sources_own(world: World) {
        world.append(named(world, "evt-1", "x")).await;
        let elsewhere = NewEvent { source: "other".to_owned(), ..named(world, "evt-1", "x") };
        assert!(!world.append(elsewhere).await.duplicate);
        let environment = world.environment("other").await;
        let elsewhere = NewEvent { environment_id: environment, ..named(world, "evt-1", "x") };
        assert!(!world.append(elsewhere).await.duplicate);
        assert!(!world.append(world.event("x")).await.duplicate, "no id, no dedupe: bodies are not compared");
        assert!(!world.append(world.event("x")).await.duplicate);
    }

    async fn an_id_is_forgotten_after_the_window(world: World) {
        let first = world.append(named(world, "evt-1", "x")).await;
        world.advance(DAY * 7);
        assert!(world.append(named(world, "evt-1", "x")).await.duplicate, "the window's edge belongs to it");
        world.advance(Duration::from_millis(1));
        let late = world.append(named(world, "evt-1", "x")).await;
        assert!(!late.duplicate && late.event_id != first.event_id);
        assert_eq!(world.numbers("SELECT conflicting FROM events ORDER BY position").await, [[0], [0]]);
        let repeat = world.append(named(world, "evt-1", "x")).await;
        assert_eq!(repeat.event_id, late.event_id);
    }

    async fn a_dropped_repeat_is_counted_and_not_handed_on(world: World) {
        let listener = world.open().await;
        let drop = |body: &str| NewEvent {
            dedupe: Dedupe { drop: true, since: world.now() - MINUTE },
            ..named(world, "evt-1", body)
        };
        let first = world.append(drop("x")).await;
        let second = world.append(drop("x")).await;
        assert!(second.duplicate && second.event_id == first.event_id);
        world.dispatch().await;
        assert_eq!(world.claim(&listener).await.len(), 1);
        assert_eq!(world.numbers("SELECT head, dispatched FROM streams").await, [[1, 1]]);
        let (env, id) = (world.env.clone(), first.event_id.clone());
        let shown = world.read(move |tx| event_list::by_id(tx, &env, &id)).await.unwrap();
        assert_eq!(shown.occurrences, 2);
    }

    async fn bytes_come_back_as_they_came(world: World) {
        let every_byte: Vec<u8> = (0..=255).cycle().take(70_000).collect();
        for body in [Vec::new(), every_byte] {
            let new = NewEvent {
                body: Bytes::from(body.clone()),
                path: "/x//y%2Fz".to_owned(),
                query: "a=1&a=%20".to_owned(),
                headers: r#"[["X-A","1"],["x-a","2"]]"#.to_owned(),
                method: "PUT".to_owned(),
                ..world.event("")
            };
            let env = world.env.clone();
            let id = world.append(new.clone()).await.event_id;
            let (listed, content) = world.read(move |tx| {
                let listed = event_list::by_id(tx, &env, &id)?.unwrap();
                let content = event_list::content(tx, listed.position)?.unwrap();
                Ok((listed, content))
            }).await;
            assert_eq!(content.body, body);
            assert_eq!(listed.size_bytes, body.len() as u64);
            assert_eq!((content.method, content.path, content.query, content.headers),
                (new.method, new.path, new.query, new.headers));
        }
    }

    async fn an_event_of_no_environment_is_refused_and_nothing_stays(world: World) {
        let new = NewEvent { environment_id: "env_nowhere".to_owned(), ..world.event("x") };
        let outcome = world.store.write(Durability::Promised, move |tx| events::append(tx, &new)).await;
        assert!(matches!(outcome, Err(StoreError::Unavailable(_))), "{outcome:?}");
        assert_eq!(world.number("SELECT COUNT(*) FROM streams").await, 0);
        world.ingest("next").await;
    }
}
