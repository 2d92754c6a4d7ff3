//! Acks: valid by construction, batched, and never sent again in a body that was refused.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::protocol::error::ApiError;
use crate::protocol::limits::{ACKS_PER_POLL, MAX_ACK_ERROR, MAX_DURATION_MS};
use crate::protocol::listeners::Ack;

/// An outcome on its way to the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    /// The event, to report a refusal.
    pub event_id: String,
    /// What is sent.
    pub ack: Ack,
    /// When it was ready.
    pub since: Instant,
    /// Sent before, in a poll whose answer never came.
    pub again: bool,
    doubt: Doubt,
}

/// Whether an ack may be what a relay refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    /// It isn't.
    None,
    /// It was in a poll whose refusal named no field; a poll without acks will tell.
    Suspect,
    /// The poll without acks was accepted: this one goes alone.
    Alone,
}

/// An outcome as the contract allows it: duration and error clamped, an impossible status told in the error.
pub(super) fn ack(
    delivery_id: &str,
    ack_token: &str,
    status: Option<u16>,
    took: Duration,
    error: Option<&str>,
) -> Ack {
    let valid = status.filter(|status| (100..=599).contains(status));
    let impossible = status.filter(|_| valid.is_none()).map(|status| format!("status {status}"));
    Ack {
        delivery_id: delivery_id.to_owned(),
        ack_token: ack_token.to_owned(),
        status_code: valid,
        duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX).min(MAX_DURATION_MS),
        error: impossible.or_else(|| error.map(|text| text.chars().take(MAX_ACK_ERROR).collect())),
        skipped: false,
    }
}

/// Acks that wait for a poll.
#[derive(Debug, Default)]
pub(super) struct Acks(VecDeque<Pending>);

impl Acks {
    /// Adds one; an older one of the same delivery is replaced.
    pub(super) fn push(&mut self, event_id: &str, ack: Ack) {
        if let Some(older) = self.0.iter_mut().find(|pending| pending.ack.delivery_id == ack.delivery_id) {
            older.ack = ack;
            return;
        }
        let since = Instant::now();
        self.0.push_back(Pending {
            event_id: event_id.to_owned(),
            ack,
            since,
            again: false,
            doubt: Doubt::None,
        });
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Since when the oldest waits.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.0.front().map(|pending| pending.since)
    }

    /// The next batch.
    pub(super) fn take(&mut self) -> Vec<Pending> {
        match self.0.front() {
            Some(first) if first.doubt == Doubt::Alone => self.0.drain(..1).collect(),
            _ => {
                let several = self
                    .0
                    .iter()
                    .take(ACKS_PER_POLL)
                    .take_while(|pending| pending.doubt != Doubt::Alone)
                    .count();
                self.0.drain(..several).collect()
            }
        }
    }

    /// Puts back what a poll without an answer carried: whether it arrived isn't known.
    pub(super) fn give_back(&mut self, batch: Vec<Pending>) {
        for mut pending in batch.into_iter().rev() {
            pending.again = true;
            // A newer token may have come meanwhile.
            if !self.0.iter().any(|newer| newer.ack.delivery_id == pending.ack.delivery_id) {
                self.0.push_front(pending);
            }
        }
    }

