//! The embedded relay of a test's home, asked over its own API.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
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

    /// Sends JSON with the key.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let key = format!("Bearer {}", self.key);
        let headers = [("authorization", key.as_str()), ("content-type", "application/json")];
        let (status, answer) = self.exchange(path, &headers, body.to_string().as_bytes());
        assert!(status.starts_with('2'), "{status}: {answer}");
        answer
    }

    /// Sends a webhook to the source of this name, as it is; the status and the answer.
    pub(crate) fn webhook(&self, source: &str, headers: &[(&str, &str)], body: &[u8]) -> (String, Value) {
        self.exchange(&format!("/api/webhooks/{source}"), headers, body)
    }

    /// Sends a webhook that its source takes; the event's id.
    pub(crate) fn signed(&self, source: &str, headers: &[(&str, &str)], body: &[u8]) -> String {
        let ask = json!({"body_base64": STANDARD.encode(body), "headers": headers});
        let signature = self.post(&format!("/v1/sources/{source}/sign"), &ask);
        let added: Vec<(String, String)> = serde_json::from_value(signature["headers"].clone()).unwrap();
        let added = added.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let (status, answer) =
            self.webhook(source, &headers.iter().copied().chain(added).collect::<Vec<_>>(), body);
        assert_eq!(status, "202", "{answer}");
        answer["event_id"].as_str().unwrap().to_owned()
    }

    fn exchange(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (String, Value) {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let mut request = format!("POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n");
        for (name, value) in headers {
            let _ = write!(request, "{name}: {value}\r\n");
        }
        let _ = write!(request, "content-length: {}\r\n\r\n", body.len());
        connection.write_all(&[request.as_bytes(), body].concat()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().to_owned();
        (status, serde_json::from_str(body).unwrap())
    }
}
