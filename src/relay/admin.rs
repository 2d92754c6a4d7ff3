//! Local administration: environments and keys. There is no HTTP here: whoever may open the store may do this.

use std::sync::Arc;

use super::{Shared, SourceConfig, auth};
use crate::id::Kind;
use crate::protocol::keys::ApiKey;
use crate::secret::Secret;
use crate::store::environments::Environment;
use crate::store::{Durability, StoreError, environments, keys};

/// Local administration of one relay.
#[derive(Clone, Debug)]
pub struct Admin(Arc<Shared>);

/// A project on this machine: what an embedded relay keeps apart.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ProjectRef {
    /// Its folder, absolute.
    pub root: String,
    /// For people: the folder's name.
    pub name: String,
}

/// The slug where a name holds nothing that a slug may hold.
const DEFAULT_ENVIRONMENT: &str = "default";

impl Admin {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// The environment of a project, made on first use.
    pub async fn environment(&self, project: &ProjectRef) -> Result<Environment, StoreError> {
        let new = self.fresh(&project.name, &slug(&project.name), Some(project.root.clone()));
        let root = project.root.clone();
        let suffix = self.suffix();
        let work = move |tx: &mut dyn crate::store::tx::Tx| {
            if let Some(found) = environments::by_project(tx, &root)? {
                return Ok(found);
            }
            let mut new = new.clone();
            if !environments::insert(tx, &new)? {
                new.slug = format!("{}-{suffix}", new.slug);
                environments::insert(tx, &new)?;
            }
            let found = environments::by_project(tx, &root)?;
            found.ok_or_else(|| StoreError::Corrupt("an environment could not be made".into()))
        };
        self.0.store.write(Durability::Promised, work).await
    }

    /// The environment with this slug, made on first use.
    pub async fn named_environment(&self, name: &str) -> Result<Environment, StoreError> {
        let new = self.fresh(name, &slug(name), None);
        let work = move |tx: &mut dyn crate::store::tx::Tx| {
            environments::insert(tx, &new)?;
            let found = environments::by_slug(tx, &new.slug)?;
            found.ok_or_else(|| StoreError::Corrupt("an environment could not be made".into()))
        };
        self.0.store.write(Durability::Promised, work).await
    }

    /// All environments, oldest first.
    pub async fn environments(&self) -> Result<Vec<Environment>, StoreError> {
        self.0.store.read(environments::list).await
    }

    /// Projects that somebody listens to now.
    pub async fn projects_with_listeners(&self) -> Result<Vec<ProjectRef>, StoreError> {
        let now = self.0.clock.now();
        let open = self.0.store.read(move |tx| environments::with_open_listeners(tx, now)).await?;
        let project = |e: Environment| e.project.map(|root| ProjectRef { root, name: e.name });
        Ok(open.into_iter().filter_map(project).collect())
    }

    /// The key by which this machine's own clients use an environment; `None` without a local master.
    pub fn local_key(&self, environment_id: &str) -> Option<Secret> {
        self.0.local_master.as_ref().map(|master| auth::local_key(master, environment_id))
    }

    /// Makes a key; the answer is the only one that shows it. Without permissions it is a full one.
    pub async fn create_key(
        &self,
        environment: &Environment,
        name: &str,
        permissions: &[String],
    ) -> Result<ApiKey, StoreError> {
        let key = auth::mint(&*self.0.dice);
        let row = keys::Key {
            id: self.0.ids.make(Kind::Key),
            environment_id: environment.id.clone(),
            name: name.to_owned(),
            start: auth::start(&key),
            hash: auth::hash(&key),
            access: if permissions.is_empty() { "full" } else { "restricted" }.to_owned(),
            permissions: permissions.join(" "),
            created_at: self.0.clock.now(),
            last_used_at: None,
            revoked_at: None,
        };
        let stored = row.clone();
        self.0.store.write(Durability::Promised, move |tx| keys::insert(tx, &stored)).await?;
        Ok(ApiKey { key: Some(key.expose().to_owned()), ..shown(row, environment.slug.clone()) })
    }

    /// All keys, or those of the environment with this slug, oldest first.
    pub async fn list_keys(&self, environment: Option<&str>) -> Result<Vec<ApiKey>, StoreError> {
        let slug = environment.map(str::to_owned);
        let rows = self.0.store.read(move |tx| {
            let environments = environments::list(tx)?;
            let mut rows = Vec::new();
            for key in keys::list(tx, None)? {
                if let Some(of) = environments.iter().find(|e| e.id == key.environment_id)
                    && slug.as_ref().is_none_or(|slug| *slug == of.slug)
                {
                    rows.push((key, of.slug.clone()));
                }
            }
            Ok(rows)
        });
        Ok(rows.await?.into_iter().map(|(key, slug)| shown(key, slug)).collect())
    }

    /// Revokes a key at once, everywhere; whether there was one to revoke.
    pub async fn revoke_key(&self, id: &str) -> Result<bool, StoreError> {
        let (id, now) = (id.to_owned(), self.0.clock.now());
        self.0.store.write(Durability::Promised, move |tx| keys::revoke(tx, &id, now)).await
    }

    /// Makes the sources that a configuration file names what it says; every refusal, by name.
    pub async fn configure_sources(
        &self,
        environment: &Environment,
        configs: &[SourceConfig],
    ) -> Vec<String> {
        let mut refusals = Vec::new();
        for config in configs {
            if let Err(failure) = self.0.configure_source(&environment.id, config).await {
                refusals.push(format!("source `{}`: {}", config.name, failure.message()));
            }
        }
        refusals
    }

    fn fresh(&self, name: &str, slug: &str, project: Option<String>) -> Environment {
        Environment {
            id: self.0.ids.make(Kind::Environment),
            name: name.to_owned(),
            slug: slug.to_owned(),
            mode: "sandbox".to_owned(),
            project,
            created_at: self.0.clock.now(),
        }
    }

    fn suffix(&self) -> String {
        self.0.ids.token().chars().take(4).collect()
    }
}

/// Lower-case letters, digits and dashes; never empty.
pub(super) fn slug(name: &str) -> String {
    let dashed: String =
        name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let parts: Vec<&str> = dashed.split('-').filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { DEFAULT_ENVIRONMENT.to_owned() } else { parts.join("-") }
}

fn shown(key: keys::Key, environment: String) -> ApiKey {
    ApiKey {
        object: "api_key".to_owned(),
        id: key.id,
        key: None,
        name: key.name,
        start: key.start,
        environment,
        access: key.access,
        permissions: key.permissions.split_whitespace().map(str::to_owned).collect(),
        created_at: key.created_at,
        last_used_at: key.last_used_at,
        revoked_at: key.revoked_at,
    }
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn slugs() {
        assert_eq!(slug("My Shop (v2)"), "my-shop-v2");
        assert_eq!(slug("Ünïcode"), "n-code");
        assert_eq!(slug("!!"), "default");
    }
}
