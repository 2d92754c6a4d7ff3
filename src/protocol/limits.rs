//! The numbers of the contract, each once.

use std::time::Duration;

/// Acks in one poll, at most; also `extend` and `holding`.
pub const ACKS_PER_POLL: usize = 50;
/// Deliveries in one poll's answer, at most.
pub const MAX_LIMIT: u32 = 50;
/// Deliveries in one poll's answer, unless asked.
pub const DEFAULT_LIMIT: u32 = 10;
/// How long a poll may wait, at most.
pub const MAX_WAIT_MS: u64 = 25_000;
/// How long a poll waits, unless asked.
pub const DEFAULT_WAIT_MS: u64 = 20_000;
/// The longest ack token, in characters.
pub const MAX_ACK_TOKEN: usize = 64;
/// The longest duration that an ack may report.
pub const MAX_DURATION_MS: u64 = 3_600_000;
/// The longest error text that our client sends in an ack, in characters.
pub const MAX_ACK_ERROR: usize = 500;
/// Event type patterns of one listener, at most.
pub const MAX_EVENT_TYPES: usize = 100;
/// The longest description, in characters.
pub const MAX_DESCRIPTION: usize = 256;
/// Stored events that opening with `since` hands out, unless asked.
pub const DEFAULT_MAX_BACKLOG: u64 = 1000;
/// Open listeners of one environment, at most.
pub const LISTENERS_PER_ENVIRONMENT: usize = 5;
/// Hand-outs of one delivery without an ack, at most.
pub const MAX_HAND_OUTS: u32 = 5;
/// Bodies in one poll's answer, in bytes (one delivery always fits).
pub const MAX_POLL_BYTES: usize = 4 << 20;
/// How long a listener lives after its last poll.
pub const LISTENER_LIFE: Duration = Duration::from_secs(600);
/// How long a delivery is leased.
pub const LEASE: Duration = Duration::from_secs(120);
/// How long a listener is kept after its expiry.
pub const LISTENER_KEPT: Duration = Duration::from_secs(86_400);
/// An API request's body, in bytes.
pub const MAX_REQUEST_BYTES: usize = 5_000_000;
/// An ingested body, in bytes, unless its source says otherwise: 25 MiB.
pub const DEFAULT_MAX_BODY_BYTES: u64 = 25 << 20;
/// An ingested body, in bytes, whatever its source says: 64 MiB.
pub const LARGEST_BODY_BYTES: usize = 64 << 20;
/// A relay's answer, in bytes, as far as a client reads it: the largest body as base64, and 64 MiB for everything else,
/// the headers of a full poll above all.
pub const MAX_ANSWER_BYTES: usize = LARGEST_BODY_BYTES.div_ceil(3) * 4 + (64 << 20);
/// Items on a page, at most.
pub const MAX_PAGE: u64 = 100;
/// Items on a page, unless asked.
pub const DEFAULT_PAGE: u64 = 50;
/// Events that one replay takes, unless asked and at most.
pub const MAX_REPLAY: u64 = 1000;
/// The longest idempotency key, in characters.
pub const MAX_IDEMPOTENCY_KEY: usize = 256;
/// How long an idempotency key is remembered.
pub const IDEMPOTENCY_KEPT: Duration = Duration::from_secs(86_400);
