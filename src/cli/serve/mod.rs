//! `pullhook serve`: the relay for a team, or this machine's own one kept running.

mod file;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::cli::args::Format;
use crate::cli::config::{self, normal_url};
use crate::cli::context::Context;
use crate::cli::embedded::host::{Door, Host, bind_exactly, configure, shown};
use crate::cli::embedded::lock::Lock;
use crate::cli::embedded::{Home, Local};
use crate::cli::error::{CliError, Kind};
use crate::cli::exit::Exit;
use crate::cli::signals::{self, Signals};
use crate::cli::store;
use crate::relay::Settings;
use crate::secret::Secret;
use crate::store::StoreUrl;

pub use file::ConfiguredSource;
use file::ServeFile;

/// How long the host that is asked to hand over may take.
const HANDOVER: Duration = Duration::from_secs(20);

/// `serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Where to listen [default: 127.0.0.1:4750]
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<String>,
    /// sqlite:PATH or postgres://USER@HOST/DATABASE [default: this machine's own store]
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// A TOML file with these settings, further ones, and sources
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the world reaches this relay: the base of the sources' URLs
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Serve sources without a signature beyond this machine
    #[arg(long)]
    allow_unsigned: bool,
}

/// What it means.
struct ServeOptions {
    bind: SocketAddr,
    store: Option<StoreUrl>,
    public_url: Option<String>,
    settings: Settings,
    sources: Vec<ConfiguredSource>,
}

/// Serves until a signal.
pub(super) fn run(context: &Context, args: &ServeArgs) -> Result<Exit, CliError> {
    let format = context.format()?;
    let options = read(context, args)?;
    context.block_on(async {
        let signals = signals::listen()?;
        let settings = context.settings()?;
        let home = match options.store.clone() {
            Some(StoreUrl::Postgres(address)) => {
                return serve_shared(context, options, address, format, signals).await;
            }
            Some(StoreUrl::Sqlite(path)) => Home::of_store(context, &settings, &path)?,
            None => Home::of_person(context, &settings)?,
        };
        serve_home(context, &home, options, format, signals).await
    })
}

fn read(context: &Context, args: &ServeArgs) -> Result<ServeOptions, CliError> {
    let mut problems = Vec::new();
    let file =
        args.config.as_deref().map(|path| file::read(context, path, &mut problems)).unwrap_or_default();
    let bind = args.bind.as_deref().or(file.bind.as_deref()).unwrap_or("127.0.0.1:4750");
    let bind = address(bind).unwrap_or_else(|why| {
        problems.push(format!("{bind:?}: {why} (bind)"));
        SocketAddr::from(([127, 0, 0, 1], 0))
    });
    let store =
        args.store.as_deref().or(file.store.as_deref()).and_then(|text| {
            store::parse(text).map_err(|error| problems.push(error.message().to_owned())).ok()
        });
    let public_url = args.public_url.as_deref().or(file.public_url.as_deref()).and_then(|text| {
        let url =
            normal_url(text).map_err(|why| problems.push(format!("{text:?}: {why} (public_url)"))).ok()?;
        Some(url.as_str().trim_end_matches('/').to_owned())
    });
    let settings = settings(&file, args.allow_unsigned);
    problems.extend(settings.problems());
    config::all_at_once(&problems)?;
    Ok(ServeOptions { bind, store, public_url, settings, sources: file.sources })
}

/// `127.0.0.1:4750`, `:4750` or `4750`; a name would leave open which of its addresses is meant.
fn address(text: &str) -> Result<SocketAddr, String> {
    let whole = match text.strip_prefix(':').unwrap_or(text) {
        port if port.bytes().all(|byte| byte.is_ascii_digit()) => format!("127.0.0.1:{port}"),
        _ => text.replace("localhost:", "127.0.0.1:"),
    };
    whole.parse().map_err(|_| "expected ADDRESS:PORT, such as 127.0.0.1:4750 or 0.0.0.0:4750".to_owned())
}

fn settings(file: &ServeFile, allow_unsigned: bool) -> Settings {
    let default = Settings::default();
    Settings {
        allow_unsigned: allow_unsigned || file.allow_unsigned.unwrap_or(false),
        allowed_hosts: file.allowed_hosts.clone(),
        event_retention: file.event_retention.unwrap_or(default.event_retention),
        log_retention: file.log_retention.unwrap_or(default.log_retention),
        dedupe_window: file.dedupe_window.unwrap_or(default.dedupe_window),
        lease: file.lease.unwrap_or(default.lease),
        listener_life: file.listener_life.unwrap_or(default.listener_life),
        max_body_bytes: file.max_body_bytes.unwrap_or(default.max_body_bytes),
        listeners_per_environment: file
            .listeners_per_environment
            .map_or(default.listeners_per_environment, |n| usize::try_from(n).unwrap_or(usize::MAX)),
        ..default
    }
}

