//! Sentences for people about what is no event and no answer: shared by all renderers.

use std::time::Duration;

use super::{Line, Look};
use crate::cli::output::sanitize;
use crate::listen::{End, Fatal, Gate, Missed, Notice, Ready, ReopenedFrom, Summary, What};

/// The lines for stderr of anything that every renderer says alike.
pub(super) fn say(what: &What) -> Vec<Line> {
    match what {
        What::Gate(gate) => vec![Line::Note(self::gate(gate))],
        What::Fenced { event_id, .. } => vec![Line::Note(clean(&format!(
            "the ack of {event_id} came too late: the relay had handed it out again"
        )))],
        What::Reconnecting { cause, next, tries: 0 } => {
            vec![Line::Note(clean(&format!("{cause}; connecting again in {}", seconds(*next))))]
        }
        What::Reconnecting { cause, next, .. } => {
            vec![Line::Note(clean(&format!(
                "can't reach the relay: {cause}; next try in {}",
                seconds(*next)
            )))]
        }
        What::Reconnected { down, waited, lost } => vec![Line::Note(reconnected(*down, *waited, *lost))],
        What::Notice(notice) => vec![self::notice(notice)],
        What::Fatal(fatal) => vec![self::fatal(fatal)],
        What::Ready(_) | What::Received(_) | What::Ended(_) | What::Checkpoint(_) | What::Summary(_) => {
            Vec::new()
        }
    }
}

/// `> Ready! ...`, one line.
pub(super) fn ready(ready: &Ready, look: &Look) -> String {
    let to = match (&ready.forward_to, look.routes) {
        (Some(url), 0) => format!("Forwarding to {url}."),
        (Some(url), routes) => format!("Forwarding by {}, else to {url}.", count(routes as u64, "route")),
        (None, 0) => "Printing events, forwarding nothing.".to_owned(),
        (None, routes) => format!("Forwarding by {}.", count(routes as u64, "route")),
    };
    let signs = ready.forward_to.is_some() || look.routes > 0;
    let secret = look.secret.as_ref().filter(|_| signs).map(|text| format!(" {text}")).unwrap_or_default();
    format!("> Ready! {}{secret} (^C to quit)", clean(&to))
}

/// What is said below it: where each source takes webhooks, what waits, and what the command adds.
pub(super) fn below_ready(ready: &Ready, look: &Look) -> Vec<String> {
    let mut lines: Vec<String> =
        ready.ingress.iter().map(|(source, url)| clean(&format!("  {source}: {url}"))).collect();
    if look.embedded {
        lines.extend(embedded(ready));
    }
    lines.extend(look.at_ready.iter().cloned());
    if let Some(waiting) = ready.waiting.filter(|waiting| *waiting > 0) {
        lines.push(format!("{} waiting", count(waiting, "event")));
    }
    lines
}

/// Why it ended, where the totals alone don't say.
pub(super) fn ending(summary: &Summary) -> Option<Line> {
    let why = match summary.end {
        End::Idle => "nothing happened for as long as --idle-timeout says",
        End::ForwardFailed => "a forward failed (--exit-on-failure)",
        End::Stopped | End::Until | End::Fatal(_) | End::Forced => return None,
    };
    Some(Line::Note(format!("ended: {why}")))
}

/// What a relay on this machine can't do, and how to get there.
fn embedded(ready: &Ready) -> Vec<String> {
    let reach = "  reachable from this machine only; for a real provider, run `pullhook serve` on a host or put a tunnel";
    if ready.ingress.is_empty() {
        let first = "  no source yet: `pullhook trigger github.push` makes one and sends to it".to_owned();
        return vec![first, format!("{reach} before a source's URL")];
    }
    vec![format!("{reach} before these URLs")]
}

/// The totals, one line; none where an error ended it before anything came: then it says all there is.
pub(super) fn totals(summary: &Summary) -> Option<String> {
    let Summary { received, delivered, failed, skipped, fenced, end } = summary;
    if *received == 0 && matches!(end, End::Fatal(_)) {
        return None;
    }
    let fenced = if *fenced > 0 { format!(", {fenced} acked too late") } else { String::new() };
    Some(format!(
        "{} received: {delivered} delivered, {failed} failed, {skipped} skipped{fenced}",
        count(*received, "event")
    ))
}

