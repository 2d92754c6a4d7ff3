//! What the relay in memory knows, and what one request changes of it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pullhook::clock::Timestamp;
use pullhook::protocol::limits;
use serde_json::{Value, json};

use super::Fault;

/// How the relay behaves.
#[derive(Clone, Debug)]
pub(crate) struct Manners {
    /// Whether it has our fields.
    pub ext: bool,
    /// Whether it takes `limit: 0`.
    pub idle_polls: bool,
    /// For how long a delivery is leased, it says; a test ends leases itself.
    pub lease: Duration,
}

/// Its clock stands still, in another time than ours.
fn polled_at() -> Timestamp {
    Timestamp::from_millis(1_767_225_600_000)
}

#[derive(Debug)]
pub(crate) struct State {
    pub(super) manners: Manners,
    pub opens: Vec<Value>,
    pub polls: Vec<Value>,
    pub closes: Vec<String>,
    pub acks: Vec<Value>,
    pub faults: VecDeque<Fault>,
    /// `retry-after` of every refusal.
    pub retry_after: Option<String>,
    /// Answers to the next openings.
    pub refusals: VecDeque<(u16, Value)>,
    pub sources: Vec<Value>,
    pub others_open: u64,
    pub(super) listeners: Vec<(String, bool)>,
    pub(super) deliveries: Vec<Delivery>,
    pub(super) events: Vec<Value>,
    pub(super) sequence: u64,
    pub(super) serial: u64,
}

#[derive(Debug)]
pub(super) struct Delivery {
    id: String,
    listener: String,
    event: Value,
    occurrence: u64,
    replay: bool,
    token: String,
    pub(super) leased_until: Option<Instant>,
    attempt: u32,
    done: bool,
}

impl State {
    pub(super) fn new(manners: Manners) -> Self {
        Self {
            manners,
            opens: Vec::new(),
            polls: Vec::new(),
            closes: Vec::new(),
            acks: Vec::new(),
            faults: VecDeque::new(),
            retry_after: None,
            refusals: VecDeque::new(),
            sources: Vec::new(),
            others_open: 0,
            listeners: Vec::new(),
            deliveries: Vec::new(),
            events: Vec::new(),
            sequence: 0,
            serial: 0,
        }
    }

    pub(super) fn fan_out(&mut self, event: &Value, occurrence: u64, replay: bool) {
        let open: Vec<String> =
            self.listeners.iter().filter(|(_, open)| *open).map(|(id, _)| id.clone()).collect();
        for listener in open {
            self.enqueue(&listener, event, occurrence, replay);
        }
    }

    fn enqueue(&mut self, listener: &str, event: &Value, occurrence: u64, replay: bool) {
        self.serial += 1;
        self.deliveries.push(Delivery {
            id: format!("whlisdel_{}", self.serial),
            listener: listener.to_owned(),
            event: event.clone(),
            occurrence,
            replay,
            token: String::new(),
            leased_until: None,
            attempt: 0,
            done: false,
        });
    }

    /// The newest ack of an event.
    pub(crate) fn acked(&self, event: &str) -> Option<&Value> {
        let of_it = self.deliveries.iter().filter(|delivery| delivery.event["event_id"] == event);
        let ids: Vec<&str> = of_it.map(|delivery| delivery.id.as_str()).collect();
        self.acks.iter().rev().find(|ack| ids.contains(&ack["delivery_id"].as_str().unwrap()))
    }

    /// How many deliveries have ended.
    pub(crate) fn done(&self) -> usize {
        self.deliveries.iter().filter(|delivery| delivery.done).count()
    }

    /// How many were ever handed out.
    pub(crate) fn handed_out(&self) -> usize {
        self.deliveries.iter().filter(|delivery| delivery.attempt > 0).count()
    }

    /// How often the delivery that was handed out most often was.
    pub(crate) fn most_attempts(&self) -> u32 {
        self.deliveries.iter().map(|delivery| delivery.attempt).max().unwrap_or(0)
    }

    pub(super) fn open(&mut self, ask: &Value) -> (u16, Value) {
        self.opens.push(ask.clone());
        if let Some((status, refusal)) = self.refusals.pop_front() {
            return (status, refusal);
        }
        self.serial += 1;
        let id = format!("whlis_{}", self.serial);
        self.listeners.push((id.clone(), true));
        let mut listener = self.listener(&id);
        if self.manners.ext {
            self.hand_over(&id, ask);
            listener["others_open"] = self.others_open.into();
            listener["latest_event_id"] =
                self.events.last().map_or(Value::Null, |event| event["event_id"].clone());
        }
        (201, listener)
    }

