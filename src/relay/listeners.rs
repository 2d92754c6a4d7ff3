//! Listeners: open, poll (record, hand out, else wait), close.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use super::api::error::Failure;
use super::auth::Access;
use crate::clock::Timestamp;
use crate::headers::Headers;
use crate::id::Kind;
use crate::protocol::error::Code;
use crate::protocol::limits;
use crate::protocol::listeners as wire;
use crate::store::claims::{self, Ack, Claimed, HandOut, Polled, Token};
use crate::store::dispatch::Origin;
use crate::store::listeners::{self, Listener, Open, Opened, Since};
use crate::store::logs::{Audit, audit};
use crate::store::{Durability, StoreError};
use crate::wake::Topic;

/// What *open* asks for, checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenRequest {
    pub(crate) event_types: Vec<String>,
    pub(crate) sources: Vec<String>,
    pub(crate) api_version: String,
    pub(crate) description: Option<String>,
    pub(crate) since: Option<Since>,
    pub(crate) continues: Option<String>,
    pub(crate) max_backlog: u64,
    pub(crate) ordered: bool,
}

/// What *poll* asks for, checked.
#[derive(Clone, Debug)]
pub(crate) struct PollRequest {
    pub(crate) acks: Vec<Ack>,
    pub(crate) holding: Option<Vec<Token>>,
    pub(crate) extend: Vec<Token>,
    pub(crate) limit: u32,
    pub(crate) wait: Duration,
}

impl Shared {
    pub(crate) async fn open_listener(
        &self,
        access: &Access,
        ask: OpenRequest,
    ) -> Result<wire::Listener, Failure> {
        let now = self.clock.now();
        let listener = Listener {
            id: self.ids.make(Kind::Listener),
            environment_id: access.environment.id.clone(),
            api_version: ask.api_version,
            description: ask.description,
            event_types: ask.event_types,
            sources: ask.sources,
            ordered: ask.ordered,
            pending: 0,
            expires_at: now + self.settings.listener_life,
            last_polled_at: None,
            created_at: now,
        };
        let open = Open {
            listener,
            since: ask.since,
            continues: ask.continues,
            max_backlog: ask.max_backlog,
            limit: self.settings.listeners_per_environment,
            gone_since: now - limits::LISTENER_KEPT,
        };
        let (ids, actor) = (self.ids.clone(), access.key_id.clone());
        let work = move |tx: &mut dyn crate::store::tx::Tx| {
            let opened = listeners::open(tx, &open, &ids)?;
            if let Opened::Open { listener, .. } = &opened {
                let event = Audit {
                    id: ids.make(Kind::Audit),
                    environment_id: &listener.environment_id,
                    occurred_at: now,
                    kind: "webhook_listener.created",
                    actor: &actor,
                    resource_id: &listener.id,
                };
                audit(tx, &event)?;
            }
            Ok(opened)
        };
        match self.store.write(Durability::Promised, work).await? {
            Opened::Open { listener, backlog, others, latest } => Ok(wire::Listener {
                backlog: Some(backlog),
                others_open: Some(others),
                latest_event_id: latest,
                ..shown(&listener, None)
            }),
            refused => Err(self.refusal(&refused, now)),
        }
    }

    fn refusal(&self, opened: &Opened, now: Timestamp) -> Failure {
        match opened {
            Opened::TooMany { frees_up } => {
                let (most, seconds) =
                    (self.settings.listeners_per_environment, frees_up.since(now).as_secs());
                let text = format!(
                    "{most} listeners are open in this environment, which is the limit; the next one frees up within \
                     {seconds} s unless it is polled; close one that is not in use"
                );
                Failure::new(Code::ListenerLimitReached, text)
            }
            Opened::BacklogTooLarge { count } => {
                let text =
                    format!("{count} stored events match; open from a later point, or raise max_backlog");
                Failure::new(Code::BacklogTooLarge, text).param("since")
            }
            Opened::NoSuchEvent => Failure::not_found("event").param("since"),
            Opened::NoSuchListener => Failure::not_found("listener").param("continues"),
            Opened::Open { .. } => Failure::new(Code::Internal, "an open listener is no refusal"),
        }
    }

    pub(crate) async fn close_listener(&self, access: &Access, id: &str) -> Result<(), Failure> {
        let (environment, wanted, now) = (access.environment.id.clone(), id.to_owned(), self.clock.now());
        let work = move |tx: &mut dyn crate::store::tx::Tx| listeners::close(tx, &environment, &wanted, now);
        match self.store.write(Durability::Relaxed, work).await? {
            true => Ok(()),
            false => Err(gone()),
        }
    }

    pub(crate) async fn list_listeners(&self, access: &Access) -> Result<Vec<wire::Listener>, Failure> {
        let (environment, now) = (access.environment.id.clone(), self.clock.now());
        let open = self.store.read(move |tx| listeners::list_open(tx, &environment, now)).await?;
        Ok(open.iter().map(|listener| shown(listener, Some(listener.pending))).collect())
    }

    pub(crate) async fn show_listener(&self, access: &Access, id: &str) -> Result<wire::Listener, Failure> {
        let (environment, wanted) = (access.environment.id.clone(), id.to_owned());
        let found = self.store.read(move |tx| listeners::find(tx, &environment, &wanted)).await?;
        match found.filter(|listener| listener.expires_at > self.clock.now()) {
            Some(listener) => Ok(shown(&listener, Some(listener.pending))),
            None => Err(gone()),
        }
    }

