//! `relay.json`: who hosts the embedded relay and where. Private, replaced whole; it stays when the host ends, so that
//! the next one finds the port.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cli::error::CliError;
use crate::cli::files;
use crate::clock::Dice;
use crate::secret::Secret;

/// The version of what local processes say to each other: this file, `/local/*` and the lock.
pub const PROTOCOL: u32 = 1;

/// What the host says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayState {
    /// Its process.
    pub pid: u32,
    /// Where it answers, on loopback.
    pub url: String,
    /// The port in that URL.
    pub port: u16,
    /// The key for local administration; it also proves who the host is.
    key: Shown,
    /// The version of what local processes say to each other.
    pub protocol: u32,
    /// `listen`, `serve` or another command.
    pub host: String,
}

/// A secret as this one file holds it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct Shown(String);

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl RelayState {
    /// This process as the host on `port`.
    pub fn of_this_process(port: u16, key: &Secret, host: &str) -> Self {
        Self {
            pid: std::process::id(),
            url: format!("http://127.0.0.1:{port}"),
            port,
            key: Shown(key.expose().to_owned()),
            protocol: PROTOCOL,
            host: host.to_owned(),
        }
    }

    /// The key.
    pub fn key(&self) -> Secret {
        Secret::new(self.key.0.as_str())
    }

    /// Fails when the host speaks another version of the local protocol.
    pub fn check_protocol(&self) -> Result<(), CliError> {
        match self.protocol {
            PROTOCOL => Ok(()),
            newer if newer > PROTOCOL => {
                Err(CliError::usage(format!("a newer pullhook hosts the relay (pid {})", self.pid))
                    .hint("upgrade this pullhook"))
            }
            _ => Err(CliError::usage(format!("an older pullhook hosts the relay (pid {})", self.pid))
                .hint("stop it, then start this one again")),
        }
    }
}

/// The file itself.
#[derive(Clone, Debug)]
pub struct RelayFile(PathBuf);

impl RelayFile {
    /// The file beside this store.
    pub fn beside(base: &Path) -> Self {
        Self(files::beside(base, "json"))
    }

    /// What it says; `None` when there is none. One that can't be understood counts as none.
    pub fn read(&self) -> io::Result<Option<RelayState>> {
        match fs::read(&self.0) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces it.
    pub fn write(&self, state: &RelayState, dice: &dyn Dice) -> io::Result<()> {
        let mut bytes = serde_json::to_vec_pretty(state)?;
        bytes.push(b'\n');
        files::replace(&self.0, &bytes, dice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::SystemDice;

    #[test]
    fn what_is_written_is_read_and_the_key_is_not_printed() {
        let dir = tempfile::tempdir().unwrap();
        let file = RelayFile::beside(&dir.path().join("relay"));
        assert_eq!(file.read().unwrap(), None);
        let state = RelayState::of_this_process(4750, &Secret::new("planted"), "listen");
        file.write(&state, &SystemDice).unwrap();
        assert_eq!(file.read().unwrap(), Some(state.clone()));
        assert!(!format!("{state:?}").contains("planted"));
        fs::write(dir.path().join("relay.json"), "{").unwrap();
        assert_eq!(file.read().unwrap(), None);
    }

    #[test]
    fn another_protocol_says_what_to_do() {
        let state = RelayState::of_this_process(1, &Secret::new("k"), "listen");
        assert!(state.check_protocol().is_ok());
        let newer = RelayState { protocol: PROTOCOL + 1, ..state }.check_protocol().unwrap_err();
        assert_eq!(
            (newer.exit().code(), newer.hints()),
            (2, ["upgrade this pullhook".to_owned()].as_slice())
        );
    }
}
