//! What every command gets.

use std::sync::Arc;

use crate::cli::args::{Format, Globals};
use crate::cli::config::Settings;
use crate::cli::env::Env;
use crate::cli::error::CliError;
use crate::cli::logging;
use crate::cli::output::Printer;
use crate::cli::project::Project;
use crate::clock::{Clock, Dice};
use crate::system::{SystemClock, SystemDice};

/// The surroundings of a command.
#[derive(Debug)]
pub struct Context {
    /// The environment variables.
    pub env: Env,
    /// The global flags.
    pub globals: Globals,
    /// The streams.
    pub printer: Printer,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub dice: Arc<dyn Dice>,
}

impl Context {
    /// The real surroundings.
    pub fn new(env: Env, globals: Globals) -> Self {
        let printer = Printer::new(&env, globals.color, globals.quiet, globals.verbose);
        Self { env, globals, printer, clock: Arc::new(SystemClock), dice: Arc::new(SystemDice) }
    }

    /// The format of a one-shot command's answer.
    pub fn format(&self) -> Result<Format, CliError> {
        match self.globals.format() {
            Format::Compact => {
                Err(CliError::usage("`--output compact` is for `listen`; here it is human or json"))
            }
            Format::Quiet => {
                Err(CliError::usage("`--output quiet` is for `listen`; here it is human or json"))
            }
            format => Ok(format),
        }
    }

    /// The project that the command works in.
    pub fn project(&self) -> Result<Project, CliError> {
        match &self.globals.project {
            Some(folder) => Project::find(folder),
            None => {
                let here = std::env::current_dir();
                Project::find(&here.map_err(|error| CliError::usage(format!("no current folder: {error}")))?)
            }
        }
    }

    /// The settings that hold for this command.
    pub fn settings(&self) -> Result<Settings, CliError> {
        Settings::load(&self.env, &self.globals, self.project()?)
    }

    /// Runs a command that waits for things; only now is there a runtime.
    pub fn block_on<T>(&self, work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
        logging::start(self)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| CliError::internal(format!("can't start the runtime: {error}")))?;
        let outcome = runtime.block_on(work);
        // A thread that waits for a lock, a key or a slow disk must not hold up the end.
        runtime.shutdown_background();
        outcome
    }
}
