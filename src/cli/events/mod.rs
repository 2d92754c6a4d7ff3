//! `pullhook events`: what arrived and what became of it.

mod show;
mod tail;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};

use crate::cli::args::Format;
use crate::cli::choice::Scope;
use crate::cli::connect::Stay;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::moment;
use crate::cli::output::{sanitize, table};
use crate::client::EventQuery;
use crate::clock::Timestamp;
use crate::protocol::events::Event;
use crate::protocol::limits;

/// `events`.
#[derive(Args, Debug)]
pub struct EventsArgs {
    #[command(subcommand)]
    command: EventsCommand,
}

#[derive(Debug, Subcommand)]
enum EventsCommand {
    /// List events, newest first
    List {
        #[command(flatten)]
        wanted: Wanted,
        /// Only what arrived before this: how long ago (2h) or a time
        #[arg(long, value_name = "WHEN")]
        to: Option<String>,
        /// Only events with this outcome
        #[arg(long, value_name = "STATUS")]
        status: Option<Status>,
        /// How many at most
        #[arg(short = 'n', long, value_name = "N", default_value_t = 20,
            value_parser = clap::value_parser!(u64).range(1..=100_000))]
        limit: u64,
    },
    /// Show an event with its headers, its body and every delivery
    Show {
        /// Its id
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        id: String,
        /// Show the values of headers that look like credentials, too
        #[arg(long)]
        show_headers: bool,
    },
    /// Print events as they arrive, until ^C
    Tail {
        #[command(flatten)]
        wanted: Wanted,
    },
}

/// Which events.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    /// Only types that match (`*` stands for any text, dots included)
    #[arg(long = "type", value_name = "PATTERN", value_parser = NonEmptyStringValueParser::new())]
    kind: Option<String>,
    /// Only of this source
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    source: Option<String>,
    /// Only what arrived at or after this: how long ago (2h) or a time
    #[arg(long, value_name = "WHEN")]
    from: Option<String>,
    /// Only with this text in the body
    #[arg(short = 's', long = "search", value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    text: Option<String>,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Status {
    /// Nobody took it.
    None,
    /// Waiting or handed out.
    Pending,
    /// The app answered 2xx.
    Delivered,
    /// It didn't, finally.
    Failed,
    /// Filtered out by the listener.
    Skipped,
}

impl Status {
    /// The API's word.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

impl Wanted {
    fn query(&self, now: Timestamp) -> Result<EventQuery, CliError> {
        Ok(EventQuery {
            kind: self.kind.clone(),
            source: self.source.clone(),
            from: moment::optional("--from", self.from.as_deref(), now)?,
            q: self.text.clone(),
            ..EventQuery::default()
        })
    }
}

/// Lists, shows or follows.
pub(super) fn run(context: &Context, args: &EventsArgs) -> Result<Exit, CliError> {
    let format = context.format()?;
    match &args.command {
        EventsCommand::List { wanted, to, status, limit } => {
            let now = context.clock.now();
            let query = EventQuery {
                to: moment::optional("--to", to.as_deref(), now)?,
                status: status.map(|status| status.text().to_owned()),
                ..wanted.query(now)?
            };
            moment::in_order(("--from", query.from), ("--to", query.to))?;
            list(context, format, query, *limit)
        }
        EventsCommand::Show { id, show_headers } => show::run(context, format, id, *show_headers),
        EventsCommand::Tail { wanted } => tail::run(context, format, wanted),
    }
}

fn list(context: &Context, format: Format, query: EventQuery, limit: u64) -> Result<Exit, CliError> {
    let settings = context.settings()?;
    let all = query == EventQuery::default();
    let events = context.block_on(async {
        let connected = context.connect(&settings, Scope::WhereListened, Stay::Short, "events").await?;
        let events = pages(&connected.client, query, limit).await;
        connected.close().await;
        events
    })?;
    if format == Format::Json {
        events.iter().try_for_each(|event| context.printer.json(event))?;
        return Ok(Exit::Done);
    }
    if events.is_empty() {
        context.printer.note(match all {
            true => "no event yet; `pullhook trigger github.push` sends one",
            false => "no event is like that",
        });
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = events.iter().map(row).collect();
    table::lines(&HEAD, &rows).iter().try_for_each(|line| context.printer.line(line))?;
    Ok(Exit::Done)
}

/// As many pages as it takes.
async fn pages(
    client: &crate::client::Client,
    query: EventQuery,
    limit: u64,
) -> Result<Vec<Event>, CliError> {
    let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut events: Vec<Event> = Vec::new();
    loop {
        let left = (wanted - events.len()) as u64;
        let after = events.last().map(|event| event.id.clone());
        let page = EventQuery { after, limit: Some(left.min(limits::MAX_PAGE)), ..query.clone() };
        let page = client.events(&page).await?;
        let done = !page.has_more || page.data.is_empty();
        events.extend(page.data);
        if done || events.len() >= wanted {
            return Ok(events);
        }
    }
}

const HEAD: [&str; 6] = ["ARRIVED", "EVENT", "TYPE", "SOURCE", "STATUS", "BYTES"];

fn row(event: &Event) -> Vec<String> {
    let times = if event.occurrences > 1 { format!(" (×{})", event.occurrences) } else { String::new() };
    let flagged = if event.conflicting { " (id seen with other bytes)" } else { "" };
    vec![
        event.created_at.local(),
        event.id.clone(),
        sanitize::line(&event.kind).into_owned(),
        sanitize::line(event.source.as_deref().unwrap_or("-")).into_owned(),
        format!("{}{times}{flagged}", event.status),
        event.size_bytes.to_string(),
    ]
}
