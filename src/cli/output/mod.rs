//! What goes to stdout and stderr: the only place that prints.
//!
//! stdout carries answers, stderr carries what is said to people about them. Every line is one write, so that two
//! processes on one terminal never mix within a line.

pub mod colour;
pub mod sanitize;
pub mod table;

use std::io::{self, ErrorKind, IsTerminal, Write};

use serde::Serialize;

pub use colour::{Colour, Style};

use crate::cli::env::Env;
use crate::cli::error::CliError;

/// The two streams and how to write on them.
#[derive(Clone, Copy, Debug)]
pub struct Printer {
    out: Style,
    err: Style,
    quiet: bool,
    verbose: bool,
    terminal: bool,
}

impl Printer {
    /// The process's streams. `quiet` silences [`Printer::note`], never an error or a warning.
    pub fn new(env: &Env, colour: Colour, quiet: bool, verbose: bool) -> Self {
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Self { out: colour.style(env, out), err: colour.style(env, err), quiet, verbose, terminal: out }
    }

    /// How text for stdout may be coloured.
    pub const fn style(&self) -> Style {
        self.out
    }

    /// Whether a person looks at stdout.
    pub const fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// One answer on stdout, in one write. A reader that went away ends the command, cleanly.
    pub fn line(&self, text: &str) -> Result<(), CliError> {
        write_line(&mut io::stdout().lock(), text).map_err(|error| match error.kind() {
            ErrorKind::BrokenPipe => CliError::output_closed(),
            _ => CliError::internal(format!("can't write to stdout: {error}")),
        })
    }

    /// One of the API's own objects on stdout, on one line.
    pub fn json(&self, object: &impl Serialize) -> Result<(), CliError> {
        let text = serde_json::to_string(object).map_err(|error| CliError::internal(error.to_string()))?;
        self.line(&text)
    }

    /// Something about the answer, for people, on stderr.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            self.say(text);
        }
    }

    /// A question, on stderr: asked however quiet the command is.
    pub fn ask(&self, text: &str) {
        self.say(text);
    }

    /// Detail for those who asked with `-v`.
    pub fn detail(&self, text: &str) {
        if self.verbose {
            self.say(&self.err.dim(text));
        }
    }

    /// Something that may not be what was meant.
    pub fn warn(&self, text: &str) {
        self.say(&format!("{} {text}", self.err.yellow("warning:")));
    }

    /// Hands base64 text to the terminal's clipboard (OSC 52); a terminal that doesn't know that ignores it.
    pub fn clipboard(&self, base64: &str) {
        if self.terminal {
            let mut out = io::stdout().lock();
            let sequence = format!("\u{1b}]52;c;{base64}\u{7}");
            let _ignored = out.write_all(sequence.as_bytes()).and_then(|()| out.flush());
        }
    }

    /// Why the command failed, and what helps.
    pub fn error(&self, error: &CliError) {
        if error.is_silent() {
            return;
        }
        let mut text = format!("{} {}", self.err.red("error:"), error.message());
        for hint in error.hints() {
            text.push_str(&format!("\n{} {hint}", self.err.cyan("hint:")));
        }
        self.say(&text);
    }

    /// With nobody left to read stderr there is nobody to tell.
    fn say(&self, text: &str) {
        let _ = write_line(&mut io::stderr().lock(), text);
    }
}

/// Where the log goes.
pub fn log_writer() -> io::Stderr {
    io::stderr()
}

fn write_line(to: &mut impl Write, text: &str) -> io::Result<()> {
    let mut line = String::with_capacity(text.len() + 1);
    line.push_str(text);
    line.push('\n');
    to.write_all(line.as_bytes())?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Writes(Vec<Vec<u8>>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_one_write() {
        let mut writes = Writes::default();
        write_line(&mut writes, "one").unwrap();
        assert_eq!(writes.0, [b"one\n"]);
    }
}
