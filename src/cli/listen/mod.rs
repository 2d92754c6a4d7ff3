//! `pullhook listen`: what was typed, the relay it is about, the pull loop, and what is shown of it.

mod args;
mod keys;
mod memory;
mod options;
mod screen;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cli::args::Format;
use crate::cli::choice::Scope;
use crate::cli::config::{Origin, Settings};
use crate::cli::connect::Stay;
use crate::cli::context::Context;
use crate::cli::embedded::home::Temporary;
use crate::cli::embedded::{Home, Host, steward};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::render::{self, Look};
use crate::cli::secret::{self, SecretFlags};
use crate::cli::signals::{self, Signals};
use crate::cli::{files, os};
use crate::client::Client;
use crate::listen::{self, Handle, ListenOptions, SignAs, Summary, Timing};
use crate::relay::ProjectRef;
use crate::secret::Secret;

pub use args::ListenArgs;
use memory::Memory;
use options::{Plan, Signing};
use screen::Screen;

/// How long the loop may take to end once it was asked twice.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Runs until something ends it; the exit code says what.
pub(super) fn run(context: &Context, args: &ListenArgs) -> Result<Exit, CliError> {
    let format = context.globals.format();
    let outcome = start(context, args, format);
    if let (Err(error), Format::Json, false) = (&outcome, format, args.print_secret)
        && !error.is_silent()
    {
        // Programs read why from stdout; people from stderr, as always.
        context.printer.line(&render::fatal_line(error, context.clock.now()))?;
    }
    outcome
}

fn start(context: &Context, args: &ListenArgs, format: Format) -> Result<Exit, CliError> {
    let settings = context.settings()?.with_flags(args.settings());
    if args.print_secret {
        return print_secret(context, &settings, args);
    }
    let plan = Plan::read(context, &settings, args)?;
    let timing = context.env.timing()?;
    let look = look(context, &settings, args, &plan, format)?;
    context.block_on(async {
        let mut signals = signals::listen()?;
        let relay = tokio::select! {
            relay = reach(context, &settings, args) => relay?,
            () = signals.next() => return Ok(Exit::Done),
        };
        pull(context, &settings, Session { plan, timing, look, relay, format }, signals).await
    })
}

/// The secret alone, without a relay.
fn print_secret(context: &Context, settings: &Settings, args: &ListenArgs) -> Result<Exit, CliError> {
    let flags = SecretFlags { variable: args.secret_env.clone(), file: args.secret_file.clone() };
    let secret = secret::local(context, settings, &flags)?;
    secret::check(&secret)?;
    context.printer.line(secret.value.expose())?;
    Ok(Exit::Done)
}

/// What is shown beside the events; the secret is written where the app reads it, or shown, never both.
fn look(
    context: &Context,
    settings: &Settings,
    args: &ListenArgs,
    plan: &Plan,
    format: Format,
) -> Result<Look, CliError> {
    let keys = keys::wanted(context, format).then(|| keys::SHORT_HELP.to_owned());
    Ok(Look {
        style: context.printer.style(),
        secret: secret_line(context, settings, &plan.sign)?,
        embedded: false,
        at_ready: keys.into_iter().collect(),
        routes: plan.routes.len(),
        body: args.print_body,
        headers: args.print_headers,
    })
}

fn secret_line(
    context: &Context,
    settings: &Settings,
    signing: &Signing,
) -> Result<Option<String>, CliError> {
    let Some(local) = &signing.local else {
        return Ok(match &signing.sign {
            SignAs::With(key) => Some(format!("Signing as {}.", key.scheme())),
            SignAs::None => None,
        });
    };
    if let (Some(file), Some(name)) = (settings.text("env_file"), settings.text("env_name")) {
        // What was typed is meant from here; what a file says, from the project's root.
        let path = match file.origin {
            Origin::Flag(_) => PathBuf::from(&file.value),
            _ => settings.project.root.join(&file.value),
        };
        secret::write_env_file(&path, &name.value, &local.value, &*context.dice).map_err(|error| {
            CliError::usage(format!("can't write {}: {error} ({})", path.display(), file.origin))
        })?;
        return Ok(Some(format!("The webhook signing secret is {} in {}.", name.value, file.value)));
    }
    let secret = &local.value;
    let shown = if context.printer.is_terminal() {
        secret.expose().to_owned()
    } else {
        format!("{}, shown by --print-secret", secret.masked())
    };
    Ok(Some(format!("Your webhook signing secret is {shown}")))
}

/// The relay to listen to.
struct Reached {
    client: Client,
    key: Secret,
    /// What distinguishes it from others, for what is remembered about it.
    name: String,
    embedded: Option<Hosted>,
}

/// An embedded relay, joined or hosted.
struct Hosted {
    home: Home,
    host: Option<Host>,
    /// An isolated one's directory.
    temporary: Option<Temporary>,
}

