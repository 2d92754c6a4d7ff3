//! `/v1/events` and `/v1/webhook_events/test`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};

use super::error::Failure;
use super::fields::{self, Fields};
use super::idempotency::once;
use super::query::Query;
use super::{Caller, Id, Json, samples};
use crate::clock::Timestamp;
use crate::headers::Headers;
use crate::id::Kind;
use crate::protocol::events::{Envelope, Event, EventDelivery, TestEvent};
use crate::protocol::{List, limits, listeners::body_fields};
use crate::relay::Shared;
use crate::store::dispatch::Origin;
use crate::store::event_list::{self, Content, DeliveryShown, Listed, Search};
use crate::store::events::{Dedupe, NewEvent, Status};
use crate::store::tx::Tx;
use crate::store::{Durability, StoreError, events, listeners, sources};
use crate::wake::Topic;

const MAX_TYPE: usize = 256;
const MAX_SOURCE: usize = 64;

/// Lists events, newest first; with `after` and `wait_ms` it waits for newer ones.
#[utoipa::path(get, path = "/v1/events", params(
    ("type" = Option<String>, Query), ("source" = Option<String>, Query), ("from" = Option<String>, Query),
    ("to" = Option<String>, Query), ("q" = Option<String>, Query), ("status" = Option<String>, Query),
    ("order" = Option<String>, Query), ("limit" = Option<u64>, Query), ("after" = Option<String>, Query),
    ("wait_ms" = Option<u64>, Query)), responses((status = 200, body = List<Event>)))]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    query: Query,
) -> Result<axum::Json<List<Event>>, Failure> {
    caller.access.need("event:read")?;
    let (search, after, wait) = read_search(query, &caller.access.environment.id)?;
    let mut news = shared.store.wake().subscribe(Topic::Arrived);
    let mut keys = shared.watch_keys();
    let search = shared.after_event(search, after).await?;
    let deadline = shared.clock.now() + wait;
    loop {
        let wanted = search.clone();
        let (found, more) = shared.store.read(move |tx| event_list::page(tx, &wanted)).await?;
        if !found.is_empty() || shared.clock.now() >= deadline || shared.stop.is_cancelled() {
            return Ok(axum::Json(List::new(found.into_iter().map(listed).collect(), more)));
        }
        tokio::select! {
            biased;
            () = keys.changed() => shared.check_key(&caller.access).await?,
            () = news.changed() => {}
            () = shared.clock.sleep_until(deadline) => {}
            () = shared.stop.cancelled() => {}
        }
    }
}

fn read_search(mut query: Query, environment: &str) -> Result<(Search, Option<String>, Duration), Failure> {
    let wait = query.integer("wait_ms", 0..=limits::MAX_WAIT_MS);
    let after = query.text("after");
    // Waiting for newer events means going forward.
    let ascending = query.word("order", &[(true, "asc"), (false, "desc")]);
    let search = Search {
        environment_id: environment.to_owned(),
        kind: query.text("type").filter(|pattern| pattern != "*"),
        source: query.text("source"),
        from: query.time("from"),
        to: query.time("to"),
        text: query.text("q"),
        status: query.word("status", &Status::ALL),
        ascending: ascending.unwrap_or(wait.is_some()),
        after: None,
        limit: query.page(),
    };
    if wait.is_some() && ascending == Some(false) {
        query.issue("wait_ms", "waits for newer events, so it needs order=asc".to_owned());
    }
    query.check()?;
    Ok((search, after, Duration::from_millis(wait.unwrap_or(0))))
}

impl Shared {
    async fn after_event(&self, mut search: Search, after: Option<String>) -> Result<Search, Failure> {
        if let Some(id) = after {
            let found = self.find_event(&search.environment_id, &id).await;
            search.after = Some(found.map_err(|failure| failure.param("after"))?.position);
        }
        Ok(search)
    }

    async fn find_event(&self, environment: &str, id: &str) -> Result<Listed, Failure> {
        let (environment, id) = (environment.to_owned(), id.to_owned());
        let found = self.store.read(move |tx| event_list::by_id(tx, &environment, &id)).await?;
        found.ok_or_else(|| Failure::not_found("event").hint("list them with `pullhook events list`"))
    }
}

