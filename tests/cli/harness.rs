//! Runs the binary in a home of its own.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::running::Running;
use crate::scrub;

/// A home directory, a project folder, and the binary to run in them.
pub(crate) struct Cli {
    home: TempDir,
    project: PathBuf,
    variables: Vec<(&'static str, &'static str)>,
}

impl Cli {
    /// A fresh home with an empty project `app`.
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join("app");
        std::fs::create_dir(&project).unwrap();
        let cli = Self { home, project, variables: Vec::new() };
        // Tests run side by side: each home's relay has a port of its own.
        cli.write_config("relay_port = 0\n");
        cli
    }

    /// The home.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// The project's folder.
    pub(crate) fn project(&self) -> &Path {
        &self.project
    }

    /// Sets a variable for every run from here on.
    pub(crate) fn set(&mut self, name: &'static str, value: &'static str) {
        self.variables.push((name, value));
    }

    /// Writes a file into the project.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.project.join(name), text).unwrap();
    }

    /// Writes the person's settings, private as they have to be.
    pub(crate) fn write_config(&self, text: &str) {
        let dir = self.home().join("config/pullhook");
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("config.toml");
        std::fs::write(&file, text).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
    }

    /// The binary, with nothing of the caller's environment.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pullhook"));
        command
            .args(args)
            .current_dir(&self.project)
            .env_clear()
            .env("HOME", self.home())
            .env("XDG_CONFIG_HOME", self.home().join("config"))
            .env("XDG_STATE_HOME", self.home().join("state"))
            .envs(self.variables.iter().copied())
            .stdin(Stdio::null());
        command
    }

    /// A further project folder of this home.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let folder = self.home().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Starts it and lets it run.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running::start(self.command(args))
    }

    /// Runs to the end.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs to the end, which must be a good one, and reads every line of stdout as JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Vec<serde_json::Value> {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", self.shown(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Runs each to the end and shows everything that a person would see, with the exit codes; what differs from run
    /// to run is replaced.
    pub(crate) fn story(&self, runs: &[&[&str]]) -> String {
        scrub::text(&self.transcript(runs))
    }

    /// Runs each to the end and shows everything that a person would see, with the exit codes.
    pub(crate) fn transcript(&self, runs: &[&[&str]]) -> String {
        let mut text = String::new();
        for args in runs {
            let _ = writeln!(text, "$ pullhook {}", args.join(" ").escape_debug());
            text.push_str(&self.shown(&self.run(args)));
        }
        text
    }

    /// A finished run, as a snapshot shows it: the home's path replaced.
    pub(crate) fn shown(&self, output: &Output) -> String {
        let home = self.home().display().to_string();
        let mut text = String::new();
        for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            for line in String::from_utf8_lossy(bytes).replace(&home, "[HOME]").lines() {
                let _ = writeln!(text, "{name}| {}", without_time(&line.replace('\u{1b}', "[ESC]")));
            }
        }
        let code = output.status.code().map_or_else(|| "signal".to_owned(), |code| code.to_string());
        let _ = writeln!(text, "exit {code}\n");
        text
    }
}

/// A JSON line with its moment replaced.
fn without_time(line: &str) -> String {
    match line.split_once("\"at\":\"") {
        Some((before, after)) if after.len() > 24 => format!("{before}\"at\":\"[TIME]{}", &after[24..]),
        _ => line.to_owned(),
    }
}
