//! `POST /v1/events/replay`.

use std::sync::Arc;

use axum::extract::State;
use serde_json::Value;

use super::error::Failure;
use super::fields::{self, Fields};
use super::{Caller, Json};
use crate::clock::Timestamp;
use crate::protocol::error::Code;
use crate::protocol::events::EventReplay;
use crate::protocol::limits;
use crate::relay::Shared;
use crate::store::event_list::{self, Listed, Search};
use crate::store::events::Status;
use crate::store::replay::{self, Replayed};
use crate::store::tx::Tx;
use crate::store::{Durability, StoreError};

const MAX_TEXT: usize = 256;

/// What *replay* asks for, checked.
#[derive(Clone, Debug)]
struct Wanted {
    ids: Vec<String>,
    range: Search,
    listener: Option<String>,
    dry_run: bool,
    limit: u64,
}

/// Hands stored events once more to open listeners.
#[utoipa::path(post, path = "/v1/events/replay", request_body = crate::protocol::events::ReplayEvents,
    responses((status = 200, body = EventReplay), (status = 422, body = crate::protocol::error::ErrorBody)))]
pub(super) async fn replay(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    Json(body): Json,
) -> Result<axum::Json<EventReplay>, Failure> {
    caller.access.need("event:create")?;
    let environment = caller.access.environment.id.clone();
    let wanted = fields::read(&body, |fields| read(fields, &environment))?;
    let (chosen, has_more) = shared.choose(&environment, wanted.clone()).await?;
    let event_ids: Vec<String> = chosen.iter().map(|event| event.id.clone()).collect();
    if let Some(id) = &wanted.listener {
        let open = shared.show_listener(&caller.access, id).await;
        open.map_err(|failure| failure.param("to.listener"))?;
    }
    let listeners = shared.hand_on(&environment, &wanted, chosen).await?;
    Ok(axum::Json(EventReplay {
        object: "event_replay".to_owned(),
        count: event_ids.len() as u64,
        event_ids,
        listeners,
        has_more,
    }))
}

fn read(fields: &mut Fields<'_>, environment: &str) -> Wanted {
    let most = usize::try_from(limits::MAX_REPLAY).unwrap_or(usize::MAX);
    let ids = fields.texts("event_ids", most, MAX_TEXT);
    let (listener, until) = read_to(fields);
    let status = fields.word("status", &Status::ALL.map(|(_, text)| text));
    let range = Search {
        environment_id: environment.to_owned(),
        kind: fields.text("type", MAX_TEXT).filter(|pattern| pattern != "*"),
        source: fields.text("source", MAX_TEXT),
        from: fields.time("from"),
        to: fields.time("to_time").or(until),
        text: None,
        status: status.and_then(|text| Status::parse(&text)),
        ascending: true,
        after: None,
        limit: limits::MAX_REPLAY,
    };
    let by_range = range.from.is_some() || range.to.is_some();
    let named =
        fields.value("event_ids").is_some_and(|list| list.as_array().is_none_or(|list| !list.is_empty()));
    if !named && !by_range {
        fields.issue("event_ids", "name the events, or a range with `from` (and `to_time`)");
    }
    if named && by_range {
        fields.issue("from", "can't be combined with `event_ids`");
    }
    let limit = fields.integer("limit", 1..=limits::MAX_REPLAY).unwrap_or(limits::MAX_REPLAY);
    let dry_run = fields.flag("dry_run").unwrap_or(false);
    Wanted { ids, range: Search { limit, ..range }, listener, dry_run, limit }
}

/// `to`: `"listeners"`, `{"listener": id}`; with a range, a time is its end.
fn read_to(fields: &mut Fields<'_>) -> (Option<String>, Option<Timestamp>) {
    match fields.value("to") {
        None => return (None, None),
        Some(Value::String(text)) if text == "listeners" => return (None, None),
        Some(Value::String(text)) => {
            if let Some(at) = Timestamp::parse(text) {
                return (None, Some(at));
            }
        }
        Some(Value::Object(map)) => {
            if let Some(Value::String(id)) = map.get("listener") {
                return (Some(id.clone()), None);
            }
        }
        Some(_) => {}
    }
    fields.issue("to", "must be \"listeners\" or {\"listener\": \"whlis_...\"}");
    (None, None)
}

impl Shared {
    /// The events, oldest first, and whether the range holds more.
    async fn choose(&self, environment: &str, wanted: Wanted) -> Result<(Vec<Listed>, bool), Failure> {
        if wanted.ids.is_empty() {
            return Ok(self.store.read(move |tx| event_list::page(tx, &wanted.range)).await?);
        }
        if wanted.ids.len() as u64 > wanted.limit {
            let text = format!(
                "{} events are named, at most {} are replayed at once",
                wanted.ids.len(),
                wanted.limit
            );
            return Err(Failure::new(Code::ReplayTooLarge, text).param("event_ids"));
        }
        let environment = environment.to_owned();
        let find = move |tx: &mut dyn Tx| {
            let mut found = Vec::new();
            for (index, id) in wanted.ids.iter().enumerate() {
                match event_list::by_id(tx, &environment, id)? {
                    Some(event) => found.push(event),
                    None => return Ok(Err(index)),
                }
            }
            Ok::<_, StoreError>(Ok(found))
        };
        let found = self.store.read(find).await?;
        let mut events =
            found.map_err(|index| Failure::not_found("event").param(&format!("event_ids.{index}")))?;
        events.sort_by_key(|event| event.position);
        events.dedup_by_key(|event| event.position);
        Ok((events, false))
    }

    /// Makes the deliveries (unless it is a dry run); to how many listeners.
    async fn hand_on(&self, environment: &str, wanted: &Wanted, events: Vec<Listed>) -> Result<u64, Failure> {
        let (environment, only, dry) = (environment.to_owned(), wanted.listener.clone(), wanted.dry_run);
        let (now, ids) = (self.clock.now(), self.ids.clone());
        let replayed = if dry {
            let work = move |tx: &mut dyn Tx| replay::receivers(tx, &environment, only.as_deref(), now);
            Replayed::To { listeners: self.store.read(work).await?.len() as u64 }
        } else {
            let work = move |tx: &mut dyn Tx| {
                replay::to_listeners(tx, &environment, only.as_deref(), &events, now, &ids)
            };
            self.store.write(Durability::Promised, work).await?
        };
        match replayed {
            Replayed::To { listeners } => Ok(listeners),
            Replayed::NoListener => {
                let text = "nobody listens in this environment, so nothing was replayed";
                Err(Failure::new(Code::NoOpenListener, text)
                    .hint("start `pullhook listen`, then replay again; the events stay stored"))
            }
        }
    }
}
