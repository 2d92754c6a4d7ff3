//! `pullhook sources`: who may send here.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, json};

use crate::cli::args::Format;
use crate::cli::choice::Scope;
use crate::cli::connect::Stay;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::{sanitize, table};
use crate::cli::secret;
use crate::client::{Client, ClientError};
use crate::protocol::Deleted;
use crate::protocol::error::Code;
use crate::protocol::sources::{CreateSource, Source};
use crate::secret::Secret;
use crate::signature::{Key, Scheme};

/// `sources`.
#[derive(Args, Debug)]
pub struct SourcesArgs {
    #[command(subcommand)]
    command: SourcesCommand,
}

#[derive(Debug, Subcommand)]
enum SourcesCommand {
    /// Add a source and print where its provider posts to
    Add {
        /// Its name: lower-case letters, digits, `-` and `_`
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        name: String,
        /// How its webhooks are signed; `none` takes unsigned ones
        #[arg(long, value_name = "SCHEME")]
        scheme: String,
        #[command(flatten)]
        secrets: SecretArgs,
        /// What becomes of a repeat: marked and handed on, or only listed
        #[arg(long, value_name = "POLICY")]
        dedupe: Option<Dedupe>,
        /// The largest body that it takes
        #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
        max_body_bytes: Option<u64>,
        /// The address that the provider knows, for schemes that sign it
        #[arg(long, value_name = "URL")]
        public_url: Option<String>,
    },
    /// List the sources
    List,
    /// Show a source
    Show {
        /// Its name or id
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        name: String,
    },
    /// Remove a source; its events stay
    Remove {
        /// Its name or id
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        name: String,
    },
    /// Put a new secret in front; those before stay valid
    Rotate {
        /// Its name or id
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        name: String,
        #[command(flatten)]
        secrets: SecretArgs,
    },
}