    fn hand_over(&mut self, id: &str, ask: &Value) {
        if let Some(old) = ask["continues"].as_str() {
            self.listeners.iter_mut().filter(|(other, _)| other == old).for_each(|(_, open)| *open = false);
            let theirs = self.deliveries.iter().filter(|delivery| delivery.listener == old);
            let known: Vec<Value> = theirs.map(|delivery| delivery.event["event_id"].clone()).collect();
            for delivery in self.deliveries.iter_mut().filter(|d| d.listener == old && !d.done) {
                self.serial += 1;
                delivery.id = format!("whlisdel_{}", self.serial);
                delivery.listener = id.to_owned();
                delivery.leased_until = None;
            }
            let newer = self.events.iter().filter(|event| !known.contains(&event["event_id"]));
            let missed: Vec<Value> = newer.cloned().collect();
            missed.iter().for_each(|event| self.enqueue(id, event, 1, false));
        }
        if let Some(since) = ask["since"].as_str() {
            let after = self.events.iter().position(|event| event["event_id"] == since);
            let stored: Vec<Value> = self.events[after.map_or(0, |at| at + 1)..].to_vec();
            stored.iter().for_each(|event| self.enqueue(id, event, 1, false));
        }
    }

    fn listener(&self, id: &str) -> Value {
        let mut listener = json!({"object": "webhook_listener", "id": id, "api_version": "2026-10-10",
            "event_types": [], "description": null, "expires_at": "2026-01-01T00:10:00.000Z",
            "created_at": "2026-01-01T00:00:00.000Z"});
        if self.manners.ext {
            listener["last_polled_at"] = polled_at().to_string().into();
        }
        listener
    }

    pub(super) fn is_open(&self, id: &str) -> bool {
        self.listeners.iter().any(|(listener, open)| listener == id && *open)
    }

    fn find(&mut self, listener: &str, held: &Value) -> Option<&mut Delivery> {
        self.deliveries.iter_mut().find(|delivery| {
            delivery.listener == listener
                && held["delivery_id"] == delivery.id.as_str()
                && !delivery.token.is_empty()
        })
    }

    /// Everything of a poll but claiming and waiting; what its answer says of acks and leases.
    pub(super) fn note(&mut self, id: &str, ask: &Value) -> Value {
        let (mut acknowledged, mut stale, mut extended) = (0, Vec::new(), Vec::new());
        for ack in ask["acks"].as_array().into_iter().flatten() {
            match self.find(id, ack) {
                Some(delivery) if delivery.done => {}
                Some(delivery) if ack["ack_token"] == delivery.token.as_str() => {
                    delivery.done = true;
                    acknowledged += 1;
                    self.acks.push(ack.clone());
                }
                Some(delivery) => stale.push(delivery.id.clone()),
                None => {}
            }
        }
        let mut answer = json!({"object": "webhook_listener_poll", "listener": self.listener(id),
                                "acknowledged": acknowledged, "deliveries": []});
        if !self.manners.ext {
            return answer;
        }
        for held in ask["extend"].as_array().into_iter().flatten() {
            if let Some(delivery) = self.find(id, held).filter(|delivery| !delivery.done) {
                delivery.leased_until = Some(Instant::now() + limits::LEASE);
                extended.push(delivery.id.clone());
            }
        }
        if let Some(holding) = ask["holding"].as_array() {
            let held: Vec<&str> = holding.iter().filter_map(|held| held["delivery_id"].as_str()).collect();
            let others = self.deliveries.iter_mut().filter(|d| d.listener == id && !held.contains(&&*d.id));
            others.for_each(|delivery| delivery.leased_until = None);
        }
        answer["stale_acks"] = stale.into();
        answer["extended"] = extended.into();
        answer
    }

    pub(super) fn ready(&self, id: &str) -> usize {
        self.deliveries.iter().filter(|delivery| delivery.listener == id && delivery.is_free()).count()
    }

    pub(super) fn claim(&mut self, id: &str, limit: usize) -> Vec<Value> {
        let (now, manners) = (Instant::now(), self.manners.clone());
        let mut claimed = Vec::new();
        for delivery in &mut self.deliveries {
            if claimed.len() == limit || delivery.listener != id || !delivery.is_free() {
                continue;
            }
            self.serial += 1;
            delivery.attempt += 1;
            delivery.token = format!("token_{}", self.serial);
            delivery.leased_until = Some(now + limits::LEASE);
            claimed.push(delivery.shown(&manners));
        }
        claimed
    }
}

impl Delivery {
    fn is_free(&self) -> bool {
        !self.done && self.leased_until.is_none_or(|until| until <= Instant::now())
    }

    fn shown(&self, manners: &Manners) -> Value {
        let event = &self.event;
        let mut shown = json!({
            "object": "webhook_listener_delivery", "id": self.id, "ack_token": self.token,
            "event_id": event["event_id"], "event_type": event["event_type"], "attempt": self.attempt,
            "body": event["body"], "created_at": event["created_at"],
        });
        if manners.ext {
            for (name, value) in event.as_object().unwrap() {
                shown[name] = value.clone();
            }
            shown["occurrence"] = self.occurrence.into();
            shown["replay"] = self.replay.into();
            shown["lease_expires_at"] = (polled_at() + manners.lease).to_string().into();
        }
        shown
    }
}
