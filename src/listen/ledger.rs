//! Every delivery this listener holds or has answered: one POST each, whatever the relay hands out again.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::destination::Destination;
use super::event::Received;
use super::lease::Lease;
use crate::http::Endpoint;
use crate::protocol::limits::ACKS_PER_POLL;
use crate::protocol::listeners::{Ack, Delivery, Held};

/// How many answered deliveries are remembered once their ack was taken.
const REMEMBERED: usize = 1024;

/// A delivery's place in the order of arrival; its key here.
pub(super) type Arrival = u64;

/// One delivery.
#[derive(Debug)]
struct Entry {
    event_id: String,
    delivery_id: String,
    occurrence: Option<u64>,
    token: String,
    lease: Lease,
    /// The listener that held it is gone; the next one may hand it out under another id.
    orphan: bool,
    /// The relay did not extend its lease when asked.
    unextendable: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    Waiting(Arc<Work>),
    Open(Arc<Work>, Instant),
    Answered { ack: Ack, taken: bool },
}

/// What is to be done with a delivery.
#[derive(Debug)]
pub(super) struct Work {
    /// The event.
    pub received: Arc<Received>,
    /// Where it goes.
    pub to: Arc<Destination>,
    /// The gate it passes.
    pub gate: Option<usize>,
}

/// What a hand-out turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HandOut {
    /// Never seen.
    New,
    /// Held already: its new token was adopted.
    Adopted,
    /// Answered already: this ack goes out with the new token.
    Answered {
        /// The event.
        event_id: String,
        /// The ack.
        ack: Ack,
    },
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    next: Arrival,
    entries: BTreeMap<Arrival, Entry>,
    by_id: HashMap<String, Arrival>,
    waiting: BTreeSet<Arrival>,
    open: BTreeSet<Arrival>,
    taken: VecDeque<Arrival>,
    /// Whether a listener was ever lost: only then may a delivery come again under another id.
    orphans: bool,
}

impl Ledger {
    /// Looks a hand-out up, and adopts its token when the delivery is known.
    pub(super) fn hand_out(&mut self, delivery: &Delivery, lease: Lease) -> HandOut {
        let Some(arrival) = self.by_id.get(&delivery.id).copied().or_else(|| self.orphan_of(delivery)) else {
            return HandOut::New;
        };
        let Some(entry) = self.entries.get_mut(&arrival) else { return HandOut::New };
        if entry.delivery_id != delivery.id {
            self.by_id.remove(&entry.delivery_id);
            self.by_id.insert(delivery.id.clone(), arrival);
            entry.delivery_id.clone_from(&delivery.id);
        }
        entry.token.clone_from(&delivery.ack_token);
        entry.lease = lease;
        (entry.orphan, entry.unextendable) = (false, false);
        match &mut entry.state {
            State::Waiting(_) | State::Open(..) => HandOut::Adopted,
            State::Answered { ack, taken } => {
                *taken = false;
                ack.delivery_id.clone_from(&delivery.id);
                ack.ack_token.clone_from(&delivery.ack_token);
                HandOut::Answered { event_id: entry.event_id.clone(), ack: ack.clone() }
            }
        }
    }

    /// After a reopen: the delivery of the lost listener that this one stands for. Without occurrences (another
    /// server) an answered one that was acked can't be told from a replay, so only what is unfinished counts.
    fn orphan_of(&self, delivery: &Delivery) -> Option<Arrival> {
        if !self.orphans {
            return None;
        }
        let same = |entry: &Entry| {
            entry.orphan
                && entry.event_id == delivery.event_id
                && entry.occurrence == delivery.occurrence
                && (delivery.occurrence.is_some()
                    || !matches!(entry.state, State::Answered { taken: true, .. }))
        };
        self.entries.iter().find(|(_, entry)| same(entry)).map(|(arrival, _)| *arrival)
    }

    /// Enters a new delivery that is to be posted.
    pub(super) fn queue(&mut self, work: Work, token: &str, lease: Lease) -> Arrival {
        let received = Arc::clone(&work.received);
        let arrival = self.enter(&received, token, lease, State::Waiting(Arc::new(work)));
        self.waiting.insert(arrival);
        arrival
    }

    /// Enters a new delivery that ended at once.
    pub(super) fn settle(&mut self, received: &Received, ack: Ack, now: Instant) {
        let token = ack.ack_token.clone();
        self.enter(received, &token, Lease::new(now, Duration::ZERO), State::Answered { ack, taken: false });
    }

