//! `pullhook version`.

use serde_json::json;

use crate::cli::args::Format;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::protocol::CURRENT_VERSION;

/// Prints the version, and of which API.
pub(super) fn run(context: &Context) -> Result<Exit, CliError> {
    let version = env!("CARGO_PKG_VERSION");
    let line = match context.format()? {
        Format::Json => {
            json!({"object": "version", "version": version, "api_version": CURRENT_VERSION}).to_string()
        }
        _ => format!("pullhook {version} (API {CURRENT_VERSION})"),
    };
    context.printer.line(&line)?;
    Ok(Exit::Done)
}
