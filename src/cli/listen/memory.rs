//! What a run of `listen` leaves for the next one: its listener and the last event it saw.
//!
//! Each running `listen` of a project owns a slot, by an operating system lock, so that one that starts never takes a
//! living one's listener for a dead one's.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::cli::embedded::proof::hex;
use crate::cli::{files, os};
use crate::clock::Dice;
use crate::listen::Checkpoint;

/// More than may listen at once in one environment.
const SLOTS: usize = 8;

/// One slot, owned until dropped.
#[derive(Debug)]
pub(super) struct Memory {
    path: PathBuf,
    _owned: File,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    listener_id: Option<String>,
    closed: bool,
    resume: Option<String>,
    last_event_id: Option<String>,
}

impl Memory {
    /// The first free slot of this relay, project and profile; `None` when all are taken or nothing can be kept.
    pub(super) fn open(dir: &Path, relay: &str, root: &Path, profile: &str) -> Option<Self> {
        let mut hash = Sha256::new();
        for part in [relay.as_bytes(), root.as_os_str().as_encoded_bytes(), profile.as_bytes()] {
            hash.update(part);
            hash.update([0]);
        }
        let name = hex(&hash.finalize()[..12]);
        (0..SLOTS).find_map(|slot| {
            let path = dir.join(format!("{name}-{slot}.json"));
            let lock = path.with_extension("lock");
            let file =
                os::private_file().read(true).write(true).create(true).truncate(false).open(lock).ok()?;
            file.try_lock().ok()?;
            Some(Self { path, _owned: file })
        })
    }

    /// What the last run in this slot left.
    pub(super) fn read(&self) -> Option<Checkpoint> {
        let kept: Kept = serde_json::from_slice(&std::fs::read(&self.path).ok()?).ok()?;
        let Kept { listener_id, closed, resume, last_event_id } = kept;
        Some(Checkpoint { listener_id, closed, resume, last_event_id })
    }

    /// Replaces it.
    pub(super) fn write(&self, checkpoint: &Checkpoint, dice: &dyn Dice) -> std::io::Result<()> {
        let Checkpoint { listener_id, closed, resume, last_event_id } = checkpoint.clone();
        let bytes = serde_json::to_vec(&Kept { listener_id, closed, resume, last_event_id })?;
        files::replace(&self.path, &bytes, dice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::SystemDice;

    #[test]
    fn a_living_listeners_slot_is_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let open = |profile| Memory::open(dir.path(), "embedded", Path::new("/a"), profile).unwrap();
        let checkpoint = |id: &str| Checkpoint {
            listener_id: Some(id.to_owned()),
            closed: false,
            resume: Some(id.to_owned()),
            last_event_id: Some("evt_1".to_owned()),
        };
        let first = open("default");
        assert_eq!(first.read(), None);
        first.write(&checkpoint("whlis_1"), &SystemDice).unwrap();
        let second = open("default");
        assert_eq!(second.read(), None, "the first one lives");
        assert_eq!(open("work").read(), None);
        drop(first);
        assert_eq!(open("default").read(), Some(checkpoint("whlis_1")), "now it is dead");
    }
}
