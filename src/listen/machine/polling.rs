//! Polls: one that claims or waits, and beside it a quick one for acks and leases.

use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::opening::Facts;
use super::{Done, Machine};
use crate::listen::ack::Pending;
use crate::listen::event::{Gate, Notice, Ready, What};
use crate::listen::gate::Closed;
use crate::listen::link::LinkError;
use crate::listen::sequence::Gap;
use crate::protocol::limits::{ACKS_PER_POLL, MAX_WAIT_MS};
use crate::protocol::listeners::{Held, Poll, PollListener};

/// Polls under way, and what is known from those that ended.
#[derive(Debug)]
pub(super) struct Polls {
    /// The one that claims, or waits without claiming.
    main: Option<Flight>,
    /// The one for acks and leases.
    side: Option<Flight>,
    serial: u64,
    ready: bool,
    /// When the last poll was accepted, or the listener opened.
    last_ok: Instant,
    /// Since when no poll is accepted, and how long it had been so before that moment.
    down: Option<(Instant, Duration)>,
    /// A claiming poll was cut: the next one says what is held.
    cut: bool,
    /// Until then no other poll only waits: the one before ended because something changed.
    rest_until: Instant,
    /// A refusal named no ack: the next poll goes without any, to see whether they are at fault.
    without_acks: bool,
}

/// A poll under way.
#[derive(Debug)]
struct Flight {
    serial: u64,
    task: AbortHandle,
    sent_at: Instant,
    limit: u32,
    hangs: bool,
    acks: Vec<Pending>,
    extend: Vec<Held>,
    holding: bool,
}

impl Polls {
    pub(super) fn new() -> Self {
        Self {
            main: None,
            side: None,
            serial: 0,
            ready: false,
            last_ok: Instant::now(),
            down: None,
            cut: false,
            rest_until: Instant::now(),
            without_acks: false,
        }
    }

    /// Whether a poll was ever accepted.
    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }

    /// No poll is accepted from now on; `before` is how long that went unnoticed.
    pub(super) fn went_down(&mut self, now: Instant, before: Duration) {
        self.down.get_or_insert((now, before));
    }

    /// Whether anything is under way.
    pub(super) fn is_quiet(&self) -> bool {
        self.main.is_none() && self.side.is_none()
    }
}

impl Machine {
    /// Starts the polls that are due.
    pub(super) fn start_polls(&mut self, now: Instant) {
        let waits = self.opening.retry_at.is_some_and(|at| at > now);
        if self.listener.is_none() || waits || self.cannot_ack() {
            return;
        }
        self.opening.retry_at = None;
        self.start_main(now);
        self.start_side(now);
    }

    /// When a poll is due by itself. What is past must be something that [`Machine::start_polls`] starts.
    pub(super) fn polls_due(&self) -> Option<Instant> {
        if self.listener.is_none() || self.opening.retry_at.is_some() || self.cannot_ack() {
            return None;
        }
        let (timing, polls) = (&self.o.timing, &self.polls);
        let no_main = polls.main.is_none() && self.stopping.is_none();
        if !self.server.idle_polls {
            let alive = polls.last_ok + timing.quiet();
            let acks =
                self.acks.oldest().filter(|_| !polls.without_acks).map(|since| since + timing.poll_wait);
            return no_main.then_some(alive).into_iter().chain(acks.filter(|_| no_main)).min();
        }
        let rested = (no_main && self.gates.any_closed()).then_some(polls.rest_until);
        if polls.side.is_some() {
            return rested;
        }
        let alive = no_main.then_some(polls.last_ok + timing.poll_wait);
        let acks = self.acks.oldest().filter(|_| !polls.without_acks).map(|since| since + timing.ack_delay);
        let extends = self.server.ext == Some(true);
        let leases = self.ledger.extend_at().filter(|_| extends);
        [rested, alive, acks, leases].into_iter().flatten().min()
    }

