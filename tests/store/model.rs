//! What a store should do, in memory and in plain words: the reference that the random walk compares with.

use std::collections::{BTreeMap, BTreeSet};

/// A listener lives so long after a poll, a lease so long, a listener that went is kept so long; milliseconds.
pub const LIFE: i64 = 600_000;
pub const LEASE: i64 = 120_000;
pub const KEPT: i64 = 1_000_000;
const MAX_HAND_OUTS: i64 = 5;

pub type EventKey = usize;
pub type ListenerKey = usize;

#[derive(Debug)]
pub struct Model {
    pub now: i64,
    pub events: Vec<Event>,
    pub streams: Vec<Stream>,
    pub listeners: Vec<Listener>,
    positions: u64,
}

#[derive(Debug)]
pub struct Event {
    pub source: usize,
    pub named: Option<usize>,
    pub body: usize,
    pub created_at: i64,
    pub occurrences: i64,
    pub status: i64,
    pub purged: bool,
}

#[derive(Debug, Default)]
pub struct Stream {
    pub source: usize,
    pub arrivals: Vec<Arrival>,
    pub dispatched: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub event: EventKey,
    pub occurrence: i64,
}

#[derive(Debug, Default)]
pub struct Listener {
    pub ordered: bool,
    pub expires_at: i64,
    pub purged: bool,
    pub deliveries: Vec<Delivery>,
    /// How far each stream was dispatched when it opened.
    opened_at: Vec<usize>,
    /// The same of the first one, where it continues others.
    listens_since: Vec<usize>,
    /// What it, or one that it continues, was given.
    given: BTreeSet<(EventKey, i64)>,
    polled: bool,
    continued_by: Option<ListenerKey>,
}

#[derive(Clone, Debug)]
pub struct Delivery {
    position: u64,
    pub event: EventKey,
    pub occurrence: i64,
    pub state: i64,
    pub attempt: i64,
    pub lease: i64,
    /// Which hand-out's token counts.
    pub token: Option<usize>,
}

impl Model {
    pub fn at(now: i64) -> Self {
        Self { now, events: Vec::new(), streams: Vec::new(), listeners: Vec::new(), positions: 0 }
    }

    /// Stores an event or a repeat of one.
    pub fn post(&mut self, source: usize, named: Option<usize>, body: usize) -> EventKey {
        let repeated = self.events.iter().position(|e| {
            !e.purged && named.is_some() && (e.source, e.named, e.body) == (source, named, body)
        });
        let event = repeated.unwrap_or_else(|| {
            let created_at = self.now;
            let fresh = Event { source, named, body, created_at, occurrences: 0, status: 0, purged: false };
            self.events.push(fresh);
            self.events.len() - 1
        });
        self.events[event].occurrences += 1;
        let arrival = Arrival { event, occurrence: self.events[event].occurrences };
        match self.streams.iter_mut().find(|s| s.source == source) {
            Some(stream) => stream.arrivals.push(arrival),
            None => self.streams.push(Stream { source, arrivals: vec![arrival], dispatched: 0 }),
        }
        event
    }

    pub fn advance(&mut self, stream: usize, batch: usize) {
        let Stream { arrivals, dispatched, .. } = &mut self.streams[stream];
        let end = arrivals.len().min(*dispatched + batch);
        let arrived = arrivals[*dispatched..end].to_vec();
        *dispatched = end;
        for listener in self.open_listeners() {
            for arrival in &arrived {
                self.deliver(listener, arrival.event, arrival.occurrence);
            }
        }
    }

    pub fn is_open(&self, listener: ListenerKey) -> bool {
        let listener = &self.listeners[listener];
        !listener.purged && listener.expires_at > self.now
    }

    pub fn open_listeners(&self) -> Vec<ListenerKey> {
        (0..self.listeners.len()).filter(|key| self.is_open(*key)).collect()
    }

    fn deliver(&mut self, to: ListenerKey, event: EventKey, occurrence: i64) {
        let listener = &mut self.listeners[to];
        if listener.deliveries.iter().any(|d| (d.event, d.occurrence) == (event, occurrence)) {
            return;
        }
        self.positions += 1;
        listener.given.insert((event, occurrence));
        listener.deliveries.push(Delivery {
            position: self.positions,
            event,
            occurrence,
            state: 0,
            attempt: 0,
            lease: 0,
            token: None,
        });
        self.events[event].status = 1;
    }

    pub fn open(&mut self, ordered: bool, from_the_beginning: bool) {
        let (expires_at, opened_at) = (self.now + LIFE, self.dispatched_to());
        let listens_since = opened_at.clone();
        self.listeners.push(Listener {
            ordered,
            expires_at,
            opened_at,
            listens_since,
            ..Listener::default()
        });
        if from_the_beginning {
            let dispatched = self.streams.iter().flat_map(|s| &s.arrivals[..s.dispatched]);
            let first = dispatched.filter(|a| a.occurrence == 1 && !self.events[a.event].purged);
            let mut backlog: Vec<_> = first.map(|a| a.event).collect();
            backlog.sort_unstable();
            for event in backlog {
                self.deliver(self.listeners.len() - 1, event, 1);
            }
        }
    }

