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
use crate::store::{Durability, StoreError, tx::Tx};

const KEY: &str = "idempotency-key";
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// No answer takes longer; a request that holds its key for longer than this has died.
const ABANDONED: Duration = Duration::from_secs(60);

#[derive(Serialize, Deserialize)]
struct Answer {
    status: u16,
    body: Value,
}

/// The key that a request took, if it sent one. Its answer is kept in the transaction that does the work, so that there
/// is never one without the other.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    environment: String,
    key: Option<String>,
}

impl Taken {
    /// Keeps the answer for the request's repeats.
    pub(super) fn keep(&self, tx: &mut dyn Tx, status: StatusCode, body: &Value) -> Result<(), StoreError> {
        let Some(key) = &self.key else { return Ok(()) };
        let answer = Answer { status: status.as_u16(), body: body.clone() };
        // A status and a JSON value always have a JSON form.
        let text = serde_json::to_string(&answer).unwrap_or_default();
        idempotency::answer(tx, &self.environment, key, &text)
    }
}

/// Runs `work` once per key; without a key, just runs it. The work keeps its own answer.
pub(super) async fn once<F, W>(
    shared: &Arc<Shared>,
    environment: &str,
    headers: &HeaderMap,
    body: &[u8],
    work: F,
) -> Result<Response, Failure>
where
    F: FnOnce(Taken) -> W,
    W: Future<Output = Result<(StatusCode, Value), Failure>>,
{
    let taken = Taken { environment: environment.to_owned(), key: key(headers)? };
    let respond_to = |(status, body): (StatusCode, Value)| (status, axum::Json(body)).into_response();
    let Some(key) = taken.key.clone() else {
        return work(taken).await.map(respond_to);
    };
    if let Some(answer) = take(shared, environment, &key, body).await? {
        let mut response = respond(answer);
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        return Ok(response);
    }
    match work(taken).await {
        Ok(answer) => Ok(respond_to(answer)),
        Err(failure) => {
            let environment = environment.to_owned();
            let release = move |tx: &mut dyn Tx| idempotency::release(tx, &environment, &key);
            if let Err(error) = shared.store.write(Durability::Relaxed, release).await {
                tracing::warn!(%error, "an idempotency key is held until it counts as abandoned");
            }
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
