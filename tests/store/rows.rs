//! Environments, keys, sources and idempotency keys.

use std::time::Duration;

use pullhook::clock::Timestamp;
use pullhook::id::Kind;
use pullhook::store::environments::{self, Environment};
use pullhook::store::events::NewEvent;
use pullhook::store::idempotency::{self, Seen};
use pullhook::store::keys::{self, Key};
use pullhook::store::logs::{self, Audit};
use pullhook::store::sources::{self, Source};

use crate::harness::{DAY, MINUTE, World};
use crate::on_both_engines;

fn key(world: &World, hash: &[u8]) -> Key {
    Key {
        id: world.ids.make(Kind::Key),
        environment_id: world.env.clone(),
        name: "laptop".to_owned(),
        start: "ph_abc".to_owned(),
        hash: hash.to_owned(),
        access: "restricted".to_owned(),
        permissions: "webhook:read webhook:update".to_owned(),
        created_at: world.now(),
        last_used_at: None,
        revoked_at: None,
    }
}

fn source(world: &World, environment: &str, name: &str) -> Source {
    Source {
        id: world.ids.make(Kind::Source),
        environment_id: environment.to_owned(),
        name: name.to_owned(),
        slug: String::new(),
        scheme: "github".to_owned(),
        sealed_secrets: "v2:a\nv2:b".to_owned(),
        secret_count: 2,
        dedupe: "mark".to_owned(),
        dedupe_window_s: 604_800,
        max_body_bytes: 25 << 20,
        public_url: None,
        enabled: true,
        managed: false,
        created_at: world.now(),
        updated_at: world.now(),
    }
}

async fn add(world: &World, source: Source) -> Option<Source> {
    world.write(move |tx| sources::insert(tx, &source, "x7k2")).await
}

async fn take(world: &World, key: &'static str, hash: &'static [u8]) -> Seen {
    let (env, now) = (world.env.clone(), world.now());
    world.write(move |tx| idempotency::take(tx, &env, key, hash, now, now - DAY, now - MINUTE)).await
}

