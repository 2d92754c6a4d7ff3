//! Environments: what a key opens; events of one are never seen by another.

use crate::clock::Timestamp;

use super::StoreError;
use super::tx::{Row, Tx, args};

/// An environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// `env_...`.
    pub id: String,
    /// For people.
    pub name: String,
    /// For flags; unique.
    pub slug: String,
    /// `live` or `sandbox`.
    pub mode: String,
    /// The project folder that an embedded relay keeps it for.
    pub project: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
}

const COLUMNS: &str = "e.id, e.name, e.slug, e.mode, e.project, e.created_at";

fn read(mut row: Row) -> Result<Environment, StoreError> {
    Ok(Environment {
        id: row.take(0)?,
        name: row.take(1)?,
        slug: row.take(2)?,
        mode: row.take(3)?,
        project: row.take(4)?,
        created_at: row.take(5)?,
    })
}

/// Adds one; nothing happens when its slug or project is taken.
pub fn insert(tx: &mut dyn Tx, new: &Environment) -> Result<bool, StoreError> {
    let sql = "INSERT INTO environments (id, name, slug, mode, project, created_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING";
    let args = args![&new.id, &new.name, &new.slug, &new.mode, new.project.as_deref(), new.created_at];
    Ok(tx.execute(sql, args)? > 0)
}

/// By id.
pub fn by_id(tx: &mut dyn Tx, id: &str) -> Result<Option<Environment>, StoreError> {
    tx.first(&format!("SELECT {COLUMNS} FROM environments e WHERE e.id = ?1"), args![id])?
        .map(read)
        .transpose()
}

/// By slug.
pub fn by_slug(tx: &mut dyn Tx, slug: &str) -> Result<Option<Environment>, StoreError> {
    tx.first(&format!("SELECT {COLUMNS} FROM environments e WHERE e.slug = ?1"), args![slug])?
        .map(read)
        .transpose()
}

/// By project folder.
pub fn by_project(tx: &mut dyn Tx, project: &str) -> Result<Option<Environment>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM environments e WHERE e.project = ?1");
    tx.first(&sql, args![project])?.map(read).transpose()
}

/// All of them, oldest first.
pub fn list(tx: &mut dyn Tx) -> Result<Vec<Environment>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM environments e ORDER BY e.created_at, e.id");
    tx.query(&sql, args![])?.into_iter().map(read).collect()
}

/// Those with a listener that is open at `now`.
pub fn with_open_listeners(tx: &mut dyn Tx, now: Timestamp) -> Result<Vec<Environment>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM environments e WHERE EXISTS
            (SELECT 1 FROM listeners l WHERE l.environment_id = e.id AND l.expires_at > ?1)
         ORDER BY e.created_at, e.id"
    );
    tx.query(&sql, args![now])?.into_iter().map(read).collect()
}
