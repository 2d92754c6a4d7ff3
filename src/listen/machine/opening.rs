//! Opening a listener, and opening another when the relay no longer knows it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::{Done, Machine};
use crate::id::Kind;
use crate::listen::cause::Cause;
use crate::listen::event::{FatalKind, Missed, Notice, ReopenedFrom, What};
use crate::listen::link::{Link, LinkError};
use crate::listen::options::{ListenOptions, Since};
use crate::protocol::error::Code;
use crate::protocol::listeners::{Listener, OpenListener};

/// Pages of missed events that are counted.
const MISSED_PAGES: usize = 10;

/// Where opening stands.
#[derive(Debug)]
pub(super) struct Opening {
    /// How the listener is opened next.
    plan: Plan,
    /// A listener of a dead process, to be closed first.
    dead: Option<String>,
    /// The call under way.
    task: Option<AbortHandle>,
    /// Whether a listener was ever open.
    once: bool,
    /// The listener that the relay forgot.
    forgotten: Option<String>,
    /// Whether what a reopening skipped was told already.
    skipped: Option<u64>,
    /// Failed calls in a row.
    pub(super) failures: u32,
    /// When the next try is due.
    pub(super) retry_at: Option<Instant>,
    /// How much of the backlog that `since` brought is still to come.
    backlog: u64,
    /// The newest event when the first listener opened.
    latest: Option<String>,
}

/// From where a listener is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Plan {
    Continue(String),
    Since(String),
    Now,
}

/// What start says beyond the listener itself.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Source name to its URL.
    pub(super) ingress: BTreeMap<String, String>,
    /// What arrived since the run before.
    pub(super) missed: Option<Missed>,
}

impl Opening {
    pub(super) fn new(o: &ListenOptions) -> Self {
        let previous = o.previous.clone().unwrap_or_default();
        let dead = previous.listener_id.clone().filter(|_| !previous.closed && o.since != Since::Last);
        let plan = match &o.since {
            Since::Now => Plan::Now,
            Since::At(from) => Plan::Since(from.clone()),
            Since::Last => match (previous.resume.or(previous.listener_id), previous.last_event_id) {
                (Some(listener), _) => Plan::Continue(listener),
                (None, Some(event)) => Plan::Since(event),
                (None, None) => Plan::Now,
            },
        };
        Self {
            plan,
            dead,
            task: None,
            once: false,
            forgotten: None,
            skipped: None,
            failures: 0,
            retry_at: None,
            backlog: 0,
            latest: None,
        }
    }
}

impl Machine {
    /// Opens a listener when there is none and none is being opened.
    pub(super) fn start_opening(&mut self, now: Instant) {
        let waits = self.opening.retry_at.is_some_and(|at| at > now);
        if self.listener.is_some() || self.opening.task.is_some() || waits || self.stopping.is_some() {
            return;
        }
        if !self.opening.once && self.o.since == Since::Last && self.opening.plan == Plan::Now {
            self.notice_once_nothing_remembered();
        }
        self.relocate();
        self.opening.retry_at = None;
        let ask = self.ask_to_open();
        let (link, dead, close) = (self.link.clone(), self.opening.dead.clone(), self.o.timing.close);
        let task = self.tasks.spawn(async move {
            if let Some(dead) = dead {
                let _gone = tokio::time::timeout(close, link.close(&dead)).await;
            }
            Done::Opened(link.open(&ask).await)
        });
        self.opening.task = Some(task);
    }

    fn notice_once_nothing_remembered(&mut self) {
        if self.opening.failures == 0 {
            self.notice(Notice::NothingRemembered);
        }
    }

