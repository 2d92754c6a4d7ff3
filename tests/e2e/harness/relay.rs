//! `pullhook serve` with sources and a key, at a port that stays its own through every restart.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::cli::{Cli, Run};
use super::home::Home;
use super::http::{Answer, send};
use super::port::Port;
use super::sign;

/// The secret of the source `gh`.
pub const GH_SECRET: &str = "gh-secret";

/// A served relay: `raw` takes anything, `gh` what GitHub signed.
pub struct Relay {
    pub home: Home,
    pub port: Port,
    /// The process; `None` while it is down.
    pub run: Option<Run>,
    pub key: String,
    extra: Vec<(String, String)>,
}

impl Relay {
    pub fn new() -> Self {
        Self::with("")
    }

    /// With more settings, as TOML.
    pub fn with(settings: &str) -> Self {
        let mut relay = Self::stopped(settings);
        relay.start();
        relay
    }

    /// One that was never started.
    pub fn stopped(settings: &str) -> Self {
        let (home, port) = (Home::new(), Port::new());
        let config = format!(
            "bind = \"127.0.0.1:{}\"\nstore = \"{}\"\n{settings}\n\
             [[sources]]\nname = \"raw\"\nscheme = \"none\"\n\
             [[sources]]\nname = \"gh\"\nscheme = \"github\"\nsecret_env = \"GH_SECRET\"\n",
            port.number,
            store(&home),
        );
        std::fs::write(home.path("serve.toml"), config).unwrap();
        let made = home.cli(&["keys", "create", "--store", &store(&home), "-q"]).run();
        let key = made.expect(0).out[0].clone();
        Self { home, port, run: None, key, extra: Vec::new() }
    }

    /// Sets a variable for the relay's process.
    pub fn env(&mut self, name: &str, value: &str) {
        self.extra.push((name.to_owned(), value.to_owned()));
    }

    /// The command that serves.
    pub fn command(&self) -> Cli {
        let config = self.home.path("serve.toml");
        let cli = self.home.cli(&["serve", "--output", "json", "--config", config.to_str().unwrap()]);
        self.extra.iter().fold(cli.env("GH_SECRET", GH_SECRET), |cli, (name, value)| cli.env(name, value))
    }

    #[track_caller]
    pub fn start(&mut self) {
        self.start_as(self.command());
    }

    #[track_caller]
    pub fn start_as(&mut self, command: Cli) {
        let mut run = command.spawn();
        run.line("\"object\":\"relay\"");
        self.run = Some(run);
    }

    /// SIGTERM, and a good end.
    #[track_caller]
    pub fn stop(&mut self) {
        let mut run = self.run.take().unwrap();
        run.signal(Signal::TERM);
        run.end().expect(0);
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.run.take().unwrap().kill();
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.number)
    }

    pub fn ingress(&self, source: &str) -> String {
        format!("{}/api/webhooks/{source}", self.url())
    }

    pub fn api(&self) -> Api {
        Api { url: self.url(), key: self.key.clone() }
    }

    /// `listen` with JSON on stdout, to this relay, from the home of the relay's own person.
    pub fn listen(&self, args: &[&str]) -> Cli {
        self.listen_from(&self.home, &self.url(), args)
    }

    /// `listen` from another home, over another way (a proxy).
    pub fn listen_from(&self, home: &Home, url: &str, args: &[&str]) -> Cli {
        home.listen(&[&["--api-url", url], args].concat()).env("PULLHOOK_API_KEY", &self.key)
    }

    /// Posts to `raw`; the event's id.
    #[track_caller]
    pub fn post(&self, body: &str) -> String {
        accepted(&send("POST", &self.ingress("raw"), &[], body.as_bytes()).unwrap())
    }

    /// Posts to `gh` as GitHub would.
    pub fn post_signed(&self, body: &[u8]) -> Answer {
        let signature = sign::github(GH_SECRET, body);
        let headers = [("x-github-event", "push"), ("x-hub-signature-256", signature.as_str())];
        send("POST", &self.ingress("gh"), &headers, body).unwrap()
    }

    /// Makes an event of a type.
    #[track_caller]
    pub fn make(&self, kind: &str) -> String {
        let made = self.api().send("POST", "/v1/events", &json!({"type": kind, "data": {}})).expect(202);
        made["id"].as_str().unwrap().to_owned()
    }
}

fn store(home: &Home) -> String {
    format!("sqlite:{}", home.path("relay.db").display())
}

/// The id in a 202 of ingress.
#[track_caller]
pub fn accepted(answer: &Answer) -> String {
    answer.expect(202)["event_id"].as_str().unwrap().to_owned()
}

/// A relay's API with a key.
#[derive(Clone, Debug)]
pub struct Api {
    pub url: String,
    pub key: String,
}

impl Api {
    #[track_caller]
    pub fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.try_send(method, path, body).unwrap()
    }

    pub fn try_send(&self, method: &str, path: &str, body: &Value) -> std::io::Result<Answer> {
        let bearer = format!("Bearer {}", self.key);
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        send(method, &format!("{}{path}", self.url), &headers, body.to_string().as_bytes())
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Value {
        let bearer = format!("Bearer {}", self.key);
        let headers = [("authorization", bearer.as_str())];
        send("GET", &format!("{}{path}", self.url), &headers, b"").unwrap().expect(200)
    }

    /// Every stored event, oldest first.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        let mut events: Vec<Value> = Vec::new();
        loop {
            let after = events.last().map(|event| format!("&after={}", event["id"].as_str().unwrap()));
            let path = format!("/v1/events?order=asc&limit=100{}", after.unwrap_or_default());
            let page = self.get(&path);
            events.extend(page["data"].as_array().unwrap().iter().cloned());
            if page["has_more"] != true {
                return events;
            }
        }
    }

    /// One event with its body and deliveries.
    #[track_caller]
    pub fn event(&self, id: &str) -> Value {
        self.get(&format!("/v1/events/{id}"))
    }

    /// The open listeners.
    #[track_caller]
    pub fn listeners(&self) -> Vec<Value> {
        self.get("/v1/webhook_listeners")["data"].as_array().unwrap().clone()
    }
}
