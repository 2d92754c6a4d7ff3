//! The engines: commits that are shared, jobs that fail, connections that break.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use futures_util::FutureExt;
use pullhook::store::environments::{self, Environment};
use pullhook::store::tx::Tx;
use pullhook::store::{Durability, Store, StoreError};
use pullhook::wake::Wake;

use crate::harness::{Engine, TestStore, World};
use crate::on_both_engines;

/// Keeps every store thread busy until it is dropped, so that what is written meanwhile waits together.
struct Busy(Vec<mpsc::Sender<()>>);

impl Busy {
    async fn keep(store: &Store) -> Self {
        let threads = if store.engine() == "sqlite" { 1 } else { 3 };
        let mut senders = Vec::new();
        for _ in 0..threads {
            let (release, held) = mpsc::channel::<()>();
            let (started, running) = tokio::sync::oneshot::channel();
            let (held, started) = (Mutex::new(held), Mutex::new(Some(started)));
            let hold = move |_: &mut dyn Tx| {
                if let Some(started) = started.lock().unwrap().take() {
                    started.send(()).unwrap();
                }
                // Ends with an error once the sender is dropped.
                held.lock().unwrap().recv().unwrap_err();
                Ok(())
            };
            let store = store.clone();
            tokio::spawn(async move { store.write(Durability::Relaxed, hold).await.unwrap() });
            running.await.unwrap();
            senders.push(release);
        }
        Self(senders)
    }
}

fn environment(slug: &str) -> Environment {
    Environment {
        id: format!("env_{slug}"),
        name: slug.to_owned(),
        slug: slug.to_owned(),
        mode: "sandbox".to_owned(),
        project: None,
        created_at: pullhook::clock::Timestamp::from_millis(0),
    }
}

/// Jobs that wait together: number 7 fails after it wrote, the others write.
async fn neighbours(store: &Store, together: bool) -> (Vec<Result<bool, StoreError>>, usize) {
    let busy = Busy::keep(store).await;
    let runs = Arc::new(AtomicUsize::new(0));
    let mut waiting = Vec::new();
    for n in 0..20 {
        let (store, runs, new) = (store.clone(), Arc::clone(&runs), environment(&format!("e{n}")));
        let job = move |tx: &mut dyn Tx| {
            runs.fetch_add(1, Ordering::Relaxed);
            let inserted = environments::insert(tx, &new)?;
            if n == 7 { Err(StoreError::Corrupt("seven".into())) } else { Ok(inserted) }
        };
        waiting.push(tokio::spawn(async move {
            if together {
                store.write_together("key", Durability::Promised, job).await
            } else {
                store.write(Durability::Promised, job).await
            }
        }));
    }
    tokio::task::yield_now().await;
    drop(busy);
    let mut outcomes = Vec::new();
    for job in waiting {
        outcomes.push(job.await.unwrap());
    }
    (outcomes, runs.load(Ordering::Relaxed))
}

async fn one_fails(world: &World, together: bool) {
    let (outcomes, runs) = neighbours(&world.store, together).await;
    for (n, outcome) in outcomes.iter().enumerate() {
        match outcome {
            Err(StoreError::Corrupt(text)) => assert_eq!((n, text.as_str()), (7, "seven")),
            Ok(inserted) => assert!(inserted, "job {n} was run again as if for the first time"),
            Err(error) => panic!("job {n}: {error}"),
        }
    }
    assert!(outcomes[7].is_err());
    assert!(runs >= 20);
    let slugs: Vec<_> = world.read(environments::list).await.into_iter().map(|e| e.slug).collect();
    assert_eq!(slugs.len(), 20, "shop and nineteen: {slugs:?}");
    assert!(!slugs.contains(&"e7".to_owned()));
}

/// Something on every thread of the pools.
async fn use_all_threads(store: &Store) {
    let reads = (0..16).map(|_| store.read(environments::list));
    assert!(futures_util::future::join_all(reads).await.iter().all(Result::is_ok));
    drop(Busy::keep(store).await);
    // What shared SQLite's last commit is visible only once a later one has ended.
    store.write(Durability::Relaxed, |_| Ok(())).await.unwrap();
}

