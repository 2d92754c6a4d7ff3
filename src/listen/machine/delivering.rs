//! Deliveries: taken in, filtered, posted, judged, acked.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{Done, Machine};
use crate::clock::Timestamp;
use crate::http::{ConnectError, Endpoint};
use crate::listen::ack;
use crate::listen::event::{End, Ended, Gate, Notice, Outcome, Received, Skip, What};
use crate::listen::forward::{Failure, Forwarded};
use crate::listen::hint::Hint;
use crate::listen::lease::Lease;
use crate::listen::ledger::{Arrival, HandOut, Work};
use crate::listen::sequence::Gap;
use crate::protocol::listeners::Delivery;

/// How a delivery ended, before it is told.
struct Verdict {
    outcome: Outcome,
    status: Option<u16>,
    error: Option<String>,
    hint: Option<Hint>,
}

impl Machine {
    /// Takes note of sequences, and so of what is missing before the first arrivals among them.
    pub(super) fn note_sequences(&mut self, deliveries: &[Delivery]) {
        for delivery in deliveries.iter().filter(|delivery| delivery.replay != Some(true)) {
            let (Some(source), Some(sequence)) = (&delivery.source, delivery.sequence) else { continue };
            if delivery.redelivery == Some(true) {
                self.sequences.saw_again(source, sequence);
                continue;
            }
            // A backlog holds each event once: the numbers of its redeliveries are not missing.
            match self.in_backlog() {
                true => self.sequences.saw_stored(source, sequence),
                false => self.sequences.saw(source, sequence),
            }
        }
    }

    /// Tells which events never came.
    pub(super) fn tell_missing(&mut self) {
        for Gap { source, from, to } in self.sequences.take_missing() {
            self.notice(Notice::Lost { source, from, to });
        }
    }

    /// Takes in what a poll handed out; `polled_at` is the moment of that poll on the relay's clock.
    pub(super) fn take_deliveries(
        &mut self,
        deliveries: Vec<Delivery>,
        polled_at: Option<Timestamp>,
        now: Instant,
    ) {
        for delivery in deliveries {
            let lease = Lease::of(&delivery, polled_at, self.o.timing.lease, now);
            match self.ledger.hand_out(&delivery, lease) {
                HandOut::Adopted => {}
                HandOut::Answered { event_id, ack } => self.acks.push(&event_id, ack),
                HandOut::New => self.take_new(delivery, lease, now),
            }
        }
    }

    fn take_new(&mut self, delivery: Delivery, lease: Lease, now: Instant) {
        self.last_activity = now;
        self.summary.received += 1;
        let token = delivery.ack_token.clone();
        let (received, undecodable) = received(delivery);
        let received = Arc::new(received);
        if !received.replay && !received.redelivery {
            self.move_on_from_start();
            self.checkpoint.last_event_id = Some(received.event_id.clone());
            self.newest_at = received.created_at;
        }
        self.tell(What::Received(Arc::clone(&received)));
        if let Some(message) = undecodable {
            self.notice(Notice::Undecodable {
                event_id: received.event_id.clone(),
                message: message.clone(),
            });
            let error = Some(message);
            self.settle(
                &received,
                &token,
                Verdict { outcome: Outcome::Failed, status: None, error, hint: None },
                now,
            );
            return;
        }
        if let Some(skip) = self.o.skips(&received) {
            self.settle(&received, &token, Verdict::skipped(skip), now);
            return;
        }
        let target = self.o.target_of(received.source.as_deref(), &received.event_type);
        match target.and_then(|n| self.targets.get(n)).cloned() {
            Some(to) => {
                let gate = self.gates.of(&to.endpoint);
                self.ledger.queue(Work { received, to, gate }, &token, lease);
            }
            None if self.o.print_only() => self.settle(&received, &token, Verdict::shown(), now),
            None => self.settle(&received, &token, Verdict::skipped(Skip::Route), now),
        }
    }

    /// Ends a delivery that is not posted.
    fn settle(&mut self, received: &Arc<Received>, token: &str, verdict: Verdict, now: Instant) {
        let mut ack =
            ack::ack(&received.delivery_id, token, verdict.status, Duration::ZERO, verdict.error.as_deref());
        // A server without our field reads it as the success that it is for the sender.
        ack.skipped = matches!(verdict.outcome, Outcome::Skipped(_));
        self.ledger.settle(received, ack.clone(), now);
        self.acks.push(&received.event_id, ack);
        let ended = Ended {
            received: Arc::clone(received),
            outcome: verdict.outcome,
            status: verdict.status,
            error: verdict.error,
            duration: Duration::ZERO,
            url: None,
            hint: verdict.hint,
            sent: None,
            answer: Bytes::new(),
        };
        self.count(ended, now);
    }