    fn ask_to_open(&self) -> OpenListener {
        let (since, continues) = match &self.opening.plan {
            Plan::Continue(listener) => (None, Some(listener.clone())),
            Plan::Since(from) => (Some(from.clone()), None),
            Plan::Now => (None, None),
        };
        let backlog = since.is_some() || continues.is_some();
        // The server knows names, not globs.
        let names = !self.o.sources.iter().any(|source| source.contains('*'));
        OpenListener {
            description: self.o.description.clone(),
            sources: self.o.sources.iter().filter(|_| names).cloned().collect(),
            since,
            continues,
            max_backlog: backlog.then_some(self.o.max_backlog),
            ordered: self.o.ordered,
            ..OpenListener::default()
        }
    }

    /// When opening goes on by itself.
    pub(super) fn opening_due(&self) -> Option<Instant> {
        let goes_on = !self.cannot_ack() && (self.listener.is_some() || self.stopping.is_none());
        self.opening.retry_at.filter(|_| goes_on)
    }

    /// Gives up the call under way.
    pub(super) fn cut_opening(&mut self) {
        if let Some(task) = self.opening.task.take() {
            task.abort();
        }
        self.opening.retry_at = None;
    }

    /// The answer to opening.
    pub(super) fn opened(&mut self, result: Result<Listener, LinkError>, now: Instant) {
        if self.opening.task.take().is_none() {
            return;
        }
        match result {
            Ok(listener) => self.take_listener(&listener, now),
            Err(error) => self.not_opened(error, now),
        }
    }

    fn take_listener(&mut self, listener: &Listener, now: Instant) {
        self.opening.dead = None;
        self.opening.failures = 0;
        self.listener = Some(listener.id.clone());
        self.checkpoint.listener_id = Some(listener.id.clone());
        let first = !std::mem::replace(&mut self.opening.once, true);
        if first && self.opening.plan == Plan::Now {
            self.opening.latest.clone_from(&listener.latest_event_id);
        }
        // What the run before left stays reachable by --since last until this one has something to show.
        if !first || self.opening.plan != Plan::Now || self.checkpoint.resume.is_none() {
            self.move_on_from_start();
        }
        let stored = matches!(self.opening.plan, Plan::Since(_)).then_some(listener.backlog).flatten();
        self.opening.backlog = stored.unwrap_or(0);
        self.listener_opened(now);
        if first && let Some(others) = listener.others_open.filter(|others| *others > 0) {
            self.notice(Notice::OthersOpen(others));
        }
        if self.opening.forgotten.take().is_some() {
            // A server without our fields ignored what it was asked for, and began with now.
            let ours = self.server.ext == Some(true);
            let from = match &self.opening.plan {
                Plan::Continue(_) if ours => ReopenedFrom::Continued,
                Plan::Since(event) if ours => ReopenedFrom::Event(event.clone()),
                _ => ReopenedFrom::Now,
            };
            if from == ReopenedFrom::Now {
                self.sequences.forget();
            }
            self.notice(Notice::Reopened { listener_id: listener.id.clone(), from });
        }
        self.unsaved = true;
        self.tell_checkpoint(false);
    }

    /// Whether the next first arrival is part of the backlog that `since` brought; counts it.
    pub(super) fn in_backlog(&mut self) -> bool {
        let is_it = self.opening.backlog > 0;
        self.opening.backlog = self.opening.backlog.saturating_sub(1);
        is_it
    }

    /// From here on `--since last` goes on from this listener.
    pub(super) fn move_on_from_start(&mut self) {
        self.checkpoint.resume.clone_from(&self.listener);
        if let Some(latest) = self.opening.latest.take() {
            self.checkpoint.last_event_id = Some(latest);
        }
        self.unsaved = true;
    }

    /// The relay no longer knows the listener: the next one goes on where it ended.
    pub(super) fn forgotten(&mut self, now: Instant) {
        let Some(listener) = self.listener.take() else { return };
        self.ledger.orphan_all();
        self.opening.plan = Plan::Continue(listener.clone());
        self.opening.forgotten = Some(listener);
        self.opening.retry_at = Some(now);
    }

