//! Listing events: order, filters, pages.

use bytes::Bytes;
use pullhook::store::event_list::{self, Search};
use pullhook::store::events::{NewEvent, Status};

use crate::harness::{MINUTE, World, ack};
use crate::on_both_engines;

fn search(world: &World) -> Search {
    Search { environment_id: world.env.clone(), limit: 100, ascending: true, ..Search::default() }
}

/// The bodies of a page, and whether there is more.
async fn page(world: &World, search: Search) -> (Vec<String>, bool) {
    world
        .read(move |tx| {
            let (listed, more) = event_list::page(tx, &search)?;
            let mut bodies = Vec::new();
            for event in listed {
                let content = event_list::content(tx, event.position)?.unwrap();
                bodies.push(String::from_utf8_lossy(&content.body).into_owned());
            }
            Ok((bodies, more))
        })
        .await
}

async fn fill(world: &World, count: usize) {
    for n in 0..count {
        let kind = if n % 3 == 0 { "order.paid" } else { "push" };
        let source = if n % 2 == 0 { "even" } else { "odd" };
        let new =
            NewEvent { kind: kind.to_owned(), source: source.to_owned(), ..world.event(&n.to_string()) };
        world.append(new).await;
        world.advance(MINUTE);
    }
}

on_both_engines! {
    async fn newest_first_or_oldest_first_page_by_page(world: World) {
        fill(world, 5).await;
        let newest = Search { limit: 2, ascending: false, ..search(world) };
        assert_eq!(page(world, newest).await, (vec!["4".into(), "3".into()], true));
        let oldest = Search { limit: 5, ..search(world) };
        assert!(!page(world, oldest).await.1, "exactly as many as there are is not more");
        let next = Search { limit: 2, after: Some(2), ..search(world) };
        assert_eq!(page(world, next).await, (vec!["2".into(), "3".into()], true));
        let back = Search { limit: 2, ascending: false, after: Some(2), ..search(world) };
        assert_eq!(page(world, back).await, (vec!["0".into()], false));
        let elsewhere = Search { environment_id: "env_other".to_owned(), ..search(world) };
        assert_eq!(page(world, elsewhere).await, (vec![], false));
    }

    async fn filters_narrow_together(world: World) {
        fill(world, 8).await;
        let at = |minutes: u32| Some(pullhook::clock::Timestamp::from_millis(crate::harness::T0_MS) + MINUTE * minutes);
        let of_source = Search { source: Some("odd".to_owned()), ..search(world) };
        assert_eq!(page(world, of_source.clone()).await.0, ["1", "3", "5", "7"]);
        let of_type = Search { kind: Some("order.*".to_owned()), ..of_source.clone() };
        assert_eq!(page(world, of_type).await.0, ["3"]);
        let exactly = Search { kind: Some("push".to_owned()), ..of_source.clone() };
        assert_eq!(page(world, exactly).await.0, ["1", "5", "7"]);
        let in_time = Search { from: at(1), to: at(5), ..of_source };
        assert_eq!(page(world, in_time).await.0, ["1", "3"], "from is inclusive, to is not");
    }

    async fn by_status(world: World) {
        let listener = world.open().await;
        for body in ["a", "b"] {
            world.ingest(body).await;
        }
        let handed = world.claim(&listener).await;
        world.ack(&listener, vec![ack(&handed[1])]).await;
        world.append(world.event("c")).await;
        for (status, body) in [(Status::Pending, "a"), (Status::Delivered, "b"), (Status::None, "c")] {
            assert_eq!(page(world, Search { status: Some(status), ..search(world) }).await.0, [body]);
        }
        assert!(page(world, Search { status: Some(Status::Failed), ..search(world) }).await.0.is_empty());
    }

    async fn text_is_looked_for_in_the_bytes(world: World) {
        for body in [&b"{\"id\":\"in_1\"}"[..], b"\xff\x00in_1\xfe", b"other", b"IN_1", b""] {
            world.append(NewEvent { body: Bytes::copy_from_slice(body), ..world.event("") }).await;
        }
        let found = Search { text: Some("in_1".to_owned()), ..search(world) };
        assert_eq!(page(world, found).await.0.len(), 2);
        let everything = Search { text: Some(String::new()), ..search(world) };
        assert_eq!(page(world, everything).await.0.len(), 5);
        let quoted = Search { text: Some("%".to_owned()), ..search(world) };
        assert!(page(world, quoted).await.0.is_empty(), "no wildcards");
    }

    async fn a_rare_type_is_found_beyond_many_others(world: World) {
        let news: Vec<_> = (0..1203).map(|n| {
            let kind = if n % 400 == 2 { "rare.one" } else { "push" };
            NewEvent { kind: kind.to_owned(), ..world.event(&n.to_string()) }
        }).collect();
        world.write(move |tx| news.iter().try_for_each(|new| pullhook::store::events::append(tx, new).map(drop))).await;
        let rare = Search { kind: Some("rare.*".to_owned()), limit: 3, ..search(world) };
        assert_eq!(page(world, rare.clone()).await, (vec!["2".into(), "402".into(), "802".into()], true));
        let last = Search { limit: 4, ascending: false, ..rare };
        assert_eq!(page(world, last).await, (vec!["1202".into(), "802".into(), "402".into(), "2".into()], false));
    }

    async fn an_event_is_found_by_id_in_its_environment(world: World) {
        let id = world.ingest("x").await;
        let env = world.env.clone();
        let (found, foreign, latest) = world.read(move |tx| Ok((
            event_list::by_id(tx, &env, &id)?.is_some(),
            event_list::by_id(tx, "env_other", &id)?.is_some(),
            event_list::latest_id(tx, &env)? == Some(id.clone()),
        ))).await;
        assert_eq!((found, foreign, latest), (true, false, true));
        assert!(world.read(|tx| event_list::content(tx, 99)).await.is_none());
    }
}
