//! The schema: made once, never by two at once, not touched when it is newer than we are.

use pullhook::store::{Store, StoreError, StoreUrl, environments, migrations};
use pullhook::wake::Wake;

use crate::harness::{Engine, TestStore, World};
use crate::on_both_engines;

async fn open(url: &StoreUrl) -> Result<Store, StoreError> {
    Store::open(url, Wake::default()).await
}

on_both_engines! {
    async fn a_store_is_opened_again_with_what_it_holds(world: World) {
        world.ingest("x").await;
        for _ in 0..2 {
            let again = open(&world.test.url).await.unwrap();
            assert_eq!(again.engine(), world.store.engine());
            let environments = again.read(environments::list).await.unwrap();
            assert_eq!(environments.len(), 1);
        }
        assert_eq!(world.number("SELECT COUNT(*) FROM schema_version").await, 1);
        world.ingest("y").await;
    }

    async fn a_newer_schema_is_refused_and_left_alone(world: World) {
        world.execute("UPDATE schema_version SET version = version + 41").await;
        let error = open(&world.test.url).await.unwrap_err();
        assert!(matches!(error, StoreError::Newer { found: 42, known: 1 }), "{error:?}");
        assert_eq!(error.to_string(), "the store has schema version 42, this pullhook knows 1: upgrade this pullhook");
        assert_eq!(world.number("SELECT version FROM schema_version").await, 42);
    }

    async fn the_probe_changes_nothing(world: World) {
        world.write(migrations::probe).await;
        assert_eq!(world.numbers("SELECT version FROM schema_version").await, [[1]]);
    }

    async fn each_reference_has_an_index_to_delete_by(world: World) {
        if world.store.engine() != "sqlite" {
            return;
        }
        // PostgreSQL's schema is made from the same text.
        let missing = world.texts(
            "SELECT t.name || '.' || f.\"from\" FROM sqlite_schema t, pragma_foreign_key_list(t.name) f
             WHERE t.type = 'table' AND NOT EXISTS (SELECT 1 FROM pragma_index_list(t.name) l, pragma_index_info(l.name) i
               WHERE l.partial = 0 AND i.seqno = 0 AND i.name = f.\"from\")
             AND NOT EXISTS (SELECT 1 FROM pragma_table_info(t.name) c WHERE c.pk = 1 AND c.name = f.\"from\")",
        ).await;
        assert!(missing.is_empty(), "no index on {missing:?}");
    }
}

async fn many_at_once(engine: Engine) {
    let Some(test) = TestStore::new(engine) else { return };
    let opened = futures_util::future::join_all((0..4).map(|_| open(&test.url))).await;
    for store in opened {
        let store = store.unwrap();
        assert!(store.read(environments::list).await.unwrap().is_empty());
    }
    let store = open(&test.url).await.unwrap();
    let versions = store.read(|tx| tx.query("SELECT version FROM schema_version", &[])).await.unwrap();
    assert_eq!(versions.len(), 1);
}

#[tokio::test]
async fn a_fresh_database_is_opened_by_many_at_once_postgres() {
    many_at_once(Engine::Postgres).await;
}

#[tokio::test]
async fn a_fresh_database_is_opened_by_many_at_once_sqlite() {
    many_at_once(Engine::Sqlite).await;
}

#[tokio::test]
async fn a_file_that_is_no_database_is_said_to_be_unreadable_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    let text = "not a database, but somebody's notes\n".repeat(100);
    std::fs::write(&path, &text).unwrap();
    let error = open(&StoreUrl::Sqlite(path.clone())).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let url = StoreUrl::Sqlite(folder.path().join("nowhere/relay.db"));
    let error = open(&url).await.unwrap_err().to_string();
    assert!(error.contains("nowhere does not exist"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable_and_no_password_is_shown() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = StoreUrl::parse(&format!("postgres://me:hunter2@127.0.0.1:{port}/relay")).unwrap();
    let error = open(&url).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(!format!("{error} {error:?} {url:?}").contains("hunter2"));
}
