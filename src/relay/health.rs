//! `/healthz` (alive) and `/readyz` (can store).

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::Shared;
use super::api::error::Failure;
use crate::store::{Durability, migrations};

/// Who asks whether a relay is ready doesn't wait for long.
const PATIENCE: Duration = Duration::from_secs(5);

/// How the relay is.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Health {
    /// `ok`.
    status: &'static str,
    /// `sqlite` or `postgres`.
    store: &'static str,
}

/// Answers while the relay is alive, whatever its store does.
#[utoipa::path(get, path = "/healthz", responses((status = 200, body = Health)))]
pub(super) async fn alive(State(shared): State<Arc<Shared>>) -> Json<Health> {
    Json(Health { status: "ok", store: shared.store.engine() })
}

/// Answers once a write went through to the disk, just now.
#[utoipa::path(get, path = "/readyz", responses((status = 200, body = Health)))]
pub(super) async fn ready(State(shared): State<Arc<Shared>>) -> Result<Json<Health>, Failure> {
    let probe = shared.store.write(Durability::Promised, migrations::probe);
    let deadline = PATIENCE.min(shared.settings.answer_deadline);
    let written = tokio::time::timeout(deadline, probe).await.map_err(|_| Failure::stuck())?;
    written.map_err(|error| {
        tracing::warn!(%error, "not ready");
        Failure::unavailable()
    })?;
    Ok(Json(Health { status: "ok", store: shared.store.engine() }))
}
