//! `pullhook trigger`: a provider's event, signed like the real thing, to a source's ingress or straight to an app.

mod plan;
pub(in crate::cli) mod send;
mod show;
mod source;

use std::path::PathBuf;

use clap::Args;
use tokio::time::Instant;

use crate::cli::args::Format;
use crate::cli::choice::Scope;
use crate::cli::config::Settings;
use crate::cli::connect::{Connected, Stay};
use crate::cli::context::Context;
use crate::cli::error::{CliError, Kind};
use crate::cli::exit::Exit;
use crate::client::Client;

use plan::{Plan, Rate, Straight, local_secret};
use send::{App, Ingress, Signed, Way};

/// `trigger`.
#[derive(Args, Debug)]
pub struct TriggerArgs {
    /// Which event: github.push, standard.invoice.paid, ... (`--list` shows them)
    #[arg(value_name = "EVENT")]
    event: Option<String>,
    /// Straight to this app instead: a port, host:port/path, a URL, unix:/p.sock:/path
    #[arg(long, value_name = "TARGET", conflicts_with = "source")]
    to: Option<String>,
    /// Into this source (else the one source with the provider's scheme)
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Another value in the body: data.object.amount=5; repeatable
    #[arg(long = "override", value_name = "PATH=VALUE")]
    overrides: Vec<String>,
    /// How many, each with its own ids
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    count: Option<u64>,
    /// How many a second at most (else one after the other)
    #[arg(long, value_name = "N", requires = "count")]
    rate: Option<Rate>,
    /// Send each twice, as a provider that missed the first answer does
    #[arg(long)]
    duplicate: bool,
    /// Sign with a time an hour ago
    #[arg(long, conflicts_with = "bad_signature")]
    stale: bool,
    /// Send a signature that is well-formed and wrong
    #[arg(long)]
    bad_signature: bool,
    /// With --to: the variable that holds the secret to sign with (else a local one)
    #[arg(long, value_name = "NAME", conflicts_with = "secret_file")]
    secret_env: Option<String>,
    /// With --to: the file that holds the secret to sign with
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Only print the local secret with which --to signs this event
    #[arg(long)]
    print_secret: bool,
    /// With --to: how long the app may take; 0 = for ever
    #[arg(long, value_name = "TIME", default_value = "30s")]
    timeout: String,
    /// With --to: take any certificate
    #[arg(long, alias = "insecure")]
    skip_verify: bool,
    /// With --to: a PEM file with certificates to trust
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// List the events there are, or those of a provider
    #[arg(long, value_name = "PROVIDER", num_args = 0..=1,
        conflicts_with_all = ["event", "to", "source", "overrides", "count", "duplicate", "stale", "bad_signature", "print_secret"])]
    #[expect(clippy::option_option, reason = "the flag may come without its value")]
    list: Option<Option<String>>,
}

/// Sends, and says what was answered.
pub(super) fn run(context: &Context, args: &TriggerArgs) -> Result<Exit, CliError> {
    let format = context.format()?;
    if let Some(provider) = &args.list {
        return show::list(context, format, provider.as_deref());
    }
    let plan = Plan::read(context, args)?;
    let settings = context.settings()?;
    if args.print_secret {
        let secret = local_secret(context, &settings, args, plan.fixture.provider().scheme())?;
        context.printer.line(secret.value.expose())?;
        return Ok(Exit::Done);
    }
    let straight = Straight::read(context, &settings, args, &plan)?;
    context.block_on(async {
        match straight {
            Some(straight) => to_app(context, format, &plan, straight).await,
            None => to_source(context, &settings, format, &plan, args.source.as_deref()).await,
        }
    })
}

async fn to_app(
    context: &Context,
    format: Format,
    plan: &Plan,
    straight: Straight,
) -> Result<Exit, CliError> {
    let scheme = plan.fixture.provider().scheme();
    let local = straight.local;
    let way = Way::App(App::new(straight));
    if local {
        context.printer.note(&format!(
            "signing with this project's local secret for {scheme}: `pullhook trigger {} --print-secret` shows it",
            plan.fixture.name()
        ));
    }
    send_all(context, format, plan, &way).await
}

async fn to_source(
    context: &Context,
    settings: &Settings,
    format: Format,
    plan: &Plan,
    wanted: Option<&str>,
) -> Result<Exit, CliError> {
    let connected = context.connect(settings, Scope::WhereListened, Stay::Short, "trigger").await?;
    let sent = into(context, &connected, format, plan, wanted).await;
    connected.close().await;
    sent
}

async fn into(
    context: &Context,
    connected: &Connected,
    format: Format,
    plan: &Plan,
    wanted: Option<&str>,
) -> Result<Exit, CliError> {
    let client = &connected.client;
    let source = source::choose(context, connected, plan.fixture.provider(), wanted).await?;
    let http = match &connected.embedded {
        Some(_) => client.http().clone(),
        // Its public address may need another way than its API.
        None => context.http_client(&send::url(&source.ingress_url)?)?,
    };
    let way = Way::Ingress(Box::new(Ingress { client: client.clone(), http, source }));
    let exit = send_all(context, format, plan, &way).await?;
    if exit == Exit::Done {
        say_if_nobody_listens(context, client).await;
    }
    Ok(exit)
}

/// Whoever doesn't see the event anywhere should know why.
async fn say_if_nobody_listens(context: &Context, client: &Client) {
    // A server or a key that doesn't tell is no reason to fail.
    if client.listeners().await.is_ok_and(|list| list.data.is_empty()) {
        context.printer.note(
            "nobody listens here now; it is stored: `pullhook listen 3000 --since beginning` hands it out, too",
        );
    }
}

async fn send_all(context: &Context, format: Format, plan: &Plan, way: &Way) -> Result<Exit, CliError> {
    let (start, mut totals) = (Instant::now(), show::Totals::default());
    for number in 0..plan.count {
        if let Some(rate) = plan.rate {
            tokio::time::sleep_until(start + rate.after(number)).await;
        }
        let event = plan.event(context)?;
        let signed = Signed::new(way, &event, plan.fault, context.clock.now()).await?;
        for _ in 0..plan.copies() {
            show::going(context, format, &event, &signed)?;
            let sent = way.send(&signed).await?;
            totals.count(&sent);
            show::answered(context, format, &event, &signed, &sent)?;
            if sent.status.is_none() && plan.count > 1 {
                let left = plan.count - number - 1;
                return Err(CliError::new(
                    Kind::Failed,
                    format!("no answer came; {left} more were not sent"),
                ));
            }
        }
    }
    if plan.count * plan.copies() > 1 {
        context.printer.note(&totals.to_string());
    }
    Ok(if totals.all_well() { Exit::Done } else { Exit::Failed })
}
