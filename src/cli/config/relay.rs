//! Which relay the settings mean, and with which key.

use url::Url;

use super::{Origin, Setting, Settings, Value};
use crate::cli::env;
use crate::cli::error::CliError;
use crate::secret::Secret;
use crate::target::host_is_loopback;

/// A relay that somebody serves, and the key for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Its address.
    pub url: Setting<Url>,
    /// The key.
    pub key: Setting<Secret>,
}

impl Settings {
    /// The relay that flags, environment or profile name; `None` means the embedded one.
    pub fn served(&self) -> Result<Option<Served>, CliError> {
        let Some(text) = self.text("api_url") else {
            return Ok(None);
        };
        let url = parse_url(&text)?;
        let key = self.key_for(&url)?;
        Ok(Some(Served { url, key }))
    }

    /// A key from the environment goes where it was pointed; a profile's key goes to that profile's URL only.
    fn key_for(&self, url: &Setting<Url>) -> Result<Setting<Secret>, CliError> {
        let missing = || {
            CliError::usage(format!("no key for {} ({})", url.value, url.origin)).hint(format!(
                "set {} to a key of that relay (`pullhook keys create` on its machine makes one)",
                env::API_KEY
            ))
        };
        let Some(key) = self.secret("api_key") else {
            return Err(missing());
        };
        if key.value.is_blank() || !key.value.expose().bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(CliError::usage(format!(
                "the key is no key: a single word of ASCII letters ({})",
                key.origin
            )));
        }
        if let Origin::Profile(name, _) = &key.origin
            && let Some(theirs) = self.profile_url()
            && theirs != url.value
        {
            let hint = format!("the key of profile `{name}` goes to {theirs} only");
            return Err(missing().hint(hint));
        }
        Ok(key)
    }

    fn profile_url(&self) -> Option<Url> {
        match self.profiles.get(&self.profile.value)?.get("api_url")? {
            Value::Text(text) => normal_url(text).ok(),
            _ => None,
        }
    }

    /// What is odd about the settings, but no mistake for certain.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let (Some(key), None) = (self.secret("api_key"), self.text("api_url")) {
            warnings
                .push(format!("the key of {} is not used: no URL says which relay it is for", key.origin));
        }
        if let Some(Ok(url)) = self.text("api_url").map(|text| parse_url(&text))
            && url.value.scheme() == "http"
            && !url.value.host_str().is_some_and(host_is_loopback)
        {
            warnings.push(format!("the key travels unencrypted to {} ({})", url.value, url.origin));
        }
        warnings
    }
}

fn parse_url(text: &Setting<String>) -> Result<Setting<Url>, CliError> {
    match normal_url(&text.value) {
        Ok(url) => Ok(Setting { value: url, origin: text.origin.clone() }),
        Err(fault) => {
            Err(CliError::usage(format!("`{}` is no relay URL: {fault} ({})", text.value, text.origin)))
        }
    }
}

/// A relay's URL with a path that ends in a slash, so that paths can be joined to it.
pub fn normal_url(text: &str) -> Result<Url, String> {
    let form = || "it starts with http:// or https://".to_owned();
    let mut url = Url::parse(text.trim()).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => form(),
        other => other.to_string(),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(form());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it takes no user or password".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("it takes no query or fragment".to_owned());
    }
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    Ok(url)
}