    fn start_main(&mut self, now: Instant) {
        let room = self.room(now);
        if self.polls.main.as_ref().is_some_and(|flight| flight.limit == 0 && flight.hangs && room > 0) {
            self.cut_main();
        }
        if self.polls.main.is_some() || self.stopping.is_some() {
            return;
        }
        let quick = !self.polls.ready || self.polls.down.is_some();
        let timing = self.o.timing;
        let wait = if quick { Duration::ZERO } else { timing.poll_wait };
        let (limit, wait) = if room > 0 {
            (room, wait)
        } else if self.server.idle_polls {
            // While no permit is free, acks and leases have their own poll, and nothing else is worth one.
            if !quick && (!self.gates.any_closed() || self.polls.rest_until > now) {
                return;
            }
            (0, wait)
        } else {
            self.tell_gates(None, now);
            let overdue = self.acks.oldest().is_some_and(|since| since + timing.poll_wait <= now);
            if !quick && !overdue && self.polls.last_ok + timing.quiet() > now {
                return;
            }
            (1, Duration::ZERO)
        };
        let flight = self.launch(limit, wait, now);
        self.polls.main = Some(flight);
    }

    fn start_side(&mut self, now: Instant) {
        if self.polls.side.is_some() {
            return;
        }
        let timing = &self.o.timing;
        let flushing = self.stopping.is_some();
        let gathered = self.acks.oldest().is_some_and(|since| flushing || since + timing.ack_delay <= now);
        let acks_due = !self.polls.without_acks && (gathered || self.acks.len() >= ACKS_PER_POLL);
        let leases_due = self.server.ext == Some(true) && self.ledger.extend_at().is_some_and(|at| at <= now);
        let alive_due =
            self.polls.main.is_none() && !flushing && self.polls.last_ok + timing.poll_wait <= now;
        if self.server.idle_polls {
            let news = (self.polls.ready && self.gates.has_news()) || self.polls.without_acks;
            if acks_due || leases_due || alive_due || news {
                let flight = self.launch(0, Duration::ZERO, now);
                self.polls.side = Some(flight);
            }
        } else if flushing && acks_due {
            // Acks matter more than the one delivery that this claims and the closing gives back.
            let flight = self.launch(1, Duration::ZERO, now);
            self.polls.side = Some(flight);
        }
    }

    fn launch(&mut self, limit: u32, wait: Duration, now: Instant) -> Flight {
        if self.polls.down.is_some() {
            self.relocate();
        }
        let acks = if self.polls.without_acks { Vec::new() } else { self.acks.take() };
        let extends = self.server.ext == Some(true);
        let extend = if extends { self.ledger.due(now) } else { Vec::new() };
        let holding =
            (limit > 0 && self.polls.cut && self.server.ext != Some(false)).then(|| self.ledger.holding());
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(MAX_WAIT_MS).min(MAX_WAIT_MS);
        let ask = PollListener {
            acks: acks.iter().map(|pending| pending.ack.clone()).collect(),
            wait_ms: Some(wait_ms),
            limit: Some(limit),
            extend: extend.clone(),
            holding: holding.clone(),
        };
        self.polls.serial += 1;
        let serial = self.polls.serial;
        let (link, listener) = (self.link.clone(), self.listener.clone().unwrap_or_default());
        let facts = (!self.polls.ready).then(|| self.gather_facts());
        let task = self.tasks.spawn(async move {
            match facts {
                None => Done::Polled { serial, result: link.poll(&listener, &ask).await, facts: None },
                Some(facts) => {
                    let (result, facts) = tokio::join!(link.poll(&listener, &ask), facts);
                    Done::Polled { serial, result, facts: Some(facts) }
                }
            }
        });
        let hangs = !wait.is_zero();
        Flight { serial, task, sent_at: now, limit, hangs, acks, extend, holding: holding.is_some() }
    }

    /// Ends every poll under way: whether its acks arrived isn't known, nor whether it claimed something.
    pub(super) fn cut_polls(&mut self) {
        self.cut_main();
        if let Some(flight) = self.polls.side.take() {
            self.cut(flight);
        }
    }

