//! API keys: kept as hashes.

use crate::clock::Timestamp;

use super::StoreError;
use super::tx::{Row, Tx, args};
use crate::wake::Topic;

/// A key as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// `key_...`.
    pub id: String,
    /// The environment it opens.
    pub environment_id: String,
    /// What it is for.
    pub name: String,
    /// Its first characters.
    pub start: String,
    /// SHA-256 of the key.
    pub hash: Vec<u8>,
    /// `full` or `restricted`.
    pub access: String,
    /// `resource:action`, space-separated.
    pub permissions: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last used, to the minute.
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

const COLUMNS: &str =
    "id, environment_id, name, start, hash, access, permissions, created_at, last_used_at, revoked_at";

fn read(mut row: Row) -> Result<Key, StoreError> {
    Ok(Key {
        id: row.take(0)?,
        environment_id: row.take(1)?,
        name: row.take(2)?,
        start: row.take(3)?,
        hash: row.take(4)?,
        access: row.take(5)?,
        permissions: row.take(6)?,
        created_at: row.take(7)?,
        last_used_at: row.take(8)?,
        revoked_at: row.take(9)?,
    })
}

/// Adds one.
pub fn insert(tx: &mut dyn Tx, key: &Key) -> Result<(), StoreError> {
    let sql = "INSERT INTO api_keys (id, environment_id, name, start, hash, access, permissions, created_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let args = args![
        &key.id,
        &key.environment_id,
        &key.name,
        &key.start,
        &key.hash,
        &key.access,
        &key.permissions,
        key.created_at
    ];
    tx.tell(Topic::Sources)?;
    tx.execute(sql, args).map(drop)
}

/// The unrevoked key with this hash.
pub fn by_hash(tx: &mut dyn Tx, hash: &[u8]) -> Result<Option<Key>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM api_keys WHERE hash = ?1 AND revoked_at IS NULL");
    tx.first(&sql, args![hash])?.map(read).transpose()
}

/// Whether the key is still good.
pub fn is_valid(tx: &mut dyn Tx, id: &str) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM api_keys WHERE id = ?1 AND revoked_at IS NULL";
    Ok(tx.first(sql, args![id])?.is_some())
}

/// All keys, or those of one environment, oldest first; revoked ones too.
pub fn list(tx: &mut dyn Tx, environment: Option<&str>) -> Result<Vec<Key>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM api_keys WHERE environment_id = ?1 OR ?1 = '' ORDER BY created_at, id"
    );
    tx.query(&sql, args![environment.unwrap_or("")])?.into_iter().map(read).collect()
}

/// Revokes one; whether there was one to revoke.
pub fn revoke(tx: &mut dyn Tx, id: &str, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "UPDATE api_keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";
    tx.tell(Topic::Sources)?;
    Ok(tx.execute(sql, args![id, now])? > 0)
}

/// Notes that it was used.
pub fn touch(tx: &mut dyn Tx, id: &str, now: Timestamp) -> Result<(), StoreError> {
    tx.execute("UPDATE api_keys SET last_used_at = ?2 WHERE id = ?1", args![id, now]).map(drop)
}
