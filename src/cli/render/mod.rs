//! How `listen`'s events look: each renderer turns an event into lines for stdout (answers) and stderr (for people).

mod compact;
mod human;
mod json;
mod people;
mod quiet;

use crate::cli::args::Format;
use crate::cli::output::Style;
use crate::listen::Event;

pub use json::fatal_line;

/// One line, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// An answer: stdout.
    Out(String),
    /// About the answers, for people: stderr. Silenced by `-q`.
    Note(String),
    /// Something that may not be what was meant: stderr, never silenced.
    Warn(String),
    /// Why it can't go on: stderr.
    Error(String, Option<String>),
}

/// Turns events into lines.
pub trait Render: Send {
    /// The lines of this event; often none.
    fn render(&mut self, event: &Event) -> Vec<Line>;
}

/// What the lines show beside the event itself.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// Colour.
    pub style: Style,
    /// What is said about the local secret, such as `Your webhook signing secret is whsec_...`.
    pub secret: Option<String>,
    /// Whether the relay is this machine's own.
    pub embedded: bool,
    /// What is said last, once it is ready.
    pub at_ready: Vec<String>,
    /// How many routes there are.
    pub routes: usize,
    /// Show the body of each event.
    pub body: bool,
    /// Show the headers of each event.
    pub headers: bool,
}

/// The renderer of this format.
pub fn renderer(format: Format, look: Look) -> Box<dyn Render> {
    match format {
        Format::Human => Box::new(human::Human::new(look)),
        Format::Compact => Box::new(compact::Compact::new(look)),
        Format::Quiet => Box::new(quiet::Quiet::new(look)),
        Format::Json => Box::new(json::Json::new(look)),
    }
}

#[cfg(test)]
mod tests;