    /// Ends the poll that claims; one that only carries acks may end by itself.
    pub(super) fn cut_claims(&mut self) {
        self.cut_main();
    }

    fn cut_main(&mut self) {
        if let Some(flight) = self.polls.main.take() {
            self.cut(flight);
        }
    }

    fn cut(&mut self, flight: Flight) {
        flight.task.abort();
        self.polls.cut |= flight.limit > 0;
        self.acks.give_back(flight.acks);
    }

    /// A poll ended.
    pub(super) fn polled(
        &mut self,
        serial: u64,
        result: Result<Poll, LinkError>,
        facts: Option<Facts>,
        now: Instant,
    ) {
        let is_it = |flight: &mut Flight| flight.serial == serial;
        let flight = self.polls.main.take_if(is_it).or_else(|| self.polls.side.take_if(is_it));
        match (flight, result) {
            (Some(flight), Ok(poll)) => self.accepted(flight, poll, facts, now),
            (Some(flight), Err(error)) => self.not_accepted(flight, error, now),
            // It was cut just as it ended: what it brought is ours nevertheless.
            (None, Ok(poll)) => {
                self.note_sequences(&poll.deliveries);
                // While nothing is accepted, the line that tells of the gap counts them first.
                if self.polls.down.is_none() {
                    self.tell_missing();
                }
                self.take_deliveries(poll.deliveries, poll.listener.last_polled_at, now);
            }
            (None, Err(_)) => {}
        }
    }

    fn accepted(&mut self, flight: Flight, mut poll: Poll, facts: Option<Facts>, now: Instant) {
        self.polls.last_ok = now;
        if flight.acks.is_empty() && std::mem::take(&mut self.polls.without_acks) {
            self.acks.tried_without(true);
        }
        if flight.limit == 0 && flight.hangs {
            self.polls.rest_until = now + self.o.timing.watch;
        }
        let settled = flight.holding || (flight.limit > 0 && self.server.ext == Some(false));
        self.polls.cut &= !settled;
        self.opening.failures = 0;
        self.opening.retry_at = None;
        let ext = *self.server.ext.get_or_insert(poll.waiting.is_some());
        self.acks_taken(flight.acks, &poll);
        if ext {
            self.ledger.extended(
                &flight.extend,
                poll.extended.as_deref().unwrap_or_default(),
                flight.sent_at,
            );
        }
        self.note_sequences(&poll.deliveries);
        let here = poll.deliveries.iter().filter(|delivery| !self.ledger.knows(delivery)).count() as u64;
        if !self.polls.ready {
            self.tell_ready(&poll, here, facts.unwrap_or_default());
            self.polls.down = None;
        } else if let Some((since, before)) = self.polls.down.take() {
            let down = before + now.saturating_duration_since(since);
            let waited = poll.waiting.map(|waiting| waiting.saturating_add(here));
            let skipped = self.take_skipped().unwrap_or(0);
            let missing = self.sequences.missing().iter().map(Gap::count);
            let lost = ext.then(|| missing.fold(skipped, u64::saturating_add));
            self.tell(What::Reconnected { down, waited, lost });
        }
        self.tell_missing();
        let waiting = poll.waiting.map(|waiting| waiting.saturating_add(self.parked() as u64));
        self.take_deliveries(std::mem::take(&mut poll.deliveries), poll.listener.last_polled_at, now);
        if flight.limit == 0 || !self.server.idle_polls {
            self.tell_gates(waiting, now);
        }
    }

    fn acks_taken(&mut self, acks: Vec<Pending>, poll: &Poll) {
        // A server without our fields tells a stale ack only by not counting it; one that was sent before may have
        // been counted then.
        let none_counted = poll.stale_acks.is_none() && poll.acknowledged == 0 && acks.len() == 1;
        for pending in acks {
            let named =
                poll.stale_acks.as_ref().is_some_and(|stale| stale.contains(&pending.ack.delivery_id));
            let stale = named || (none_counted && !pending.again);
            if !stale {
                self.ledger.taken(&pending.ack);
            } else if self.ledger.is_newest(&pending.ack) {
                self.summary.fenced += 1;
                let (event_id, delivery_id) = (pending.event_id, pending.ack.delivery_id);
                self.tell(What::Fenced { event_id, delivery_id });
            }
        }
    }

