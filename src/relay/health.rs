//! `/healthz` (alive) and `/readyz` (can store).

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;

use super::Shared;
use crate::store::{Durability, migrations};

/// Alive: this answers, whatever the store does.
pub(super) async fn alive() -> Response {
    axum::Json(serde_json::json!({ "status": "ok" })).into_response()
}

/// Ready: a write went through to the disk just now.
pub(super) async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    let (status, text) = match shared.store.write(Durability::Promised, migrations::probe).await {
        Ok(()) => (StatusCode::OK, "ok"),
        Err(error) => {
            tracing::warn!(%error, "not ready");
            (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable")
        }
    };
    (status, axum::Json(serde_json::json!({ "status": text, "store": shared.store.engine() })))
        .into_response()
}