/// A PostgreSQL store: several relays may share it.
async fn serve_shared(
    context: &Context,
    options: ServeOptions,
    store: Secret,
    format: Format,
    mut signals: Signals,
) -> Result<Exit, CliError> {
    let listener = bind_exactly(options.bind).await?;
    let address = listener.local_addr().map_err(|error| CliError::internal(error.to_string()))?;
    let settings = Settings {
        public_url: options.public_url.unwrap_or_else(|| shown(address)),
        loopback: address.ip().is_loopback(),
        ..options.settings
    };
    let public_url = settings.public_url.clone();
    let relay = store::open_shared(context, store, settings).await?;
    configure(&relay, &options.sources).await?;
    say_ready(context, format, &shown(address), &public_url, relay.store().engine())?;
    let stop = CancellationToken::new();
    let server = tokio::spawn({
        let (relay, stop) = (relay.clone(), stop.clone());
        async move { relay.serve(listener, stop).await }
    });
    signals.first().await;
    stop.cancel();
    tokio::select! {
        _ = server => Ok(Exit::Done),
        () = signals.next() => Ok(Exit::Forced),
    }
}

/// A store on this machine, under its lock.
async fn serve_home(
    context: &Context,
    home: &Home,
    options: ServeOptions,
    format: Format,
    mut signals: Signals,
) -> Result<Exit, CliError> {
    let lock = tokio::select! {
        lock = take_over(context, home) => lock?,
        () = signals.first() => return Ok(Exit::Done),
    };
    let door = Door {
        bind: Some(options.bind),
        settings: options.settings,
        public_url: options.public_url,
        sources: options.sources,
        yields: false,
    };
    let mut host = Host::start_with(home, lock, "serve", door).await?;
    say_ready(context, format, &shown(host.address()), host.public_url(), "sqlite")?;
    tokio::select! {
        () = signals.first() => {}
        () = host.failed() => return Err(CliError::internal("the relay ended by itself")),
    }
    tokio::select! {
        () = host.end() => Ok(Exit::Done),
        () = signals.next() => Ok(Exit::Forced),
    }
}

/// The lock: at once when nobody has it, else after the `listen` that hosts handed over.
async fn take_over(context: &Context, home: &Home) -> Result<Lock, CliError> {
    let broken = |error: std::io::Error| CliError::internal(format!("can't take the relay's lock: {error}"));
    let locks = home.locks().clone();
    let claim = tokio::task::spawn_blocking(move || locks.claim()).await;
    let claim = claim.map_err(|error| CliError::internal(error.to_string()))?.map_err(broken)?;
    if let Some(local) = home.attach_if_hosted().await? {
        ask(context, home, &local).await?;
    }
    let locks = home.locks().clone();
    let waiting = tokio::task::spawn_blocking(move || locks.wait_with(&claim));
    let lock = tokio::time::timeout(HANDOVER, waiting).await.map_err(|_| {
        CliError::new(Kind::Unreachable, "the process that hosts the relay doesn't let it go")
    })?;
    lock.map_err(|error| CliError::internal(error.to_string()))?.map_err(broken)
}

async fn ask(context: &Context, home: &Home, local: &Local) -> Result<(), CliError> {
    match local.hand_over().await {
        Ok(host) => {
            context.printer.note(&format!("taking the relay over from process {}", host.pid));
            Ok(())
        }
        Err(error) if error.kind() == Kind::Forbidden => {
            let url = local.url();
            Err(CliError::usage(format!("another `pullhook serve` already serves this store, at {url}"))
                .hint("use that one, or give this one a store of its own: --store sqlite:PATH"))
        }
        // It ended meanwhile, which is as good.
        Err(_) if !home.locks().is_held().unwrap_or(true) => Ok(()),
        Err(error) => Err(error),
    }
}

fn say_ready(
    context: &Context,
    format: Format,
    url: &str,
    public_url: &str,
    store: &str,
) -> Result<(), CliError> {
    let line = match format {
        Format::Json => {
            let pid = std::process::id();
            json!({"object": "relay", "url": url, "public_url": public_url, "store": store, "pid": pid})
                .to_string()
        }
        _ => format!("> Ready! The relay is at {url}, sources at {public_url}/api/webhooks/ (^C to quit)"),
    };
    context.printer.line(&line)
}