/// Shows an event with its headers, its body and every delivery.
#[utoipa::path(get, path = "/v1/events/{id}", params(("id" = String, Path)),
    responses((status = 200, body = Event), (status = 404, body = crate::protocol::error::ErrorBody)))]
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    Id(id): Id,
) -> Result<axum::Json<Event>, Failure> {
    caller.access.need("event:read")?;
    let event = shared.find_event(&caller.access.environment.id, &id).await?;
    let (position, now) = (event.position, shared.clock.now());
    let work = move |tx: &mut dyn Tx| {
        Ok((event_list::content(tx, position)?, event_list::deliveries(tx, position, now)?))
    };
    let (content, deliveries) = shared.store.read(work).await?;
    let content = content.ok_or_else(|| Failure::not_found("event"))?;
    Ok(axum::Json(whole(event, content, deliveries)))
}

/// An event as lists show it.
pub(super) fn listed(event: Listed) -> Event {
    Event {
        object: "event".to_owned(),
        id: event.id,
        kind: event.kind,
        source: Some(event.source).filter(|name| !name.is_empty()),
        sequence: event.sequence,
        size_bytes: event.size_bytes,
        provider_event_id: event.provider_event_id,
        conflicting: event.conflicting,
        occurrences: event.occurrences,
        status: event.status.to_owned(),
        created_at: event.created_at,
        method: None,
        path: None,
        query: None,
        headers: None,
        body: None,
        body_base64: None,
        deliveries: None,
    }
}

fn whole(event: Listed, content: Content, deliveries: Vec<DeliveryShown>) -> Event {
    let (body, body_base64) = body_fields(&content.body);
    let headers: Headers = serde_json::from_str(&content.headers).unwrap_or_default();
    Event {
        method: Some(content.method),
        path: Some(content.path),
        query: Some(content.query),
        headers: Some(headers),
        body: Some(body),
        body_base64,
        deliveries: Some(deliveries.into_iter().map(delivery).collect()),
        ..listed(event)
    }
}

fn delivery(shown: DeliveryShown) -> EventDelivery {
    EventDelivery {
        object: "webhook_listener_delivery".to_owned(),
        id: shown.id,
        listener_id: shown.listener_id,
        occurrence: shown.occurrence,
        replay: shown.kind == Origin::Replay.number(),
        redelivery: shown.kind == Origin::Redelivery.number(),
        status: shown.status.to_owned(),
        attempt: shown.attempt,
        status_code: shown.status_code,
        error: shown.error,
        duration_ms: shown.duration_ms,
        created_at: shown.created_at,
        finished_at: shown.finished_at,
    }
}

/// What *create* asks for, checked.
struct Wanted {
    kind: String,
    data: Map<String, Value>,
    body: Option<String>,
    source: Option<String>,
}

/// Stores an event made here.
#[utoipa::path(post, path = "/v1/events", request_body = crate::protocol::events::CreateEvent,
    responses((status = 202, body = Event), (status = 400, body = crate::protocol::error::ErrorBody)))]
pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    headers: HeaderMap,
    Json(body): Json,
) -> Result<Response, Failure> {
    caller.access.need("event:create")?;
    let wanted = fields::read(&body, read_create)?;
    let environment = caller.access.environment.id.clone();
    once(&shared, &environment, &headers, &body, |taken| async {
        if let Some(source) = &wanted.source {
            shared.need_source(&environment, source).await?;
        }
        let keep = move |tx: &mut dyn Tx, event| {
            // An event always has a JSON form.
            let shown = serde_json::to_value(listed(event)).unwrap_or_default();
            taken.keep(tx, StatusCode::ACCEPTED, &shown)?;
            Ok(shown)
        };
        let (shown, _) = shared.make_event(&caller, wanted, keep).await?;
        Ok((StatusCode::ACCEPTED, shown))
    })
    .await
}

fn read_create(fields: &mut Fields<'_>) -> Wanted {
    let kind = read_type(fields);
    let mut data = read_data(fields);
    let body = fields.string("body");
    if data.is_some() == body.is_some() {
        fields.issue("data", "send either `data` (an envelope is made around it) or `body` (sent as it is)");
    }
    if let Some(at) = fields.time("occurred_at") {
        match &mut data {
            Some(data) => drop(data.insert("occurred_at".to_owned(), Value::from(at.to_string()))),
            None => {
                fields.issue("occurred_at", "stands in the envelope's data; it has no place in a raw `body`");
            }
        }
    }
    Wanted { kind, data: data.unwrap_or_default(), body, source: fields.text("source", MAX_SOURCE) }
}

