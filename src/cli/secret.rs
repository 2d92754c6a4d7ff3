//! The local signing secret: made once per (project root, profile), private, the same after a restart.
//!
//! `PULLHOOK_SECRET` outranks it, `--secret-env` and `--secret-file` outrank both. It can be written once to the file
//! where the app reads it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::cli::config::{Origin, Setting, Settings};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::files;
use crate::clock::Dice;
use crate::secret::Secret;
use crate::signature::{Key, Scheme, secret_from_file, standard};

/// Where flags say that the secret comes from.
#[derive(Clone, Debug, Default)]
pub struct SecretFlags {
    /// `--secret-env NAME`.
    pub variable: Option<String>,
    /// `--secret-file FILE`.
    pub file: Option<PathBuf>,
}

/// The secret with which `listen` signs.
pub fn local(
    context: &Context,
    settings: &Settings,
    flags: &SecretFlags,
) -> Result<Setting<Secret>, CliError> {
    if let Some(name) = &flags.variable {
        let origin = Origin::Flag("--secret-env");
        return Ok(Setting { value: from_variable(context, name)?, origin });
    }
    if let Some(path) = &flags.file {
        let origin = Origin::Flag("--secret-file");
        return Ok(Setting { value: from_file(path)?, origin });
    }
    if let Some(secret) = settings.secret("secret") {
        return match secret.value.is_blank() {
            true => Err(CliError::usage(format!("the secret is blank ({})", secret.origin))),
            false => Ok(secret),
        };
    }
    kept_for(context, settings, "")
}

/// The secret with which `trigger --to` signs as a provider of this scheme. Of Standard Webhooks it is the one that
/// `listen` signs with, so that an app needs only one.
pub fn local_for(
    context: &Context,
    settings: &Settings,
    flags: &SecretFlags,
    scheme: Scheme,
) -> Result<Setting<Secret>, CliError> {
    if flags.variable.is_some() || flags.file.is_some() || scheme == Scheme::standard() {
        return local(context, settings, flags);
    }
    kept_for(context, settings, &format!(".{scheme}"))
}

fn kept_for(context: &Context, settings: &Settings, suffix: &str) -> Result<Setting<Secret>, CliError> {
    let dir = files::state_subdir(&context.env, "secrets")?;
    let name = file_name(&settings.project.root, &settings.profile.value);
    let path = dir.join(name + suffix);
    let secret = kept(&path, context.dice.as_ref()).map_err(|error| {
        CliError::internal(format!("can't keep the local secret in {}: {error}", path.display()))
    })?;
    Ok(Setting { value: secret, origin: Origin::Default })
}

/// Whether `listen` can sign with it.
pub fn check(secret: &Setting<Secret>) -> Result<(), CliError> {
    let checked = Key::new(Scheme::standard(), &secret.value);
    checked.map(drop).map_err(|error| CliError::usage(format!("{error} ({})", secret.origin)))
}

/// The value of the variable that a flag names. What isn't written like a name may be the secret itself, pasted in the
/// wrong place: it is not repeated.
pub fn from_variable(context: &Context, name: &str) -> Result<Secret, CliError> {
    let text = context.env.text(name).map_err(|error| CliError::usage(error.to_string()))?;
    match text.map(Secret::new) {
        Some(secret) if !secret.is_blank() => Ok(secret),
        _ if written_like_a_name(name) => {
            Err(CliError::usage(format!("the variable {name} is not set, or blank")))
        }
        _ => Err(CliError::usage("no variable has the name that was given, or it is blank")
            .hint("give the name of a variable, such as WEBHOOK_SECRET, never the secret itself")),
    }
}

fn written_like_a_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// The contents of a file without one line break at its end: mounted secrets have one, the secret hasn't.
pub fn from_file(path: &Path) -> Result<Secret, CliError> {
    let text = fs::read_to_string(path)
        .map_err(|error| CliError::usage(format!("can't read the secret in {}: {error}", path.display())))?;
    match secret_from_file(&text) {
        secret if secret.is_blank() => Err(CliError::usage(format!("{} holds no secret", path.display()))),
        secret => Ok(secret),
    }
}

/// The secret in `path`, made when there is none.
fn kept(path: &Path, dice: &dyn Dice) -> io::Result<Secret> {
    if !path.exists() {
        files::create(path, standard::mint(dice).expose().as_bytes(), dice)?;
    }
    fs::read_to_string(path).map(Secret::new)
}

