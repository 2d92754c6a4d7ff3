//! `Idempotency-Key`: the first request with a key is carried out, its repeats get its answer.

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::error::Failure;
use crate::protocol::error::Code;
use crate::protocol::limits;
use crate::relay::Shared;
use crate::store::idempotency::{self, Seen};
use crate::store::{Durability, tx::Tx};

const KEY: &str = "idempotency-key";
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// No answer takes longer; a request that holds its key for longer than this has died.
const ABANDONED: Duration = Duration::from_secs(60);

#[derive(Serialize, Deserialize)]
struct Answer {
    status: u16,
    body: Value,
}

/// Runs `work` once per key; without a key, just runs it.
pub(super) async fn once<F, W>(
    shared: &Arc<Shared>,
    environment: &str,
    headers: &HeaderMap,
    body: &[u8],
    work: F,
) -> Result<Response, Failure>
where
    F: FnOnce() -> W,
    W: Future<Output = Result<(StatusCode, Value), Failure>>,
{
    let Some(key) = key(headers)? else {
        return work().await.map(|(status, body)| (status, axum::Json(body)).into_response());
    };
    let taken = take(shared, environment, &key, body).await?;
    if let Some(answer) = taken {
        let mut response = respond(answer);
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        return Ok(response);
    }
    let environment = environment.to_owned();
    match work().await {
        Ok((status, body)) => {
            let answer = Answer { status: status.as_u16(), body };
            let text = serde_json::to_string(&answer).unwrap_or_default();
            let keep = move |tx: &mut dyn Tx| idempotency::answer(tx, &environment, &key, &text);
            shared.store.write(Durability::Promised, keep).await?;
            Ok(respond(answer))
        }
        Err(failure) => {
            let release = move |tx: &mut dyn Tx| idempotency::release(tx, &environment, &key);
            shared.store.write(Durability::Relaxed, release).await?;
            Err(failure)
        }
    }
}

fn respond(answer: Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    (status, axum::Json(answer.body)).into_response()
}

fn key(headers: &HeaderMap) -> Result<Option<String>, Failure> {
    let Some(value) = headers.get(KEY) else { return Ok(None) };
    match value.to_str() {
        Ok(text) if (1..=limits::MAX_IDEMPOTENCY_KEY).contains(&text.len()) => Ok(Some(text.to_owned())),
        _ => {
            let most = limits::MAX_IDEMPOTENCY_KEY;
            let text = format!("an Idempotency-Key has 1 to {most} ASCII characters");
            Err(Failure::new(Code::InvalidRequest, text).param(KEY))
        }
    }
}

async fn take(shared: &Shared, environment: &str, key: &str, body: &[u8]) -> Result<Option<Answer>, Failure> {
    let (environment, key) = (environment.to_owned(), key.to_owned());
    let (hash, now) = (Sha256::digest(body).to_vec(), shared.clock.now());
    let (since, abandoned) = (now - limits::IDEMPOTENCY_KEPT, now - ABANDONED);
    let work = move |tx: &mut dyn Tx| idempotency::take(tx, &environment, &key, &hash, now, since, abandoned);
    match shared.store.write(Durability::Promised, work).await? {
        Seen::New => Ok(None),
        Seen::Answered(text) => serde_json::from_str(&text).map(Some).map_err(|error| {
            tracing::error!(%error, "a stored answer is unreadable");
            Failure::new(Code::Internal, "the relay failed; its log names this request id")
        }),
        Seen::OtherBody => {
            let text = "this Idempotency-Key was used with another body; use a new key for a new request";
            Err(Failure::new(Code::IdempotencyMismatch, text).param(KEY))
        }
        Seen::Running => {
            let text =
                "a request with this Idempotency-Key is still running; repeat it shortly for its answer";
            Err(Failure::new(Code::IdempotencyInProgress, text).param(KEY))
        }
    }
}
