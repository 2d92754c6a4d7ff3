//! For people: one line an event, one an answer, one with the likely cause of a failure.

use super::people::{self, clean};
use super::{Line, Look, Render};
use crate::cli::output::sanitize;
use crate::clock::Timestamp;
use crate::headers::Headers;
use crate::listen::{Ended, Event, Outcome, Received, What};

/// The default renderer.
#[derive(Debug)]
pub(super) struct Human {
    look: Look,
}

impl Human {
    pub(super) fn new(look: Look) -> Self {
        Self { look }
    }
}

impl Render for Human {
    fn render(&mut self, event: &Event) -> Vec<Line> {
        match &event.what {
            What::Ready(ready) => {
                let first = self.look.style.bold(people::ready(ready, &self.look));
                let below = people::below_ready(ready, &self.look);
                std::iter::once(first).chain(below).map(Line::Out).collect()
            }
            What::Received(received) => self.received(event.at, received),
            What::Ended(ended) => self.ended(event.at, ended),
            What::Summary(summary) => {
                people::ending(summary).into_iter().chain(people::totals(summary).map(Line::Out)).collect()
            }
            other => people::say(other),
        }
    }
}

impl Human {
    fn received(&self, at: Timestamp, received: &Received) -> Vec<Line> {
        let marks = marks(received);
        let (kind, id) = (clean(&received.event_type), clean(&received.event_id));
        let mut lines = vec![format!("{}   --> {} [{id}]{marks}", at.local(), self.look.style.bold(kind))];
        if self.look.headers {
            lines.extend(headers(received.headers.as_ref()));
        }
        if self.look.body {
            lines.extend(body(&received.body));
        }
        lines.into_iter().map(Line::Out).collect()
    }

    fn ended(&self, at: Timestamp, ended: &Ended) -> Vec<Line> {
        let id = clean(&ended.received.event_id);
        let style = self.look.style;
        let answer = match (ended.outcome, &ended.url) {
            // Print only: the event's own line has said it all.
            (Outcome::Delivered, None) => return Vec::new(),
            (Outcome::Skipped(why), _) => format!("{} skipped, {why} [{id}]", style.dim("[---]")),
            (_, url) => {
                let method = ended.sent.as_ref().map_or("POST", |sent| sent.method.as_str());
                let url = url.as_deref().map(clean).unwrap_or_default();
                format!("{} {} {url} [{id}] {}", self.status(ended), clean(method), tail(ended))
            }
        };
        let mut lines = vec![Line::Out(format!("{}  <--  {answer}", at.local()))];
        if let Some(hint) = &ended.hint {
            lines.push(Line::Out(format!(
                "                           {} {}",
                style.yellow("hint:"),
                clean(&hint.to_string())
            )));
        }
        lines
    }

    fn status(&self, ended: &Ended) -> String {
        let text = ended.status.map_or_else(|| "[ERR]".to_owned(), |status| format!("[{status}]"));
        match ended.outcome {
            Outcome::Delivered => self.look.style.green(text),
            Outcome::Failed | Outcome::Skipped(_) => self.look.style.red(text),
        }
    }
}

/// What came of it besides the status: the error, else how long it took.
pub(super) fn tail(ended: &Ended) -> String {
    let took = format!("({} ms)", ended.duration.as_millis());
    match &ended.error {
        Some(error) if ended.status.is_none() => clean(error),
        Some(error) => format!("{took} {}", clean(error)),
        None => took,
    }
}

/// What makes this delivery another one than the first.
pub(super) fn marks(received: &Received) -> String {
    let attempt = (received.attempt > 1).then(|| format!("attempt {}", received.attempt));
    let marks = [
        received.replay.then(|| "replay".to_owned()),
        received.redelivery.then(|| "redelivery".to_owned()),
        attempt,
    ];
    let marks: Vec<String> = marks.into_iter().flatten().collect();
    if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) }
}

fn headers(headers: Option<&Headers>) -> Vec<String> {
    let lines = headers.into_iter().flat_map(Headers::iter);
    lines.map(|(name, value)| format!("      {}: {}", clean(name), clean(value))).collect()
}

fn body(bytes: &[u8]) -> Vec<String> {
    match std::str::from_utf8(bytes) {
        Ok("") => vec!["      (empty body)".to_owned()],
        Ok(text) => sanitize::block(text).lines().map(|line| format!("      {line}")).collect(),
        Err(_) => vec![format!("      ({} bytes that are no text)", bytes.len())],
    }
}
