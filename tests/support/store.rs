//! A store of its own for each test, on either engine.

use pullhook::store::StoreUrl;

/// Which engine a store is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
}

/// A store that goes with the test.
pub struct TestStore {
    pub url: StoreUrl,
    folder: tempfile::TempDir,
    database: Option<Database>,
}

impl TestStore {
    pub fn new(engine: Engine) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        match engine {
            Engine::Sqlite => {
                let url = StoreUrl::Sqlite(folder.path().join("relay.db"));
                Some(Self { url, folder, database: None })
            }
            Engine::Postgres => {
                let database = Database::make()?;
                let url = StoreUrl::parse(&database.url()).unwrap();
                Some(Self { url, folder, database: Some(database) })
            }
        }
    }

    /// Where a SQLite store lies.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// The address as text, for `serve --store`.
    pub fn text(&self) -> String {
        match (&self.url, &self.database) {
            (_, Some(database)) => database.url(),
            (StoreUrl::Sqlite(path), None) => format!("sqlite:{}", path.display()),
            (StoreUrl::Postgres(_), None) => unreachable!("a PostgreSQL store has a database"),
        }
    }

    /// Runs a statement beside the store, where `{}` stands for its database; the first column of what it answers.
    pub fn administer(&self, sql: &str) -> Vec<String> {
        let database = self.database.as_ref().expect("only on PostgreSQL");
        let (address, sql) = (format!("{}/postgres", database.server), sql.replace("{}", &database.name));
        on_thread(move || ask(&address, &sql)).unwrap()
    }
}

/// A database of its own, dropped with the test.
struct Database {
    server: String,
    name: String,
}

impl Database {
    /// `None` when there is no PostgreSQL here and the tests don't insist on one.
    fn make() -> Option<Self> {
        let set = std::env::var("PULLHOOK_TEST_POSTGRES").ok();
        let server = set.clone().unwrap_or_else(|| "postgres://postgres@127.0.0.1:5432".to_owned());
        let name =
            format!("pullhook_test_{}", ulid::Ulid::from_parts(0, rand::random()).to_string().to_lowercase());
        let (address, sql) = (format!("{server}/postgres"), format!("CREATE DATABASE {name}"));
        match on_thread(move || run(&address, &sql)) {
            Ok(()) => Some(Self { server, name }),
            Err(error) => {
                let required = set.is_some() || std::env::var_os("PULLHOOK_TEST_REQUIRE_SERVICES").is_some();
                assert!(!required, "PostgreSQL is required and can't be used: {error}");
                eprintln!("skipped on PostgreSQL: {error}");
                None
            }
        }
    }

    fn url(&self) -> String {
        format!("{}/{}", self.server, self.name)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (address, sql) = (
            format!("{}/postgres", self.server),
            format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name),
        );
        if let Err(error) = on_thread(move || run(&address, &sql)) {
            eprintln!("{} was left behind: {error}", self.name);
        }
    }
}

fn run(address: &str, sql: &str) -> Result<(), postgres::Error> {
    postgres::Client::connect(address, postgres::NoTls)?.batch_execute(sql)
}

fn ask(address: &str, sql: &str) -> Result<Vec<String>, postgres::Error> {
    let answer = postgres::Client::connect(address, postgres::NoTls)?.simple_query(sql)?;
    let first = |message| match message {
        postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    Ok(answer.into_iter().filter_map(first).collect())
}

/// The blocking client must not run on a runtime's thread.
fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::spawn(work).join().unwrap()
}
