//! `pullhook replay`: hands stored events to who listens, once more.

use std::io::IsTerminal;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use crate::cli::args::Format;
use crate::cli::choice::Scope;
use crate::cli::connect::Stay;
use crate::cli::context::Context;
use crate::cli::error::{CliError, Kind};
use crate::cli::events::Status;
use crate::cli::exit::Exit;
use crate::cli::moment;
use crate::cli::output::sanitize;
use crate::client::{Client, ClientError};
use crate::protocol::events::{EventReplay, ReplayEvents, ReplayTo};
use crate::protocol::limits;

/// More than this many at once are asked about.
const ASK_ABOVE: u64 = 100;

/// `replay`.
#[derive(Args, Debug)]
pub struct ReplayArgs {
    /// Events, by id
    #[arg(value_name = "EVENT", value_parser = NonEmptyStringValueParser::new(),
        conflicts_with_all = ["from", "to_time", "kind", "source", "status"])]
    events: Vec<String>,
    /// Every event that arrived at or after this: how long ago (2h) or a time
    #[arg(long, value_name = "WHEN")]
    from: Option<String>,
    /// Every event that arrived before this
    #[arg(long, value_name = "WHEN")]
    to_time: Option<String>,
    /// Only types that match (`*` stands for any text, dots included)
    #[arg(long = "type", value_name = "PATTERN", value_parser = NonEmptyStringValueParser::new())]
    kind: Option<String>,
    /// Only of this source
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    source: Option<String>,
    /// Only events with this outcome
    #[arg(long, value_name = "STATUS")]
    status: Option<Status>,
    /// Only to this listener (else to every open one)
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    listener: Option<String>,
    /// How many at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=limits::MAX_REPLAY))]
    limit: Option<u64>,
    /// Only say what would be replayed
    #[arg(long)]
    dry_run: bool,
    /// Don't ask
    #[arg(short, long)]
    yes: bool,
}

/// Replays, or says what would be.
pub(super) fn run(context: &Context, args: &ReplayArgs) -> Result<Exit, CliError> {
    let format = context.format()?;
    let settings = context.settings()?;
    let replay = read(context, args)?;
    let done = context.block_on(async {
        let connected =
            context.connect(&settings, Scope::WhereKnown(&args.events), Stay::Short, "replay").await?;
        let done = carry_out(context, &connected.client, replay, args).await;
        connected.close().await;
        done
    })?;
    if format == Format::Json {
        context.printer.json(&done)?;
    } else {
        print(context, &done, args.dry_run)?;
    }
    Ok(Exit::Done)
}

fn read(context: &Context, args: &ReplayArgs) -> Result<ReplayEvents, CliError> {
    let now = context.clock.now();
    let from = moment::optional("--from", args.from.as_deref(), now)?;
    let to_time = moment::optional("--to-time", args.to_time.as_deref(), now)?;
    moment::in_order(("--from", from), ("--to-time", to_time))?;
    if args.events.is_empty() && from.is_none() && to_time.is_none() {
        let error = CliError::usage("say which events: their ids, or a range with --from");
        return Err(error.hint("`pullhook events list` shows them"));
    }
    Ok(ReplayEvents {
        event_ids: args.events.clone(),
        from,
        to_time,
        kind: args.kind.clone(),
        source: args.source.clone(),
        status: args.status.map(|status| status.text().to_owned()),
        to: args.listener.clone().map(|listener| ReplayTo::Listener { listener }),
        dry_run: args.dry_run,
        limit: args.limit,
    })
}

async fn carry_out(
    context: &Context,
    client: &Client,
    replay: ReplayEvents,
    args: &ReplayArgs,
) -> Result<EventReplay, CliError> {
    if !args.dry_run && !args.yes {
        let count = match args.events.len() as u64 {
            0 => ask(client, &ReplayEvents { dry_run: true, ..replay.clone() }).await?.count,
            named => named,
        };
        if count > ASK_ABOVE && !agreed(context, count)? {
            return Err(CliError::usage("nothing was replayed"));
        }
    }
    ask(client, &replay).await
}

/// Asks the relay; what it doesn't find is named.
async fn ask(client: &Client, replay: &ReplayEvents) -> Result<EventReplay, CliError> {
    client.replay(replay).await.map_err(|refused| {
        let param = match &refused {
            ClientError::Api { status: 404, error, .. } => error.param.clone(),
            _ => None,
        };
        let param = param.unwrap_or_default();
        let index = param.strip_prefix("event_ids.").and_then(|index| index.parse::<usize>().ok());
        match (index.and_then(|index| replay.event_ids.get(index)), param.as_str()) {
            (Some(id), _) => {
                CliError::new(Kind::NotFound, format!("no event {} in this environment", sanitize::line(id)))
                    .hint("`pullhook events list` shows them")
            }
            (None, "to.listener") => {
                CliError::new(Kind::NotFound, "no open listener has this id; nothing was replayed")
                    .hint("`pullhook status` shows who listens")
            }
            _ => refused.into(),
        }
    })
}

/// Asks on a terminal; elsewhere there is nobody to ask.
fn agreed(context: &Context, count: u64) -> Result<bool, CliError> {
    if !std::io::stdin().is_terminal() {
        let error = CliError::usage(format!("that would replay {count} events"));
        return Err(error.hint("look with --dry-run, then replay them with --yes"));
    }
    context.printer.ask(&format!("replay {count} events? [y/N]"));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(|error| CliError::internal(error.to_string()))?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

fn print(context: &Context, done: &EventReplay, dry_run: bool) -> Result<(), CliError> {
    let events = if done.count == 1 { "1 event".to_owned() } else { format!("{} events", done.count) };
    let listeners =
        if done.listeners == 1 { "1 listener".to_owned() } else { format!("{} listeners", done.listeners) };
    let verb = if dry_run { "would replay" } else { "replayed" };
    context.printer.line(&format!("{verb} {events} to {listeners}"))?;
    if dry_run {
        done.event_ids.iter().try_for_each(|id| context.printer.line(&format!("  {id}")))?;
    }
    if done.has_more {
        context.printer.warn("the range holds more events; replay the rest from a later time");
    }
    Ok(())
}
