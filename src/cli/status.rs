//! `pullhook status`: which relay is meant, whether it can store, who listens, which sources there are.

use serde::Serialize;
use serde_json::Value;

use crate::cli::args::Format;
use crate::cli::choice::{self, Choice, Scope};
use crate::cli::config::Settings;
use crate::cli::context::Context;
use crate::cli::embedded::Home;
use crate::cli::error::{CliError, Kind};
use crate::cli::exit::Exit;
use crate::cli::output::sanitize;
use crate::client::{Client, ClientError};
use crate::protocol::environment::Environment;
use crate::protocol::listeners::Listener;
use crate::protocol::sources::Source;
use crate::relay::ProjectRef;

/// What there is to say.
#[derive(Debug, Serialize)]
struct Status {
    object: &'static str,
    /// `embedded` or `served`.
    kind: &'static str,
    /// `null` when no embedded relay runs.
    url: Option<String>,
    /// The process that hosts an embedded one.
    pid: Option<u32>,
    /// The command that hosts it.
    host: Option<String>,
    /// The project's folder, on an embedded one.
    project: Option<String>,
    /// Whether it can store; `null` when it doesn't say.
    ready: Option<bool>,
    environment: Option<Environment>,
    /// `null` when the server has no such list.
    sources: Option<Vec<Source>>,
    listeners: Option<Vec<Listener>>,
}

/// Shows the status. That no embedded relay runs is no failure; a served one that doesn't answer is.
pub(super) fn run(context: &Context) -> Result<Exit, CliError> {
    let format = context.format()?;
    let settings = context.settings()?;
    for warning in settings.warnings() {
        context.printer.warn(&warning);
    }
    let status = context.block_on(look(context, &settings))?;
    match format {
        Format::Json => context.printer.json(&status)?,
        _ => lines(context, &status).iter().try_for_each(|line| context.printer.line(line))?,
    }
    Ok(Exit::Done)
}

async fn look(context: &Context, settings: &Settings) -> Result<Status, CliError> {
    if let Some(served) = settings.served()? {
        let connected = context.connect_served(&served)?;
        let nobody = Status { kind: "served", ..nobody() };
        return ask(&connected.client, nobody).await;
    }
    let home = Home::of_person(context, settings)?;
    let project = ProjectRef::from(&settings.project);
    let nobody = Status { project: Some(project.root.clone()), ..nobody() };
    let Some(local) = home.attach_if_hosted().await? else {
        return Ok(nobody);
    };
    let (project, elsewhere) = match choice::look(context, &project, Scope::WhereListened, &local).await? {
        Choice::Own => (project, None),
        Choice::Other(other) => (other.clone(), Some(choice::using(&project, &other))),
        Choice::Several(others) => {
            let several = format!("{}: {}", choice::several(&project), choice::names(&others));
            (project, Some(several))
        }
    };
    elsewhere.iter().for_each(|text| context.printer.warn(text));
    let (client, _) = local.project(&project).await?;
    let nobody = Status { project: Some(project.root), ..nobody };
    let state = home.state()?;
    let pid = state.as_ref().map(|state| state.pid);
    let host = state.map(|state| state.host);
    ask(&client, Status { pid, host, ..nobody }).await
}

fn nobody() -> Status {
    Status {
        object: "status",
        kind: "embedded",
        url: None,
        pid: None,
        host: None,
        project: None,
        ready: None,
        environment: None,
        sources: None,
        listeners: None,
    }
}

async fn ask(client: &Client, status: Status) -> Result<Status, CliError> {
    let environment = client.environment().await?;
    let listeners = known(client.listeners().await)?.map(|list| list.data);
    Ok(Status {
        url: Some(client.url().to_string()),
        environment: Some(environment),
        ready: ready(client).await?,
        sources: known(client.all_sources().await)?,
        listeners,
        ..status
    })
}

/// What a server that only has the public contract doesn't have is unknown, not an error.
fn known<T>(answer: Result<T, ClientError>) -> Result<Option<T>, CliError> {
    match answer.map_err(CliError::from) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == Kind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

async fn ready(client: &Client) -> Result<Option<bool>, CliError> {
    match client.get::<Value>("readyz", &()).await {
        Ok(_) => Ok(Some(true)),
        Err(ClientError::Api { status: 503, .. }) => Ok(Some(false)),
        other => known(other).map(|_| None),
    }
}

fn lines(context: &Context, status: &Status) -> Vec<String> {
    let row = |name: &str, value: &str| format!("{name:<12} {}", sanitize::line(value));
    let mut lines = Vec::new();
    let Some(url) = &status.url else {
        lines.push(row("relay", "none runs on this machine; `pullhook listen` hosts one"));
        lines.extend(status.project.as_ref().map(|project| row("project", project)));
        return lines;
    };
    let host =
        status.pid.zip(status.host.as_ref()).map(|(pid, host)| format!(", hosted by {host}, process {pid}"));
    lines.push(row("relay", &format!("{url} ({}{})", status.kind, host.unwrap_or_default())));
    let ready = match status.ready {
        Some(true) => "yes",
        Some(false) => "no: the store can't be written",
        None => "unknown",
    };
    lines.push(row("ready", ready));
    lines.extend(status.project.as_ref().map(|project| row("project", project)));
    lines.extend(status.environment.as_ref().map(|environment| row("environment", &environment.slug)));
    lines
        .extend(each("source", status.sources.as_deref(), source).iter().map(|(name, text)| row(name, text)));
    let now = context.clock.now();
    let listener = |listener: &Listener| {
        let polled = listener.last_polled_at.map(|at| format!(", polled {} s ago", now.since(at).as_secs()));
        let waiting = listener.waiting.map(|waiting| format!(", {waiting} waiting"));
        let about = listener.description.as_ref().map(|text| format!(" ({text})"));
        let parts = [about, polled, waiting].map(Option::unwrap_or_default).concat();
        format!("{}{parts}", listener.id)
    };
    lines.extend(
        each("listener", status.listeners.as_deref(), listener).iter().map(|(name, text)| row(name, text)),
    );
    lines
}

fn source(source: &Source) -> String {
    let unsigned = if source.scheme == "none" { ", unverified" } else { "" };
    let off = if source.enabled { "" } else { ", disabled" };
    format!("{} ({}{unsigned}{off}) {}", source.name, source.scheme, source.ingress_url)
}

fn each<'a, T>(name: &'a str, items: Option<&[T]>, show: impl Fn(&T) -> String) -> Vec<(&'a str, String)> {
    match items {
        None => vec![(name, "unknown: this server has no such list".to_owned())],
        Some([]) => vec![(name, "none".to_owned())],
        Some(items) => items.iter().map(|item| (name, show(item))).collect(),
    }
}