fn read_type(fields: &mut Fields<'_>) -> String {
    let kind = fields.required("type", MAX_TYPE);
    if kind.chars().any(char::is_control) {
        fields.issue("type", "must not hold control characters");
    }
    kind
}

fn read_data(fields: &mut Fields<'_>) -> Option<Map<String, Value>> {
    match fields.value("data")? {
        Value::Object(data) => Some(data.clone()),
        _ => {
            fields.issue("data", "must be an object");
            None
        }
    }
}

/// Sends a sample of a type, like a real event.
#[utoipa::path(post, path = "/v1/webhook_events/test", request_body = crate::protocol::events::CreateEvent,
    responses((status = 200, body = TestEvent), (status = 400, body = crate::protocol::error::ErrorBody)))]
pub(super) async fn test(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    Json(body): Json,
) -> Result<axum::Json<TestEvent>, Failure> {
    caller.access.need("event:create")?;
    let mut wanted = fields::read(&body, |fields| Wanted {
        kind: read_type(fields),
        data: read_data(fields).unwrap_or_default(),
        body: None,
        source: None,
    })?;
    let mut data = samples::of(&wanted.kind);
    samples::merge(&mut data, wanted.data);
    wanted.data = data;
    let (environment, kind, now) =
        (caller.access.environment.id.clone(), wanted.kind.clone(), shared.clock.now());
    let ((), envelope) = shared.make_event(&caller, wanted, |_, _| Ok(())).await?;
    let count = move |tx: &mut dyn Tx| {
        let open = listeners::subscribers(tx, &environment, now)?;
        Ok(open.iter().filter(|open| open.takes_source("") && open.takes_type(&kind)).count() as u64)
    };
    let listeners = shared.store.read(count).await?;
    Ok(axum::Json(TestEvent {
        object: "webhook_test_event".to_owned(),
        event: envelope,
        endpoints: 0,
        listeners,
    }))
}

impl Shared {
    async fn need_source(&self, environment: &str, name: &str) -> Result<(), Failure> {
        let (environment, wanted) = (environment.to_owned(), name.to_owned());
        match self.store.read(move |tx| sources::by_name(tx, &environment, &wanted)).await? {
            Some(_) => Ok(()),
            None => Err(Failure::not_found("source")
                .param("source")
                .hint("list them with `pullhook sources list`")),
        }
    }

    /// Stores an event durably, and what `also` does in the same transaction; with the envelope that was made.
    async fn make_event<T, F>(
        &self,
        caller: &Caller,
        wanted: Wanted,
        mut also: F,
    ) -> Result<(T, Envelope), Failure>
    where
        T: Send + 'static,
        F: FnMut(&mut dyn Tx, Listed) -> Result<T, StoreError> + Send + 'static,
    {
        let (id, now) = (self.ids.make(Kind::Event), self.clock.now());
        let envelope = Envelope {
            id: id.clone(),
            object: "event".to_owned(),
            kind: wanted.kind.clone(),
            api_version: caller.version.to_owned(),
            created_at: now,
            data: wanted.data,
        };
        let is_envelope = wanted.body.is_none();
        let body = match wanted.body {
            Some(text) => Bytes::from(text),
            None => Bytes::from(serde_json::to_vec(&envelope).unwrap_or_default()),
        };
        let new =
            new_event(id, caller, wanted.kind, wanted.source.unwrap_or_default(), body, is_envelope, now);
        let environment = new.environment_id.clone();
        let work = move |tx: &mut dyn Tx| {
            let appended = events::append(tx, &new)?;
            let stored = event_list::by_id(tx, &new.environment_id, &appended.event_id)?;
            let vanished = || StoreError::Corrupt("an event vanished within a transaction".into());
            also(tx, stored.ok_or_else(vanished)?)
        };
        Ok((self.store.write_together(&environment, Durability::Promised, work).await?, envelope))
    }
}

fn new_event(
    id: String,
    caller: &Caller,
    kind: String,
    source: String,
    body: Bytes,
    envelope: bool,
    now: Timestamp,
) -> NewEvent {
    NewEvent {
        id,
        environment_id: caller.access.environment.id.clone(),
        source,
        scheme: "none".to_owned(),
        kind,
        provider_event_id: None,
        dedupe: Dedupe { since: now, drop: false },
        method: "POST".to_owned(),
        path: String::new(),
        query: String::new(),
        headers: r#"[["content-type","application/json"]]"#.to_owned(),
        body,
        envelope,
        at: now,
    }
}
