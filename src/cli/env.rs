//! Environment variables: the only place that reads them, and the table of those that mean something to pullhook.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::cli::error::CliError;
use crate::http::RelaySettings;
use crate::listen::Timing;

/// A variable that pullhook reads, and what it does.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
}

/// Every variable that pullhook reads by itself (flags such as `--secret-env NAME` name further ones).
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: API_KEY,
        about: "the key for the relay of `PULLHOOK_API_URL`, `--api-url` or the profile",
    },
    Variable {
        name: API_URL,
        about: "the relay; the embedded one when neither this nor a flag nor a profile says",
    },
    Variable { name: PROFILE, about: "the profile, as `--profile`" },
    Variable { name: FORWARD_TO, about: "the target of `listen`, as `--forward-to`" },
    Variable {
        name: SECRET,
        about: "the local signing secret, instead of the one made per project and profile",
    },
    Variable { name: LOG, about: "what to log on stderr, such as `pullhook=debug`" },
    Variable {
        name: SECRETS_KEY,
        about: "the key ring that seals the secrets of a store that `--store` names; required with PostgreSQL",
    },
    Variable { name: TIMING, about: "for tests: the pull loop's numbers as JSON, in milliseconds" },
    Variable { name: "NO_COLOR", about: "no colour, when it isn't empty" },
    Variable {
        name: "CLICOLOR_FORCE",
        about: "colour even where stdout is no terminal, when it is neither empty nor 0",
    },
    Variable { name: "TERM", about: "`dumb`: no colour and no key strokes" },
    Variable { name: "XDG_CONFIG_HOME", about: "where `pullhook/config.toml` is, instead of `~/.config`" },
    Variable { name: "XDG_STATE_HOME", about: "where pullhook's own data is, instead of `~/.local/state`" },
    Variable { name: "HOME", about: "the home directory" },
    Variable {
        name: "container",
        about: "set inside a container: failure hints then name the host's address",
    },
    Variable {
        name: "HTTPS_PROXY",
        about: "the proxy on the way to a relay, with `HTTP_PROXY`, `ALL_PROXY`; never used for a local target",
    },
    Variable { name: "NO_PROXY", about: "hosts to reach without the proxy" },
    Variable {
        name: "SSL_CERT_FILE",
        about: "certificates to trust on the way to a relay, instead of the system's",
    },
];

/// The key.
pub const API_KEY: &str = "PULLHOOK_API_KEY";
/// The relay.
pub const API_URL: &str = "PULLHOOK_API_URL";
/// The profile.
pub const PROFILE: &str = "PULLHOOK_PROFILE";
/// The target.
pub const FORWARD_TO: &str = "PULLHOOK_FORWARD_TO";
/// The local signing secret.
pub const SECRET: &str = "PULLHOOK_SECRET";
/// The log filter.
pub const LOG: &str = "PULLHOOK_LOG";
/// The key ring of stored secrets.
pub const SECRETS_KEY: &str = "PULLHOOK_SECRETS_KEY";

/// The pull loop's numbers, as JSON.
pub const TIMING: &str = "PULLHOOK_TIMING";

/// The environment of the process, or one made up for a test.
#[derive(Clone, Debug, Default)]
pub struct Env(Option<HashMap<String, OsString>>);

impl Env {
    /// The real one.
    pub const fn real() -> Self {
        Self(None)
    }

    /// One that holds exactly these.
    pub fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self(Some(pairs.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()))
    }

    /// The value of `name`; an empty one counts as unset.
    #[expect(clippy::disallowed_methods, reason = "this is the place")]
    pub fn os(&self, name: &str) -> Option<OsString> {
        let value = match &self.0 {
            None => std::env::var_os(name),
            Some(made_up) => made_up.get(name).cloned(),
        };
        value.filter(|value| !value.is_empty())
    }

    /// The value of `name` as text; `Err` when it isn't UTF-8.
    pub fn text(&self, name: &str) -> Result<Option<String>, NotText> {
        self.os(name).map(OsString::into_string).transpose().map_err(|_| NotText { name: name.to_owned() })
    }

    /// What the environment says about the way to a relay. Proxies are spelled in either case, the lower one first.
    pub fn relay_settings(&self) -> RelaySettings {
        let either = |name: &str| {
            let spelled = |name: &str| self.text(name).ok().flatten();
            spelled(&name.to_ascii_lowercase()).or_else(|| spelled(name))
        };
        RelaySettings {
            https_proxy: either("HTTPS_PROXY"),
            http_proxy: either("HTTP_PROXY"),
            all_proxy: either("ALL_PROXY"),
            no_proxy: either("NO_PROXY"),
            ssl_cert_file: self.path("SSL_CERT_FILE"),
            guard: None,
        }
    }

    /// The pull loop's numbers; tests make them short.
    pub fn timing(&self) -> Result<Timing, CliError> {
        let Some(text) = self.text(TIMING).map_err(|error| CliError::usage(error.to_string()))? else {
            return Ok(Timing::default());
        };
        serde_json::from_str(&text).map_err(|error| CliError::usage(format!("{TIMING}: {error}")))
    }

    /// The value of `name` as a path.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.os(name).map(PathBuf::from)
    }
}

/// A variable whose value is not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is not UTF-8 text")]
pub struct NotText {
    /// The variable.
    pub name: String,
}
