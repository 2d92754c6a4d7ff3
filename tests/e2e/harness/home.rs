//! A person's home: settings, state, projects; nothing of the machine's own.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::cli::Cli;
use super::http::send;
use super::port::Port;
use super::relay::Api;

/// The home.
pub struct Home {
    dir: TempDir,
    /// The embedded relay's.
    pub port: Port,
}

impl Home {
    /// A fresh one with an empty project `app`; its embedded relay has a port of its own.
    pub fn new() -> Self {
        let home = Self { dir: tempfile::tempdir().unwrap(), port: Port::new() };
        home.project("app");
        std::fs::create_dir(home.path("tmp")).unwrap();
        home.configure("");
        home
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes a project folder.
    pub fn project(&self, name: &str) -> PathBuf {
        let folder = self.path(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Replaces the person's settings.
    pub fn configure(&self, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        let dir = self.path("config/pullhook");
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("config.toml");
        std::fs::write(&file, format!("relay_port = {}\n{text}", self.port.number)).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// The binary in the project `app`.
    pub fn cli(&self, args: &[&str]) -> Cli {
        Cli::new(self, env!("CARGO_BIN_EXE_pullhook"), args)
    }

    /// `listen` with JSON on stdout.
    pub fn listen(&self, args: &[&str]) -> Cli {
        self.cli(&[&["listen", "--output", "json"], args].concat())
    }

    pub fn state(&self) -> PathBuf {
        self.path("state/pullhook")
    }

    /// What `relay.json` says.
    pub fn relay_json(&self) -> Value {
        relay_json(&self.state())
    }

    /// A project's way into the embedded relay, as its own commands have it.
    pub fn api(&self, project: &str) -> Api {
        local_api(&self.state(), &self.path(project))
    }

    /// A source of a project's own relay; the URL that its provider posts to.
    #[track_caller]
    pub fn source(&self, project: &str, name: &str, scheme: &str, secret: &[&str]) -> String {
        let folder = self.project(project);
        let mut args = vec!["sources", "add", name, "--scheme", scheme, "--output", "json"];
        secret.iter().for_each(|_| args.extend(["--secret-env", "SOURCE_SECRET"]));
        let added = self.cli(&args).in_folder(&folder).env("SOURCE_SECRET", secret.first().unwrap_or(&""));
        let added = added.run();
        let source: Value = serde_json::from_str(&added.expect(0).out[0]).unwrap();
        source["ingress_url"].as_str().unwrap().to_owned()
    }
}

/// What an embedded relay in this directory says about itself.
pub fn relay_json(state: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(state.join("relay.json")).unwrap()).unwrap()
}

/// The way in for a project, by the relay's own local administration.
pub fn local_api(state: &Path, project: &Path) -> Api {
    let relay = relay_json(state);
    let (url, admin) = (relay["url"].as_str().unwrap(), relay["key"].as_str().unwrap());
    let root = project.canonicalize().unwrap();
    let project = json!({"root": root, "name": root.file_name().unwrap().to_str()});
    let bearer = format!("Bearer {admin}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let body = project.to_string();
    let answer = send("POST", &format!("{url}/local/environment"), &headers, body.as_bytes()).unwrap();
    let key = answer.expect(200)["key"].as_str().unwrap().to_owned();
    Api { url: url.to_owned(), key }
}