    fn dispatched_to(&self) -> Vec<usize> {
        self.streams.iter().map(|s| s.dispatched).collect()
    }

    /// The listener that is meant where `old` is to be continued, if it still can be: its heir, where that one was
    /// never polled, since then nobody knows of it.
    pub fn continued(&self, mut old: ListenerKey) -> Option<ListenerKey> {
        if self.listeners[old].purged {
            return None;
        }
        let unknown = |heir: &ListenerKey| !self.listeners[*heir].purged && !self.listeners[*heir].polled;
        while let Some(heir) = self.listeners[old].continued_by.filter(unknown) {
            old = heir;
        }
        Some(old).filter(|old| self.listeners[*old].expires_at > self.now - KEPT)
    }

    pub fn take_over(&mut self, old: ListenerKey, ordered: bool) {
        let missed = self.missed(&self.listeners[old]);
        let (opened_at, heir) = (self.dispatched_to(), self.listeners.len());
        let from = &mut self.listeners[old];
        let (listens_since, given) = (from.listens_since.clone(), from.given.clone());
        from.continued_by = Some(heir);
        let (open, ended) = from.deliveries.drain(..).partition(|d| d.state == 0);
        (from.deliveries, from.expires_at) = (ended, from.expires_at.min(self.now));
        self.listeners.push(Listener {
            ordered,
            expires_at: self.now + LIFE,
            deliveries: open,
            opened_at,
            listens_since,
            given,
            ..Listener::default()
        });
        let new = self.listeners.len() - 1;
        self.listeners[new].deliveries.iter_mut().for_each(|d| d.lease = 0);
        for arrival in missed {
            self.deliver(new, arrival.event, arrival.occurrence);
        }
    }

    /// What was dispatched after the listener had opened and after the last that it got; by stream in order, streams
    /// merged by the newest event before.
    fn missed(&self, old: &Listener) -> Vec<Arrival> {
        let is_known =
            |a: &Arrival| old.deliveries.iter().any(|d| (d.event, d.occurrence) == (a.event, a.occurrence));
        let mut keyed = Vec::new();
        for (key, stream) in self.streams.iter().enumerate() {
            let opened_at = old.opened_at.get(key).copied().unwrap_or(0);
            let after = &stream.arrivals[opened_at..stream.dispatched];
            let known = after.iter().rposition(is_known).map_or(0, |last| last + 1);
            let mut newest = 0;
            for (sequence, arrival) in after.iter().enumerate().skip(known) {
                if !self.events[arrival.event].purged {
                    newest = newest.max(arrival.event);
                    keyed.push((newest, sequence, *arrival));
                }
            }
        }
        keyed.sort_by_key(|(newest, sequence, _)| (*newest, *sequence));
        keyed.into_iter().map(|(.., arrival)| arrival).collect()
    }

    pub fn close(&mut self, listener: ListenerKey) {
        if self.is_open(listener) {
            self.listeners[listener].expires_at = self.now;
        }
    }

    pub fn touch(&mut self, listener: ListenerKey) {
        let listener = &mut self.listeners[listener];
        (listener.expires_at, listener.polled) = (self.now + LIFE, true);
    }

    /// Whether an ack with this token counts; then it ends the delivery.
    pub fn ack(&mut self, listener: ListenerKey, token: usize) -> bool {
        let found =
            self.listeners[listener].deliveries.iter_mut().find(|d| d.token == Some(token) && d.state == 0);
        let Some(delivery) = found else { return false };
        (delivery.state, delivery.lease) = (1, 0);
        let (event, occurrence) = (delivery.event, delivery.occurrence);
        self.end(event, occurrence, 2);
        true
    }

    /// The newest occurrence that anybody was given decides what became of an event.
    fn end(&mut self, event: EventKey, occurrence: i64, status: i64) {
        let mut all = self.listeners.iter().filter(|l| !l.purged).flat_map(|l| &l.deliveries);
        if !all.any(|d| d.event == event && d.occurrence > occurrence) {
            self.events[event].status = status;
        }
    }

    pub fn extend(&mut self, listener: ListenerKey, token: usize) -> bool {
        let deliveries = &mut self.listeners[listener].deliveries;
        let found = deliveries.iter_mut().find(|d| d.token == Some(token) && d.state == 0 && d.lease > 0);
        found.map(|delivery| delivery.lease = self.now + LEASE).is_some()
    }

    pub fn release_all_but(&mut self, listener: ListenerKey, held: &[usize]) {
        for delivery in &mut self.listeners[listener].deliveries {
            let is_held = delivery.token.is_some_and(|token| held.contains(&token));
            if delivery.state == 0 && delivery.lease > 0 && !is_held {
                (delivery.lease, delivery.token) = (0, None);
                delivery.attempt -= 1;
            }
        }
    }