    /// Known after a reopening from now that had to skip: how many, when the relay said so.
    pub(super) fn take_skipped(&mut self) -> Option<u64> {
        self.opening.skipped.take()
    }

    fn not_opened(&mut self, error: LinkError, now: Instant) {
        let fallback = match (&self.opening.plan, error.status()) {
            _ if error.code() == Code::ListenerLimitReached.text() => None,
            (Plan::Continue(_) | Plan::Since(_), Some(422)) if is_backlog(&error) => {
                self.skip_backlog(&error)
            }
            (Plan::Continue(_), Some(400 | 404 | 422)) => Some(self.after_continue()),
            (Plan::Since(_), Some(400 | 404 | 422)) if self.opening.once => Some(Plan::Now),
            _ => None,
        };
        match (fallback, self.why_never(&error)) {
            (Some(plan), _) => {
                self.opening.plan = plan;
                self.opening.retry_at = Some(now);
            }
            (None, Some(kind)) => self.fatal_answer(kind, &error),
            (None, None) => self.link_failed(error, now),
        }
    }

    /// A backlog over the limit: the user's own wish is refused, a reopening goes on from now and says so.
    fn skip_backlog(&mut self, error: &LinkError) -> Option<Plan> {
        if !self.opening.once {
            return None;
        }
        let count = error.api.as_ref().and_then(|api| first_number(&api.message));
        let after = self.checkpoint.last_event_id.clone();
        let replay = format!("pullhook replay --from {}", self.newest_at);
        self.opening.skipped = count;
        self.notice(Notice::BacklogSkipped { count, after, replay });
        Some(Plan::Now)
    }

    fn after_continue(&self) -> Plan {
        match self.checkpoint.last_event_id.clone() {
            Some(event) => Plan::Since(event),
            None => Plan::Now,
        }
    }

    /// Why trying again can't help; `None` when it can.
    fn why_never(&self, error: &LinkError) -> Option<FatalKind> {
        let first = !self.opening.once;
        let status = error.status()?;
        let asked_for = match &self.opening.plan {
            Plan::Since(from) if error.names("since") => Some(from),
            _ => None,
        };
        match status {
            401 => Some(FatalKind::Unauthorised),
            403 => Some(FatalKind::Forbidden),
            429 | 408 | 500.. => None,
            _ if !first => None,
            _ if error.code() == Code::ListenerLimitReached.text() => Some(FatalKind::ListenerLimit),
            _ if is_backlog(error) => Some(FatalKind::BacklogRefused),
            404 => Some(FatalKind::NotFound),
            _ if asked_for.is_some_and(|from| from.starts_with(Kind::Event.prefix())) => {
                Some(FatalKind::NotFound)
            }
            _ => Some(FatalKind::Refused),
        }
    }

    /// A call failed and may succeed later: says so, and tries again after a while.
    pub(super) fn link_failed(&mut self, error: LinkError, now: Instant) {
        self.cut_polls();
        self.polls.went_down(now, Duration::ZERO);
        self.opening.failures += 1;
        let failures = self.opening.failures;
        if self.stopping.is_none() && self.o.max_connect_attempts.is_some_and(|most| failures >= most) {
            let limited = error.status() == Some(429);
            self.fatal_answer(if limited { FatalKind::RateLimited } else { FatalKind::Unreachable }, &error);
            return;
        }
        self.link.renew();
        let delay = self.o.timing.backoff().delay(failures - 1, &*self.o.dice);
        let next = error.retry_after.map_or(delay, |wanted| wanted.max(delay));
        self.opening.retry_at = Some(now + next);
        self.tell(What::Reconnecting { cause: error.cause, next, tries: failures });
    }

    /// The machine slept: nothing that was open before is trusted.
    pub(super) fn slept(&mut self, away: Duration, now: Instant) {
        if self.stopping.is_some() {
            return;
        }
        self.cut_opening();
        self.cut_polls();
        self.link.renew();
        self.forwarder.loopback.drop_idle();
        self.polls.went_down(now, away);
        self.opening.failures = 0;
        if self.polls.is_ready() {
            let cause = Cause::Slept { for_about: away };
            self.tell(What::Reconnecting { cause, next: Duration::ZERO, tries: 0 });
        }
    }