on_both_engines! {
    async fn environments_have_slugs_and_projects_of_their_own(world: World) {
        let new = Environment {
            id: "env_1".to_owned(), name: "Mine".to_owned(), slug: "mine".to_owned(), mode: "live".to_owned(),
            project: Some("/home/me/shop".to_owned()), created_at: world.now(),
        };
        let same_slug = Environment { id: "env_2".to_owned(), project: None, ..new.clone() };
        let same_project = Environment { id: "env_3".to_owned(), slug: "other".to_owned(), ..new.clone() };
        let second = Environment { id: "env_4".to_owned(), slug: "fourth".to_owned(), project: None, ..new.clone() };
        let wanted = new.clone();
        let inserted = world.write(move |tx| {
            [&new, &same_slug, &same_project, &second].iter().map(|e| environments::insert(tx, e)).collect::<Result<Vec<_>, _>>()
        }).await;
        assert_eq!(inserted, [true, false, false, true]);
        let found = world.read(|tx| Ok([
            environments::by_id(tx, "env_1")?,
            environments::by_slug(tx, "mine")?,
            environments::by_project(tx, "/home/me/shop")?,
        ])).await;
        assert_eq!(found, [Some(wanted.clone()), Some(wanted.clone()), Some(wanted)]);
        let missing = world.read(|tx| Ok([
            environments::by_id(tx, "env_9")?,
            environments::by_slug(tx, "other")?,
            environments::by_project(tx, "/")?,
        ])).await;
        assert_eq!(missing, [None, None, None]);
        let slugs: Vec<_> = world.read(environments::list).await.into_iter().map(|e| e.slug).collect();
        assert_eq!(slugs.len(), 3);
    }

    async fn environments_where_somebody_listens(world: World) {
        world.environment("silent").await;
        let now = world.now();
        assert!(world.read(move |tx| environments::with_open_listeners(tx, now)).await.is_empty());
        let listener = world.open().await;
        world.open().await;
        let open = world.read(move |tx| environments::with_open_listeners(tx, now)).await;
        assert_eq!(open.into_iter().map(|e| e.id).collect::<Vec<_>>(), [world.env.as_str()]);
        world.close(&listener).await;
        world.advance(DAY);
        let now = world.now();
        assert!(world.read(move |tx| environments::with_open_listeners(tx, now)).await.is_empty());
    }

    async fn a_deleted_environment_takes_everything_along(world: World) {
        let kept = world.environment("kept").await;
        world.append(NewEvent { environment_id: kept, ..world.event("kept") }).await;
        let listener = world.open().await;
        world.ingest("x").await;
        let handed = world.claim(&listener).await;
        world.ack(&listener, vec![crate::harness::ack(&handed[0])]).await;
        let (new_key, new_source) = (key(world, b"hash"), source(world, &world.env, "gh"));
        world.write(move |tx| keys::insert(tx, &new_key)).await;
        add(world, new_source).await;
        assert_eq!(take(world, "k", b"h").await, Seen::New);
        world.execute("DELETE FROM environments WHERE slug = 'shop'").await;
        let left = world.numbers("SELECT (SELECT COUNT(*) FROM api_keys) + (SELECT COUNT(*) FROM sources)
            + (SELECT COUNT(*) FROM listeners) + (SELECT COUNT(*) FROM listener_deliveries) + (SELECT COUNT(*) FROM logs)
            + (SELECT COUNT(*) FROM idempotency_keys), (SELECT COUNT(*) FROM events), (SELECT COUNT(*) FROM streams),
            (SELECT COUNT(*) FROM event_contents), (SELECT COUNT(*) FROM arrivals)").await;
        assert_eq!(left, [[0, 1, 1, 1, 1]]);
    }

    async fn a_key_is_found_by_its_hash_until_it_is_revoked(world: World) {
        let (new, other) = (key(world, b"one"), key(world, b"two"));
        let (id, wanted) = (new.id.clone(), new.clone());
        world.write(move |tx| keys::insert(tx, &new)).await;
        world.write(move |tx| keys::insert(tx, &other)).await;
        assert_eq!(world.read(|tx| keys::by_hash(tx, b"one")).await, Some(wanted));
        assert_eq!(world.read(|tx| keys::by_hash(tx, b"three")).await, None);
        world.advance(MINUTE);
        let (touched, now) = (id.clone(), world.now());
        world.write(move |tx| keys::touch(tx, &touched, now)).await;
        let used = world.read(|tx| keys::by_hash(tx, b"one")).await.unwrap().last_used_at;
        assert_eq!(used, Some(now));
        let id_of = id.clone();
        let revoke = move |tx: &mut dyn pullhook::store::tx::Tx| keys::revoke(tx, &id, now);
        let valid = id_of.clone();
        assert!(world.read(move |tx| keys::is_valid(tx, &valid)).await);
        assert!(world.write(revoke.clone()).await);
        assert!(!world.write(revoke).await, "revoked once");
        assert_eq!(world.read(|tx| keys::by_hash(tx, b"one")).await, None);
        assert!(!world.read(move |tx| keys::is_valid(tx, &id_of)).await);
        let env = world.env.clone();
        let listed = world.read(move |tx| Ok((
            keys::list(tx, None)?.len(), keys::list(tx, Some(&env))?.len(), keys::list(tx, Some("env_other"))?.len(),
        ))).await;
        assert_eq!(listed, (2, 2, 0));
    }

    async fn a_hash_is_taken_once(world: World) {
        let (one, two) = (key(world, b"same"), key(world, b"same"));
        world.write(move |tx| keys::insert(tx, &one)).await;
        let outcome = world.store.write(pullhook::store::Durability::Promised, move |tx| keys::insert(tx, &two)).await;
        assert!(outcome.is_err());
        let env = world.env.clone();
        assert_eq!(world.read(move |tx| keys::list(tx, Some(&env))).await.len(), 1);
    }

    async fn the_first_taker_of_a_slug_has_the_bare_name(world: World) {
        let other = world.environment("other").await;
        let first = add(world, source(world, &world.env, "github")).await.unwrap();
        assert_eq!(first.slug, "github");
        assert_eq!(add(world, source(world, &world.env, "github")).await, None, "a name is unique in its environment");
        let second = add(world, source(world, &other, "github")).await.unwrap();
        assert_eq!(second.slug, "github-x7k2");
        let found = world.read(|tx| Ok((sources::by_slug(tx, "github")?, sources::by_slug(tx, "github-x7k2")?, sources::by_slug(tx, "x")?))).await;
        assert_eq!(found, (Some(first), Some(second), None));
    }

    async fn a_source_is_found_by_name_or_id_in_its_environment(world: World) {
        let added = add(world, source(world, &world.env, "gh")).await.unwrap();
        let (env, id) = (world.env.clone(), added.id.clone());
        let found = world.read(move |tx| Ok((
            sources::find(tx, &env, "gh")?,
            sources::find(tx, &env, &id)?,
            sources::by_name(tx, &env, "gh")?,
            sources::find(tx, "env_other", &id)?,
        ))).await;
        assert_eq!(found, (Some(added.clone()), Some(added.clone()), Some(added), None));
    }

    async fn a_source_is_changed_and_removed_its_events_stay(world: World) {
        let old = add(world, source(world, &world.env, "raw")).await.unwrap();
        let mut added = old.clone();
        world.ingest("x").await;
        world.advance(Duration::from_secs(1));
        added.enabled = false;
        added.public_url = Some("https://hooks.example.com/raw".to_owned());
        added.dedupe = "drop".to_owned();
        added.updated_at = world.now();
        let (seen, changed) = (old.clone(), added.clone());
        assert!(world.write(move |tx| sources::update(tx, &seen, &changed)).await);
        let changed = Source { dedupe: "mark".to_owned(), ..added.clone() };
        assert!(!world.write(move |tx| sources::update(tx, &old, &changed)).await, "somebody else changed it since");
        assert_eq!(world.read(|tx| sources::by_slug(tx, "raw")).await, Some(added.clone()));
        let id = added.id.clone();
        let delete = move |tx: &mut dyn pullhook::store::tx::Tx| sources::delete(tx, &id);
        assert!(world.write(delete.clone()).await);
        assert!(!world.write(delete).await);
        assert!(!world.write(move |tx| sources::update(tx, &added, &added)).await);
        assert_eq!(world.number("SELECT COUNT(*) FROM events").await, 1);
        assert_eq!(add(world, source(world, &world.env, "raw")).await.unwrap().slug, "raw");
    }

    async fn sources_are_listed_by_name_page_by_page(world: World) {
        for name in ["b", "d", "a", "c"] {
            add(world, source(world, &world.env, name)).await.unwrap();
        }
        let other = world.environment("other").await;
        add(world, source(world, &other, "z")).await;
        let env = world.env.clone();
        let (first, rest, all) = world.read(move |tx| {
            let names = |list: Vec<Source>| list.into_iter().map(|s| s.name).collect::<Vec<_>>();
            Ok((names(sources::list(tx, &env, None, 2)?), names(sources::list(tx, &env, Some("b"), 50)?), sources::all(tx)?.len()))
        }).await;
        assert_eq!((first, rest, all), (vec!["a".into(), "b".into()], vec!["c".into(), "d".into()], 5));
    }

    async fn an_idempotency_key_has_one_answer(world: World) {
        assert_eq!(take(world, "k", b"one").await, Seen::New);
        assert_eq!(take(world, "k", b"one").await, Seen::Running);
        assert_eq!(take(world, "k", b"two").await, Seen::OtherBody);
        let env = world.env.clone();
        world.write(move |tx| idempotency::answer(tx, &env, "k", "{\"status\":202}")).await;
        assert_eq!(take(world, "k", b"one").await, Seen::Answered("{\"status\":202}".to_owned()));
        assert_eq!(take(world, "k", b"two").await, Seen::OtherBody);
        let env = world.env.clone();
        world.write(move |tx| idempotency::release(tx, &env, "k")).await;
        assert_eq!(take(world, "k", b"one").await, Seen::Answered("{\"status\":202}".to_owned()), "an answer stays");
        world.advance(DAY + Duration::from_millis(1));
        assert_eq!(take(world, "k", b"two").await, Seen::New, "after a day it is forgotten");
    }

    async fn an_idempotency_key_is_let_go_when_its_request_failed_or_died(world: World) {
        assert_eq!(take(world, "k", b"one").await, Seen::New);
        let env = world.env.clone();
        world.write(move |tx| idempotency::release(tx, &env, "k")).await;
        assert_eq!(take(world, "k", b"two").await, Seen::New);
        world.advance(MINUTE);
        assert_eq!(take(world, "k", b"two").await, Seen::Running);
        world.advance(Duration::from_millis(1));
        assert_eq!(take(world, "k", b"one").await, Seen::New, "whoever took it never answered");
    }

    async fn one_of_many_takers_of_a_key_wins(world: World) {
        let all = futures_util::future::join_all((0..20).map(|_| take(world, "k", b"h"))).await;
        assert_eq!(all.iter().filter(|seen| **seen == Seen::New).count(), 1);
        assert_eq!(all.iter().filter(|seen| **seen == Seen::Running).count(), 19);
    }

    async fn audit_events_are_kept(world: World) {
        let (env, at, id) = (world.env.clone(), world.now(), world.ids.make(Kind::Audit));
        world.write(move |tx| {
            let event = Audit {
                id: id.clone(), environment_id: &env, occurred_at: at, kind: "webhook_listener.created",
                actor: "key_1", resource_id: "whlis_1",
            };
            logs::audit(tx, &event)
        }).await;
        let env = world.env.clone();
        let trail = world.read(move |tx| Ok((logs::trail(tx, &env)?, logs::trail(tx, "env_other")?))).await;
        assert_eq!(trail, (vec![("webhook_listener.created".to_owned(), "whlis_1".to_owned())], vec![]));
        let _: Timestamp = at;
    }
}