    fn enter(&mut self, received: &Received, token: &str, lease: Lease, state: State) -> Arrival {
        let arrival = self.next;
        self.next += 1;
        self.by_id.insert(received.delivery_id.clone(), arrival);
        let entry = Entry {
            event_id: received.event_id.clone(),
            delivery_id: received.delivery_id.clone(),
            occurrence: received.occurrence,
            token: token.to_owned(),
            lease,
            orphan: false,
            unextendable: false,
            state,
        };
        self.entries.insert(arrival, entry);
        arrival
    }

    /// The next delivery to post, in order of arrival, that `may_start` allows; it counts as open from now. With
    /// `ordered`, nothing of a source starts before an older delivery of that source has ended.
    pub(super) fn start(
        &mut self,
        now: Instant,
        ordered: bool,
        may_start: impl Fn(&Work) -> bool,
    ) -> Option<(Arrival, Arc<Work>)> {
        let mut busy: Vec<Option<String>> = Vec::new();
        if ordered {
            busy.extend(
                self.open
                    .iter()
                    .filter_map(|arrival| self.work(*arrival))
                    .map(|work| work.received.source.clone()),
            );
        }
        let found = self.waiting.iter().copied().find(|arrival| {
            let Some(work) = self.work(*arrival) else { return false };
            if !ordered {
                return may_start(work);
            }
            let free = !busy.contains(&work.received.source);
            busy.push(work.received.source.clone());
            free && may_start(work)
        })?;
        let entry = self.entries.get_mut(&found)?;
        let State::Waiting(work) = &entry.state else { return None };
        let work = Arc::clone(work);
        entry.state = State::Open(Arc::clone(&work), now);
        self.waiting.remove(&found);
        self.open.insert(found);
        Some((found, work))
    }

    /// Whether a hand-out is of a delivery that is known.
    pub(super) fn knows(&self, delivery: &Delivery) -> bool {
        self.by_id.contains_key(&delivery.id) || self.orphan_of(delivery).is_some()
    }

    /// The gate that a delivery passes.
    pub(super) fn gate_of(&self, arrival: Arrival) -> Option<usize> {
        self.work(arrival)?.gate
    }

    /// What a delivery's target connects to.
    pub(super) fn endpoint_of(&self, arrival: Arrival) -> Option<Endpoint> {
        self.work(arrival).map(|work| work.to.endpoint.clone())
    }

    fn work(&self, arrival: Arrival) -> Option<&Arc<Work>> {
        match &self.entries.get(&arrival)?.state {
            State::Waiting(work) | State::Open(work, _) => Some(work),
            State::Answered { .. } => None,
        }
    }

    /// A POST that wasn't one: the port refused, the delivery waits again at its place.
    pub(super) fn put_back(&mut self, arrival: Arrival) {
        let Some(entry) = self.entries.get_mut(&arrival) else { return };
        if let State::Open(work, _) = &entry.state {
            entry.state = State::Waiting(Arc::clone(work));
            self.open.remove(&arrival);
            self.waiting.insert(arrival);
        }
    }

    /// A delivery ended; its ack is made with its newest id and token. The event's bytes are let go.
    pub(super) fn answer(
        &mut self,
        arrival: Arrival,
        make: impl FnOnce(&str, &str) -> Ack,
    ) -> Option<(Arc<Work>, Ack)> {
        let entry = self.entries.get_mut(&arrival)?;
        let (State::Waiting(work) | State::Open(work, _)) = &entry.state else { return None };
        let work = Arc::clone(work);
        let ack = make(&entry.delivery_id, &entry.token);
        entry.state = State::Answered { ack: ack.clone(), taken: false };
        self.waiting.remove(&arrival);
        self.open.remove(&arrival);
        Some((work, ack))
    }

    /// The relay recorded this ack.
    pub(super) fn taken(&mut self, sent: &Ack) {
        let Some(arrival) = self.by_id.get(&sent.delivery_id).copied() else { return };
        let Some(entry) = self.entries.get_mut(&arrival) else { return };
        if let State::Answered { taken, .. } = &mut entry.state
            && entry.token == sent.ack_token
            && !std::mem::replace(taken, true)
        {
            self.taken.push_back(arrival);
        }
        while self.taken.len() > REMEMBERED {
            if let Some(oldest) = self.taken.pop_front() {
                self.drop_if_taken(oldest);
            }
        }
    }

    fn drop_if_taken(&mut self, arrival: Arrival) {
        if self
            .entries
            .get(&arrival)
            .is_some_and(|entry| matches!(entry.state, State::Answered { taken: true, .. }))
            && let Some(entry) = self.entries.remove(&arrival)
        {
            self.by_id.remove(&entry.delivery_id);
        }
    }

