//! A request's body, whole and under a cap, or why not.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use tokio::time::Instant;

/// What is read of a refused body, so that the sender gets to read the answer.
const MAX_DISCARDED: u64 = 1 << 30;
/// For how long.
const DISCARD_DEADLINE: Duration = Duration::from_secs(20);

/// Why a body was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    /// Over the cap.
    TooLarge,
    /// It stalled, or took too long.
    TooSlow,
    /// The connection ended within it.
    Broken,
}

/// How much, and how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyLimits {
    pub(super) bytes: u64,
    /// Between two pieces.
    pub(super) stall: Duration,
    /// For the whole.
    pub(super) deadline: Duration,
}

/// The whole body under the cap; refused bodies are read on and thrown away, so that the sender sees the answer
/// instead of a reset.
pub(super) async fn read(
    headers: &HeaderMap,
    mut body: Body,
    limits: BodyLimits,
) -> Result<Bytes, BodyError> {
    let announced =
        headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
    if announced.is_some_and(|length: u64| length > limits.bytes) {
        // Who waits for a `100 Continue` reads the answer before it sends anything.
        if !headers.contains_key(header::EXPECT) {
            discard(body).await;
        }
        return Err(BodyError::TooLarge);
    }
    let deadline = Instant::now() + limits.deadline;
    // Announced and within the cap: no copy, no growth.
    let mut whole = BytesMut::with_capacity(usize::try_from(announced.unwrap_or(0)).unwrap_or(0));
    loop {
        let stall = Instant::now() + limits.stall;
        let frame = tokio::time::timeout_at(stall.min(deadline), body.frame()).await;
        let Some(frame) = frame.map_err(|_| BodyError::TooSlow)? else { return Ok(whole.freeze()) };
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        if (whole.len() + data.len()) as u64 > limits.bytes {
            drop(whole);
            discard(body).await;
            return Err(BodyError::TooLarge);
        }
        whole.extend_from_slice(&data);
    }
}

async fn discard(mut body: Body) {
    let read_on = async {
        let mut left = MAX_DISCARDED;
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len() as u64));
            if left == 0 {
                return;
            }
        }
    };
    // Whoever sends for longer than this doesn't read the answer anyway.
    let _ = tokio::time::timeout(DISCARD_DEADLINE, read_on).await;
}
