//! The right relay for a command: a served one with its key, else the embedded one with the project's.

use url::Url;

use crate::cli::choice::{self, Scope};
use crate::cli::config::{Served, Settings};
use crate::cli::context::Context;
use crate::cli::embedded::home::{Attached, Home};
use crate::cli::embedded::lock::Visit;
use crate::cli::embedded::{Host, Local};
use crate::cli::error::CliError;
use crate::client::Client;
use crate::http::relay_client;
use crate::relay::ProjectRef;
use crate::secret::Secret;

/// A client of the right relay. [`Connected::close`] it at the end: this process may be the host.
#[derive(Debug)]
pub struct Connected {
    /// The client.
    pub client: Client,
    /// The key that it uses.
    pub key: Secret,
    /// The embedded relay, when it is that.
    pub embedded: Option<EmbeddedRelay>,
}

/// An embedded relay that a command came to.
#[derive(Debug)]
pub struct EmbeddedRelay {
    /// Its directory.
    pub home: Home,
    /// Local administration.
    pub local: Local,
    /// The project whose environment is used.
    pub project: ProjectRef,
    /// The host, when it is this process.
    pub host: Option<Host>,
    /// Held by commands that end soon.
    visit: Option<Visit>,
}

/// How long a command stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// It ends soon: the host, whoever it is, stays until it has.
    Short,
    /// Nobody waits for it: it copes when the host goes.
    Long,
}

impl Connected {
    /// Lets the relay go, in order, when this process hosts it.
    pub async fn close(self) {
        if let Some(EmbeddedRelay { local, host, visit, .. }) = self.embedded {
            Attached { local, host, visit }.end().await;
        }
    }
}

impl Context {
    /// A client of the relay that flags, environment and profile name, else of the embedded one, which this process
    /// hosts when nobody does. `who` is the command's name.
    pub async fn connect(
        &self,
        settings: &Settings,
        scope: Scope<'_>,
        stay: Stay,
        who: &'static str,
    ) -> Result<Connected, CliError> {
        for warning in settings.warnings() {
            self.printer.warn(&warning);
        }
        match settings.served()? {
            Some(served) => self.connect_served(&served),
            None => self.connect_embedded(settings, scope, stay, who).await,
        }
    }

    /// A client of a relay that somebody serves.
    pub fn connect_served(&self, served: &Served) -> Result<Connected, CliError> {
        let (url, key) = (served.url.value.clone(), served.key.value.clone());
        let client = Client::new(self.http_client(&url)?, url, key.clone());
        Ok(Connected { client, key, embedded: None })
    }

    /// An HTTP client for the relay at this URL.
    pub fn http_client(&self, url: &Url) -> Result<reqwest::Client, CliError> {
        relay_client(url, &self.env.relay_settings()).map_err(|error| CliError::usage(error.to_string()))
    }

    async fn connect_embedded(
        &self,
        settings: &Settings,
        scope: Scope<'_>,
        stay: Stay,
        who: &'static str,
    ) -> Result<Connected, CliError> {
        let home = Home::of_person(self, settings)?;
        let attached = match stay {
            Stay::Short => home.visit(who).await?,
            Stay::Long => home.attach(who).await?,
        };
        let access = async {
            let project = choice::project(self, settings, scope, &attached.local).await?;
            let (client, key) = attached.local.project(&project).await?;
            Ok((project, client, key))
        };
        match access.await {
            Ok((project, client, key)) => {
                let Attached { local, host, visit } = attached;
                let embedded = EmbeddedRelay { home, local, project, host, visit };
                Ok(Connected { client, key, embedded: Some(embedded) })
            }
            Err(error) => {
                attached.end().await;
                Err(error)
            }
        }
    }
}
