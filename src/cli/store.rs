//! A store that `--store` names, opened without serving it: the relay's own embedded one needs none of this.

use std::path::Path;

use crate::cli::context::Context;
use crate::cli::embedded::home::keep;
use crate::cli::env::SECRETS_KEY;
use crate::cli::error::CliError;
use crate::cli::os;
use crate::relay::{KeyRing, Relay, Settings};
use crate::secret::Secret;
use crate::store::StoreUrl;

/// Reads `--store`.
pub(super) fn parse(text: &str) -> Result<StoreUrl, CliError> {
    StoreUrl::parse(text).map_err(|error| CliError::usage(format!("{error} (--store)")))
}

/// The keys that seal this store's secrets: the environment's, else (SQLite) those beside the file, made on first use.
pub(super) fn ring(context: &Context, url: &StoreUrl) -> Result<KeyRing, CliError> {
    let given = context.env.text(SECRETS_KEY).map_err(|error| CliError::usage(error.to_string()))?;
    let (text, whence) = match (given, url) {
        (Some(text), _) => (Secret::new(text), SECRETS_KEY.to_owned()),
        (None, StoreUrl::Sqlite(path)) => (beside(context, path)?, format!("{}.key", path.display())),
        (None, StoreUrl::Postgres(_)) => {
            return Err(CliError::usage(format!(
                "a PostgreSQL store needs {SECRETS_KEY}: the keys that seal its secrets"
            ))
            .hint(format!("make one with `openssl rand -base64 32`, and keep it: {SECRETS_KEY}=...")));
        }
    };
    KeyRing::parse(&text).map_err(|error| CliError::usage(format!("{error} ({whence})")))
}

fn beside(context: &Context, store: &Path) -> Result<Secret, CliError> {
    let mut path = store.as_os_str().to_owned();
    path.push(".key");
    keep(Path::new(&path), || KeyRing::mint(&*context.dice), &*context.dice).map_err(|error| {
        CliError::usage(format!("can't keep the store's keys in {}: {error}", Path::new(&path).display()))
    })
}

/// The relay on this store, not served.
pub(super) async fn open(context: &Context, url: &StoreUrl, settings: Settings) -> Result<Relay, CliError> {
    if let StoreUrl::Sqlite(path) = url {
        check_folder(path)?;
    }
    let builder = Relay::builder(url.clone()).settings(settings).key_ring(ring(context, url)?);
    let builder =
        builder.clock(std::sync::Arc::clone(&context.clock)).dice(std::sync::Arc::clone(&context.dice));
    Ok(builder.build().await?)
}

/// Whoever may write into the folder could put another store there.
fn check_folder(store: &Path) -> Result<(), CliError> {
    let folder = store.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let shown = folder.display();
    match os::is_writable_by_others(folder) {
        Ok(false) => Ok(()),
        Ok(true) => {
            Err(CliError::usage(format!("others may write into {shown}, where the store is (--store)"))
                .hint(format!("`chmod go-w {shown}`, or keep the store in a folder of its own")))
        }
        Err(error) => Err(CliError::usage(format!("can't use {shown}: {error} (--store)"))),
    }
}