    /// Whether this ack carries the newest token of its delivery (a later hand-out would have been adopted).
    pub(super) fn is_newest(&self, sent: &Ack) -> bool {
        let entry = self.by_id.get(&sent.delivery_id).and_then(|arrival| self.entries.get(arrival));
        entry.is_none_or(|entry| entry.token == sent.ack_token)
    }

    /// The listener is gone: what it had handed out may come again under other ids.
    pub(super) fn orphan_all(&mut self) {
        self.orphans = !self.entries.is_empty();
        self.entries.values_mut().for_each(|entry| entry.orphan = true);
    }

    /// Deliveries that wait or are open.
    pub(super) fn held(&self) -> usize {
        self.waiting.len() + self.open.len()
    }

    /// Open POSTs.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// Every open POST, and since when it is open.
    pub(super) fn open_ones(&self) -> Vec<(Arrival, Instant)> {
        let since = |arrival: &Arrival| match self.entries.get(arrival)?.state {
            State::Open(_, since) => Some((*arrival, since)),
            _ => None,
        };
        self.open.iter().filter_map(since).collect()
    }

    /// Deliveries that wait and satisfy `which`.
    pub(super) fn waiting(&self, which: impl Fn(&Work) -> bool) -> usize {
        self.waiting.iter().filter_map(|arrival| self.work(*arrival)).filter(|work| which(work)).count()
    }

    /// Since when the oldest open POST is open.
    pub(super) fn oldest_open(&self) -> Option<Instant> {
        self.open_ones().into_iter().map(|(_, since)| since).min()
    }

    /// The waiting ones that were handed out `age` ago or longer.
    pub(super) fn waiting_for(&self, age: Duration, now: Instant) -> Vec<Arrival> {
        let old = |arrival: &&Arrival| {
            self.entries.get(arrival).is_some_and(|entry| entry.lease.since() + age <= now)
        };
        self.waiting.iter().filter(old).copied().collect()
    }

    /// When the oldest waiting one that satisfies `which` was handed out.
    pub(super) fn oldest_waiting(&self, which: impl Fn(&Work) -> bool) -> Option<Instant> {
        let fits = |arrival: &&Arrival| self.work(**arrival).is_some_and(|work| which(work));
        self.waiting
            .iter()
            .filter(fits)
            .filter_map(|arrival| self.entries.get(arrival))
            .map(|entry| entry.lease.since())
            .min()
    }

    /// The leases that are to be extended now.
    pub(super) fn due(&self, now: Instant) -> Vec<Held> {
        let due = self.extendable().filter(|entry| entry.lease.extend_at() <= now);
        due.take(ACKS_PER_POLL).map(Entry::held).collect()
    }

    /// When the next lease is to be extended.
    pub(super) fn extend_at(&self) -> Option<Instant> {
        self.extendable().map(|entry| entry.lease.extend_at()).min()
    }

    fn extendable(&self) -> impl Iterator<Item = &Entry> {
        let held = self.open.iter().chain(&self.waiting).filter_map(|arrival| self.entries.get(arrival));
        held.filter(|entry| !entry.unextendable && !entry.orphan)
    }

    /// The relay's answer to `asked`: those it names have a fresh lease since `at`; the others can't be extended.
    pub(super) fn extended(&mut self, asked: &[Held], granted: &[String], at: Instant) {
        for held in asked {
            let Some(entry) =
                self.by_id.get(&held.delivery_id).and_then(|arrival| self.entries.get_mut(arrival))
            else {
                continue;
            };
            if entry.token != held.ack_token {
                continue;
            }
            if granted.contains(&held.delivery_id) {
                entry.lease = entry.lease.renewed(at);
            } else {
                entry.unextendable = true;
            }
        }
    }

    /// What this listener still holds, for the first claiming poll after a cut.
    pub(super) fn holding(&self) -> Vec<Held> {
        let held = self.open.iter().chain(&self.waiting).filter_map(|arrival| self.entries.get(arrival));
        let unacked =
            self.entries.values().filter(|entry| matches!(entry.state, State::Answered { taken: false, .. }));
        held.chain(unacked).filter(|entry| !entry.orphan).take(ACKS_PER_POLL).map(Entry::held).collect()
    }

    /// Forgets an answered delivery whose ack was refused: it is not sent again.
    pub(super) fn refused(&mut self, sent: &Ack) {
        if let Some(arrival) = self.by_id.get(&sent.delivery_id).copied()
            && let Some(entry) = self.entries.get_mut(&arrival)
            && let State::Answered { taken, .. } = &mut entry.state
        {
            *taken = true;
            self.taken.push_back(arrival);
        }
    }
}

impl Entry {
    fn held(&self) -> Held {
        Held { delivery_id: self.delivery_id.clone(), ack_token: self.token.clone() }
    }
}

#[cfg(test)]
mod tests;
