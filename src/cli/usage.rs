//! What the parser says, in our voice: one line for what is wrong, hints below, exit code 2.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::{Printer, sanitize};

/// Prints help or the version on stdout, anything else as an error on stderr.
pub(super) fn explain(error: &clap::Error, printer: &Printer) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let text = error.render().to_string();
            // A closed stdout is no failure of `--help | head -1`.
            printer.line(text.trim_end()).map_or_else(|error| error.exit(), |()| Exit::Done)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            printer.note(error.render().to_string().trim_end());
            Exit::Usage
        }
        _ => {
            let error = translate(error);
            printer.error(&error);
            error.exit()
        }
    }
}

/// The parser's error as ours.
fn translate(error: &clap::Error) -> CliError {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let message = first.strip_prefix("error: ").unwrap_or(first);
    // A list of missing arguments spans lines; ours is one.
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut ours = CliError::usage(sanitize::line(&message).into_owned());
    for (kind, what) in SUGGESTIONS {
        if let Some(suggestion) = error.get(*kind).map(listed) {
            ours = ours.hint(format!("did you mean {suggestion}?{what}"));
        }
    }
    if error.kind() == ErrorKind::InvalidValue
        && let Some(ContextValue::Strings(valid)) = error.get(ContextKind::ValidValue)
        && !valid.is_empty()
        && !message.contains("possible values")
    {
        ours = ours.hint(format!("possible values: {}", valid.join(", ")));
    }
    ours
}

const SUGGESTIONS: &[(ContextKind, &str)] = &[
    (ContextKind::SuggestedArg, ""),
    (ContextKind::SuggestedSubcommand, ""),
    (ContextKind::SuggestedValue, ""),
];

fn listed(value: &ContextValue) -> String {
    match value {
        ContextValue::Strings(all) => {
            all.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(" or ")
        }
        other => format!("`{other}`"),
    }
}
