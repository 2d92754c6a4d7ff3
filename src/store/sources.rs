//! Sources: who may send here.

use crate::clock::Timestamp;

use super::StoreError;
use super::tx::{Lock, Row, Tx, args};
use crate::wake::Topic;

/// A source as it is kept; its secrets are sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// `src_...`.
    pub id: String,
    /// Whose it is.
    pub environment_id: String,
    /// Unique in its environment.
    pub name: String,
    /// Its path segment; unique in the relay.
    pub slug: String,
    /// Its scheme's name.
    pub scheme: String,
    /// Sealed secrets, one a line.
    pub sealed_secrets: String,
    /// How many.
    pub secret_count: u64,
    /// `mark` or `drop`.
    pub dedupe: String,
    /// Seconds.
    pub dedupe_window_s: u64,
    /// Bytes.
    pub max_body_bytes: u64,
    /// The address the provider knows.
    pub public_url: Option<String>,
    /// Whether it takes anything.
    pub enabled: bool,
    /// Whether the configuration file wrote it.
    pub managed: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

const COLUMNS: &str = "id, environment_id, name, slug, scheme, sealed_secrets, secret_count, dedupe, dedupe_window_s, \
     max_body_bytes, public_url, enabled, managed, created_at, updated_at";

fn read(mut row: Row) -> Result<Source, StoreError> {
    Ok(Source {
        id: row.take(0)?,
        environment_id: row.take(1)?,
        name: row.take(2)?,
        slug: row.take(3)?,
        scheme: row.take(4)?,
        sealed_secrets: row.take(5)?,
        secret_count: row.take(6)?,
        dedupe: row.take(7)?,
        dedupe_window_s: row.take(8)?,
        max_body_bytes: row.take(9)?,
        public_url: row.take(10)?,
        enabled: row.take(11)?,
        managed: row.take(12)?,
        created_at: row.take(13)?,
        updated_at: row.take(14)?,
    })
}

/// Adds one; `false` when its name is taken in its environment. Its slug is the name where that is free in the whole
/// relay, else the name with `suffix`.
pub fn insert(tx: &mut dyn Tx, source: &Source, suffix: &str) -> Result<Option<Source>, StoreError> {
    tx.lock(Lock::Global)?;
    if by_name(tx, &source.environment_id, &source.name)?.is_some() {
        return Ok(None);
    }
    let mut new = source.clone();
    new.slug.clone_from(&new.name);
    if by_slug(tx, &new.slug)?.is_some() {
        new.slug = format!("{}-{suffix}", new.name);
    }
    let sql = format!(
        "INSERT INTO sources ({COLUMNS})
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)"
    );
    let args = args![
        &new.id,
        &new.environment_id,
        &new.name,
        &new.slug,
        &new.scheme,
        &new.sealed_secrets,
        new.secret_count,
        &new.dedupe,
        new.dedupe_window_s,
        new.max_body_bytes,
        new.public_url.as_deref(),
        new.enabled,
        new.managed,
        new.created_at,
        new.updated_at,
    ];
    tx.execute(&sql, args)?;
    tx.tell(Topic::Sources)?;
    Ok(Some(new))
}

/// Writes every field that may change, unless the source is not `old` any more: then somebody else changed it.
pub fn update(tx: &mut dyn Tx, old: &Source, source: &Source) -> Result<bool, StoreError> {
    tx.lock(Lock::Global)?;
    if find(tx, &old.environment_id, &old.id)?.as_ref() != Some(old) {
        return Ok(false);
    }
    let sql = "UPDATE sources SET scheme = ?2, sealed_secrets = ?3, secret_count = ?4, dedupe = ?5,
        dedupe_window_s = ?6, max_body_bytes = ?7, public_url = ?8, enabled = ?9, managed = ?10, updated_at = ?11
        WHERE id = ?1";
    let args = args![
        &source.id,
        &source.scheme,
        &source.sealed_secrets,
        source.secret_count,
        &source.dedupe,
        source.dedupe_window_s,
        source.max_body_bytes,
        source.public_url.as_deref(),
        source.enabled,
        source.managed,
        source.updated_at,
    ];
    tx.tell(Topic::Sources)?;
    Ok(tx.execute(sql, args)? > 0)
}

/// Removes one; its events stay.
pub fn delete(tx: &mut dyn Tx, id: &str) -> Result<bool, StoreError> {
    tx.tell(Topic::Sources)?;
    Ok(tx.execute("DELETE FROM sources WHERE id = ?1", args![id])? > 0)
}

/// By path segment.
pub fn by_slug(tx: &mut dyn Tx, slug: &str) -> Result<Option<Source>, StoreError> {
    tx.first(&format!("SELECT {COLUMNS} FROM sources WHERE slug = ?1"), args![slug])?.map(read).transpose()
}

/// By name in its environment.
pub fn by_name(tx: &mut dyn Tx, environment: &str, name: &str) -> Result<Option<Source>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM sources WHERE environment_id = ?1 AND name = ?2");
    tx.first(&sql, args![environment, name])?.map(read).transpose()
}

/// By id or name in its environment.
pub fn find(tx: &mut dyn Tx, environment: &str, id_or_name: &str) -> Result<Option<Source>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM sources WHERE environment_id = ?1 AND (id = ?2 OR name = ?2)");
    tx.first(&sql, args![environment, id_or_name])?.map(read).transpose()
}

/// One environment's, by name; `after` is a name.
pub fn list(
    tx: &mut dyn Tx,
    environment: &str,
    after: Option<&str>,
    limit: u64,
) -> Result<Vec<Source>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM sources WHERE environment_id = ?1
         AND name > ?2 ORDER BY name LIMIT ?3"
    );
    tx.query(&sql, args![environment, after.unwrap_or(""), limit])?.into_iter().map(read).collect()
}

/// Every source of the relay: for checks that need them all at start.
pub fn all(tx: &mut dyn Tx) -> Result<Vec<Source>, StoreError> {
    tx.query(&format!("SELECT {COLUMNS} FROM sources ORDER BY id"), args![])?.into_iter().map(read).collect()
}
