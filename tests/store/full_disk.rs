//! A disk without room: nothing is acknowledged that isn't stored, and it recovers by itself. The limit is on the
//! size of a process's files, so the story runs in a process of its own.

#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use pullhook::store::events::{self, NewEvent};
use pullhook::store::{Durability, Store, StoreError, StoreUrl, event_list, migrations};
use pullhook::wake::Wake;

use crate::harness::{Engine, World, ack, check};

/// Says to the second process that it is one.
const CHILD: &str = "PULLHOOK_TEST_FULL_DISK";
/// What a file may grow to, in blocks of 512 bytes: a megabyte.
const BLOCKS: u32 = 2048;

#[test]
fn nothing_is_promised_on_a_full_disk_and_it_recovers() {
    if std::env::var_os(CHILD).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(story());
    }
    // A write past the limit sends SIGXFSZ, which kills unless it is ignored; then it is an error like a full disk.
    let script = format!("trap '' XFSZ; ulimit -S -f {BLOCKS} && exec \"$0\" \"$@\"");
    let name = "full_disk::nothing_is_promised_on_a_full_disk_and_it_recovers";
    let output = Command::new("sh")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("recovered"), "{text}");
}

async fn append(world: &World, body: Vec<u8>) -> Result<String, StoreError> {
    let new = NewEvent { body: Bytes::from(body), ..world.event("") };
    let stored = world.store.write(Durability::Promised, move |tx| events::append(tx, &new)).await;
    stored.map(|appended| appended.event_id)
}

/// Appends until it fails for good, first large ones, then small ones; the ids of those that were stored. The log is
/// full first; then it is moved into the file, which makes room once more.
async fn fill(world: &World) -> Vec<String> {
    let mut stored = Vec::new();
    for size in [50_000, 500] {
        let mut failures = 0;
        while failures < 5 {
            match append(world, vec![b'x'; size]).await {
                Ok(id) => {
                    stored.push(id);
                    failures = 0;
                }
                Err(StoreError::Unavailable(_)) => failures += 1,
                Err(error) => panic!("{error:?}"),
            }
            assert!(stored.len() < 10_000, "the limit does not hold");
        }
    }
    // The probe writes a single page: the last room is its.
    while probe(world).await.is_ok() {}
    stored
}

async fn probe(world: &World) -> Result<(), StoreError> {
    world.store.write(Durability::Promised, migrations::probe).await
}

async fn story() {
    let world = World::new(Engine::Sqlite).await.unwrap();
    let listener = world.open().await;
    let mut stored = fill(&world).await;
    assert!(stored.len() > 10, "{}", stored.len());
    for _ in 0..3 {
        let ready = probe(&world).await;
        let also = append(&world, vec![b'y'; 500]).await;
        assert!(ready.is_err() && also.is_err(), "still full: {ready:?} {also:?}");
    }
    assert_eq!(
        listed(&world.store, &world.env).await,
        stored,
        "reading goes on, and shows what was promised"
    );
    many_fail_at_once(&world).await;

    lift_limit();
    probe(&world).await.expect("there is room again");
    stored.push(append(&world, vec![b'z'; 50_000]).await.expect("there is room again"));
    assert_eq!(listed(&world.store, &world.env).await, stored);
    world.dispatch().await;
    let handed = world.claim(&listener).await;
    assert_eq!(
        world.ack(&listener, handed.iter().map(ack).collect()).await.acknowledged,
        handed.len() as u64
    );
    check(&world.store).await;
    assert_eq!(after_a_crash(&world).await, stored);
    println!("recovered");
}

async fn many_fail_at_once(world: &World) {
    let all = (0..50).map(|_| append(world, vec![b'y'; 5000]));
    assert!(futures_util::future::join_all(all).await.iter().all(Result::is_err));
}

async fn listed(store: &Store, environment: &str) -> Vec<String> {
    let mut search = event_list::Search {
        environment_id: environment.to_owned(),
        ascending: true,
        limit: 100,
        ..Default::default()
    };
    let mut ids = Vec::new();
    loop {
        let asked = search.clone();
        let (page, more) = store.read(move |tx| event_list::page(tx, &asked)).await.unwrap();
        search.after = page.last().map(|event| event.position);
        ids.extend(page.into_iter().map(|event| event.id));
        if !more {
            return ids;
        }
    }
}

/// What another process would find in the files as they are on disk now, were this one killed.
async fn after_a_crash(world: &World) -> Vec<String> {
    let StoreUrl::Sqlite(path) = &world.test.url else { panic!() };
    let copy = tempfile::tempdir().unwrap();
    for suffix in ["", "-wal"] {
        let name = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
        std::fs::copy(name(path), name(&copy.path().join("relay.db"))).unwrap();
    }
    let url = StoreUrl::Sqlite(copy.path().join("relay.db"));
    let store = Store::open(&url, Wake::default()).await.unwrap();
    listed(&store, &world.env).await
}

fn lift_limit() {
    let status = Command::new("prlimit")
        .arg(format!("--pid={}", std::process::id()))
        .arg("--fsize=unlimited:unlimited")
        .status()
        .unwrap();
    assert!(status.success());
}
