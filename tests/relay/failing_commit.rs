//! A commit that fails: from then on nothing is promised until the store is known to be on disk as it is read.

use http::Method;
use pullhook::protocol::error::Code;
use pullhook::relay::{Relay, Settings};
use pullhook::store::tx::Tx;
use pullhook::store::{Durability, StoreError, StoreUrl};
use rusqlite::Connection;

use crate::harness::{Engine, TestRelay};

/// Fails at the commit itself: what a row refers to is looked for then, and isn't there.
fn fails_at_commit(tx: &mut dyn Tx) -> Result<(), StoreError> {
    tx.query("PRAGMA defer_foreign_keys = ON", &[])?;
    tx.execute(
        "INSERT INTO arrivals (stream, sequence, event, occurrence, arrived_at) VALUES (1, 99, 99, 1, 0)",
        &[],
    )
    .map(drop)
}

/// A reader in another process, which keeps the log as it is.
fn reader(url: &StoreUrl) -> Connection {
    let StoreUrl::Sqlite(path) = url else { panic!() };
    let reader = Connection::open(path).unwrap();
    reader.execute_batch("BEGIN; SELECT COUNT(*) FROM events").unwrap();
    reader
}

#[tokio::test]
async fn after_a_failed_commit_nothing_is_promised_until_the_log_is_rewritten() {
    let relay = TestRelay::with(Engine::Sqlite, Settings::default()).await.unwrap();
    relay.source("raw", "none").await;
    let mut stored = vec![relay.webhook("raw", &[], "before").await.accepted()];
    let reader = reader(&relay.store.url);
    let failed = relay.relay.store().write(Durability::Relaxed, fails_at_commit).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    for _ in 0..2 {
        let refused = relay.webhook("raw", &[], "meanwhile").await;
        refused.refused(Code::Unavailable);
        assert_eq!(refused.header("retry-after"), "5");
        relay.send(Method::GET, "/readyz", &[], "").await.refused(Code::Unavailable);
    }
    assert_eq!(relay.listed("").await, stored, "reading goes on, and shows what was promised");
    drop(reader);
    relay.send(Method::GET, "/readyz", &[], "").await.expect(200);
    stored.push(relay.webhook("raw", &[], "after").await.accepted());
    let mut listed = relay.listed("?order=asc").await;
    assert_eq!(listed, stored);

    let StoreUrl::Sqlite(path) = &relay.store.url else { panic!() };
    let copy = tempfile::tempdir().unwrap();
    for name in ["relay.db", "relay.db-wal"] {
        std::fs::copy(path.with_file_name(name), copy.path().join(name)).unwrap();
    }
    let url = StoreUrl::Sqlite(copy.path().join("relay.db"));
    let restarted = Relay::builder(url).build().await.unwrap();
    let kept = restarted.store().read(|tx| tx.query("SELECT id FROM events ORDER BY position", &[])).await;
    let kept = kept.unwrap().into_iter().map(|mut row| row.take::<String>(0).unwrap());
    assert!(kept.eq(listed.drain(..)), "a process that starts anew finds the same");
}