fn gate(gate: &Gate) -> String {
    let waiting = gate.waiting.map(|waiting| format!("; {waiting} waiting, nothing is lost"));
    let text = match gate.open {
        true => format!("{} is open again", gate.target),
        false => format!(
            "nothing listens on {}{}",
            gate.target,
            waiting.unwrap_or_else(|| "; nothing is lost".into())
        ),
    };
    clean(&text)
}

fn reconnected(down: Duration, waited: Option<u64>, lost: Option<u64>) -> String {
    let waited = waited.map_or_else(|| "an unknown number".to_owned(), |waited| waited.to_string());
    let lost =
        lost.map_or_else(|| "whether any were lost is unknown".to_owned(), |lost| format!("{lost} lost"));
    format!("reconnected after {}; {waited} waited, {lost}", seconds(down))
}

fn notice(notice: &Notice) -> Line {
    let text = match notice {
        Notice::Missed(Missed { count, more }) => {
            let more = if *more { "more than " } else { "" };
            format!("{more}{} arrived meanwhile: --since last", self::count(*count, "event"))
        }
        Notice::OthersOpen(others) => {
            let are = if *others == 1 {
                "another listener is".to_owned()
            } else {
                format!("{others} other listeners are")
            };
            format!("{are} open here; each gets its own copy of every event")
        }
        Notice::Reopened { from, .. } => reopened(from),
        Notice::BacklogSkipped { count, after, replay } => skipped(*count, after.as_deref(), replay),
        Notice::NoIdlePolls => {
            "this relay can't be polled without claiming: acks travel with the next poll".to_owned()
        }
        Notice::Paused(true) => "paused: nothing more is claimed; p goes on".to_owned(),
        Notice::Paused(false) => "going on".to_owned(),
        Notice::NothingRemembered => "nothing is known of an earlier run: starting from now".to_owned(),
        Notice::Hint(hint) => format!("hint: {hint}"),
        warning => return Line::Warn(clean(&self::warning(warning))),
    };
    Line::Note(clean(&text))
}

fn warning(notice: &Notice) -> String {
    match notice {
        Notice::UnknownType(pattern) => format!("no event of a type like `{pattern}` was ever seen here"),
        Notice::Lost { source, from, to } if from == to => {
            format!("event number {from} of {source} never came")
        }
        Notice::Lost { source, from, to } => format!("events number {from} to {to} of {source} never came"),
        Notice::AckRefused { event_id, message, .. } => {
            format!("the relay refused the ack of {event_id}: {message}")
        }
        Notice::Undecodable { event_id, message } => format!("{event_id} can't be forwarded: {message}"),
        Notice::Interrupted { count } => {
            format!("{} interrupted and acked as failed", self::count(*count as u64, "POST"))
        }
        Notice::NotSent { count } => {
            format!("{} not sent: --since last hands it out again", self::count(*count as u64, "event"))
        }
        Notice::NotAcked { count } => format!(
            "the relay could not be told how {} ended: --since last hands them out again",
            self::count(*count as u64, "event")
        ),
        Notice::Hint(hint) => hint.to_string(),
        other => format!("{other:?}"),
    }
}

fn reopened(from: &ReopenedFrom) -> String {
    match from {
        ReopenedFrom::Continued => {
            "the relay had let the listener go: a new one took over what it left".to_owned()
        }
        ReopenedFrom::Event(id) => {
            format!("the relay no longer knew the listener: a new one goes on after {id}")
        }
        ReopenedFrom::Now => "the relay no longer knew the listener: a new one starts from now".to_owned(),
    }
}

fn skipped(count: Option<u64>, after: Option<&str>, replay: &str) -> String {
    let many = count.map_or_else(|| "too many events".to_owned(), |count| self::count(count, "event"));
    let after = after.map(|id| format!(" after {id}")).unwrap_or_default();
    format!(
        "{many} arrived{after} meanwhile, too many to hand out at once: starting from now; `{replay}` gets them"
    )
}

fn fatal(fatal: &Fatal) -> Line {
    Line::Error(clean(&fatal.message), fatal.hint.as_deref().map(clean))
}

/// `1 event`, `2 events`.
pub(super) fn count(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// `0.25 s`, `42 s`, `3 min`.
fn seconds(duration: Duration) -> String {
    let millis = duration.as_millis();
    match millis {
        0..10_000 => {
            let text = format!("{:.2}", duration.as_secs_f64());
            format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
        }
        10_000..180_000 => format!("{} s", duration.as_secs()),
        _ => format!("{} min", duration.as_secs() / 60),
    }
}

pub(super) fn clean(text: &str) -> String {
    sanitize::line(text).into_owned()
}