on_both_engines! {
    async fn a_job_that_fails_does_not_take_its_neighbours_along(world: World) {
        one_fails(world, false).await;
    }

    async fn a_job_that_fails_in_a_group_does_not_take_its_neighbours_along(world: World) {
        one_fails(world, true).await;
    }

    async fn a_group_shares_its_transaction(world: World) {
        let busy = Busy::keep(&world.store).await;
        let jobs: Vec<_> = (0..30).map(|n| {
            let (store, new) = (world.store.clone(), environment(&format!("e{n}")));
            // Where a job's transaction already holds another one's row, the two share it.
            let job = move |tx: &mut dyn Tx| {
                environments::insert(tx, &new)?;
                tx.execute("UPDATE environments SET project = COALESCE(project, '') || id WHERE slug = 'shop'", &[])
            };
            tokio::spawn(async move { store.write_together("key", Durability::Promised, job).await.unwrap() })
        }).collect();
        tokio::task::yield_now().await;
        drop(busy);
        for job in jobs {
            assert_eq!(job.await.unwrap(), 1);
        }
        assert_eq!(world.number("SELECT COUNT(*) FROM environments").await, 31);
    }

    async fn a_job_that_panics_fails_alone(world: World) {
        let panics: Result<(), _> = world.store.write(Durability::Relaxed, |tx| {
            environments::insert(tx, &environment("half"))?;
            panic!("a bug")
        }).await;
        assert!(matches!(panics, Err(StoreError::Corrupt(_))), "{panics:?}");
        let panics: Result<(), _> = world.store.read(|_| panic!("a bug")).await;
        assert!(matches!(panics, Err(StoreError::Corrupt(_))), "{panics:?}");
        use_all_threads(&world.store).await;
        assert!(world.write(|tx| environments::insert(tx, &environment("whole"))).await);
        assert_eq!(world.number("SELECT COUNT(*) FROM environments").await, 2);
    }

    async fn a_job_is_done_though_its_caller_hung_up(world: World) {
        let busy = Busy::keep(&world.store).await;
        let abandoned = world.store.write(Durability::Promised, |tx| environments::insert(tx, &environment("left")));
        assert!(abandoned.now_or_never().is_none());
        drop(busy);
        use_all_threads(&world.store).await;
        assert!(world.read(|tx| environments::by_slug(tx, "left")).await.is_some());
    }

    async fn a_read_changes_nothing(world: World) {
        let outcome = world.store.read(|tx| environments::insert(tx, &environment("sneaked"))).await;
        assert!(outcome.is_err(), "{outcome:?}");
        assert_eq!(world.number("SELECT COUNT(*) FROM environments").await, 1);
        use_all_threads(&world.store).await;
    }

    async fn what_was_written_is_read(world: World) {
        for n in 0..50 {
            let new = environment(&format!("e{n}"));
            let id = new.id.clone();
            world.write(move |tx| environments::insert(tx, &new)).await;
            assert!(world.read(move |tx| environments::by_id(tx, &id)).await.is_some());
        }
    }

    async fn a_failed_statement_leaves_no_transaction_open(world: World) {
        for _ in 0..3 {
            let outcome = world.store.write(Durability::Relaxed, |tx| {
                environments::insert(tx, &environment("gone"))?;
                tx.execute("INSERT INTO no_such_table VALUES (1)", &[])
            }).await;
            assert!(outcome.is_err());
        }
        assert_eq!(world.number("SELECT COUNT(*) FROM environments").await, 1);
        assert!(world.write(|tx| environments::insert(tx, &environment("next"))).await);
    }

    async fn the_last_clone_lets_go(world: World) {
        let store = world.another_store().await;
        let (clone, before) = (store.clone(), store.read(environments::list).await.unwrap().len());
        drop(store);
        assert_eq!(clone.read(environments::list).await.unwrap().len(), before);
        drop(clone);
        let again = world.another_store().await;
        assert_eq!(again.read(environments::list).await.unwrap().len(), before);
    }
}

#[tokio::test]
async fn connections_that_broke_are_made_anew_and_nobody_notices() {
    let Some(world) = World::new(Engine::Postgres).await else { return };
    let other = world.another_store().await;
    use_all_threads(&world.store).await;
    for round in 0..2 {
        let killed = other
            .write(Durability::Relaxed, |tx| {
                let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
                tx.query(sql, &[])
            })
            .await
            .unwrap();
        assert!(killed.len() > 6, "{}", killed.len());
        use_all_threads(&world.store).await;
        let new = environment(&format!("e{round}"));
        assert!(world.write(move |tx| environments::insert(tx, &new)).await);
    }
}

#[tokio::test]
async fn a_connection_that_breaks_while_a_job_runs_is_made_anew_for_it() {
    let Some(world) = World::new(Engine::Postgres).await else { return };
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let inserted = world.write(move |tx| {
        let inserted = environments::insert(tx, &environment("e"))?;
        if counted.fetch_add(1, Ordering::Relaxed) == 0 {
            tx.query("SELECT pg_terminate_backend(pg_backend_pid())", &[])?;
        }
        Ok(inserted)
    });
    assert!(inserted.await);
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_server_that_goes_and_comes_back() {
    // What a restart looks like from here: every connection broken, new ones refused, then taken again.
    let Some(test) = TestStore::new(Engine::Postgres) else { return };
    let store = Store::open(&test.url, Wake::default()).await.unwrap();
    let allow = |allowed: bool| test.administer(&format!("ALTER DATABASE {{}} ALLOW_CONNECTIONS {allowed}"));
    allow(false);
    test.administer("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'");
    let failed = store.write(Durability::Promised, |tx| environments::insert(tx, &environment("e"))).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    assert!(store.read(environments::list).await.is_err());
    allow(true);
    use_all_threads(&store).await;
    assert!(
        store.write(Durability::Promised, |tx| environments::insert(tx, &environment("e"))).await.unwrap()
    );
}
