//! Which source an event goes into: the named one, else the one source with the provider's scheme, else a new one.

use crate::cli::connect::Connected;
use crate::cli::context::Context;
use crate::cli::error::{CliError, Kind};
use crate::cli::output::sanitize;
use crate::client::Client;
use crate::clock::Dice;
use crate::protocol::error::Code;
use crate::protocol::sources::{CreateSource, Source};
use crate::providers::Provider;
use crate::signature::standard;

/// The source for an event of this provider.
pub(super) async fn choose(
    context: &Context,
    connected: &Connected,
    provider: Provider,
    wanted: Option<&str>,
) -> Result<Source, CliError> {
    let (client, scheme) = (&connected.client, provider.scheme());
    if let Some(name) = wanted {
        let source = client.source(name).await?;
        if source.scheme != scheme.name() {
            context.printer.warn(&format!(
                "{} is signed by {}, an event of {} by {scheme}",
                sanitize::line(&source.name),
                sanitize::line(&source.scheme),
                provider.name
            ));
        }
        return usable(source);
    }
    // Another `trigger` may make the same source at the same time; then there is one.
    for _ in 0..2 {
        let all = client.all_sources().await?;
        let mut of_scheme: Vec<_> = all.iter().filter(|source| source.scheme == scheme.name()).collect();
        of_scheme.sort_by_key(|source| !source.enabled);
        match of_scheme[..] {
            [] => {}
            [first, second, ..] if second.enabled => return Err(several(&[first, second], of_scheme.len())),
            [first, ..] => return usable(first.clone()),
        }
        if connected.embedded.is_none() {
            return Err(none(provider));
        }
        match make(client, &*context.dice, provider, &all).await {
            Err(error) if error.code() == Some(Code::NameTaken) => {}
            made => {
                let source = made?;
                context.printer.note(&format!(
                    "made source `{}` ({scheme}, a random secret); `pullhook sources rotate {}` gives it yours",
                    source.name, source.name
                ));
                return Ok(source);
            }
        }
    }
    Err(none(provider))
}

fn usable(source: Source) -> Result<Source, CliError> {
    if source.enabled {
        return Ok(source);
    }
    let name = sanitize::line(&source.name);
    Err(CliError::new(Kind::NotFound, format!("source `{name}` is disabled: it takes nothing")))
}

fn several(some: &[&Source], all: usize) -> CliError {
    let names: Vec<String> =
        some.iter().map(|source| format!("`{}`", sanitize::line(&source.name))).collect();
    let scheme = some.first().map(|source| sanitize::line(&source.scheme)).unwrap_or_default();
    let more = if all > some.len() { " and others" } else { "" };
    CliError::usage(format!("several sources are signed by {scheme}: {}{more}", names.join(", ")))
        .hint("say which: --source NAME")
}

/// On somebody's relay nothing is made behind their back.
fn none(provider: Provider) -> CliError {
    let (name, scheme) = (provider.name, provider.scheme());
    let variable = format!("{}_WEBHOOK_SECRET", name.to_ascii_uppercase());
    CliError::new(Kind::NotFound, format!("no source of this relay is signed by {scheme}"))
        .hint(format!("add one: pullhook sources add {name} --scheme {scheme} --secret-env {variable}"))
}

/// A source of the provider's name, or of the next name that is free.
async fn make(
    client: &Client,
    dice: &dyn Dice,
    provider: Provider,
    all: &[Source],
) -> crate::client::Result<Source> {
    let free = |name: &String| all.iter().all(|source| source.name != *name);
    let numbered = (2..).map(|number| format!("{}-{number}", provider.name));
    let mut names = std::iter::once(provider.name.to_owned()).chain(numbered);
    let name = names.find(free).unwrap_or_else(|| provider.name.to_owned());
    let secret = standard::mint(dice);
    let source = CreateSource {
        name,
        scheme: provider.scheme().name().to_owned(),
        secrets: vec![secret.expose().to_owned()],
        ..CreateSource::default()
    };
    client.create_source(&source).await
}
