//! The project: the nearest parent folder with a `pullhook.toml`, else the git root, else the folder itself.

use std::path::{Path, PathBuf};

use crate::cli::error::CliError;

/// The name of the settings file that may lie in a project.
pub const FILE: &str = "pullhook.toml";

/// Where a command works: decides the local secret and, on an embedded relay, the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The root folder, absolute, links resolved.
    pub root: PathBuf,
    /// Its `pullhook.toml`, when there is one.
    pub file: Option<PathBuf>,
}

impl Project {
    /// The project that `start` is in.
    pub fn find(start: &Path) -> Result<Self, CliError> {
        let start = start
            .canonicalize()
            .map_err(|error| CliError::usage(format!("no such folder as {}: {error}", start.display())))?;
        if !start.is_dir() {
            return Err(CliError::usage(format!("{} is no folder", start.display())));
        }
        if let Some(root) = start.ancestors().find(|folder| folder.join(FILE).is_file()) {
            return Ok(Self { root: root.to_owned(), file: Some(root.join(FILE)) });
        }
        let root = start.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(&start);
        Ok(Self { root: root.to_owned(), file: None })
    }

    /// A name for people: the root's own.
    pub fn name(&self) -> String {
        let name = self.root.file_name().unwrap_or(self.root.as_os_str());
        name.to_string_lossy().into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_then_git_then_folder() {
        let temp = tempfile::tempdir().unwrap();
        let top = temp.path().canonicalize().unwrap();
        let deep = top.join("repo/a/b");
        std::fs::create_dir_all(&deep).unwrap();
        assert_eq!(Project::find(&deep).unwrap().root, deep);
        std::fs::create_dir(top.join("repo/.git")).unwrap();
        assert_eq!(Project::find(&deep).unwrap().root, top.join("repo"));
        std::fs::write(top.join("repo/a/pullhook.toml"), "").unwrap();
        let found = Project::find(&deep).unwrap();
        assert_eq!((found.root, found.file), (top.join("repo/a"), Some(top.join("repo/a/pullhook.toml"))));
        assert!(Project::find(&top.join("nowhere")).is_err());
    }
}