    /// Starts as many POSTs as may be open, in order of arrival.
    pub(super) fn start_forwards(&mut self, now: Instant) {
        if self.is_flushing() {
            return;
        }
        while self.ledger.open() < self.o.max_in_flight {
            let gates = &self.gates;
            let started = self.ledger.start(now, self.o.ordered, |work| gates.is_open(work.gate));
            let Some((arrival, work)) = started else { return };
            let forwarder = Arc::clone(&self.forwarder);
            let task = self.tasks.spawn(async move {
                let forwarded = Box::new(forwarder.forward(&work).await);
                Done::Forwarded { arrival, forwarded }
            });
            self.posts.insert(arrival, task);
        }
    }

    /// A POST ended.
    pub(super) fn forwarded(&mut self, arrival: Arrival, forwarded: Forwarded, now: Instant) {
        let Entry::Occupied(post) = self.posts.entry(arrival) else { return };
        post.remove();
        let verdict = match forwarded.result {
            Ok(status) => {
                Verdict { outcome: Outcome::Delivered, status: Some(status), error: None, hint: None }
            }
            Err(Failure::Final { status, error, hint }) => {
                let app = self.ledger.endpoint_of(arrival);
                let hint = hint.zip(app).and_then(|(hint, app)| self.said.unless_moved(&app, status, hint));
                Verdict { outcome: Outcome::Failed, status, error, hint }
            }
            Err(Failure::NobodyThere { ref tried }) => match self.ledger.gate_of(arrival) {
                Some(gate) => {
                    self.ledger.put_back(arrival);
                    self.gates.close(gate, tried.clone(), now + self.o.timing.probe);
                    return;
                }
                None => {
                    let app = self.ledger.endpoint_of(arrival);
                    Verdict::refused(tried, app.and_then(|app| self.container_hint(&app)))
                }
            },
        };
        self.flow.took(forwarded.took);
        let Some((work, ack)) = self.ledger.answer(arrival, |id, token| {
            ack::ack(id, token, verdict.status, forwarded.took, verdict.error.as_deref())
        }) else {
            return;
        };
        self.acks.push(&work.received.event_id, ack);
        let ended = Ended {
            received: Arc::clone(&work.received),
            outcome: verdict.outcome,
            status: verdict.status,
            error: verdict.error,
            duration: forwarded.took,
            url: Some(forwarded.url),
            hint: verdict.hint,
            sent: Some(forwarded.sent),
            answer: forwarded.answer,
        };
        self.count(ended, now);
    }

    /// Ends a delivery as failed without an answer.
    pub(super) fn fail(&mut self, arrival: Arrival, error: String, took: Duration, now: Instant) {
        if let Some(post) = self.posts.remove(&arrival) {
            post.abort();
        }
        let answered = self.ledger.answer(arrival, |id, token| ack::ack(id, token, None, took, Some(&error)));
        let Some((work, ack)) = answered else { return };
        self.acks.push(&work.received.event_id, ack);
        let ended = Ended {
            received: Arc::clone(&work.received),
            outcome: Outcome::Failed,
            status: None,
            error: Some(error),
            duration: took,
            url: Some(work.to.url.clone()),
            hint: None,
            sent: None,
            answer: Bytes::new(),
        };
        self.count(ended, now);
    }

    fn count(&mut self, ended: Ended, now: Instant) {
        self.last_activity = now;
        let outcome = ended.outcome;
        self.tell(What::Ended(ended));
        match outcome {
            Outcome::Delivered => self.summary.delivered += 1,
            Outcome::Failed => self.summary.failed += 1,
            Outcome::Skipped(_) => self.summary.skipped += 1,
        }
        if outcome == Outcome::Failed && self.o.exit_on_failure {
            self.stop(End::ForwardFailed);
        } else if self.o.until.is_some_and(|until| self.summary.delivered + self.summary.failed >= until) {
            self.stop(End::Until);
        }
    }

    /// In a container that refuses `localhost`; once.
    pub(super) fn container_hint(&mut self, endpoint: &Endpoint) -> Option<Hint> {
        self.o.in_container.then(|| self.said.container(endpoint)).flatten()
    }

