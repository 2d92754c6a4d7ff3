//! Shows events as they come, on a thread of its own: a terminal or a pipe that blocks must not hold up the pull loop's
//! timers. It also keeps what has to be remembered.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::mpsc;

use super::memory::Memory;
use crate::cli::args::Format;
use crate::cli::error::{CliError, Kind};
use crate::cli::output::Printer;
use crate::cli::render::{self, Line, Look, Render};
use crate::clock::Dice;
use crate::listen::{Checkpoint, Ended, Event, Handle, What};

/// What is needed to show events.
pub(super) struct Screen {
    pub printer: Printer,
    pub format: Format,
    pub look: Look,
    pub memory: Option<Memory>,
    pub dice: Arc<dyn Dice>,
}

/// The newest answer that was shown, for `copy as curl`.
#[derive(Clone, Debug, Default)]
pub(super) struct LastAnswer(Arc<Mutex<Option<Ended>>>);

impl LastAnswer {
    pub(super) fn get(&self) -> Option<Ended> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, ended: &Ended) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended.clone());
    }
}

impl Screen {
    /// Shows until the loop ends. When nobody reads stdout any more, the loop is stopped in order.
    pub(super) fn start(
        self,
        events: mpsc::Receiver<Event>,
        handle: Handle,
    ) -> Result<(LastAnswer, JoinHandle<Result<(), CliError>>), CliError> {
        let last = LastAnswer::default();
        let answers = last.clone();
        let thread = std::thread::Builder::new()
            .name("screen".to_owned())
            .spawn(move || self.show(events, &handle, &answers))
            .map_err(|error| CliError::internal(format!("can't start a thread: {error}")))?;
        Ok((last, thread))
    }

    fn show(
        self,
        mut events: mpsc::Receiver<Event>,
        handle: &Handle,
        last: &LastAnswer,
    ) -> Result<(), CliError> {
        let mut renderer = render::renderer(self.format, self.look.clone());
        let mut outcome = Ok(());
        let mut unsaved: Option<Checkpoint> = None;
        loop {
            let event = match events.try_recv() {
                Ok(event) => event,
                Err(_) => {
                    // Nothing more to show just now: time to write down where we are.
                    self.remember(unsaved.take());
                    match events.blocking_recv() {
                        Some(event) => event,
                        None => return outcome,
                    }
                }
            };
            match &event.what {
                What::Checkpoint(checkpoint) => unsaved = Some(checkpoint.clone()),
                What::Ended(ended) if ended.sent.is_some() => last.set(ended),
                _ => {}
            }
            if outcome.is_ok()
                && let Err(error) = self.print(renderer.as_mut(), &event)
            {
                // Nobody is there to tell; what is in flight is still finished.
                handle.stop();
                outcome = if error.kind() == Kind::OutputClosed {
                    Err(CliError::output_closed())
                } else {
                    Err(error)
                };
            }
        }
    }

    fn print(&self, renderer: &mut dyn Render, event: &Event) -> Result<(), CliError> {
        for line in renderer.render(event) {
            match line {
                Line::Out(text) => self.printer.line(&text)?,
                Line::Note(text) => self.printer.note(&text),
                Line::Warn(text) => self.printer.warn(&text),
                Line::Error(text, hint) => {
                    let error = CliError::internal(text);
                    self.printer.error(&hint.into_iter().fold(error, CliError::hint));
                }
            }
        }
        Ok(())
    }

    fn remember(&self, checkpoint: Option<Checkpoint>) {
        let (Some(memory), Some(checkpoint)) = (&self.memory, checkpoint) else { return };
        if let Err(error) = memory.write(&checkpoint, &*self.dice) {
            self.printer.detail(&format!("can't remember the listener: {error}"));
        }
    }
}
