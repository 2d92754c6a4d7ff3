//! `pullhook keys`: local administration of API keys, on a running relay at once.

use clap::{Args, Subcommand};

use crate::cli::args::Format;
use crate::cli::context::Context;
use crate::cli::embedded::Home;
use crate::cli::embedded::admin::{NewKey, make_key};
use crate::cli::error::{CliError, Kind};
use crate::cli::exit::Exit;
use crate::cli::output::{sanitize, table};
use crate::cli::store;
use crate::protocol::Deleted;
use crate::protocol::keys::ApiKey;
use crate::relay::Settings;
use crate::secret::Secret;
use crate::store::StoreUrl;

/// `keys`.
#[derive(Args, Debug)]
pub struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
    /// The store to work on, instead of this machine's own: sqlite:PATH or postgres://...
    #[arg(long, value_name = "STORE", global = true)]
    store: Option<String>,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Make a key and print it, once
    Create {
        /// What it is for
        #[arg(long, default_value = "key")]
        name: String,
        /// The environment it opens, made on first use
        #[arg(long, value_name = "SLUG", default_value = "default")]
        env: String,
    },
    /// List keys
    List {
        /// Only of this environment
        #[arg(long, value_name = "SLUG")]
        env: Option<String>,
    },
    /// Revoke a key, at once
    Revoke {
        /// The key's id
        id: String,
    },
}

/// What came of it.
enum Done {
    Created(ApiKey),
    Listed(Vec<ApiKey>),
    Revoked(Deleted),
}

/// Makes, lists or revokes keys.
pub(super) fn run(context: &Context, args: &KeysArgs) -> Result<Exit, CliError> {
    let format = context.format()?;
    if context.globals.api_url.is_some() {
        return Err(CliError::usage("keys are made on the relay's own machine, never over its API")
            .hint("run this there, without --api-url"));
    }
    let settings = context.settings()?;
    let done = context.block_on(async {
        let home = match args.store.as_deref().map(store::parse).transpose()? {
            Some(StoreUrl::Postgres(address)) => return in_shared(context, address, &args.command).await,
            Some(StoreUrl::Sqlite(path)) => {
                if !matches!(args.command, KeysCommand::Create { .. }) {
                    store::must_exist(&path)?;
                }
                Home::of_store(context, &settings, &path)?
            }
            None => Home::of_person(context, &settings)?,
        };
        at(&home, &args.command).await
    })?;
    match format {
        Format::Json => print_json(context, &done)?,
        _ => print(context, &done)?,
    }
    Ok(Exit::Done)
}

/// On a shared store: whoever may open it may do this; relays that serve it are told.
async fn in_shared(context: &Context, address: Secret, command: &KeysCommand) -> Result<Done, CliError> {
    // Keys have nothing to do with where the relay is bound.
    let settings = Settings { allow_unsigned: true, ..Settings::default() };
    let admin = store::open_shared(context, address, settings).await?.admin();
    Ok(match command {
        KeysCommand::Create { name, env } => Done::Created(make_key(&admin, &new_key(name, env)?).await?),
        KeysCommand::List { env } => Done::Listed(admin.list_keys(env.as_deref()).await?),
        KeysCommand::Revoke { id } => match admin.revoke_key(id).await? {
            true => Done::Revoked(Deleted { object: "api_key".to_owned(), id: id.clone(), deleted: true }),
            false => return Err(CliError::new(Kind::NotFound, "no such key, or it is revoked already")),
        },
    })
}

/// On a relay of this machine: through whoever hosts it, else in this process.
async fn at(home: &Home, command: &KeysCommand) -> Result<Done, CliError> {
    let attached = home.visit("keys").await?;
    let local = &attached.local;
    let done = async {
        Ok(match command {
            KeysCommand::Create { name, env } => Done::Created(local.create_key(&new_key(name, env)?).await?),
            KeysCommand::List { env } => Done::Listed(local.keys(env.clone()).await?),
            KeysCommand::Revoke { id } => Done::Revoked(local.revoke_key(id).await?),
        })
    };
    let done = done.await;
    attached.end().await;
    done
}

fn new_key(name: &str, environment: &str) -> Result<NewKey, CliError> {
    let name = name.trim();
    if name.is_empty() || name.chars().count() > 100 || name.contains(char::is_control) {
        return Err(CliError::usage("a key's name has 1 to 100 characters (--name)"));
    }
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if environment.is_empty() || environment.len() > 64 || !environment.chars().all(fits) {
        return Err(CliError::usage(format!(
            "{environment:?} is no environment: lower-case letters, digits and dashes (--env)"
        )));
    }
    Ok(NewKey { name: name.to_owned(), environment: environment.to_owned() })
}

fn print(context: &Context, done: &Done) -> Result<(), CliError> {
    match done {
        Done::Created(key) => {
            context.printer.line(key.key.as_deref().unwrap_or_default())?;
            context.printer.note(&format!(
                "{} opens the environment `{}`; it is not shown again",
                key.id, key.environment
            ));
        }
        Done::Listed(keys) => {
            let rows: Vec<_> = keys.iter().map(row).collect();
            let lines = table::lines(
                &["ID", "NAME", "STARTS", "ENVIRONMENT", "ACCESS", "CREATED", "LAST USED"],
                &rows,
            );
            lines.iter().try_for_each(|line| context.printer.line(line))?;
        }
        Done::Revoked(key) => context.printer.line(&format!("revoked {}", sanitize::line(&key.id)))?,
    }
    Ok(())
}

fn row(key: &ApiKey) -> Vec<String> {
    let used = key.last_used_at.map_or_else(|| "never".to_owned(), |at| at.local());
    let used = if key.revoked_at.is_some() { "revoked".to_owned() } else { used };
    let texts = [&key.id, &key.name, &key.start, &key.environment, &key.access];
    let mut cells: Vec<String> = texts.map(|text| sanitize::line(text).into_owned()).into();
    cells.extend([key.created_at.local(), used]);
    cells
}

fn print_json(context: &Context, done: &Done) -> Result<(), CliError> {
    match done {
        Done::Created(key) => context.printer.json(key),
        Done::Listed(keys) => keys.iter().try_for_each(|key| context.printer.json(key)),
        Done::Revoked(deleted) => context.printer.json(deleted),
    }
}
