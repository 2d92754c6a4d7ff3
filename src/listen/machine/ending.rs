//! Stopping: claim nothing more, let POSTs end, ack, close, say the totals.

use std::time::Instant;

use super::{Done, Machine};
use crate::listen::event::{End, Fatal, FatalKind, Notice, What};
use crate::listen::link::LinkError;

/// How far stopping is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stopping {
    /// POSTs may still end.
    Draining {
        /// Until then.
        until: Instant,
    },
    /// Their acks are sent.
    Flushing {
        /// Until then.
        until: Instant,
    },
    /// The listener is being closed.
    Closing,
    /// Nothing is left to do.
    Over,
}

impl Machine {
    /// Begins to stop; the first reason stays.
    pub(super) fn stop(&mut self, end: End) {
        if self.stopping.is_some() {
            return;
        }
        self.summary.end = end;
        self.stopping = Some(Stopping::Draining { until: Instant::now() + self.o.drain });
        self.cut_opening();
        self.cut_claims();
    }

    /// It can't go on.
    fn fatal(&mut self, kind: FatalKind, message: String, hint: Option<String>) {
        if self.stopping.is_none() {
            self.tell(What::Fatal(Fatal { kind, message, hint }));
        }
        self.stop(End::Fatal(kind));
    }

    /// It can't go on, says the relay.
    pub(super) fn fatal_answer(&mut self, kind: FatalKind, error: &LinkError) {
        let hint = error.api.as_ref().and_then(|api| api.hint.clone());
        self.fatal(kind, error.cause.to_string(), hint);
    }

    /// The key isn't good any more.
    pub(super) fn refused_for_good(&mut self, error: &LinkError) {
        self.barred = true;
        let forbidden = error.status() == Some(403);
        self.fatal_answer(if forbidden { FatalKind::Forbidden } else { FatalKind::Unauthorised }, error);
    }

    /// A mistake of ours.
    pub(super) fn internal_error(&mut self, message: String) {
        self.fatal(FatalKind::Internal, message, None);
    }

    /// Ends now: nothing more is acked, the listener stays open.
    pub(super) fn force(&mut self) {
        self.summary.end = End::Forced;
        self.stopping = Some(Stopping::Over);
        self.tell(What::Checkpoint(self.checkpoint.clone()));
        self.tell(What::Summary(self.summary));
    }

    /// Whether the loop may end.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.stopping, Some(Stopping::Over))
    }

    /// Whether no POST is started any more.
    pub(super) fn is_flushing(&self) -> bool {
        matches!(self.stopping, Some(Stopping::Flushing { .. } | Stopping::Closing | Stopping::Over))
    }

    /// When stopping goes on by itself.
    pub(super) fn stop_due(&self) -> Option<Instant> {
        match self.stopping? {
            Stopping::Draining { until } | Stopping::Flushing { until } => Some(until),
            Stopping::Closing | Stopping::Over => None,
        }
    }

    /// Goes on with stopping as far as it can.
    pub(super) fn advance_stop(&mut self, now: Instant) {
        if let Some(Stopping::Draining { until }) = self.stopping {
            let startable = self.ledger.waiting(|work| self.gates.is_open(work.gate));
            let drained = self.ledger.open() == 0 && startable == 0;
            if until <= now {
                self.interrupt(now);
            }
            if drained || until <= now {
                self.stopping = Some(Stopping::Flushing { until: now + self.o.timing.close });
                // Started after the state changed, so that acks go out at once.
                self.start_polls(now);
            }
        }
        if let Some(Stopping::Flushing { until }) = self.stopping {
            let flushed = self.acks.is_empty() && self.polls.is_quiet();
            if flushed || until <= now || self.listener.is_none() || self.cannot_ack() {
                self.start_closing();
            }
        }
    }

    /// What the drain cut off was posted, and how it ended will never be known.
    fn interrupt(&mut self, now: Instant) {
        let open = self.ledger.open_ones();
        for (arrival, since) in &open {
            let took = now.saturating_duration_since(*since);
            self.fail(*arrival, "interrupted".to_owned(), took, now);
        }
        if !open.is_empty() {
            self.notice(Notice::Interrupted { count: open.len() });
        }
    }

    /// The relay is gone, or refuses the key.
    pub(super) fn cannot_ack(&self) -> bool {
        self.barred || matches!(self.summary.end, End::Fatal(_))
    }

    fn start_closing(&mut self) {
        self.cut_polls();
        self.stopping = Some(Stopping::Closing);
        let Some(listener) = self.listener.clone().filter(|_| !self.cannot_ack()) else {
            self.finish(false);
            return;
        };
        let (link, limit) = (self.link.clone(), self.o.timing.close);
        self.tasks.spawn(async move {
            // One that the relay no longer knows is closed as well.
            let closed = match tokio::time::timeout(limit, link.close(&listener)).await {
                Ok(Ok(())) => true,
                Ok(Err(error)) => error.status() == Some(404),
                Err(_) => false,
            };
            Done::Closed(closed)
        });
    }

    /// The listener is closed, or could not be.
    pub(super) fn closed(&mut self, closed: bool) {
        self.finish(closed);
    }

    fn finish(&mut self, closed: bool) {
        self.tell_missing();
        let left = self.ledger.held();
        if left > 0 {
            self.notice(Notice::NotSent { count: left });
        }
        if !self.acks.is_empty() {
            self.notice(Notice::NotAcked { count: self.acks.len() });
        }
        if self.checkpoint.listener_id.is_some() {
            self.unsaved = true;
            self.tell_checkpoint(closed);
        }
        self.tell(What::Summary(self.summary));
        self.stopping = Some(Stopping::Over);
    }
}
