//! A PostgreSQL store that `--store` names: shared by relays, so no lock and no host; notifications tell them all.

use std::path::Path;
use std::sync::Arc;

use crate::cli::context::Context;
use crate::cli::env::SECRETS_KEY;
use crate::cli::error::CliError;
use crate::relay::{KeyRing, Relay, Settings};
use crate::secret::Secret;
use crate::store::StoreUrl;

/// Reads `--store`.
pub(super) fn parse(text: &str) -> Result<StoreUrl, CliError> {
    StoreUrl::parse(text).map_err(|error| CliError::usage(format!("{error} (--store)")))
}

/// Who only looks at a store, or takes from it, would make an empty one of a mistyped path.
pub(super) fn must_exist(path: &Path) -> Result<(), CliError> {
    if path.exists() {
        return Ok(());
    }
    Err(CliError::usage(format!("there is no store at {} (--store)", path.display()))
        .hint("`pullhook serve --store` or `pullhook keys create --store` makes one"))
}

/// The relay on a shared store, not served; the environment brings the keys that seal its secrets.
pub(super) async fn open_shared(
    context: &Context,
    address: Secret,
    settings: Settings,
) -> Result<Relay, CliError> {
    let text = context.env.text(SECRETS_KEY).map_err(|error| CliError::usage(error.to_string()))?;
    let text = text.ok_or_else(|| {
        CliError::usage(format!("a PostgreSQL store needs {SECRETS_KEY}: the keys that seal its secrets"))
            .hint(format!("make one with `openssl rand -base64 32`, and keep it: {SECRETS_KEY}=..."))
    })?;
    let ring = KeyRing::parse(&Secret::new(text));
    let ring = ring.map_err(|error| CliError::usage(format!("{error} ({SECRETS_KEY})")))?;
    let builder = Relay::builder(StoreUrl::Postgres(address)).settings(settings).key_ring(ring);
    let builder = builder.clock(Arc::clone(&context.clock)).dice(Arc::clone(&context.dice));
    Ok(builder.build().await?)
}
