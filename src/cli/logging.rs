//! The log: on stderr, for operators, set by `PULLHOOK_LOG` and `-v`.

use tracing_subscriber::EnvFilter;

use crate::cli::context::Context;
use crate::cli::env::LOG;
use crate::cli::error::CliError;
use crate::cli::output::log_writer;

/// Starts the log; a filter that can't be read is an error.
pub(super) fn start(context: &Context) -> Result<(), CliError> {
    start_with(context, "warn")
}

/// The same, with this filter where nobody asked for another.
pub(super) fn start_with(context: &Context, filter: &str) -> Result<(), CliError> {
    let wanted = context.env.text(LOG).map_err(|error| CliError::usage(error.to_string()))?;
    let unasked = if context.globals.verbose { "warn,pullhook=debug" } else { filter };
    let text = wanted.as_deref().unwrap_or(unasked);
    let filter = EnvFilter::try_new(text)
        .map_err(|error| CliError::usage(format!("{text:?} is no log filter: {error} ({LOG})")))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(log_writer).with_ansi(false);
    // A second start in one process keeps the first log.
    let _already = log.with_target(false).compact().try_init();
    Ok(())
}
