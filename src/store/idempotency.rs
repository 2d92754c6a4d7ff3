//! Idempotency keys: one answer per key, kept for a day.

use crate::clock::Timestamp;

use super::StoreError;
use super::tx::{Tx, args};

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It is new and now taken by this request.
    New,
    /// The same request was answered with this.
    Answered(String),
    /// Another body was sent with it.
    OtherBody,
    /// The first request with it is still running.
    Running,
}

/// Takes a key for a request with this body's hash. A key from before `since` is forgotten; a request that took one
/// before `abandoned` and never answered has died.
pub fn take(
    tx: &mut dyn Tx,
    environment: &str,
    key: &str,
    body_hash: &[u8],
    now: Timestamp,
    since: Timestamp,
    abandoned: Timestamp,
) -> Result<Seen, StoreError> {
    let forget = "DELETE FROM idempotency_keys WHERE environment_id = ?1 AND idempotency_key = ?2
        AND (created_at < ?3 OR (answer IS NULL AND created_at < ?4))";
    tx.execute(forget, args![environment, key, since, abandoned])?;
    let insert = "INSERT INTO idempotency_keys (environment_id, idempotency_key, body_hash, created_at)
        VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    if tx.execute(insert, args![environment, key, body_hash, now])? > 0 {
        return Ok(Seen::New);
    }
    let sql =
        "SELECT body_hash, answer FROM idempotency_keys WHERE environment_id = ?1 AND idempotency_key = ?2";
    let Some(mut row) = tx.first(sql, args![environment, key])? else {
        return Ok(Seen::Running);
    };
    if row.take::<Vec<u8>>(0)? != body_hash {
        return Ok(Seen::OtherBody);
    }
    Ok(row.take::<Option<String>>(1)?.map_or(Seen::Running, Seen::Answered))
}

/// Keeps the answer of the request that took the key.
pub fn answer(tx: &mut dyn Tx, environment: &str, key: &str, answer: &str) -> Result<(), StoreError> {
    let sql = "UPDATE idempotency_keys SET answer = ?3 WHERE environment_id = ?1 AND idempotency_key = ?2";
    tx.execute(sql, args![environment, key, answer]).map(drop)
}

/// Lets go of a key whose request failed.
pub fn release(tx: &mut dyn Tx, environment: &str, key: &str) -> Result<(), StoreError> {
    let sql =
        "DELETE FROM idempotency_keys WHERE environment_id = ?1 AND idempotency_key = ?2 AND answer IS NULL";
    tx.execute(sql, args![environment, key]).map(drop)
}
