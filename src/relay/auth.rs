//! Who asks: a bearer key decides the environment, and what may be done there.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::Shared;
use super::api::error::Failure;
use crate::clock::{Dice, Timestamp};
use crate::protocol::error::Code;
use crate::secret::Secret;
use crate::store::environments::Environment;
use crate::store::{Durability, StoreError, environments, keys};
use crate::wake::{Topic, Waiter};

const PREFIX: &str = "phk_";
const LOCAL_PREFIX: &str = "phk_local_";
/// What stands for the id of a local key, which is no row.
const LOCAL_ID_PREFIX: &str = "key_local_";
/// How fine `last_used_at` is.
const TOUCH_EVERY_MS: i64 = 60_000;

/// What a valid key opens.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// The one environment.
    pub(crate) environment: Environment,
    /// The key, without its secret.
    pub(crate) key_id: String,
    /// What it is for.
    pub(crate) key_name: String,
    /// Its first characters.
    pub(crate) key_start: String,
    /// `full` or `restricted`.
    pub(crate) access: String,
    /// `resource:action`.
    pub(crate) permissions: Vec<String>,
}

impl Access {
    /// Fails unless the key may do this.
    pub(crate) fn need(&self, permission: &str) -> Result<(), Failure> {
        if self.access == "full" || self.permissions.iter().any(|have| have == permission) {
            return Ok(());
        }
        let text =
            format!("this key lacks the permission `{permission}`; use a key that has it, or a full one");
        Err(Failure::new(Code::Forbidden, text))
    }
}

/// A fresh key: 256 random bits.
pub(crate) fn mint(dice: &dyn Dice) -> Secret {
    let mut bytes = [0; 32];
    dice.fill(&mut bytes);
    Secret::new(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// As a key is kept.
pub(crate) fn hash(key: &Secret) -> Vec<u8> {
    Sha256::digest(key.expose().as_bytes()).to_vec()
}

/// Its first characters, to tell keys apart.
pub(crate) fn start(key: &Secret) -> String {
    key.expose().chars().take(PREFIX.len() + 6).collect()
}

/// The key by which this machine's own clients use an environment: made from the master, kept nowhere.
pub fn local_key(master: &Secret, environment_id: &str) -> Secret {
    Secret::new(format!("{LOCAL_PREFIX}{environment_id}_{}", local_proof(master, environment_id)))
}

fn local_proof(master: &Secret, environment_id: &str) -> String {
    // HMAC takes a key of any length.
    let mut mac =
        <Hmac<Sha256> as KeyInit>::new_from_slice(master.expose().as_bytes()).expect("any key length");
    mac.update(b"environment:");
    mac.update(environment_id.as_bytes());
    URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
}

impl Shared {
    /// The access that an `Authorization` header gives.
    pub(crate) async fn access(&self, header: Option<&str>) -> Result<Arc<Access>, Failure> {
        let Some(header) = header else {
            return Err(unauthorized("no key was sent"));
        };
        let (scheme, key) = header.split_once(' ').unwrap_or((header, ""));
        if !scheme.eq_ignore_ascii_case("bearer") || key.trim().is_empty() {
            return Err(unauthorized("the Authorization header is not `Bearer <key>`"));
        }
        let key = Secret::new(key.trim());
        let hash = hash(&key);
        let access = match self.keys.get(&hash) {
            Ok(access) => access,
            Err(generation) => {
                let found = self.look_up(&key, &hash).await?;
                let access =
                    found.map(Arc::new).ok_or_else(|| unauthorized("this key is unknown or revoked"))?;
                self.keys.put(generation, hash, Arc::clone(&access));
                access
            }
        };
        self.touch(&access.key_id);
        Ok(access)
    }

    /// For a request that waits: told whenever a key may have been revoked. [`Shared::check_key`] says whether it was.
    pub(crate) fn watch_keys(&self) -> Waiter {
        self.store.wake().subscribe(Topic::Sources)
    }

    /// Fails once the key was revoked.
    pub(crate) async fn check_key(&self, access: &Access) -> Result<(), Failure> {
        if access.key_id.starts_with(LOCAL_ID_PREFIX) {
            return Ok(());
        }
        let id = access.key_id.clone();
        match self.store.read(move |tx| keys::is_valid(tx, &id)).await? {
            true => Ok(()),
            false => Err(unauthorized("this key was revoked")),
        }
    }

    async fn look_up(&self, key: &Secret, hash: &[u8]) -> Result<Option<Access>, StoreError> {
        if let Some(rest) = key.expose().strip_prefix(LOCAL_PREFIX) {
            return self.look_up_local(rest).await;
        }
        let hash = hash.to_vec();
        self.store
            .read(move |tx| {
                let Some(key) = keys::by_hash(tx, &hash)? else { return Ok(None) };
                // Compared once more in constant time: an index lookup is not.
                if !bool::from(key.hash.ct_eq(&hash)) {
                    return Ok(None);
                }
                let environment = environments::by_id(tx, &key.environment_id)?;
                Ok(environment.map(|environment| access_of(key, environment)))
            })
            .await
    }

    async fn look_up_local(&self, rest: &str) -> Result<Option<Access>, StoreError> {
        // An environment id holds one underscore, the proof may hold more.
        let Some((environment_id, proof)) = rest.match_indices('_').nth(1).map(|(at, _)| rest.split_at(at))
        else {
            return Ok(None);
        };
        let Some(master) = &self.local_master else { return Ok(None) };
        let wanted = local_proof(master, environment_id);
        if !bool::from(wanted.as_bytes().ct_eq(&proof.as_bytes()[1..])) {
            return Ok(None);
        }
        let id = environment_id.to_owned();
        let environment = self.store.read(move |tx| environments::by_id(tx, &id)).await?;
        Ok(environment.map(|environment| Access {
            key_id: format!("{LOCAL_ID_PREFIX}{}", environment.slug),
            key_name: "this machine".to_owned(),
            key_start: LOCAL_PREFIX.to_owned(),
            access: "full".to_owned(),
            permissions: Vec::new(),
            environment,
        }))
    }

    /// Notes that a key is in use, at most once a minute; nobody waits for that.
    fn touch(&self, key_id: &str) {
        let now = self.clock.now();
        if key_id.starts_with(LOCAL_ID_PREFIX) || !self.touched.is_due(key_id, now) {
            return;
        }
        let (store, id) = (self.store.clone(), key_id.to_owned());
        tokio::spawn(async move {
            if let Err(error) = store.write(Durability::Relaxed, move |tx| keys::touch(tx, &id, now)).await {
                tracing::debug!(%error, "last_used_at was not noted");
            }
        });
    }
}

fn access_of(key: keys::Key, environment: Environment) -> Access {
    Access {
        environment,
        key_id: key.id,
        key_name: key.name,
        key_start: key.start,
        access: key.access,
        permissions: key.permissions.split_whitespace().map(str::to_owned).collect(),
    }
}

fn unauthorized(what: &str) -> Failure {
    Failure::new(Code::Unauthorized, format!("{what}; send `Authorization: Bearer <key>` with a valid key"))
        .hint("make one with `pullhook keys create` where the relay runs")
}

/// When each key was last noted as used.
#[derive(Debug, Default)]
pub(super) struct Touched(std::sync::Mutex<std::collections::HashMap<String, Timestamp>>);

impl Touched {
    fn is_due(&self, key_id: &str, now: Timestamp) -> bool {
        let mut noted = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match noted.get(key_id) {
            Some(last) if now.millis() - last.millis() < TOUCH_EVERY_MS => false,
            _ => {
                noted.insert(key_id.to_owned(), now);
                true
            }
        }
    }
}
