//! Failures only.

use super::human::Human;
use super::people;
use super::{Line, Look, Render};
use crate::listen::{Event, Outcome, What};

/// `--output quiet`.
#[derive(Debug)]
pub(super) struct Quiet(Human);

impl Quiet {
    pub(super) fn new(look: Look) -> Self {
        Self(Human::new(look))
    }
}

impl Render for Quiet {
    fn render(&mut self, event: &Event) -> Vec<Line> {
        match &event.what {
            What::Ended(ended) if ended.outcome == Outcome::Failed => self.0.render(event),
            What::Summary(summary) => people::ending(summary).into_iter().collect(),
            What::Ready(_) | What::Received(_) | What::Ended(_) => Vec::new(),
            // Warnings and errors are failures of a kind; the rest is chatter.
            _ => self.0.render(event).into_iter().filter(|line| !matches!(line, Line::Note(_))).collect(),
        }
    }
}
