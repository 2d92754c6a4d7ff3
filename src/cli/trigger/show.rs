//! What was sent and what was answered, as lines or as JSON; the list of events there are.

use std::fmt;

use serde::Serialize;
use serde_json::json;

use super::send::{Sent, Signed};
use crate::cli::args::Format;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::{sanitize, table};
use crate::providers::{self, Fixture, Rendered};

/// One send.
#[derive(Serialize)]
struct Record<'a> {
    object: &'static str,
    #[serde(rename = "type")]
    event_type: &'a str,
    scheme: &'static str,
    /// What the signature, or a header, calls it.
    provider_event_id: &'a str,
    /// The source; null when it went straight to an app.
    source: Option<&'a str>,
    url: &'a str,
    size_bytes: usize,
    fault: Option<&'static str>,
    status: Option<u16>,
    /// The relay's event; null when it went straight to an app, or was refused.
    event_id: Option<&'a str>,
    duplicate: Option<bool>,
    error: Option<&'a str>,
    duration_ms: u64,
}

/// Says what goes out.
pub(super) fn going(
    context: &Context,
    format: Format,
    event: &Rendered,
    signed: &Signed,
) -> Result<(), CliError> {
    if format == Format::Json {
        return Ok(());
    }
    let at = context.clock.now().local();
    let kind = context.printer.style().bold(sanitize::line(&event.event_type));
    let fault = signed.fault.map(|fault| format!(", {}", fault.text().replace('_', " "))).unwrap_or_default();
    let (id, bytes) = (sanitize::line(&event.event_id), signed.body.len());
    context.printer.line(&format!("{at}   --> {kind} [{id}] {bytes} bytes{fault}"))
}

/// Says what came back.
pub(super) fn answered(
    context: &Context,
    format: Format,
    event: &Rendered,
    signed: &Signed,
    sent: &Sent,
) -> Result<(), CliError> {
    if format == Format::Json {
        return context.printer.json(&Record {
            object: "trigger",
            event_type: &event.event_type,
            scheme: event.scheme.name(),
            provider_event_id: &event.event_id,
            source: signed.source.as_deref(),
            url: &signed.url,
            size_bytes: signed.body.len(),
            fault: signed.fault.map(super::plan::Fault::text),
            status: sent.status,
            event_id: sent.event_id.as_deref(),
            duplicate: sent.duplicate,
            error: sent.error.as_deref(),
            duration_ms: u64::try_from(sent.duration.as_millis()).unwrap_or(u64::MAX),
        });
    }
    let style = context.printer.style();
    let status = sent.status.map_or_else(|| "[ERR]".to_owned(), |status| format!("[{status}]"));
    let status = if sent.is_well() { style.green(status) } else { style.red(status) };
    let id = sent.event_id.as_ref().map(|id| format!(" [{id}]")).unwrap_or_default();
    let took = sent.status.map(|_| format!(" ({} ms)", sent.duration.as_millis())).unwrap_or_default();
    let repeat = if sent.duplicate == Some(true) { " a repeat, known by its id" } else { "" };
    let error = sent.error.as_ref().map(|error| format!(" {error}")).unwrap_or_default();
    let (at, url) = (context.clock.now().local(), sanitize::line(&signed.url));
    context.printer.line(&format!("{at}  <--  {status} POST {url}{id}{took}{repeat}{error}"))
}

/// How many went well.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    sent: u64,
    well: u64,
    repeats: u64,
}

impl Totals {
    /// Counts one.
    pub(super) fn count(&mut self, sent: &Sent) {
        self.sent += 1;
        self.well += u64::from(sent.is_well());
        self.repeats += u64::from(sent.duplicate == Some(true));
    }

    /// Whether every answer was a 2xx.
    pub(super) const fn all_well(&self) -> bool {
        self.sent == self.well
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, well, repeats } = self;
        write!(f, "{sent} sent, {well} answered 2xx")?;
        if *repeats > 0 { write!(f, ", {repeats} of them repeats") } else { Ok(()) }
    }
}

/// Lists the events there are.
pub(super) fn list(context: &Context, format: Format, provider: Option<&str>) -> Result<Exit, CliError> {
    let wanted = |fixture: &&Fixture| provider.is_none_or(|name| fixture.provider().name == name);
    let fixtures: Vec<&Fixture> = providers::all().iter().filter(wanted).collect();
    if let (Some(name), true) = (provider, fixtures.is_empty()) {
        let mut known: Vec<&str> = providers::all().iter().map(|fixture| fixture.provider().name).collect();
        known.dedup();
        return Err(CliError::usage(format!(
            "no provider `{}`: known are {} (--list)",
            sanitize::line(name),
            known.join(", ")
        )));
    }
    if format == Format::Json {
        let object = |fixture: &&Fixture| {
            let provider = fixture.provider();
            json!({"object": "fixture", "name": fixture.name(), "provider": provider.name,
                "scheme": provider.scheme().name(), "about": fixture.about()})
        };
        fixtures.iter().try_for_each(|fixture| context.printer.json(&object(fixture)))?;
        return Ok(Exit::Done);
    }
    let row = |fixture: &&Fixture| {
        let scheme = fixture.provider().scheme().name();
        vec![fixture.name().to_owned(), scheme.to_owned(), fixture.about().to_owned()]
    };
    let rows: Vec<Vec<String>> = fixtures.iter().map(row).collect();
    let lines = table::lines(&["EVENT", "SIGNED BY", "WHAT HAPPENED"], &rows);
    lines.iter().try_for_each(|line| context.printer.line(line))?;
    Ok(Exit::Done)
}
