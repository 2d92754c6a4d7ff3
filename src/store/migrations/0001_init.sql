CREATE TABLE environments (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    slug TEXT NOT NULL UNIQUE,
    mode TEXT NOT NULL,
    -- The project folder that an embedded relay keeps this environment for.
    project TEXT UNIQUE,
    created_at {int} NOT NULL
);
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    start TEXT NOT NULL,
    hash {blob} NOT NULL UNIQUE,
    access TEXT NOT NULL,
    permissions TEXT NOT NULL,
    created_at {int} NOT NULL,
    last_used_at {int},
    revoked_at {int}
);
CREATE INDEX keys_of_environment ON api_keys (environment_id);
CREATE TABLE sources (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    slug TEXT NOT NULL UNIQUE,
    scheme TEXT NOT NULL,
    -- Sealed, one a line; see relay/seal.rs.
    sealed_secrets TEXT NOT NULL,
    secret_count {int} NOT NULL,
    dedupe TEXT NOT NULL,
    dedupe_window_s {int} NOT NULL,
    max_body_bytes {int} NOT NULL,
    public_url TEXT,
    enabled {int} NOT NULL,
    -- Written by the configuration file, and only changed there.
    managed {int} NOT NULL,
    created_at {int} NOT NULL,
    updated_at {int} NOT NULL,
    UNIQUE (environment_id, name)
);
-- One log per (environment, source); the source is '' for events made over the API without one.
CREATE TABLE streams (
    id {pk},
    environment_id TEXT NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
    source TEXT NOT NULL,
    head {int} NOT NULL,
    dispatched {int} NOT NULL,
    UNIQUE (environment_id, source)
);
CREATE INDEX streams_behind ON streams (id) WHERE head > dispatched;
CREATE TABLE events (
    position {pk},
    id TEXT NOT NULL UNIQUE,
    environment_id TEXT NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
    source TEXT NOT NULL,
    scheme TEXT NOT NULL,
    sequence {int} NOT NULL,
    type TEXT NOT NULL,
    provider_event_id TEXT,
    conflicting {int} NOT NULL,
    occurrences {int} NOT NULL,
    status {int} NOT NULL,
    size_bytes {int} NOT NULL,
    -- An envelope made here: rendered in the receiver's version.
    envelope {int} NOT NULL,
    created_at {int} NOT NULL
);
CREATE INDEX events_listed ON events (environment_id, position);
CREATE INDEX events_by_time ON events (environment_id, created_at);
CREATE INDEX events_by_provider_id ON events (environment_id, source, provider_event_id)
    WHERE provider_event_id IS NOT NULL;
CREATE TABLE event_contents (
    event {int} PRIMARY KEY REFERENCES events (position) ON DELETE CASCADE,
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    query TEXT NOT NULL,
    headers TEXT NOT NULL,
    body {blob} NOT NULL
);
CREATE TABLE arrivals (
    stream {int} NOT NULL REFERENCES streams (id) ON DELETE CASCADE,
    sequence {int} NOT NULL,
    event {int} NOT NULL REFERENCES events (position) ON DELETE CASCADE,
    occurrence {int} NOT NULL,
    arrived_at {int} NOT NULL,
    PRIMARY KEY (stream, sequence)
);
CREATE INDEX arrivals_of_event ON arrivals (event);
CREATE TABLE listeners (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
    api_version TEXT NOT NULL,
    description TEXT,
    event_types TEXT NOT NULL,
    sources TEXT NOT NULL,
    ordered {int} NOT NULL,
    -- Deliveries neither acked nor ended; what waits is this less what is leased.
    pending {int} NOT NULL,
    expires_at {int} NOT NULL,
    last_polled_at {int},
    -- The listener that took over from this one.
    continued_by TEXT,
    created_at {int} NOT NULL,
    -- How far each stream was dispatched when it opened: a stream and a sequence a line.
    opened_at TEXT NOT NULL
);
CREATE INDEX listeners_open ON listeners (environment_id, expires_at);
CREATE TABLE listener_deliveries (
    position {pk},
    id TEXT NOT NULL UNIQUE,
    listener_id TEXT NOT NULL REFERENCES listeners (id) ON DELETE CASCADE,
    event {int} NOT NULL REFERENCES events (position) ON DELETE CASCADE,
    -- The stream, in an ordered listener only: one delivery of a lane at a time.
    lane {int},
    sequence {int} NOT NULL,
    occurrence {int} NOT NULL,
    kind {int} NOT NULL,
    size_bytes {int} NOT NULL,
    state {int} NOT NULL,
    attempt {int} NOT NULL,
    ack_token TEXT,
    lease_expires_at {int} NOT NULL,
    status_code {int},
    error TEXT,
    duration_ms {int},
    created_at {int} NOT NULL,
    finished_at {int},
    UNIQUE (listener_id, event, occurrence)
);
CREATE INDEX deliveries_of_event ON listener_deliveries (event);
CREATE INDEX deliveries_to_claim ON listener_deliveries (listener_id, position) WHERE state = 0;
CREATE INDEX deliveries_leased ON listener_deliveries (listener_id, lease_expires_at)
    WHERE state = 0 AND lease_expires_at > 0;
CREATE INDEX deliveries_in_order ON listener_deliveries (listener_id, lane, position)
    WHERE state = 0 AND lane IS NOT NULL;
CREATE TABLE logs (
    position {pk},
    id TEXT NOT NULL,
    environment_id TEXT NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
    occurred_at {int} NOT NULL,
    source TEXT NOT NULL,
    level TEXT NOT NULL,
    type TEXT NOT NULL,
    message TEXT NOT NULL,
    status_code {int},
    duration_ms {int},
    resource_type TEXT,
    resource_id TEXT,
    attributes TEXT NOT NULL
);
CREATE INDEX logs_by_time ON logs (environment_id, occurred_at);
CREATE TABLE audit_events (
    position {pk},
    id TEXT NOT NULL,
    environment_id TEXT NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
    occurred_at {int} NOT NULL,
    type TEXT NOT NULL,
    actor TEXT NOT NULL,
    resource_id TEXT NOT NULL
);
CREATE INDEX audit_by_time ON audit_events (environment_id, occurred_at);
CREATE TABLE idempotency_keys (
    environment_id TEXT NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
    idempotency_key TEXT NOT NULL,
    body_hash {blob} NOT NULL,
    -- The stored answer; NULL while the first request is running.
    answer TEXT,
    created_at {int} NOT NULL,
    PRIMARY KEY (environment_id, idempotency_key)
);
CREATE INDEX idempotency_by_time ON idempotency_keys (environment_id, created_at);
