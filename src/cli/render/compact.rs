//! One line an event, once its outcome is known.

use super::human::{marks, tail};
use super::people::{self, clean};
use super::{Line, Look, Render};
use crate::listen::{Event, Outcome, What};

/// `--output compact`.
#[derive(Debug)]
pub(super) struct Compact {
    look: Look,
}

impl Compact {
    pub(super) fn new(look: Look) -> Self {
        Self { look }
    }
}

impl Render for Compact {
    fn render(&mut self, event: &Event) -> Vec<Line> {
        match &event.what {
            What::Ready(ready) => vec![Line::Out(people::ready(ready, &self.look))],
            What::Received(_) => Vec::new(),
            What::Ended(ended) => {
                let style = self.look.style;
                let status = ended.status.map_or_else(|| "ERR".to_owned(), |status| status.to_string());
                let (status, tail) = match ended.outcome {
                    Outcome::Skipped(why) => (style.dim("---"), why.to_string()),
                    Outcome::Delivered if ended.url.is_none() => (style.green("-->"), String::new()),
                    Outcome::Delivered => (style.green(status), tail(ended)),
                    Outcome::Failed => (style.red(status), tail(ended)),
                };
                let received = &ended.received;
                let (kind, id) = (clean(&received.event_type), clean(&received.event_id));
                let line = format!("{} {status} {kind} [{id}]{} {tail}", event.at.local(), marks(received));
                vec![Line::Out(line.trim_end().to_owned())]
            }
            What::Summary(summary) => {
                people::ending(summary).into_iter().chain(people::totals(summary).map(Line::Out)).collect()
            }
            other => people::say(other),
        }
    }
}