    /// Before the first poll: which ports are open.
    pub(super) async fn look_at_gates(&mut self) {
        let gates: Vec<(usize, Endpoint)> =
            self.gates.all().map(|(n, endpoint)| (n, endpoint.clone())).collect();
        let loopback = self.forwarder.loopback.clone();
        let probes = gates.iter().map(|(_, endpoint)| loopback.probe(endpoint));
        let results = futures_util::future::join_all(probes).await;
        for ((gate, _), result) in gates.into_iter().zip(results) {
            if let Err(ConnectError::Refused { tried }) = result {
                self.gates.close(gate, tried, Instant::now() + self.o.timing.probe);
            }
        }
    }

    /// Tries the closed ports whose time has come.
    pub(super) fn probe_gates(&mut self, now: Instant) {
        for (gate, endpoint) in self.gates.take_due(now) {
            let loopback = self.forwarder.loopback.clone();
            self.tasks.spawn(async move { Done::Probed { gate, result: loopback.probe(&endpoint).await } });
        }
    }

    /// A port was tried. Only a refusal keeps it closed: anything else is for a POST to find out.
    pub(super) fn probed(&mut self, gate: usize, result: Result<(), ConnectError>, now: Instant) {
        if let Err(ConnectError::Refused { tried }) = result {
            self.gates.close(gate, tried, now + self.o.timing.probe);
            return;
        }
        if self.gates.open(gate) {
            let waiting = (self.server.ext == Some(true)).then(|| self.parked_at(gate) as u64);
            let target = self.gates.name(gate);
            self.tell(What::Gate(Gate { open: true, target, tried: Vec::new(), waiting }));
        }
    }

    fn parked_at(&self, gate: usize) -> usize {
        self.ledger.waiting(|work| work.gate == Some(gate))
    }

    /// Where leases can't be extended, what a closed port holds back is given up before its lease ends.
    pub(super) fn give_up_kept(&mut self, now: Instant) {
        if self.server.ext != Some(false) || !self.gates.any_closed() {
            return;
        }
        for arrival in self.ledger.waiting_for(self.o.timing.keep, now) {
            let closed = self.ledger.gate_of(arrival).filter(|gate| !self.gates.is_open(Some(*gate)));
            if let Some(gate) = closed {
                let error = Failure::nobody(self.gates.tried(gate));
                self.fail(arrival, error, Duration::ZERO, now);
            }
        }
    }

    /// When the next of these is due.
    pub(super) fn kept_due(&self) -> Option<Instant> {
        let kept = self.server.ext == Some(false) && self.gates.any_closed();
        let oldest =
            kept.then(|| self.ledger.oldest_waiting(|work| !self.gates.is_open(work.gate))).flatten();
        oldest.map(|since| since + self.o.timing.keep)
    }
}

impl Verdict {
    fn skipped(skip: Skip) -> Self {
        Self { outcome: Outcome::Skipped(skip), status: None, error: None, hint: None }
    }

    fn shown() -> Self {
        Self { outcome: Outcome::Delivered, status: None, error: None, hint: None }
    }

    fn refused(tried: &[String], hint: Option<Hint>) -> Self {
        Self { outcome: Outcome::Failed, status: None, error: Some(Failure::nobody(tried)), hint }
    }
}

/// A delivery as it is shown and forwarded, and what is wrong with its body.
fn received(mut delivery: Delivery) -> (Received, Option<String>) {
    let (body, wrong) = match &delivery.body_base64 {
        None => (Bytes::from(std::mem::take(&mut delivery.body)), None),
        Some(_) => match delivery.bytes() {
            Ok(bytes) => (bytes, None),
            Err(error) => (Bytes::new(), Some(format!("its body is no base64: {error}"))),
        },
    };
    let received = Received {
        event_id: delivery.event_id,
        delivery_id: delivery.id,
        event_type: delivery.event_type,
        source: delivery.source,
        attempt: delivery.attempt,
        replay: delivery.replay.unwrap_or(false),
        redelivery: delivery.redelivery.unwrap_or(false),
        created_at: delivery.created_at,
        method: delivery.method.unwrap_or_else(|| "POST".to_owned()),
        path: delivery.path.unwrap_or_default(),
        query: delivery.query,
        headers: delivery.headers,
        body,
        sequence: delivery.sequence,
        occurrence: delivery.occurrence,
    };
    (received, wrong)
}
