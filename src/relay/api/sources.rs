//! `/v1/sources`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;

use super::error::Failure;
use super::fields::{self, Fields};
use super::query::Query;
use super::{Caller, Id, Json};
use crate::clock::Timestamp;
use crate::headers::Headers;
use crate::protocol::sources as wire;
use crate::protocol::{Deleted, List, limits};
use crate::relay::sources::MAX_NAME;
use crate::relay::{Shared, SourceConfig};
use crate::secret::Secret;
use crate::signature::Request;
use crate::store::{Durability, sources};

const MAX_SECRET: usize = 4096;
const MAX_SECRETS: usize = 10;
const MAX_URL: usize = 2048;
const LONGEST_WINDOW_S: u64 = 30 * 86_400;

fn read_config(fields: &mut Fields<'_>) -> SourceConfig {
    let config = SourceConfig {
        name: fields.text("name", MAX_NAME).unwrap_or_default(),
        scheme: fields.text("scheme", MAX_URL).unwrap_or_default(),
        secrets: fields.texts("secrets", MAX_SECRETS, MAX_SECRET).into_iter().map(Secret::new).collect(),
        dedupe: fields.word("dedupe", &["mark", "drop"]),
        dedupe_window_s: fields.integer("dedupe_window_s", 600..=LONGEST_WINDOW_S),
        max_body_bytes: fields.integer("max_body_bytes", 1..=limits::LARGEST_BODY_BYTES as u64),
        public_url: fields.text("public_url", MAX_URL),
    };
    if let Some(text) = &config.public_url
        && !url::Url::parse(text).is_ok_and(|url| ["http", "https"].contains(&url.scheme()))
    {
        fields.issue("public_url", "must be an http or https URL, as the provider has it");
    }
    config
}

/// What changes; what would be ignored is refused instead.
fn read_change(fields: &mut Fields<'_>, name: &str) -> (SourceConfig, Option<bool>) {
    let config = read_config(fields);
    if !config.name.is_empty() && config.name != name {
        fields.issue("name", "can't be changed: make another source, and remove this one");
    }
    some_secret(fields, &config.secrets);
    (config, fields.flag("enabled"))
}

/// A list of secrets that is sent holds at least one.
fn some_secret<T>(fields: &mut Fields<'_>, secrets: &[T]) {
    if secrets.is_empty()
        && fields.value("secrets").is_some_and(|value| value.as_array().is_some_and(Vec::is_empty))
    {
        fields.issue(
            "secrets",
            "must hold at least one secret; to take nothing any more, send `enabled: false`",
        );
    }
}

/// Lists sources by name.
#[utoipa::path(get, path = "/v1/sources",
    params(("limit" = Option<u64>, Query), ("after" = Option<String>, Query)),
    responses((status = 200, body = List<wire::Source>)))]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    mut query: Query,
) -> Result<axum::Json<List<wire::Source>>, Failure> {
    caller.access.need("source:read")?;
    let (after, limit) = (query.text("after"), query.page());
    query.check()?;
    let environment = caller.access.environment.id.clone();
    let after = match after {
        Some(id) => {
            let found = shared.find_source(&environment, &id).await;
            Some(found.map_err(|failure| failure.param("after"))?.name)
        }
        None => None,
    };
    let read =
        move |tx: &mut dyn crate::store::tx::Tx| sources::list(tx, &environment, after.as_deref(), limit + 1);
    let mut rows = shared.store.read(read).await?;
    let has_more = rows.len() as u64 > limit;
    rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(axum::Json(List::new(rows.into_iter().map(|row| shared.show_source(row)).collect(), has_more)))
}

/// Makes a source.
#[utoipa::path(post, path = "/v1/sources", request_body = wire::CreateSource,
    responses((status = 201, body = wire::Source), (status = 422, body = crate::protocol::error::ErrorBody)))]
pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    Json(body): Json,
) -> Result<Response, Failure> {
    caller.access.need("source:update")?;
    let config = fields::read(&body, |fields| {
        fields.required("name", MAX_NAME);
        fields.required("scheme", MAX_URL);
        read_config(fields)
    })?;
    let row = shared.create_source(&caller.access.environment.id, &config, false).await?;
    Ok((StatusCode::CREATED, axum::Json(shared.show_source(row))).into_response())
}

/// Shows a source.
#[utoipa::path(get, path = "/v1/sources/{id}", params(("id" = String, Path)),
    responses((status = 200, body = wire::Source), (status = 404, body = crate::protocol::error::ErrorBody)))]
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    Id(id): Id,
) -> Result<axum::Json<wire::Source>, Failure> {
    caller.access.need("source:read")?;
    let row = shared.find_source(&caller.access.environment.id, &id).await?;
    Ok(axum::Json(shared.show_source(row)))
}

/// Changes what is sent of a source.
#[utoipa::path(patch, path = "/v1/sources/{id}", params(("id" = String, Path)), request_body = wire::UpdateSource,
    responses((status = 200, body = wire::Source), (status = 404, body = crate::protocol::error::ErrorBody)))]
