//! Key strokes while `listen` runs on a terminal: `r` replay last, `p` pause, `c` copy as curl, `?`.

use std::io::IsTerminal;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::sync::mpsc;

use super::screen::LastAnswer;
use crate::cli::args::Format;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::os::{self, KeyReader};
use crate::cli::output::{Printer, sanitize};
use crate::client::Client;
use crate::listen::{Ended, Handle};
use crate::protocol::events::ReplayEvents;

const HELP: &str = "r replay the last event · p pause or go on · c copy the last forward as curl · ^C quit";
/// A longer body is left out of a copied command.
const MAX_COPIED: usize = 64 << 10;

/// Said once `listen` is ready.
pub(super) const SHORT_HELP: &str = "  keys: r replay last · p pause · c copy as curl · ? help";

/// Whether a person sits at a terminal and may press keys.
pub(super) fn wanted(context: &Context, format: Format) -> bool {
    let for_people = matches!(format, Format::Human | Format::Compact) && context.printer.is_terminal();
    for_people && context.env.os("TERM").is_none_or(|term| term != "dumb") && std::io::stdin().is_terminal()
}

/// Reads keys until dropped; `None` where no person sits at a terminal.
pub(super) fn start(
    context: &Context,
    format: Format,
    handle: Handle,
    client: Client,
    last: LastAnswer,
) -> Option<KeyReader> {
    if !wanted(context, format) {
        return None;
    }
    let (to, from) = mpsc::channel(8);
    let reader = os::read_keys(move |key| to.blocking_send(key).is_ok())?;
    tokio::spawn(act(context.printer, from, handle, client, last));
    Some(reader)
}

async fn act(
    printer: Printer,
    mut keys: mpsc::Receiver<char>,
    handle: Handle,
    client: Client,
    last: LastAnswer,
) {
    let mut paused = false;
    while let Some(key) = keys.recv().await {
        match key {
            'r' => match replay(&handle, &client).await {
                Ok(text) => printer.note(&text),
                Err(error) => printer.error(&error),
            },
            'p' => {
                paused = !paused;
                handle.pause(paused).await;
            }
            'c' => match last.get() {
                Some(ended) => copy(printer, &ended),
                None => printer.note("nothing was forwarded yet"),
            },
            '?' => printer.note(HELP),
            _ => {}
        }
    }
}

async fn replay(handle: &Handle, client: &Client) -> Result<String, CliError> {
    let Some(id) = handle.last_event().await else {
        return Ok("no event came yet".to_owned());
    };
    let replay = ReplayEvents { event_ids: vec![id.clone()], ..ReplayEvents::default() };
    client.replay(&replay).await?;
    Ok(format!("replaying {}", sanitize::line(&id)))
}

/// Shows the command and hands it to the terminal's clipboard (OSC 52), where the terminal takes it.
fn copy(printer: Printer, ended: &Ended) {
    let Some(command) = curl(ended) else {
        printer.note("the last forward can't be written as a curl command");
        return;
    };
    printer.note(&sanitize::line(&command));
    printer.clipboard(&STANDARD.encode(&command));
}

/// The forward as a shell command.
fn curl(ended: &Ended) -> Option<String> {
    let (sent, url) = (ended.sent.as_ref()?, ended.url.as_ref()?);
    let body = &ended.received.body;
    if body.len() > MAX_COPIED {
        return None;
    }
    let mut command = format!("curl -X {}", quoted(&sent.method));
    for (name, value) in &sent.headers {
        let value = value.to_str().ok()?;
        command.push_str(&format!(" -H {}", quoted(&format!("{name}: {value}"))));
    }
    let socket = url.strip_prefix("unix:").and_then(|rest| rest.split_once(":/"));
    match socket {
        Some((socket, path)) => {
            command.push_str(&format!(
                " --unix-socket {} {}",
                quoted(socket),
                quoted(&format!("http://localhost/{path}"))
            ));
        }
        None => command.push_str(&format!(" {}", quoted(url))),
    }
    match std::str::from_utf8(body) {
        Ok(text) if text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t') => {
            command.push_str(&format!(" --data-binary {}", quoted(text)));
            Some(command)
        }
        _ => Some(format!("printf %s {} | base64 -d | {command} --data-binary @-", STANDARD.encode(body))),
    }
}

/// One word for a POSIX shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_sees_one_word() {
        assert_eq!(quoted("it's $HOME"), "'it'\\''s $HOME'");
    }
}