    /// Puts back what a refused poll carried, without the acks at fault, which are returned with what was said of
    /// them: those that the refusal names, else one that was sent alone. Otherwise all of them are suspects.
    pub(super) fn refused(
        &mut self,
        batch: Vec<Pending>,
        error: Option<&ApiError>,
    ) -> Vec<(Pending, String)> {
        let issues = error.map_or(&[][..], |error| &error.issues);
        let named = |at: usize| {
            let whole = format!("acks.{at}");
            let is_it = |path: &str| {
                path.strip_prefix(&whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            issues.iter().find(|issue| is_it(&issue.path)).map(|issue| issue.message.clone())
        };
        let any_named = (0..batch.len()).any(|at| named(at).is_some());
        let (mut at_fault, mut good) = (Vec::new(), Vec::new());
        for (at, mut pending) in batch.into_iter().enumerate() {
            let sent_alone = !any_named && pending.doubt == Doubt::Alone;
            let said = || error.map_or("refused", |error| &error.message).to_owned();
            match named(at).or_else(|| sent_alone.then(said)) {
                Some(said) => at_fault.push((pending, said)),
                None => {
                    if !any_named {
                        pending.doubt = Doubt::Suspect;
                    }
                    good.push(pending);
                }
            }
        }
        for pending in good.into_iter().rev() {
            self.0.push_front(pending);
        }
        at_fault
    }

    /// A poll without acks ended: when it was accepted, the suspects go one by one, else it wasn't them.
    pub(super) fn tried_without(&mut self, accepted: bool) {
        for pending in self.0.iter_mut().filter(|pending| pending.doubt == Doubt::Suspect) {
            pending.doubt = if accepted { Doubt::Alone } else { Doubt::None };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::error::Issue;
    use proptest::prelude::*;

    fn queue(count: usize) -> Acks {
        let mut acks = Acks::default();
        for n in 0..count {
            acks.push("evt", ack(&format!("d{n}"), "t", Some(200), Duration::ZERO, None));
        }
        acks
    }

    fn refusal(paths: &[&str]) -> ApiError {
        let issues =
            paths.iter().map(|path| Issue { path: (*path).to_owned(), message: "no".to_owned() }).collect();
        ApiError {
            kind: String::new(),
            code: "invalid_request".to_owned(),
            message: "refused".to_owned(),
            param: None,
            issues,
            hint: None,
            request_id: String::new(),
        }
    }

    fn ids(batch: &[Pending]) -> Vec<&str> {
        batch.iter().map(|pending| pending.ack.delivery_id.as_str()).collect()
    }

    #[test]
    fn what_is_impossible_is_told_in_the_error() {
        let odd = ack("d", "t", Some(700), Duration::from_secs(7200), None);
        assert_eq!((odd.status_code, odd.error.as_deref()), (None, Some("status 700")));
        assert_eq!(odd.duration_ms, 3_600_000);
    }

    #[test]
    fn named_acks_are_left_out_of_the_next_try() {
        let mut acks = queue(3);
        let batch = acks.take();
        let at_fault = acks.refused(batch, Some(&refusal(&["acks.1.status_code"])));
        assert_eq!(at_fault[0].0.ack.delivery_id, "d1");
        assert_eq!(ids(&acks.take()), ["d0", "d2"]);
    }

    #[test]
    fn a_refusal_that_names_none_is_narrowed_down() {
        let mut acks = queue(3);
        let batch = acks.take();
        assert!(acks.refused(batch, None).is_empty());
        acks.tried_without(true);
        let first = acks.take();
        assert_eq!(ids(&first), ["d0"], "one by one");
        assert_eq!(acks.refused(first, Some(&refusal(&[]))).len(), 1);
        assert_eq!(ids(&acks.take()), ["d1"], "never the same body again");
    }

    #[test]
    fn acks_are_not_blamed_for_a_refusal_that_comes_without_them_too() {
        let mut acks = queue(3);
        let batch = acks.take();
        assert!(acks.refused(batch, None).is_empty());
        acks.tried_without(false);
        assert_eq!(acks.take().len(), 3);
    }

    #[test]
    fn a_cut_answer_costs_no_ack_and_a_newer_token_wins() {
        let mut acks = queue(2);
        let batch = acks.take();
        acks.push("evt", ack("d0", "newer", Some(200), Duration::ZERO, None));
        acks.give_back(batch);
        let again = acks.take();
        assert_eq!(ids(&again), ["d1", "d0"]);
        assert!(again[0].again);
        assert_eq!(again[1].ack.ack_token, "newer");
    }

    #[test]
    fn batches_are_of_fifty() {
        let mut acks = queue(120);
        assert_eq!((acks.take().len(), acks.take().len(), acks.take().len()), (50, 50, 20));
        assert!(acks.take().is_empty());
    }

    proptest! {
        #[test]
        fn every_ack_is_one_the_contract_takes(status: Option<u16>, ms: u64, error: Option<String>) {
            let made = ack("d", "t", status, Duration::from_millis(ms), error.as_deref());
            prop_assert!(made.duration_ms <= 3_600_000);
            prop_assert!(made.status_code.is_none_or(|status| (100..=599).contains(&status)));
            prop_assert!(made.error.is_none_or(|error| error.chars().count() <= MAX_ACK_ERROR));
        }
    }
}
