//! Careful files: private from their first byte, whole or absent, never half.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::cli::env::Env;
use crate::cli::error::CliError;
use crate::cli::os;
use crate::clock::Dice;

/// `.../pullhook/config.toml` of this person; `None` without a home.
pub fn config_file(env: &Env) -> Option<PathBuf> {
    Some(os::config_home(env)?.join("pullhook").join("config.toml"))
}

/// The state directory, made if need be, closed to others.
pub fn state_dir(env: &Env) -> Result<PathBuf, CliError> {
    let home = os::state_home(env).ok_or_else(|| {
        CliError::usage("there is no place for pullhook's data")
            .hint("set HOME, or XDG_STATE_HOME to an absolute path")
    })?;
    let dir = home.join("pullhook");
    let made = fs::create_dir_all(&home).and_then(|()| os::make_private_dir(&dir));
    made.map_err(|error| CliError::internal(format!("can't make {}: {error}", dir.display())))?;
    Ok(dir)
}

/// A folder below the state directory, made if need be.
pub fn state_subdir(env: &Env, name: &str) -> Result<PathBuf, CliError> {
    let dir = state_dir(env)?.join(name);
    os::make_private_dir(&dir)
        .map_err(|error| CliError::internal(format!("can't make {}: {error}", dir.display())))?;
    Ok(dir)
}

/// `base` with a further extension: `relay` and `lock` make `relay.lock`, `hooks.db` and `lock` make `hooks.db.lock`.
pub fn beside(base: &Path, extension: &str) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

/// Replaces `path` by a private file with these bytes; a reader sees the old ones or the new ones.
pub fn replace(path: &Path, bytes: &[u8], dice: &dyn Dice) -> io::Result<()> {
    let temp = write_beside(path, bytes, dice)?;
    fs::rename(&temp, path).inspect_err(|_| drop(fs::remove_file(&temp)))
}

/// Makes `path` a private file with these bytes unless it exists; whether it was made. Of several that try at once
/// one wins, and every reader sees all of its bytes.
pub fn create(path: &Path, bytes: &[u8], dice: &dyn Dice) -> io::Result<bool> {
    let temp = write_beside(path, bytes, dice)?;
    let linked = fs::hard_link(&temp, path);
    fs::remove_file(&temp)?;
    match linked {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

fn write_beside(path: &Path, bytes: &[u8], dice: &dyn Dice) -> io::Result<PathBuf> {
    let mut random = [0; 8];
    dice.fill(&mut random);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temp = path.with_file_name(format!(".{name}.{:016x}", u64::from_le_bytes(random)));
    let write = |mut file: File| file.write_all(bytes).and_then(|()| file.sync_all());
    let written = os::private_file().write(true).create_new(true).open(&temp).and_then(write);
    written.inspect_err(|_| drop(fs::remove_file(&temp)))?;
    Ok(temp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::SystemDice;

    #[test]
    fn created_once_replaced_whole_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        assert!(create(&path, b"one", &SystemDice).unwrap());
        assert!(!create(&path, b"two", &SystemDice).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        replace(&path, b"three", &SystemDice).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert!(!os::is_open_to_others(&File::open(&path).unwrap()).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn the_state_directory_is_closed_to_others() {
        let home = tempfile::tempdir().unwrap();
        let env = Env::of([("XDG_STATE_HOME", home.path().to_str().unwrap())]);
        let dir = state_subdir(&env, "secrets").unwrap();
        assert_eq!(dir, home.path().join("pullhook/secrets"));
        assert!(!os::is_open_to_others(&File::open(&dir).unwrap()).unwrap());
        assert_eq!(state_dir(&Env::of([])).unwrap_err().exit().code(), 2);
    }
}