    fn not_accepted(&mut self, flight: Flight, error: LinkError, now: Instant) {
        match error.status() {
            Some(400 | 413 | 415 | 422) => self.refused(flight, error, now),
            Some(401 | 403) => {
                self.acks.give_back(flight.acks);
                self.refused_for_good(&error);
            }
            Some(404) => {
                self.polls.cut |= flight.limit > 0;
                self.acks.give_back(flight.acks);
                self.cut_polls();
                self.polls.went_down(now, Duration::ZERO);
                self.forgotten(now);
            }
            _ => {
                self.polls.cut |= flight.limit > 0;
                self.acks.give_back(flight.acks);
                self.link_failed(error, now);
            }
        }
    }

    /// The relay took offence at the body: it never sees the same one again.
    fn refused(&mut self, flight: Flight, error: LinkError, now: Instant) {
        let bare = flight.acks.is_empty() && flight.extend.is_empty();
        if flight.limit == 0 && self.server.idle_polls && (bare || error.names("limit")) {
            self.server.idle_polls = false;
            self.acks.give_back(flight.acks);
            self.not_the_acks();
            self.notice(Notice::NoIdlePolls);
        } else if !flight.acks.is_empty() {
            self.polls.without_acks = !error.names("acks");
            for (pending, message) in self.acks.refused(flight.acks, error.api.as_deref()) {
                self.polls.without_acks = false;
                self.ledger.refused(&pending.ack);
                let (event_id, delivery_id) = (pending.event_id, pending.ack.delivery_id);
                self.notice(Notice::AckRefused { event_id, delivery_id, message });
            }
        } else if !flight.extend.is_empty() {
            self.ledger.extended(&flight.extend, &[], now);
        } else if flight.holding {
            self.polls.cut = false;
        } else {
            self.not_the_acks();
            self.link_failed(error, now);
        }
    }

    fn not_the_acks(&mut self) {
        if std::mem::take(&mut self.polls.without_acks) {
            self.acks.tried_without(false);
        }
    }

    fn tell_ready(&mut self, poll: &Poll, here: u64, facts: Facts) {
        self.polls.ready = true;
        let ready = Ready {
            listener_id: poll.listener.id.clone(),
            relay_url: self.link.base(),
            forward_to: self.o.forward_to.as_ref().map(ToString::to_string),
            ingress: facts.ingress,
            ordered: self.o.ordered,
            max_in_flight: self.o.max_in_flight,
            waiting: poll.waiting.map(|waiting| waiting.saturating_add(here)),
            missed: facts.missed,
        };
        self.tell(What::Ready(ready));
        match facts.missed {
            Some(missed) if missed.count > 0 => self.notice(Notice::Missed(missed)),
            _ => self.move_on_from_start(),
        }
        self.ask_for_types();
    }

    /// Tells of closed ports, and again when much more waits for them.
    pub(super) fn tell_gates(&mut self, waiting: Option<u64>, now: Instant) {
        if !self.polls.ready {
            return;
        }
        let waiting =
            waiting.or_else(|| Some(self.parked() as u64).filter(|_| self.server.ext == Some(true)));
        for Closed { endpoint, tried } in self.gates.take_news(waiting, now) {
            let target = endpoint.to_string();
            self.tell(What::Gate(Gate { open: false, target, tried, waiting }));
            if let Some(hint) = self.container_hint(&endpoint) {
                self.notice(Notice::Hint(hint));
            }
        }
    }

    /// A fresh listener lives as if it had been polled.
    pub(super) fn listener_opened(&mut self, now: Instant) {
        self.polls.last_ok = now;
    }
}

#[cfg(test)]
mod tests;
