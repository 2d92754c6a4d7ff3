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

/// A port that is held, and not listened to yet; connections of whoever had it before may still be on their way out.
pub fn hold_port(address: std::net::SocketAddr) -> io::Result<tokio::net::TcpSocket> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    // On Windows this would let others share the port, and isn't needed.
    socket.set_reuseaddr(cfg!(unix))?;
    socket.bind(address)?;
    Ok(socket)
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

/// Calls `asked` for every ^C, SIGTERM and hang-up of the terminal. Must run inside the runtime.
#[cfg(unix)]
pub fn on_end_signal(asked: impl Fn() + Send + 'static) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => asked(),
                _ = terminate.recv() => asked(),
                _ = hang_up.recv() => asked(),
            }
        }
    });
    Ok(())
}

/// Calls `asked` for every ^C, ^Break and closing of the console. Must run inside the runtime.
#[cfg(windows)]
pub fn on_end_signal(asked: impl Fn() + Send + 'static) -> io::Result<()> {
    use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close};
    let (mut interrupt, mut stop, mut close) = (ctrl_c()?, ctrl_break()?, ctrl_close()?);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => asked(),
                _ = stop.recv() => asked(),
                _ = close.recv() => asked(),
            }
        }
    });
    Ok(())
}

/// Whether others may write into the folder.
#[cfg(unix)]
pub fn is_writable_by_others(folder: &Path) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    Ok(folder.metadata()?.permissions().mode() & 0o022 != 0)
}

/// Whether others may write into the folder; a profile's folders are its owner's.
#[cfg(windows)]
pub fn is_writable_by_others(_folder: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Whether this process runs in a container.
pub fn in_container(env: &Env) -> bool {
    env.os("container").is_some()
        || Path::new("/.dockerenv").exists()
        || Path::new("/run/.containerenv").exists()
}

/// Reads keys, one by one and without echo, until dropped; then the terminal is as it was.
#[derive(Debug)]
pub struct KeyReader {
    #[cfg(unix)]
    before: rustix::termios::Termios,
}

/// Calls `pressed` for each key that is pressed on the terminal at stdin, until it returns `false`. `None` where there
/// is none, or where this process is in the background. ^C and ^Z do what they always do.
#[cfg(unix)]
pub fn read_keys(mut pressed: impl FnMut(char) -> bool + Send + 'static) -> Option<KeyReader> {
    use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcgetpgrp, tcsetattr};
    let stdin = io::stdin();
    let before = tcgetattr(&stdin).ok()?;
    if tcgetpgrp(&stdin).ok()? != rustix::process::getpgrp() {
        return None;
    }
    let mut keys = before.clone();
    keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    keys.special_codes[SpecialCodeIndex::VMIN] = 1;
    keys.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(&stdin, OptionalActions::Now, &keys).ok()?;
    let reader = KeyReader { before };
    let read = move || {
        let mut byte = [0];
        while io::Read::read(&mut io::stdin(), &mut byte).is_ok_and(|read| read == 1) {
            if !pressed(char::from(byte[0])) {
                break;
            }
        }
    };
    std::thread::Builder::new().name("keys".to_owned()).spawn(read).ok()?;
    Some(reader)
}

#[cfg(unix)]
impl Drop for KeyReader {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        // A terminal that is gone needs no settings.
        let _gone = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Calls `pressed` for each key that is pressed on the console, until it returns `false`.
#[cfg(windows)]
pub fn read_keys(mut pressed: impl FnMut(char) -> bool + Send + 'static) -> Option<KeyReader> {
    let terminal = console::Term::stdout();
    if !terminal.is_term() {
        return None;
    }
    let read = move || {
        while let Ok(key) = terminal.read_key() {
            if let console::Key::Char(key) = key
                && !pressed(key)
            {
                break;
            }
        }
    };
    std::thread::Builder::new().name("keys".to_owned()).spawn(read).ok()?;
    Some(KeyReader {})
}
