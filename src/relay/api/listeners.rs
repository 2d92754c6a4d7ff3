//! `/v1/webhook_listeners`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;

use super::error::Failure;
use super::fields::{self, Fields};
use super::query::Query;
use super::{Caller, Id, Json, PollJson};
use crate::clock::Timestamp;
use crate::id::{self, Kind};
use crate::protocol::limits;
use crate::protocol::listeners as wire;
use crate::protocol::{Deleted, List, VERSIONS};
use crate::relay::Shared;
use crate::relay::listeners::{OpenRequest, PollRequest};
use crate::store::claims::{Ack, State as Outcome, Token};
use crate::store::listeners::Since;

const MAX_EVENT_TYPE: usize = 256;
const MAX_SOURCES: usize = 100;
const MAX_ID: usize = 100;
/// What is kept of an error's text. A longer one is cut: refusing it would refuse the outcome that came with it.
const KEPT_ERROR: usize = 5000;
const HIGHEST_BACKLOG: u64 = 1_000_000;

/// Opens a listener.
#[utoipa::path(post, path = "/v1/webhook_listeners", request_body = wire::OpenListener,
    responses((status = 201, body = wire::Listener), (status = 422, body = crate::protocol::error::ErrorBody)))]
pub(super) async fn open(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    Json(body): Json,
) -> Result<Response, Failure> {
    caller.access.need("webhook:update")?;
    let ask = fields::read(&body, |fields| read_open(fields, caller.version))?;
    let listener = shared.open_listener(&caller.access, ask).await?;
    Ok((StatusCode::CREATED, axum::Json(listener)).into_response())
}

fn read_open(fields: &mut Fields<'_>, version: &str) -> OpenRequest {
    let api_version = fields.word("api_version", VERSIONS).unwrap_or_else(|| version.to_owned());
    let ask = OpenRequest {
        event_types: fields.texts("event_types", limits::MAX_EVENT_TYPES, MAX_EVENT_TYPE),
        sources: fields.texts("sources", MAX_SOURCES, MAX_ID),
        api_version,
        description: fields.text("description", limits::MAX_DESCRIPTION),
        since: read_since(fields),
        continues: fields.text("continues", MAX_ID),
        max_backlog: fields
            .integer("max_backlog", 0..=HIGHEST_BACKLOG)
            .unwrap_or(limits::DEFAULT_MAX_BACKLOG),
        ordered: fields.flag("ordered").unwrap_or(false),
    };
    for (index, pattern) in ask.event_types.iter().enumerate() {
        if pattern.trim_end_matches('*').contains('*') {
            fields.issue(&format!("event_types.{index}"), "`*` is allowed at the end only");
        }
    }
    if ask.since.is_some() && ask.continues.is_some() {
        fields.issue("since", "can't be combined with `continues`, which knows where to go on");
    }
    ask
}

fn read_since(fields: &mut Fields<'_>) -> Option<Since> {
    let text = fields.text("since", MAX_ID)?;
    let since = match text.as_str() {
        "beginning" => Some(Since::Beginning),
        text if id::looks_like(Kind::Event, text) => Some(Since::Event(text.to_owned())),
        text => Timestamp::parse(text).map(Since::Time),
    };
    if since.is_none() {
        fields.issue("since", "must be an ISO 8601 time, an event id or `beginning`");
    }
    since
}

/// Records acks, keeps the listener alive, hands out what waits.
#[utoipa::path(post, path = "/v1/webhook_listeners/{id}/poll", request_body = wire::PollListener,
    params(("id" = String, Path)),
    responses((status = 200, body = wire::Poll), (status = 404, body = crate::protocol::error::ErrorBody)))]
pub(super) async fn poll(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    Id(id): Id,
    Json(body): PollJson,
) -> Result<axum::Json<wire::Poll>, Failure> {
    caller.access.need("webhook:update")?;
    let ask = fields::read(&body, read_poll)?;
    Ok(axum::Json(shared.poll(&caller.access, &id, ask).await?))
}

