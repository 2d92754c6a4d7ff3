//! Events as they arrive, until ^C; a relay that goes away is waited for.

use crate::cli::args::Format;
use crate::cli::choice::Scope;
use crate::cli::connect::Stay;
use crate::cli::context::Context;
use crate::cli::error::{CliError, Kind};
use crate::cli::exit::Exit;
use crate::cli::output::sanitize;
use crate::cli::signals;
use crate::client::{Client, EventQuery};
use crate::protocol::events::Event;
use crate::protocol::limits;
use crate::retry::Backoff;

use super::Wanted;

pub(super) fn run(context: &Context, format: Format, wanted: &Wanted) -> Result<Exit, CliError> {
    let settings = context.settings()?;
    let query = wanted.query(context.clock.now())?;
    context.block_on(async {
        let mut signals = signals::listen()?;
        let connected = context.connect(&settings, Scope::WhereListened, Stay::Long, "events").await?;
        let ended = tokio::select! {
            failed = follow(context, format, &connected.client, query) => failed,
            () = signals.first() => Ok(()),
        };
        connected.close().await;
        ended.map(|()| Exit::Done)
    })
}

/// Ends only when something fails for good.
async fn follow(
    context: &Context,
    format: Format,
    client: &Client,
    query: EventQuery,
) -> Result<(), CliError> {
    let mut after = newest(client, &query).await?;
    context.printer.note("waiting for events (^C ends it)");
    let mut tries = 0;
    loop {
        let next = EventQuery {
            after: after.clone(),
            order: Some("asc".to_owned()),
            wait_ms: Some(limits::DEFAULT_WAIT_MS),
            limit: Some(limits::MAX_PAGE),
            ..query.clone()
        };
        match client.events(&next).await.map_err(CliError::from) {
            Ok(page) => {
                tries = 0;
                for event in page.data {
                    print(context, format, &event)?;
                    after = Some(event.id);
                }
            }
            Err(error) if error.kind() == Kind::Unreachable => {
                context.printer.warn(&format!("{}; trying again", error.message()));
                tokio::time::sleep(Backoff::RECONNECT.delay(tries, &*context.dice)).await;
                tries += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Where to begin: behind the newest event, unless the range says where.
async fn newest(client: &Client, query: &EventQuery) -> Result<Option<String>, CliError> {
    if query.from.is_some() {
        return Ok(None);
    }
    let page = client.events(&EventQuery { limit: Some(1), ..EventQuery::default() }).await?;
    Ok(page.data.into_iter().next().map(|event| event.id))
}

fn print(context: &Context, format: Format, event: &Event) -> Result<(), CliError> {
    if format == Format::Json {
        return context.printer.json(event);
    }
    let source = event.source.as_deref().unwrap_or("-");
    let text = format!(
        "{}  {} [{}] {source}, {} bytes",
        event.created_at.local(),
        event.kind,
        event.id,
        event.size_bytes
    );
    context.printer.line(&sanitize::line(&text))
}
