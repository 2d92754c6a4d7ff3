//! `POST /api/webhooks/{slug}[/anything]`: known source, whole body, good signature, on disk, 202; in that order.
//! Whatever fails in between is no 2xx, and nothing was taken.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Uri, request::Parts};

use super::Shared;
use super::api::error::Failure;
use super::body::{self, BodyError, BodyLimits};
use super::sources::Live;
use crate::headers::Headers;
use crate::id::Kind;
use crate::protocol::error::Code;
use crate::protocol::sources::Accepted;
use crate::signature::{self, Facts};
use crate::store::events::{Dedupe, NewEvent};
use crate::store::{Durability, StoreError, events};

/// The path before a source's slug.
const PREFIX: &str = "/api/webhooks/";
/// The methods with which a webhook may come.
const METHODS: [Method; 3] = [Method::POST, Method::PUT, Method::PATCH];
/// With these a provider only looks whether somebody is there, before it saves the address.
const PROBES: [Method; 2] = [Method::GET, Method::HEAD];

/// Takes one webhook in.
#[utoipa::path(post, path = "/api/webhooks/{slug}", params(("slug" = String, Path)),
    request_body(content = Vec<u8>, content_type = "*/*"), responses((status = 202, body = Accepted)))]
pub(super) async fn take(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let (slug, path) = split(&parts.uri);
    let live = in_time(&shared, shared.live_source(slug)).await?;
    let live = live.filter(|live| live.row.enabled);
    let Some(live) = live else {
        return Err(Failure::new(Code::NotFound, "no source has this address"));
    };
    if !live.scheme.is_signed() {
        shared.settings.check_unsigned(&parts.headers)?;
    }
    if PROBES.contains(&parts.method) {
        return Ok(StatusCode::OK.into_response());
    }
    if !METHODS.contains(&parts.method) {
        return Err(Failure::new(Code::MethodNotAllowed, "a webhook comes with POST; nothing was stored")
            .allow("GET, HEAD, POST, PUT, PATCH"));
    }
    let limit = live.row.max_body_bytes.min(shared.settings.max_body_bytes);
    let body = read_body(&shared, &parts.headers, body, limit).await?;
    let headers = Headers::from(&parts.headers);
    verify(&shared, &live, &parts, &headers, &body)?;
    let facts = signature::facts(live.scheme, &headers, &body);
    let event = new_event(&shared, &live, &parts, path, headers, facts, body);
    let environment = live.row.environment_id.as_str();
    let append = move |tx: &mut dyn crate::store::tx::Tx| events::append(tx, &event);
    let append = shared.store.write_together(environment, Durability::Promised, append);
    let appended = in_time(&shared, append).await?;
    let receipt = Accepted {
        status: "accepted".to_owned(),
        event_id: appended.event_id,
        duplicate: appended.duplicate,
    };
    Ok((StatusCode::ACCEPTED, axum::Json(receipt)).into_response())
}

/// What the store says, unless it fails or hangs.
async fn in_time<T>(
    shared: &Shared,
    asked: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(shared.settings.answer_deadline, asked).await {
        Ok(answer) => answer.map_err(|error| Failure::not_taken(&error)),
        Err(_) => Err(Failure::stuck()),
    }
}

/// The slug, and the path below it.
fn split(uri: &Uri) -> (&str, &str) {
    let rest = uri.path().strip_prefix(PREFIX).unwrap_or_default();
    rest.find('/').map_or((rest, ""), |at| rest.split_at(at))
}

/// The same answer whatever was wrong; why goes to the operator's log, without any value that was sent.
fn verify(
    shared: &Shared,
    live: &Live,
    parts: &Parts,
    headers: &Headers,
    body: &Bytes,
) -> Result<(), Failure> {
    let url = live.row.public_url.as_deref();
    let request = signature::Request { method: parts.method.as_str(), url, headers, body };
    signature::verify(live.scheme, &live.keys, &request, shared.clock.now()).map_err(|rejection| {
        let (source, label) = (&live.row.name, rejection.label());
        tracing::warn!(source, reason = label, "a webhook was refused: {rejection}");
        Failure::new(Code::InvalidSignature, "the webhook's signature was not accepted; see the relay's log")
    })
}

fn new_event(
    shared: &Shared,
    live: &Live,
    parts: &Parts,
    path: &str,
    mut headers: Headers,
    facts: Facts,
    body: Bytes,
) -> NewEvent {
    let now = shared.clock.now();
    for name in signature::credential_headers(live.scheme) {
        headers.remove(name);
    }
    NewEvent {
        id: shared.ids.make(Kind::Event),
        environment_id: live.row.environment_id.clone(),
        source: live.row.name.clone(),
        scheme: live.scheme.name().to_owned(),
        kind: facts.type_or_unknown().to_owned(),
        provider_event_id: facts.event_id,
        dedupe: Dedupe {
            since: now - Duration::from_secs(live.row.dedupe_window_s),
            drop: live.row.dedupe == "drop",
        },
        method: parts.method.as_str().to_owned(),
        path: path.to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        // A list of pairs of strings always has a JSON form.
        headers: serde_json::to_string(&headers).unwrap_or_default(),
        body,
        envelope: false,
        at: now,
    }
}

async fn read_body(shared: &Shared, headers: &HeaderMap, body: Body, limit: u64) -> Result<Bytes, Failure> {
    let settings = &shared.settings;
    let limits = BodyLimits { bytes: limit, stall: settings.body_stall, deadline: settings.body_deadline };
    body::read(headers, body, limits).await.map_err(|error| match error {
        BodyError::TooLarge => too_large(limit),
        BodyError::TooSlow => {
            Failure::new(Code::RequestTimeout, "the body came too slowly; nothing was stored")
        }
        BodyError::Broken => Failure::new(Code::InvalidRequest, "the body broke off; nothing was stored"),
    })
}

fn too_large(limit: u64) -> Failure {
    Failure::new(
        Code::BodyTooLarge,
        format!("the body is larger than the {limit} bytes that are taken here; nothing was stored"),
    )
    .hint("the operator can raise the source's max_body_bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_below_the_source_is_kept_as_it_came() {
        let parts = |text: &str| {
            let uri: Uri = text.parse().unwrap();
            let (slug, path) = split(&uri);
            (slug.to_owned(), path.to_owned())
        };
        assert_eq!(parts("/api/webhooks/gh"), ("gh".into(), String::new()));
        assert_eq!(parts("/api/webhooks/gh/"), ("gh".into(), "/".into()));
        assert_eq!(parts("/api/webhooks/gh/x//y%2Fz?q=1"), ("gh".into(), "/x//y%2Fz".into()));
    }
}
