//! `/local/*`: what processes of this machine ask of the one that hosts the relay. Only the proof is open to all; the
//! rest needs the key of `relay.json`.

use std::sync::Arc;

use axum::extract::{Path, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::proof::{self, same};
use super::state::PROTOCOL;
use crate::protocol::error::{ApiError, Code, ErrorBody};
use crate::protocol::keys::ApiKey;
use crate::protocol::{Deleted, List};
use crate::relay::{Admin, ProjectRef, names_this_machine};
use crate::secret::Secret;
use crate::store::StoreError;

/// Answers for the host.
#[derive(Clone, Debug)]
pub struct Doorkeeper(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    admin: Admin,
    key: Secret,
    port: u16,
    /// Told when a `serve` asks for the store; `None` when this host keeps it.
    hand_over: Option<CancellationToken>,
}

impl Doorkeeper {
    /// For a relay on this port, with this key.
    pub fn new(admin: Admin, key: Secret, port: u16, hand_over: Option<CancellationToken>) -> Self {
        Self(Arc::new(Inner { admin, key, port, hand_over }))
    }
}

/// A project's environment and the key for it.
#[derive(Debug, Serialize, Deserialize)]
pub struct ProjectAccess {
    /// `env_...`.
    pub environment_id: String,
    /// For flags.
    pub slug: String,
    /// The key: made from the master, the same in every run.
    pub key: String,
}

/// A key to make.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct NewKey {
    /// What it is for.
    pub name: String,
    /// The environment's slug.
    pub environment: String,
}

/// Which keys to list.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct KeyQuery {
    /// The environment's slug; none = all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
}

/// Who hosts.
#[derive(Debug, Serialize, Deserialize)]
pub struct HostInfo {
    /// The version of what local processes say to each other.
    pub protocol: u32,
    /// The process.
    pub pid: u32,
}

#[derive(Debug, Deserialize)]
struct ProofQuery {
    nonce: String,
}

/// The routes.
pub fn router(doorkeeper: Doorkeeper) -> Router {
    let keyed = Router::new()
        .route("/local/host", get(host))
        .route("/local/environment", post(environment))
        .route("/local/projects", get(projects))
        .route("/local/keys", get(list_keys).post(create_key))
        .route("/local/keys/{id}", delete(revoke_key))
        .route("/local/handover", post(hand_over))
        .layer(middleware::from_fn_with_state(doorkeeper.clone(), check));
    Router::new().route(proof::PATH, get(prove)).merge(keyed).with_state(doorkeeper)
}

/// Only the key of `relay.json` opens; a web page has neither that nor a local Host.
async fn check(State(doorkeeper): State<Doorkeeper>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    if !names_this_machine(headers) || headers.contains_key(header::ORIGIN) {
        return refuse(Code::Forbidden, "this is for programs on this machine");
    }
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    match given.and_then(|value| value.strip_prefix("Bearer ")) {
        Some(given) if same(&doorkeeper.0.key, given) => next.run(request).await,
        _ => refuse(Code::Unauthorized, "local administration takes the key of relay.json only"),
    }
}

async fn prove(State(doorkeeper): State<Doorkeeper>, Query(query): Query<ProofQuery>) -> Response {
    if !proof::is_nonce(&query.nonce) {
        return refuse(Code::InvalidRequest, "a nonce is 32 hex digits");
    }
    proof::prove(&doorkeeper.0.key, doorkeeper.0.port, &query.nonce).into_response()
}

async fn host() -> Json<HostInfo> {
    Json(HostInfo { protocol: PROTOCOL, pid: std::process::id() })
}

async fn environment(State(doorkeeper): State<Doorkeeper>, Json(project): Json<ProjectRef>) -> Response {
    let admin = &doorkeeper.0.admin;
    let environment = match admin.environment(&project).await {
        Ok(environment) => environment,
        Err(error) => return failed(&error),
    };
    match admin.local_key(&environment.id) {
        Some(key) => Json(ProjectAccess {
            key: key.expose().to_owned(),
            environment_id: environment.id,
            slug: environment.slug,
        })
        .into_response(),
        None => refuse(Code::Internal, "this relay makes no local keys"),
    }
}

async fn projects(State(doorkeeper): State<Doorkeeper>) -> Response {
    answer(doorkeeper.0.admin.projects_with_listeners().await.map(|projects| List::new(projects, false)))
}

async fn create_key(State(doorkeeper): State<Doorkeeper>, Json(new): Json<NewKey>) -> Response {
    answer(make_key(&doorkeeper.0.admin, &new).await)
}

/// A new full key, in an environment that is made on first use.
pub async fn make_key(admin: &Admin, new: &NewKey) -> Result<ApiKey, StoreError> {
    let environment = admin.named_environment(&new.environment).await?;
    admin.create_key(&environment, &new.name, &[]).await
}

async fn list_keys(State(doorkeeper): State<Doorkeeper>, Query(query): Query<KeyQuery>) -> Response {
    let keys = doorkeeper.0.admin.list_keys(query.environment.as_deref()).await;
    answer(keys.map(|keys| List::new(keys, false)))
}

async fn revoke_key(State(doorkeeper): State<Doorkeeper>, Path(id): Path<String>) -> Response {
    match doorkeeper.0.admin.revoke_key(&id).await {
        Ok(true) => Json(Deleted { object: "api_key".to_owned(), id, deleted: true }).into_response(),
        Ok(false) => refuse(Code::NotFound, "no such key, or it is revoked already"),
        Err(error) => failed(&error),
    }
}

async fn hand_over(State(doorkeeper): State<Doorkeeper>) -> Response {
    match &doorkeeper.0.hand_over {
        Some(token) => {
            token.cancel();
            (StatusCode::ACCEPTED, Json(HostInfo { protocol: PROTOCOL, pid: std::process::id() }))
                .into_response()
        }
        None => refuse(Code::Forbidden, "`pullhook serve` holds this store and keeps it"),
    }
}

fn answer<T: Serialize>(outcome: Result<T, StoreError>) -> Response {
    match outcome {
        Ok(value) => Json(value).into_response(),
        Err(error) => failed(&error),
    }
}

fn failed(error: &StoreError) -> Response {
    tracing::error!(%error, "local administration failed");
    refuse(Code::Unavailable, &error.to_string())
}

fn refuse(code: Code, message: &str) -> Response {
    let error = ApiError {
        kind: code.kind().to_owned(),
        code: code.text().to_owned(),
        message: message.to_owned(),
        param: None,
        issues: Vec::new(),
        hint: None,
        request_id: String::new(),
    };
    let status = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, Json(ErrorBody { error })).into_response()
}