    /// Hands out; the tokens are numbered on from `next_token`.
    pub fn claim(&mut self, listener: ListenerKey, limit: usize, next_token: usize) -> Vec<(EventKey, i64)> {
        if limit == 0 {
            return Vec::new();
        }
        loop {
            let found = self.candidates(listener, limit);
            let (now, deliveries) = (self.now, &mut self.listeners[listener].deliveries);
            let (spent, fresh): (Vec<_>, Vec<_>) =
                found.into_iter().partition(|index| deliveries[*index].attempt >= MAX_HAND_OUTS);
            for index in &spent {
                (deliveries[*index].state, deliveries[*index].lease) = (4, 0);
            }
            let ended: Vec<_> =
                spent.iter().map(|index| (deliveries[*index].event, deliveries[*index].occurrence)).collect();
            ended.iter().for_each(|(event, occurrence)| self.end(*event, *occurrence, 3));
            if !spent.is_empty() && fresh.is_empty() {
                continue;
            }
            let deliveries = &mut self.listeners[listener].deliveries;
            let hand_out = |(nth, index): (usize, usize)| {
                let delivery: &mut Delivery = &mut deliveries[index];
                delivery.attempt += 1;
                (delivery.lease, delivery.token) = (now + LEASE, Some(next_token + nth));
                (delivery.event, delivery.occurrence)
            };
            return fresh.into_iter().enumerate().map(hand_out).collect();
        }
    }

    fn candidates(&self, listener: ListenerKey, limit: usize) -> Vec<usize> {
        let Listener { ordered, deliveries, .. } = &self.listeners[listener];
        let mut open: Vec<_> = (0..deliveries.len()).filter(|index| deliveries[*index].state == 0).collect();
        open.sort_by_key(|index| deliveries[*index].position);
        if *ordered {
            let mut seen = BTreeSet::new();
            open.retain(|index| seen.insert(self.events[deliveries[*index].event].source));
        }
        open.retain(|index| deliveries[*index].lease <= self.now);
        open.truncate(limit);
        open
    }

    /// How many more of a listener's deliveries are ready.
    pub fn waiting(&self, listener: ListenerKey) -> usize {
        self.listeners[listener].deliveries.iter().filter(|d| d.state == 0 && d.lease <= self.now).count()
    }

    pub fn replay(&mut self, events: &[EventKey]) {
        let open = self.open_listeners();
        if open.is_empty() {
            return;
        }
        for event in events {
            self.events[*event].occurrences += 1;
            for listener in &open {
                self.deliver(*listener, *event, self.events[*event].occurrences);
            }
        }
    }

    pub fn purge(&mut self, events_before: i64, listeners_before: i64) {
        let waits: BTreeSet<_> =
            self.streams.iter().flat_map(|s| s.arrivals[s.dispatched..].iter().map(|a| a.event)).collect();
        for (key, event) in self.events.iter_mut().enumerate() {
            event.purged |= event.created_at < events_before && !waits.contains(&key);
        }
        for listener in &mut self.listeners {
            listener.deliveries.retain(|d| !self.events[d.event].purged);
        }
        for key in 0..self.listeners.len() {
            if !self.listeners[key].purged && self.listeners[key].expires_at < listeners_before {
                self.listeners[key].purged = true;
                self.forget_held(key);
            }
        }
    }

    /// What only a purged listener held is held by nobody.
    fn forget_held(&mut self, listener: ListenerKey) {
        let is_held = |event| {
            let mut kept = self.listeners.iter().filter(|l| !l.purged).flat_map(|l| &l.deliveries);
            kept.any(|d| d.event == event && d.state == 0)
        };
        let open = self.listeners[listener].deliveries.iter().filter(|d| d.state == 0);
        let forgotten: Vec<_> = open.map(|d| d.event).filter(|event| !is_held(*event)).collect();
        for event in forgotten {
            if self.events[event].status == 1 {
                self.events[event].status = 0;
            }
        }
    }

    /// What an open listener should have been given and wasn't: everything dispatched since it, or the first that it
    /// continues, opened.
    pub fn owed(&self, listener: ListenerKey) -> Vec<Arrival> {
        let Listener { listens_since, given, .. } = &self.listeners[listener];
        let since = |key| listens_since.get(key).copied().unwrap_or(0);
        let streams = self.streams.iter().enumerate();
        let due = streams.flat_map(|(key, s)| &s.arrivals[since(key)..s.dispatched]);
        due.filter(|a| !self.events[a.event].purged && !given.contains(&(a.event, a.occurrence)))
            .copied()
            .collect()
    }

    /// Every row that should be there, listener by listener.
    pub fn deliveries(&self) -> BTreeMap<ListenerKey, Vec<[i64; 5]>> {
        let row = |d: &Delivery| [i64::try_from(d.event).unwrap(), d.occurrence, d.state, d.attempt, d.lease];
        let kept = self.listeners.iter().enumerate().filter(|(_, listener)| !listener.purged);
        kept.map(|(key, listener)| {
            let mut deliveries = listener.deliveries.clone();
            deliveries.sort_by_key(|d| d.position);
            (key, deliveries.iter().map(row).collect())
        })
        .collect()
    }
}
