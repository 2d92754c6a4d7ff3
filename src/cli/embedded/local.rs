//! The client of local administration: what commands ask of whoever hosts the relay.

use reqwest::Method;
use serde_json::json;

use super::admin::{HostInfo, KeyQuery, NewKey, ProjectAccess};
use super::home::Home;
use crate::cli::error::CliError;
use crate::cli::project::Project;
use crate::client::Client;
use crate::http::relay_client;
use crate::protocol::keys::ApiKey;
use crate::protocol::{Deleted, List};
use crate::relay::ProjectRef;
use crate::secret::Secret;

/// Local administration of the running relay.
#[derive(Clone, Debug)]
pub struct Local {
    client: Client,
    home: Home,
}

impl Local {
    pub(super) fn new(client: Client, home: Home) -> Self {
        Self { client, home }
    }

    /// Where the relay is.
    pub fn url(&self) -> &url::Url {
        self.client.url()
    }

    /// Whether it answers, and is what it should be: every connection has to prove that.
    pub async fn check(&self) -> Result<HostInfo, CliError> {
        Ok(self.client.get("local/host", &()).await?)
    }

    /// A client of the project's environment, made on first use, and the key that it uses.
    pub async fn project(&self, project: &ProjectRef) -> Result<(Client, Secret), CliError> {
        let access: ProjectAccess = self.client.send(Method::POST, "local/environment", project).await?;
        let key = Secret::new(access.key);
        let http = relay_client(self.url(), &self.home.http_settings());
        let http = http.map_err(|error| CliError::internal(error.to_string()))?;
        Ok((Client::new(http, self.url().clone(), key.clone()), key))
    }

    /// Projects that somebody listens to now.
    pub async fn listening_projects(&self) -> Result<Vec<ProjectRef>, CliError> {
        let list: List<ProjectRef> = self.client.get("local/projects", &()).await?;
        Ok(list.data)
    }

    /// Makes a key.
    pub async fn create_key(&self, new: &NewKey) -> Result<ApiKey, CliError> {
        Ok(self.client.send(Method::POST, "local/keys", new).await?)
    }

    /// Keys, oldest first.
    pub async fn keys(&self, environment: Option<String>) -> Result<Vec<ApiKey>, CliError> {
        let list: List<ApiKey> = self.client.get("local/keys", &KeyQuery { environment }).await?;
        Ok(list.data)
    }

    /// Revokes a key.
    pub async fn revoke_key(&self, id: &str) -> Result<Deleted, CliError> {
        let path = format!("local/keys/{}", crate::client::segment(id));
        Ok(self.client.send(Method::DELETE, &path, &json!({})).await?)
    }

    /// Asks the host to let the store go.
    pub async fn hand_over(&self) -> Result<HostInfo, CliError> {
        Ok(self.client.send(Method::POST, "local/handover", &json!({})).await?)
    }
}

impl From<&Project> for ProjectRef {
    fn from(project: &Project) -> Self {
        Self { root: project.root.to_string_lossy().into_owned(), name: project.name() }
    }
}