async fn reach(context: &Context, settings: &Settings, args: &ListenArgs) -> Result<Reached, CliError> {
    if args.isolated {
        let (home, temporary) = Home::isolated(context)?;
        let attached = home.attach("listen").await?;
        let (client, key) = attached.local.project(&ProjectRef::from(&settings.project)).await?;
        let embedded = Hosted { home, host: attached.host, temporary: Some(temporary) };
        return Ok(Reached { client, key, name: "isolated".to_owned(), embedded: Some(embedded) });
    }
    let connected = context.connect(settings, Scope::Here, Stay::Long, "listen").await?;
    let name = match &connected.embedded {
        Some(_) => "embedded".to_owned(),
        None => connected.client.url().to_string(),
    };
    let embedded = connected.embedded.map(|it| Hosted { home: it.home, host: it.host, temporary: None });
    Ok(Reached { client: connected.client, key: connected.key, name, embedded })
}

/// Everything a run needs.
struct Session {
    plan: Plan,
    timing: Timing,
    look: Look,
    relay: Reached,
    format: Format,
}

async fn pull(
    context: &Context,
    settings: &Settings,
    session: Session,
    signals: Signals,
) -> Result<Exit, CliError> {
    let Session { plan, timing, mut look, relay, format } = session;
    let memory = match &relay.embedded {
        Some(Hosted { temporary: Some(_), .. }) => None,
        _ => {
            let dir = files::state_subdir(&context.env, "listeners")?;
            Memory::open(&dir, &relay.name, &settings.project.root, &settings.profile.value)
        }
    };
    let mut options = ListenOptions::new(
        relay.client.url().clone(),
        relay.key.clone(),
        Arc::clone(&context.clock),
        Arc::clone(&context.dice),
    );
    plan.apply(&mut options);
    options.timing = timing;
    options.previous = memory.as_ref().and_then(Memory::read);
    options.in_container = os::in_container(&context.env);
    options.description = Some(settings.project.name().chars().take(200).collect());
    options.relay_http = context.env.relay_settings();
    let stop_relay = CancellationToken::new();
    let mut steward = None;
    let mut temporary = None;
    if let Some(hosted) = relay.embedded {
        options.relay_http = hosted.home.http_settings();
        options.relocate = Some(Arc::new(hosted.home.clone()));
        look.embedded = true;
        temporary = hosted.temporary;
        steward = Some(tokio::spawn(steward::keep(hosted.home, "listen", hosted.host, stop_relay.clone())));
    }
    let screen = Screen { printer: context.printer, format, look, memory, dice: Arc::clone(&context.dice) };
    let client = relay.client;
    let outcome = shown(context, options, screen, client, signals).await;
    stop_relay.cancel();
    if let (Some(steward), true) = (steward, !matches!(outcome, Ok(Exit::Forced))) {
        let _ended = steward.await;
    }
    drop(temporary);
    outcome
}

/// The pull loop with everything around it: signals, keys, the screen.
async fn shown(
    context: &Context,
    options: ListenOptions,
    screen: Screen,
    client: Client,
    mut signals: Signals,
) -> Result<Exit, CliError> {
    let (handle, control) = listen::control();
    let (events, from) = tokio::sync::mpsc::channel(256);
    let format = screen.format;
    let (last, showing) = screen.start(from, handle.clone())?;
    let _keys = keys::start(context, format, handle.clone(), client, last);
    let pulling = tokio::spawn(listen::run(options, events, control));
    let Some(summary) = steered(pulling, &handle, &mut signals).await? else {
        return Ok(Exit::Forced);
    };
    let shown = tokio::task::spawn_blocking(move || showing.join());
    let shown = tokio::select! {
        shown = shown => shown.map_err(|error| CliError::internal(error.to_string()))?,
        // What is left to show waits for a reader that doesn't read.
        () = signals.next() => return Ok(Exit::Forced),
    };
    shown.map_err(|_| CliError::internal("what shows the events failed"))??;
    Ok(exit(&summary))
}

/// Waits for the loop; the first signal stops it in order, the second at once. `None` when it doesn't even do that.
async fn steered(
    mut pulling: JoinHandle<Summary>,
    handle: &Handle,
    signals: &mut Signals,
) -> Result<Option<Summary>, CliError> {
    let failed = |error: tokio::task::JoinError| CliError::internal(format!("the pull loop failed: {error}"));
    for stop in [Handle::stop, Handle::stop_now] {
        tokio::select! {
            summary = &mut pulling => return summary.map(Some).map_err(failed),
            () = signals.next() => stop(handle),
        }
    }
    match tokio::time::timeout(AT_ONCE, pulling).await {
        Ok(summary) => summary.map(Some).map_err(failed),
        Err(_) => Ok(None),
    }
}

fn exit(summary: &Summary) -> Exit {
    let code = summary.end.exit_code();
    Exit::ALL.iter().copied().find(|exit| exit.code() == code).unwrap_or(Exit::Internal)
}