/// Where secrets are read from; their values are never on the command line.
#[derive(Args, Debug)]
struct SecretArgs {
    /// The variable that holds the secret, as the provider shows it; repeatable, for rotation
    #[arg(long, value_name = "NAME")]
    secret_env: Vec<String>,
    /// The file that holds the secret; repeatable
    #[arg(long, value_name = "FILE")]
    secret_file: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Dedupe {
    /// Hand repeats on, marked.
    Mark,
    /// Only list repeats.
    Drop,
}

/// What came of it.
enum Done {
    One(Box<Source>),
    List(Vec<Source>),
    Removed(String, Deleted),
}

/// Adds, lists, shows, removes or rotates.
pub(super) fn run(context: &Context, args: &SourcesArgs) -> Result<Exit, CliError> {
    let format = context.format()?;
    let settings = context.settings()?;
    let (command, warnings) = read(context, &args.command)?;
    let scope = if matches!(command, Ask::Create(_)) { Scope::Here } else { Scope::WhereListened };
    let done = context.block_on(async {
        let connected = context.connect(&settings, scope, Stay::Short, "sources").await?;
        let done = ask(&connected.client, command).await;
        connected.close().await;
        done
    })?;
    warnings.iter().for_each(|warning| context.printer.warn(warning));
    match (format, done) {
        (Format::Json, Done::One(source)) => context.printer.json(&source)?,
        (Format::Json, Done::List(sources)) => {
            sources.iter().try_for_each(|source| context.printer.json(source))?;
        }
        (Format::Json, Done::Removed(_, deleted)) => context.printer.json(&deleted)?,
        (_, Done::One(source)) => details(&source).iter().try_for_each(|line| context.printer.line(line))?,
        (_, Done::List(sources)) => print_list(context, &sources)?,
        (_, Done::Removed(name, _)) => {
            context.printer.line(&format!("removed {}; its events stay", sanitize::line(&name)))?;
        }
    }
    Ok(Exit::Done)
}

/// What is asked of the relay, with secrets read and checked.
enum Ask {
    Create(CreateSource),
    List,
    Show(String),
    Remove(String),
    Rotate(String, Vec<Secret>),
}

/// What is asked, and what to say about it once it is done.
fn read(context: &Context, command: &SourcesCommand) -> Result<(Ask, Vec<String>), CliError> {
    let mut warnings = Vec::new();
    let ask = match command {
        SourcesCommand::Add { name, scheme, secrets, dedupe, max_body_bytes, public_url } => {
            let secrets = secrets.read(context)?;
            warnings = check(scheme, &secrets)?;
            Ask::Create(CreateSource {
                name: name.clone(),
                scheme: scheme.clone(),
                secrets: exposed(&secrets),
                dedupe: dedupe.map(|policy| match policy {
                    Dedupe::Mark => "mark".to_owned(),
                    Dedupe::Drop => "drop".to_owned(),
                }),
                dedupe_window_s: None,
                max_body_bytes: *max_body_bytes,
                public_url: public_url.clone(),
            })
        }
        SourcesCommand::List => Ask::List,
        SourcesCommand::Show { name } => Ask::Show(name.clone()),
        SourcesCommand::Remove { name } => Ask::Remove(name.clone()),
        SourcesCommand::Rotate { name, secrets } => {
            let secrets = secrets.read(context)?;
            if secrets.is_empty() {
                let error = CliError::usage("no new secret was given");
                return Err(error.hint("name its variable with --secret-env, or its file with --secret-file"));
            }
            Ask::Rotate(name.clone(), secrets)
        }
    };
    Ok((ask, warnings))
}

impl SecretArgs {
    fn read(&self, context: &Context) -> Result<Vec<Secret>, CliError> {
        let named = self.secret_env.iter().map(|name| secret::from_variable(context, name));
        named.chain(self.secret_file.iter().map(|path| secret::from_file(path))).collect()
    }
}

fn exposed(secrets: &[Secret]) -> Vec<String> {
    secrets.iter().map(|secret| secret.expose().to_owned()).collect()
}

/// Finds mistakes where they are made; what may not be meant comes back. A scheme that only the relay knows is left to
/// the relay.
fn check(scheme: &str, secrets: &[Secret]) -> Result<Vec<String>, CliError> {
    let Ok(scheme) = Scheme::parse(scheme) else { return Ok(Vec::new()) };
    if scheme.is_signed() && secrets.is_empty() {
        let error =
            CliError::usage(format!("scheme `{scheme}` needs a secret: without one nothing can be verified"));
        return Err(error.hint("name its variable with --secret-env, or its file with --secret-file"));
    }
    let mut warnings = Vec::new();
    for secret in secrets {
        let key = Key::new(scheme, secret).map_err(|error| CliError::usage(error.to_string()))?;
        warnings.extend(key.warnings().iter().map(ToString::to_string));
    }
    if !scheme.is_signed() {
        warnings.push("this source takes unsigned requests from anybody who can reach it".to_owned());
    }
    Ok(warnings)
}

async fn ask(client: &Client, ask: Ask) -> Result<Done, CliError> {
    Ok(match ask {
        Ask::Create(source) => {
            let created = client.create_source(&source).await;
            Done::One(Box::new(created.map_err(|refused| with_rotation(refused, &source.name))?))
        }
        Ask::List => Done::List(client.all_sources().await?),
        Ask::Show(name) => Done::One(Box::new(client.source(&name).await?)),
        Ask::Remove(name) => {
            let deleted = client.delete_source(&name).await?;
            Done::Removed(name, deleted)
        }
        Ask::Rotate(name, secrets) => {
            let fields = Map::from_iter([("secrets".to_owned(), json!(exposed(&secrets)))]);
            Done::One(Box::new(client.rotate_source(&name, &fields).await?))
        }
    })
}

/// Who adds a source a second time often has another secret for it.
fn with_rotation(refused: ClientError, name: &str) -> CliError {
    let taken = refused.code() == Some(Code::NameTaken);
    let error = CliError::from(refused);
    if taken {
        error.hint(format!("`pullhook sources rotate {name}` gives it another secret"))
    } else {
        error
    }
}

fn details(source: &Source) -> Vec<String> {
    let mut rows = vec![
        ("source", source.name.clone()),
        ("id", source.id.clone()),
        ("scheme", scheme_text(source)),
        ("secrets", source.secrets.to_string()),
        ("post to", source.ingress_url.clone()),
    ];
    rows.extend(source.public_url.clone().map(|url| ("public url", url)));
    rows.extend([
        ("repeats", if source.dedupe == "drop" { "only listed" } else { "handed on, marked" }.to_owned()),
        ("largest", format!("{} bytes", source.max_body_bytes)),
        ("enabled", if source.enabled { "yes" } else { "no" }.to_owned()),
    ]);
    rows.iter().map(|(name, value)| format!("{name:<12} {}", sanitize::line(value))).collect()
}

fn scheme_text(source: &Source) -> String {
    match source.scheme.as_str() {
        "none" => "none (unverified)".to_owned(),
        scheme => scheme.to_owned(),
    }
}

fn print_list(context: &Context, sources: &[Source]) -> Result<(), CliError> {
    if sources.is_empty() {
        context
            .printer
            .note("no source yet; add one: pullhook sources add NAME --scheme github --secret-env NAME");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = sources
        .iter()
        .map(|source| {
            vec![
                source.name.clone(),
                scheme_text(source),
                source.secrets.to_string(),
                source.ingress_url.clone(),
            ]
        })
        .collect();
    table::lines(&["NAME", "SCHEME", "SECRETS", "POST TO"], &rows)
        .iter()
        .try_for_each(|line| context.printer.line(line))
}
