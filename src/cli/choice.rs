//! Which project a command is about on an embedded relay: its own, else the one that somebody listens to.

use crate::cli::config::Settings;
use crate::cli::context::Context;
use crate::cli::embedded::Local;
use crate::cli::error::{CliError, Kind};
use crate::client::Client;
use crate::relay::ProjectRef;

/// Whose events a command is about, on an embedded relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// This project's.
    Here,
    /// This project's, else those of the one project that somebody listens to: a second terminal, opened elsewhere.
    WhereListened,
    /// The same for a command about these events: this project's when it knows one of them.
    WhereKnown(&'a [String]),
}

/// What a command finds that was started in a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// It has a listener, sources or the named events itself, or nobody else is listened to.
    Own,
    /// Another one is listened to.
    Other(ProjectRef),
    /// Several others are.
    Several(Vec<ProjectRef>),
}

/// Looks.
pub(super) async fn look(
    context: &Context,
    own: &ProjectRef,
    scope: Scope<'_>,
    local: &Local,
) -> Result<Choice, CliError> {
    // Who names a folder means it.
    if scope == Scope::Here || context.globals.project.is_some() {
        return Ok(Choice::Own);
    }
    let mut listening = local.listening_projects().await?;
    if listening.is_empty() || listening.contains(own) {
        return Ok(Choice::Own);
    }
    let (client, _) = local.project(own).await?;
    if !client.all_sources().await?.is_empty() || knows(&client, scope).await? {
        return Ok(Choice::Own);
    }
    Ok(if listening.len() == 1 { Choice::Other(listening.remove(0)) } else { Choice::Several(listening) })
}

async fn knows(client: &Client, scope: Scope<'_>) -> Result<bool, CliError> {
    let Scope::WhereKnown(ids) = scope else { return Ok(false) };
    for id in ids {
        match client.event(id).await.map_err(CliError::from) {
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == Kind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// The project whose environment is meant; that it is another one is said however quiet the command is.
pub(super) async fn project(
    context: &Context,
    settings: &Settings,
    scope: Scope<'_>,
    local: &Local,
) -> Result<ProjectRef, CliError> {
    let own = ProjectRef::from(&settings.project);
    match look(context, &own, scope, local).await? {
        Choice::Own => Ok(own),
        Choice::Other(other) => {
            context.printer.warn(&using(&own, &other));
            Ok(other)
        }
        Choice::Several(others) => {
            Err(CliError::usage(several(&own)).hint(format!("say which: {}", names(&others))))
        }
    }
}

/// That another project is used.
pub(super) fn using(own: &ProjectRef, other: &ProjectRef) -> String {
    format!(
        "nobody listens in {}: using the project that is listened to, {} (--project . stays here)",
        own.root, other.root
    )
}

/// That it can't be told which.
pub(super) fn several(own: &ProjectRef) -> String {
    format!("nobody listens in {}, and several projects are listened to", own.root)
}

/// How to say which.
pub(super) fn names(projects: &[ProjectRef]) -> String {
    let roots: Vec<String> = projects.iter().map(|project| format!("--project {}", project.root)).collect();
    roots.join(", or ")
}