pub(super) async fn update(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    Id(id): Id,
    Json(body): Json,
) -> Result<axum::Json<wire::Source>, Failure> {
    caller.access.need("source:update")?;
    let row = shared.find_source(&caller.access.environment.id, &id).await?;
    let (config, enabled) = fields::read(&body, |fields| read_change(fields, &row.name))?;
    let row = shared.edit_source(row, &config, enabled).await?;
    Ok(axum::Json(shared.show_source(row)))
}

/// Removes a source; its events stay.
#[utoipa::path(delete, path = "/v1/sources/{id}", params(("id" = String, Path)),
    responses((status = 200, body = Deleted), (status = 404, body = crate::protocol::error::ErrorBody)))]
pub(super) async fn delete(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    Id(id): Id,
) -> Result<axum::Json<Deleted>, Failure> {
    caller.access.need("source:update")?;
    let row = shared.find_source(&caller.access.environment.id, &id).await?;
    let removed = row.id.clone();
    shared.store.write(Durability::Promised, move |tx| sources::delete(tx, &removed)).await?;
    Ok(axum::Json(Deleted { object: "source".to_owned(), id: row.id, deleted: true }))
}

/// Puts a new secret in front; the ones before stay valid until they are replaced by an update.
#[utoipa::path(post, path = "/v1/sources/{id}/rotate", params(("id" = String, Path)),
    request_body = wire::RotateSource, responses((status = 200, body = wire::Source)))]
pub(super) async fn rotate(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    Id(id): Id,
    Json(body): Json,
) -> Result<axum::Json<wire::Source>, Failure> {
    caller.access.need("source:update")?;
    let secrets = fields::read(&body, |fields| {
        if fields.value("secrets").is_none() {
            fields.issue("secrets", "is required: the new secret, as the provider shows it");
        }
        let secrets = fields.texts("secrets", MAX_SECRETS, MAX_SECRET);
        some_secret(fields, &secrets);
        secrets
    })?;
    let row = shared.find_source(&caller.access.environment.id, &id).await?;
    let secrets: Vec<Secret> = secrets.into_iter().map(Secret::new).collect();
    let row = shared.rotate_source(row, &secrets).await?;
    Ok(axum::Json(shared.show_source(row)))
}

struct Signing {
    method: String,
    headers: Headers,
    body: Vec<u8>,
    at: Option<Timestamp>,
    fault: Option<String>,
}

/// Answers the headers that the source's provider would send with a body.
#[utoipa::path(post, path = "/v1/sources/{id}/sign", params(("id" = String, Path)), request_body = wire::SignRequest,
    responses((status = 200, body = wire::SourceSignature), (status = 404, body = crate::protocol::error::ErrorBody)))]
pub(super) async fn sign(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    Id(id): Id,
    Json(body): Json,
) -> Result<axum::Json<wire::SourceSignature>, Failure> {
    caller.access.need("source:update")?;
    let ask = fields::read(&body, read_signing)?;
    let row = shared.find_source(&caller.access.environment.id, &id).await?;
    let ingress_url = shared.ingress_url(&row.slug);
    let public_url = row.public_url.clone();
    let stale = ask.fault.as_deref() == Some("stale");
    let now = if stale { shared.clock.now() - STALE } else { shared.clock.now() };
    let request =
        Request { method: &ask.method, url: public_url.as_deref(), headers: &ask.headers, body: &ask.body };
    let mut headers = shared.sign_as_source(row, &request, ask.at.unwrap_or(now))?;
    if ask.fault.as_deref() == Some("bad_signature") {
        // The signature of another body: well-formed and wrong.
        let other = Request { body: b"another body", ..request };
        let row = shared.find_source(&caller.access.environment.id, &id).await?;
        headers = shared.sign_as_source(row, &other, ask.at.unwrap_or(now))?;
    }
    Ok(axum::Json(wire::SourceSignature { object: "source_signature".to_owned(), ingress_url, headers }))
}

/// Further back than any scheme's window.
const STALE: std::time::Duration = std::time::Duration::from_secs(3600);

fn read_signing(fields: &mut Fields<'_>) -> Signing {
    if fields.value("body_base64").is_none() {
        fields.issue("body_base64", "is required: the exact body, which may be empty");
    }
    let encoded = fields.string("body_base64").unwrap_or_default();
    let body = STANDARD.decode(encoded).unwrap_or_else(|_| {
        fields.issue("body_base64", "must be standard base64");
        Vec::new()
    });
    // No scheme that there is signs the path.
    fields.text("path", MAX_URL);
    let headers = match fields.value("headers").map(|value| serde_json::from_value(value.clone())) {
        Some(Ok(headers)) => headers,
        Some(Err(_)) => {
            fields.issue("headers", "must be a list of [name, value] pairs");
            Headers::new()
        }
        None => Headers::new(),
    };
    Signing {
        method: fields.text("method", 16).unwrap_or_else(|| "POST".to_owned()),
        headers,
        body,
        at: fields.time("at"),
        fault: fields.word("fault", &["bad_signature", "stale"]),
    }
}