fn read_poll(fields: &mut Fields<'_>) -> PollRequest {
    let most = limits::ACKS_PER_POLL;
    PollRequest {
        acks: fields.objects("acks", most, read_ack).unwrap_or_default(),
        holding: fields.objects("holding", most, read_token),
        extend: fields.objects("extend", most, read_token).unwrap_or_default(),
        limit: fields
            .integer("limit", 0..=u64::from(limits::MAX_LIMIT))
            .and_then(|limit| u32::try_from(limit).ok())
            .unwrap_or(limits::DEFAULT_LIMIT),
        wait: Duration::from_millis(
            fields.integer("wait_ms", 0..=limits::MAX_WAIT_MS).unwrap_or(limits::DEFAULT_WAIT_MS),
        ),
    }
}

fn read_token(fields: &mut Fields<'_>) -> Token {
    Token {
        delivery_id: fields.required("delivery_id", MAX_ID),
        ack_token: fields.required("ack_token", limits::MAX_ACK_TOKEN),
    }
}

fn read_ack(fields: &mut Fields<'_>) -> Ack {
    let token = read_token(fields);
    let status_code = fields.integer("status_code", 100..=599).and_then(|status| u16::try_from(status).ok());
    let error =
        fields.string("error").map(|text| text.replace('\0', "\u{fffd}").chars().take(KEPT_ERROR).collect());
    if fields.value("duration_ms").is_none() {
        fields.issue("duration_ms", "is required");
    }
    let duration_ms = fields.integer("duration_ms", 0..=limits::MAX_DURATION_MS).unwrap_or(0);
    let state = match (fields.flag("skipped").unwrap_or(false), status_code, &error) {
        (true, ..) => Outcome::Skipped,
        (_, Some(200..=299), _) | (_, None, None) => Outcome::Delivered,
        _ => Outcome::Failed,
    };
    Ack { token, state, status_code, duration_ms, error }
}

/// Closes a listener.
#[utoipa::path(delete, path = "/v1/webhook_listeners/{id}", params(("id" = String, Path)),
    responses((status = 200, body = Deleted), (status = 404, body = crate::protocol::error::ErrorBody)))]
pub(super) async fn close(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    Id(id): Id,
) -> Result<axum::Json<Deleted>, Failure> {
    caller.access.need("webhook:update")?;
    shared.close_listener(&caller.access, &id).await?;
    Ok(axum::Json(Deleted { object: "webhook_listener".to_owned(), id, deleted: true }))
}

/// Lists the open listeners.
#[utoipa::path(get, path = "/v1/webhook_listeners",
    params(("limit" = Option<u64>, Query), ("after" = Option<String>, Query)),
    responses((status = 200, body = List<wire::Listener>)))]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    mut query: Query,
) -> Result<axum::Json<List<wire::Listener>>, Failure> {
    caller.access.need("webhook:read")?;
    let (after, limit) = (query.text("after"), query.page());
    query.check()?;
    let mut open = shared.list_listeners(&caller.access).await?;
    if let Some(id) = after {
        let at = open.iter().position(|listener| listener.id == id);
        let at = at.ok_or_else(|| Failure::not_found("listener").param("after"))?;
        open.drain(..=at);
    }
    let has_more = open.len() as u64 > limit;
    open.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(axum::Json(List::new(open, has_more)))
}

/// Shows an open listener.
#[utoipa::path(get, path = "/v1/webhook_listeners/{id}", params(("id" = String, Path)),
    responses((status = 200, body = wire::Listener), (status = 404, body = crate::protocol::error::ErrorBody)))]
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    Id(id): Id,
) -> Result<axum::Json<wire::Listener>, Failure> {
    caller.access.need("webhook:read")?;
    Ok(axum::Json(shared.show_listener(&caller.access, &id).await?))
}
