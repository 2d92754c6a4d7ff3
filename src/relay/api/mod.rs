//! `/v1` and its neighbours: one file per resource; what every request passes through is here.

mod environment;
pub(crate) mod error;
mod events;
mod fields;
mod idempotency;
mod listeners;
pub(super) mod openapi;
mod query;
mod replay;
mod samples;
mod sources;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::auth::Access;
use super::body::{self, BodyError, BodyLimits};
use super::{Shared, health, ingress};
use crate::id::Kind;
use crate::protocol::error::Code;
use crate::protocol::{CURRENT_VERSION, VERSION_HEADER, VERSION_HEADER_ALIAS, VERSIONS, limits};
use error::Failure;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// What of the time for an answer is left to work for it, once a body has come.
const WORK_MS: u64 = 4000;

/// Every route of the relay.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .nest("/v1", v1(&shared))
        .route("/api/webhooks/{*rest}", any(ingress::take))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/openapi.json", get(openapi::document))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(Arc::clone(&shared), every_request))
        .with_state(shared)
}

fn v1(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    Router::new()
        .route("/webhook_listeners", get(listeners::list).post(listeners::open))
        .route("/webhook_listeners/{id}", get(listeners::show).delete(listeners::close))
        .route("/webhook_listeners/{id}/poll", post(listeners::poll))
        .route("/events", get(events::list).post(events::create))
        .route("/events/replay", post(replay::replay))
        .route("/events/{id}", get(events::show))
        .route("/webhook_events/test", post(events::test))
        .route("/environment", get(environment::show))
        .route("/sources", get(sources::list).post(sources::create))
        .route("/sources/{id}", get(sources::show).patch(sources::update).delete(sources::delete))
        .route("/sources/{id}/rotate", post(sources::rotate))
        .route("/sources/{id}/sign", post(sources::sign))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(Arc::clone(shared), every_api_request))
}

async fn no_route() -> Failure {
    Failure::new(Code::NotFound, "no such path; the routes are listed in /openapi.json")
}

async fn no_method() -> Failure {
    Failure::new(Code::MethodNotAllowed, "this path doesn't take this method; see /openapi.json")
}

/// Every answer carries its request's id; failures get their body here, where the id is known.
async fn every_request(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let id = shared.ids.make(Kind::Request);
    let mut response = next.run(request).await;
    if let Some(failure) = response.extensions_mut().remove::<Failure>() {
        // What inner layers said beside the failure stays: the version, the methods that a path takes.
        let mut said = std::mem::take(response.headers_mut());
        said.remove(header::CONTENT_LENGTH);
        response = failure.answer(&id);
        response.headers_mut().extend(said);
        tracing::debug!(request_id = id, code = failure.code().text(), "a request failed");
    }
    if let Ok(value) = HeaderValue::try_from(id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// Every `/v1` request: a host that may, a version that exists (answered under the name that asked), a valid key.
async fn every_api_request(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Failure> {
    shared.settings.check_host(request.headers())?;
    let (name, version) = version(request.headers())?;
    let header = request.headers().get(header::AUTHORIZATION);
    let header = header.and_then(|value| value.to_str().ok()).map(str::to_owned);
    let answer = async {
        let access = shared.access(header.as_deref()).await?;
        request.extensions_mut().insert(Caller { access, version });
        Ok::<_, Failure>(next.run(request).await)
    };
    let mut response = match tokio::time::timeout(shared.settings.answer_deadline, answer).await {
        Ok(Ok(response)) => response,
        Ok(Err(failure)) => failure.into_response(),
        Err(_) => Failure::stuck().into_response(),
    };
    response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(version));
    Ok(response)
}

/// The header that asked, and the version to answer in.
fn version(headers: &HeaderMap) -> Result<(&'static str, &'static str), Failure> {
    for name in [VERSION_HEADER, VERSION_HEADER_ALIAS] {
        if let Some(value) = headers.get(name) {
            let known = VERSIONS.iter().find(|known| value == **known);
            return known.map(|version| (name, *version)).ok_or_else(|| {
                let text = format!("unknown API version; known are {}", VERSIONS.join(", "));
                Failure::new(Code::InvalidApiVersion, text).param(name)
            });
        }
    }
    Ok((VERSION_HEADER, CURRENT_VERSION))
}

/// Who asks, and in which version.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) access: Arc<Access>,
    pub(crate) version: &'static str,
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| Failure::new(Code::Internal, "the relay failed; its log names this request id"))
    }
}

/// The id in a path.
#[derive(Debug)]
pub(crate) struct Id(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let id = axum::extract::Path::<String>::from_request_parts(parts, state).await;
        // No id holds a NUL, and not every store may be asked for one.
        let id = id.ok().map(|path| path.0).filter(|id| !id.contains('\0'));
        id.map(Self).ok_or_else(|| Failure::not_found("object"))
    }
}

/// An API request's JSON body: capped before it is read, of the right type where there is one. Every answer comes in
/// time, so the body has what is left of that after the `LATER_MS` milliseconds for what follows it.
#[derive(Debug)]
pub(crate) struct Json<const LATER_MS: u64 = WORK_MS>(pub(crate) Bytes);

/// The body of a poll, which waits for what there isn't yet.
pub(crate) type PollJson = Json<{ limits::MAX_WAIT_MS }>;

impl<const LATER_MS: u64> axum::extract::FromRequest<Arc<Shared>> for Json<LATER_MS> {
    type Rejection = Failure;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self, Failure> {
        let (parts, body) = request.into_parts();
        let settings = &shared.settings;
        let limits = BodyLimits {
            bytes: limits::MAX_REQUEST_BYTES as u64,
            stall: settings.body_stall,
            deadline: settings
                .body_deadline
                .min(settings.answer_deadline.saturating_sub(Duration::from_millis(LATER_MS))),
        };
        let body = body::read(&parts.headers, body, limits).await.map_err(|error| match error {
            BodyError::TooLarge => {
                let text = format!("an API request's body is at most {} bytes", limits.bytes);
                Failure::new(Code::BodyTooLarge, text)
            }
            BodyError::TooSlow => Failure::new(Code::RequestTimeout, "the body came too slowly"),
            BodyError::Broken => Failure::new(Code::InvalidRequest, "the body broke off"),
        })?;
        if !body.is_empty() && !is_json(&parts.headers) {
            let text = "the body needs `Content-Type: application/json`";
            return Err(Failure::new(Code::UnsupportedMediaType, text));
        }
        Ok(Self(body))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}
