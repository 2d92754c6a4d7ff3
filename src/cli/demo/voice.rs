//! Who says what: numbered steps, and below them one line for each thing that a part does.

use crate::cli::args::Format;
use crate::cli::error::CliError;
use crate::cli::output::{Printer, Style, sanitize};
use crate::cli::render::{self, Line, Look, Render};
use crate::listen::{Ended, Event, Outcome, Received, What};

/// The parts that speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    App,
    Forger,
    Listen,
    Provider,
    Relay,
    You,
}

impl Who {
    const fn name(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::Forger => "forger",
            Self::Listen => "listen",
            Self::Provider => "provider",
            Self::Relay => "relay",
            Self::You => "you",
        }
    }
}

/// Says everything. With JSON, stdout has `listen`'s own records and the story goes to stderr.
pub(super) struct Voice {
    printer: Printer,
    json: bool,
    renderer: Box<dyn Render>,
    steps: u32,
}

impl Voice {
    pub(super) fn new(printer: Printer, format: Format) -> Self {
        let look = Look { style: printer.style(), ..Look::default() };
        Self { printer, json: format == Format::Json, renderer: render::renderer(format, look), steps: 0 }
    }

    /// Whether a person watches, who can't read as fast as this runs.
    pub(super) fn is_watched(&self) -> bool {
        self.printer.is_terminal() && !self.json
    }

    /// How text may be coloured.
    pub(super) fn style(&self) -> Style {
        if self.json { Style::PLAIN } else { self.printer.style() }
    }

    /// A line of the story.
    pub(super) fn tell(&self, text: &str) -> Result<(), CliError> {
        if self.json {
            self.printer.note(text);
            return Ok(());
        }
        self.printer.line(text)
    }

    /// The next step.
    pub(super) fn step(&mut self, title: &str) -> Result<(), CliError> {
        self.steps += 1;
        self.tell("")?;
        self.tell(&self.style().bold(format!("{}. {title}", self.steps)))
    }

    /// What a part does. `text` may be coloured: what was received in it has been cleaned.
    pub(super) fn says(&self, who: Who, text: &str) -> Result<(), CliError> {
        let name = format!("{:<9}", who.name());
        self.tell(&format!("   {} {text}", self.style().cyan(name)))
    }

    /// Something that `listen` did.
    pub(super) fn heard(&mut self, event: &Event) -> Result<(), CliError> {
        if self.json {
            let lines = self.renderer.render(event).into_iter();
            return lines
                .filter_map(|line| if let Line::Out(text) = line { Some(text) } else { None })
                .try_for_each(|text| self.printer.line(&text));
        }
        match &event.what {
            What::Ready(_) | What::Summary(_) | What::Checkpoint(_) => Ok(()),
            What::Received(received) => self.says(Who::Listen, &self.received(received)),
            What::Ended(ended) => self.says(Who::Listen, &self.ended(ended)),
            _ => {
                let lines = self.renderer.render(event);
                lines.into_iter().try_for_each(|line| match line {
                    Line::Out(text) | Line::Note(text) | Line::Warn(text) | Line::Error(text, _) => {
                        self.says(Who::Listen, &text)
                    }
                })
            }
        }
    }

    fn received(&self, received: &Received) -> String {
        let mark = if received.replay { " (replay)" } else { "" };
        let kind = sanitize::line(&received.event_type);
        format!("--> {} [{}]{mark}", self.style().bold(kind), sanitize::line(&received.event_id))
    }

    fn ended(&self, ended: &Ended) -> String {
        let status = ended.status.map_or_else(|| "[ERR]".to_owned(), |status| format!("[{status}]"));
        let status = match ended.outcome {
            Outcome::Delivered => self.style().green(status),
            Outcome::Failed | Outcome::Skipped(_) => self.style().red(status),
        };
        let url = ended.url.as_deref().unwrap_or_default();
        let more =
            ended.error.as_ref().map(|error| format!(" {}", sanitize::line(error))).unwrap_or_default();
        format!("<-- {status} POST {} ({} ms){more}", sanitize::line(url), ended.duration.as_millis())
    }
}
