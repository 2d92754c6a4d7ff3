//! What differs between Linux, macOS and Windows: everything that needs `cfg`, in one place.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::cli::env::Env;

/// Where a person's settings are.
#[cfg(not(windows))]
pub fn config_home(env: &Env) -> Option<PathBuf> {
    absolute(env.path("XDG_CONFIG_HOME")).or_else(|| Some(env.path("HOME")?.join(".config")))
}

/// Where a person's settings are.
#[cfg(windows)]
pub fn config_home(env: &Env) -> Option<PathBuf> {
    absolute(env.path("XDG_CONFIG_HOME")).or_else(|| env.path("APPDATA"))
}

/// Where programs keep data that outlives them.
#[cfg(not(windows))]
pub fn state_home(env: &Env) -> Option<PathBuf> {
    absolute(env.path("XDG_STATE_HOME")).or_else(|| Some(env.path("HOME")?.join(".local/state")))
}

/// Where programs keep data that outlives them.
#[cfg(windows)]
pub fn state_home(env: &Env) -> Option<PathBuf> {
    absolute(env.path("XDG_STATE_HOME")).or_else(|| env.path("LOCALAPPDATA"))
}

/// The XDG rules ignore relative paths.
fn absolute(path: Option<PathBuf>) -> Option<PathBuf> {
    path.filter(|path| path.is_absolute())
}

/// Makes one folder that only its owner may enter; an existing one is closed to others.
#[cfg(unix)]
pub fn make_private_dir(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let mode = path.metadata()?.permissions().mode();
            if mode & 0o077 == 0 {
                return Ok(());
            }
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
        }
        made => made,
    }
}

/// Makes one folder; a profile's folders are its owner's already.
#[cfg(windows)]
pub fn make_private_dir(path: &Path) -> io::Result<()> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Options that make new files readable by their owner only.
pub fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options
}

/// Whether others may read (or write) the file.
#[cfg(unix)]
pub fn is_open_to_others(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    Ok(file.metadata()?.permissions().mode() & 0o077 != 0)
}

/// Whether others may read the file; a profile's files are its owner's.
#[cfg(windows)]
pub fn is_open_to_others(_file: &File) -> io::Result<bool> {
    Ok(false)
}