/// One file a (project root, profile); roots may be long and profiles may be called anything.
fn file_name(root: &Path, profile: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(root.as_os_str().as_encoded_bytes());
    hash.update([0]);
    hash.update(profile.as_bytes());
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Writes `NAME=secret` to an env file, once: an entry that is there and right stays, a wrong one is replaced. Whether
/// the file was changed.
pub fn write_env_file(path: &Path, name: &str, secret: &Secret, dice: &dyn Dice) -> io::Result<bool> {
    let old = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let entry = format!("{name}={}", secret.expose());
    let is_ours = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("export ").unwrap_or(line);
        line.split_once('=').is_some_and(|(left, _)| left.trim() == name)
    };
    let mut new = String::with_capacity(old.len() + entry.len() + 2);
    let mut found = false;
    for line in old.split_inclusive('\n') {
        if !is_ours(line) {
            new.push_str(line);
            continue;
        }
        if std::mem::replace(&mut found, true) {
            continue;
        }
        let (text, end) = line.split_at(line.trim_end_matches(['\r', '\n']).len());
        let keeps = unquoted(text.split_once('=').map_or("", |(_, right)| right)) == secret.expose();
        new.push_str(if keeps { text } else { &entry });
        new.push_str(end);
    }
    if !found {
        if !new.is_empty() && !new.ends_with('\n') {
            new.push('\n');
        }
        new.push_str(&entry);
        new.push('\n');
    }
    if new == old {
        return Ok(false);
    }
    rewrite(path, new.as_bytes(), dice)?;
    Ok(true)
}

/// A link stays one, and a file that was there keeps its mode: whoever reads it goes on reading it.
fn rewrite(path: &Path, bytes: &[u8], dice: &dyn Dice) -> io::Result<()> {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let before = fs::metadata(&real).map(|metadata| metadata.permissions());
    files::replace(&real, bytes, dice)?;
    before.map_or(Ok(()), |permissions| fs::set_permissions(&real, permissions))
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inside = |quote: char| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    inside('"').or_else(|| inside('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::SystemDice;

    #[test]
    fn one_secret_per_project_and_profile_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let at = |root: &str, profile: &str| {
            kept(&dir.path().join(file_name(Path::new(root), profile)), &SystemDice)
                .unwrap()
                .expose()
                .to_owned()
        };
        let first = at("/a", "default");
        assert_eq!(first, at("/a", "default"));
        assert_eq!(first.len(), "whsec_".len() + 44);
        assert_ne!(first, at("/a", "work"));
        assert_ne!(first, at("/b", "default"));
    }

    #[test]
    fn an_env_file_gets_one_entry_and_keeps_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".env.local");
        let write = |secret: &str| write_env_file(&path, "HOOK", &Secret::new(secret), &SystemDice).unwrap();
        assert!(write("whsec_1"));
        assert!(!write("whsec_1"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "HOOK=whsec_1\n");
        fs::write(&path, "# mine\nHOOKS=x\nexport HOOK=\"whsec_2\"\nHOOK=old\nLAST=1").unwrap();
        assert!(write("whsec_2"), "the second entry goes");
        assert_eq!(fs::read_to_string(&path).unwrap(), "# mine\nHOOKS=x\nexport HOOK=\"whsec_2\"\nLAST=1");
        assert!(write("whsec_3"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "# mine\nHOOKS=x\nHOOK=whsec_3\nLAST=1");
        fs::write(&path, "A=1").unwrap();
        assert!(write("whsec_4"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "A=1\nHOOK=whsec_4\n");
    }

    #[cfg(unix)]
    #[test]
    fn an_env_file_stays_what_it_was() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join(".env"));
        fs::write(&real, "A=1\n").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(write_env_file(&link, "HOOK", &Secret::new("whsec_1"), &SystemDice).unwrap());
        assert_eq!(fs::read_to_string(&real).unwrap(), "A=1\nHOOK=whsec_1\n");
        assert!(link.is_symlink());
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o644);
        let fresh = dir.path().join("fresh");
        assert!(write_env_file(&fresh, "HOOK", &Secret::new("whsec_1"), &SystemDice).unwrap());
        assert_eq!(fs::metadata(&fresh).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
