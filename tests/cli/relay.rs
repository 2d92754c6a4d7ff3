//! The embedded relay of a test's home, asked over its own API.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::harness::Cli;

/// A running relay of this home and the key of its project.
pub(crate) struct Relay {
    port: u16,
    key: String,
}

/// The relay that a process of this home hosts.
pub(crate) fn of(cli: &Cli) -> Relay {
    of_project(cli, "app")
}

/// The same, for another project folder of the home.
pub(crate) fn of_project(cli: &Cli, name: &str) -> Relay {
    let state = state(cli);
    let port = u16::try_from(state["port"].as_u64().unwrap()).unwrap();
    let local = Relay { port, key: state["key"].as_str().unwrap().to_owned() };
    let root = cli.home().canonicalize().unwrap().join(name);
    let access = local.post("/local/environment", &json!({"root": root, "name": name}));
    Relay { port, key: access["key"].as_str().unwrap().to_owned() }
}

/// What `relay.json` says.
pub(crate) fn state(cli: &Cli) -> Value {
    let text = std::fs::read(cli.home().join("state/pullhook/relay.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

impl Relay {
    /// Sends an event of this type.
    pub(crate) fn event(&self, kind: &str) -> Value {
        self.post("/v1/events", &json!({"type": kind, "data": {"n": 1}}))
    }

    /// Sends JSON.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let mut connection = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        );
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 2"), "{answer}");
        serde_json::from_str(body).unwrap()
    }
}