    /// Asks where the relay is now.
    pub(super) fn relocate(&mut self) {
        if let Some(url) = self.o.relocate.as_ref().and_then(|relocate| relocate.relay_url()) {
            self.link.moved(&url);
        }
    }

    /// Gathers what start says; never fails, never for long.
    pub(super) fn gather_facts(&self) -> impl Future<Output = Facts> + use<> {
        let (link, limit) = (self.link.clone(), self.o.timing.close);
        let since = self.o.previous.as_ref().and_then(|previous| previous.last_event_id.clone());
        let since = since.filter(|since| {
            self.o.since == Since::Now && self.opening.latest.as_ref().is_some_and(|latest| latest != since)
        });
        let wanted = Wanted { since, events: self.o.events.clone(), sources: self.o.sources.clone() };
        async move { tokio::time::timeout(limit, wanted.facts(&link)).await.unwrap_or_default() }
    }

    /// Asks which of the wanted types were never seen.
    pub(super) fn ask_for_types(&mut self) {
        let patterns: Vec<String> = self.o.events.iter().filter(|pattern| *pattern != "*").cloned().collect();
        if patterns.is_empty() || self.server.ext != Some(true) {
            return;
        }
        let link = self.link.clone();
        self.tasks.spawn(async move {
            let mut unknown = Vec::new();
            for pattern in patterns {
                let found = link.events(&[("type", &pattern), ("limit", "1")]).await;
                if found.is_ok_and(|found| found.data.is_empty()) {
                    unknown.push(pattern);
                }
            }
            Done::UnknownTypes(unknown)
        });
    }
}

struct Wanted {
    since: Option<String>,
    events: Vec<String>,
    sources: Vec<String>,
}

impl Wanted {
    async fn facts(&self, link: &Link) -> Facts {
        let sources = link.sources().await.map(|list| list.data).unwrap_or_default();
        let ingress = sources.into_iter().map(|source| (source.name, source.ingress_url)).collect();
        Facts { ingress, missed: self.missed(link).await }
    }

    /// Counts the stored events after the one that the run before saw last, as far as this run wants them.
    async fn missed(&self, link: &Link) -> Option<Missed> {
        let any = |globs: &[String], text: &str| {
            globs.is_empty() || globs.iter().any(|glob| crate::glob::matches(glob, text))
        };
        let mut after = self.since.clone()?;
        let mut missed = Missed { count: 0, more: false };
        for _ in 0..MISSED_PAGES {
            let page = link.events(&[("after", &after), ("order", "asc"), ("limit", "100")]).await.ok()?;
            let wanted = page.data.iter().filter(|event| {
                any(&self.events, &event.kind)
                    && any(&self.sources, event.source.as_deref().unwrap_or_default())
            });
            missed.count += wanted.count() as u64;
            missed.more = page.has_more;
            match page.data.last() {
                Some(last) if page.has_more => after.clone_from(&last.id),
                _ => break,
            }
        }
        Some(missed)
    }
}

fn is_backlog(error: &LinkError) -> bool {
    error.code() == Code::BacklogTooLarge.text()
}

/// The first number in a text: a refused backlog says how many there are.
fn first_number(text: &str) -> Option<u64> {
    let digits = text
        .split(|c: char| !c.is_ascii_digit() && c != ',')
        .find(|part| part.starts_with(|c: char| c.is_ascii_digit()));
    digits.and_then(|digits| digits.replace(',', "").parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_backlog_says_how_many() {
        assert_eq!(first_number("there are 12,345 events, over the limit of 1000"), Some(12_345));
        assert_eq!(first_number("too many"), None);
    }
}