    /// Records what was sent at once; then hands out what is there, or waits for it.
    pub(crate) async fn poll(
        self: &Arc<Self>,
        access: &Access,
        id: &str,
        ask: PollRequest,
    ) -> Result<wire::Poll, Failure> {
        // Register, then look: what arrives between the two is not missed.
        let mut news = self.store.wake().subscribe(Topic::Environment(access.environment.id.clone()));
        let mut hand_outs = self.store.wake().subscribe(Topic::Listener(id.to_owned()));
        let mut keys = self.watch_keys();
        let deadline = self.clock.now() + ask.wait;
        let limit = ask.limit;
        let (mut polled, lease) = self.step(access, id, ask.clone()).await?;
        let first_waiting = polled.claimed.waiting;
        let again = PollRequest { acks: Vec::new(), holding: None, extend: Vec::new(), ..ask };
        loop {
            let claimed = &polled.claimed;
            let is_news =
                if limit == 0 { claimed.waiting != first_waiting } else { !claimed.deliveries.is_empty() };
            if is_news || self.clock.now() >= deadline || self.stop.is_cancelled() {
                return Ok(answer(polled, lease));
            }
            let fallback = (self.clock.now() + self.settings.fallback_poll).min(deadline);
            let look = claimed.next_expiry.map_or(fallback, |at| at.min(fallback));
            tokio::select! {
                biased;
                // Nothing is handed out to a key that was revoked while its poll waited.
                () = keys.changed() => self.check_key(access).await?,
                () = news.changed() => {}
                () = hand_outs.changed(), if limit == 0 => {}
                () = self.clock.sleep_until(look) => {}
                () = self.stop.cancelled() => return Ok(answer(polled, lease)),
            }
            let (next, next_lease) = self.step(access, id, again.clone()).await?;
            polled.claimed = next.claimed;
            polled.listener = next.listener;
            if !polled.claimed.deliveries.is_empty() {
                return Ok(answer(polled, next_lease));
            }
        }
    }

    /// One transaction of a poll, and when the leases that it made end.
    async fn step(
        self: &Arc<Self>,
        access: &Access,
        id: &str,
        ask: PollRequest,
    ) -> Result<(Polled, Timestamp), Failure> {
        let now = self.clock.now();
        let lease_expires_at = now + self.settings.lease;
        let durability = if ask.acks.is_empty() { Durability::Relaxed } else { Durability::Promised };
        let poll = claims::Poll {
            environment_id: access.environment.id.clone(),
            listener_id: id.to_owned(),
            acks: ask.acks,
            holding: ask.holding,
            extend: ask.extend,
            limit: ask.limit,
            now,
            listener_expires_at: now + self.settings.listener_life,
            lease_expires_at,
            max_hand_outs: limits::MAX_HAND_OUTS,
            max_bytes: limits::MAX_POLL_BYTES as u64,
        };
        let (ids, gives_back) = (self.ids.clone(), poll.holding.is_some());
        let polled: Result<_, StoreError> =
            self.store.write(durability, move |tx| claims::poll(tx, &poll, &ids)).await;
        let polled = polled?.ok_or_else(gone)?;
        if gives_back || !polled.claimed.deliveries.is_empty() {
            self.store.wake().tell(&Topic::Listener(id.to_owned()));
        }
        Ok((polled, lease_expires_at))
    }
}

fn gone() -> Failure {
    Failure::new(Code::NotFound, "this listener is closed, expired or unknown; open another one")
}

fn answer(polled: Polled, lease_expires_at: Timestamp) -> wire::Poll {
    let Polled { listener, acknowledged, stale_acks, extended, claimed } = polled;
    let Claimed { deliveries, waiting, .. } = claimed;
    wire::Poll {
        object: "webhook_listener_poll".to_owned(),
        listener: shown(&listener, None),
        acknowledged,
        deliveries: deliveries.into_iter().map(|hand_out| delivery(hand_out, lease_expires_at)).collect(),
        waiting: Some(waiting),
        stale_acks: Some(stale_acks),
        extended: Some(extended),
    }
}

fn delivery(hand_out: HandOut, lease_expires_at: Timestamp) -> wire::Delivery {
    let (body, body_base64) = wire::body_fields(&hand_out.body);
    let headers: Headers = serde_json::from_str(&hand_out.headers).unwrap_or_default();
    wire::Delivery {
        object: "webhook_listener_delivery".to_owned(),
        id: hand_out.id,
        ack_token: hand_out.ack_token,
        event_id: hand_out.event_id,
        event_type: hand_out.kind,
        attempt: hand_out.attempt,
        body,
        created_at: hand_out.created_at,
        body_base64,
        headers: Some(headers),
        method: Some(hand_out.method),
        path: Some(hand_out.path),
        query: Some(hand_out.query),
        source: Some(hand_out.source).filter(|name| !name.is_empty()),
        scheme: Some(hand_out.scheme),
        lease_expires_at: Some(lease_expires_at),
        sequence: Some(hand_out.sequence),
        occurrence: Some(hand_out.occurrence),
        replay: Some(hand_out.origin == Origin::Replay),
        redelivery: Some(hand_out.origin == Origin::Redelivery),
    }
}

fn shown(listener: &Listener, waiting: Option<u64>) -> wire::Listener {
    wire::Listener {
        object: "webhook_listener".to_owned(),
        id: listener.id.clone(),
        api_version: listener.api_version.clone(),
        event_types: listener.event_types.clone(),
        description: listener.description.clone(),
        expires_at: listener.expires_at,
        created_at: listener.created_at,
        sources: Some(listener.sources.clone()),
        ordered: Some(listener.ordered),
        waiting,
        backlog: None,
        last_polled_at: listener.last_polled_at,
        others_open: None,
        latest_event_id: None,
    }
}
