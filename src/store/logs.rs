//! Log lines and audit events.

use crate::clock::Timestamp;

use super::StoreError;
use super::tx::{Tx, args};

/// A log line.
#[derive(Clone, Debug)]
pub struct Line {
    /// `log_...`.
    pub id: String,
    /// Whose it is.
    pub environment_id: String,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// `listener`, `ingress`, `api`, ...
    pub source: &'static str,
    /// `info`, `warning`, `error`.
    pub level: &'static str,
    /// `webhook.forward`, ...
    pub kind: &'static str,
    /// For people; never a secret, never a body.
    pub message: String,
    /// An HTTP status.
    pub status_code: Option<u16>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// What it is about: a kind and an id.
    pub resource: Option<(&'static str, String)>,
    /// More, as JSON.
    pub attributes: String,
}

/// Writes a log line.
pub fn write(tx: &mut dyn Tx, line: &Line) -> Result<(), StoreError> {
    let sql = "INSERT INTO logs (id, environment_id, occurred_at, source, level, type, message, status_code,
        duration_ms, resource_type, resource_id, attributes)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    let args = args![
        &line.id,
        &line.environment_id,
        line.occurred_at,
        line.source,
        line.level,
        line.kind,
        &line.message,
        line.status_code,
        line.duration_ms,
        line.resource.as_ref().map(|(kind, _)| *kind),
        line.resource.as_ref().map(|(_, id)| id.as_str()),
        &line.attributes,
    ];
    tx.execute(sql, args).map(drop)
}

/// An audit event.
#[derive(Clone, Debug)]
pub struct Audit<'a> {
    /// `audit_...`.
    pub id: String,
    /// Whose it is.
    pub environment_id: &'a str,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// `webhook_listener.created`, ...
    pub kind: &'a str,
    /// The key that did it.
    pub actor: &'a str,
    /// To what.
    pub resource_id: &'a str,
}

/// Writes an audit event.
pub fn audit(tx: &mut dyn Tx, event: &Audit<'_>) -> Result<(), StoreError> {
    let sql = "INSERT INTO audit_events (id, environment_id, occurred_at, type, actor, resource_id)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let args =
        args![&event.id, event.environment_id, event.occurred_at, event.kind, event.actor, event.resource_id];
    tx.execute(sql, args).map(drop)
}

/// The types of an environment's log lines or audit events, with what they are about, oldest first.
pub fn trail(tx: &mut dyn Tx, environment: &str) -> Result<Vec<(String, String)>, StoreError> {
    let sql = "SELECT type, resource_id, occurred_at FROM audit_events WHERE environment_id = ?1
        UNION ALL SELECT type, COALESCE(resource_id, ''), occurred_at FROM logs WHERE environment_id = ?1
        ORDER BY 3";
    tx.query(sql, args![environment])?.into_iter().map(|mut row| Ok((row.take(0)?, row.take(1)?))).collect()
}
