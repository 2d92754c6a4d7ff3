//! Two relays on one PostgreSQL: either end of the same pipe.

use serde_json::json;

use crate::harness::http::send;
use crate::harness::log::until;
use crate::harness::relay::{Api, accepted};
use crate::harness::{App, Home, Port, Run, Signal};
use crate::store::{Engine, TestStore};

const RING: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// A relay of the team.
struct Member {
    port: Port,
    run: Run,
}

impl Member {
    fn start(home: &Home, store: &TestStore) -> Self {
        let port = Port::new();
        let run = Self::serve(home, store, &port);
        Self { port, run }
    }

    fn serve(home: &Home, store: &TestStore, port: &Port) -> Run {
        let bind = format!("127.0.0.1:{}", port.number);
        let config = home.path("serve.toml");
        let args = ["serve", "--output", "json", "--bind", &bind, "--config", config.to_str().unwrap()];
        let serve = home.cli(&[&args[..], &["--store", &store.text()]].concat());
        let mut run = serve.env("PULLHOOK_SECRETS_KEY", RING).spawn();
        run.line("\"object\":\"relay\"");
        run
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.number)
    }

    fn post(&self, body: &str) -> String {
        let url = format!("{}/api/webhooks/raw", self.url());
        accepted(&send("POST", &url, &[], body.as_bytes()).unwrap())
    }
}

/// What comes in at one relay is handed out at the other, at once; one is killed and loses nothing.
#[test]
fn two_relays_are_one() {
    let Some(store) = TestStore::new(Engine::Postgres) else { return };
    let home = Home::new();
    std::fs::write(home.path("serve.toml"), "[[sources]]\nname = \"raw\"\nscheme = \"none\"\n").unwrap();
    let create = home.cli(&["keys", "create", "-q", "--store", &store.text()]);
    let key = create.env("PULLHOOK_SECRETS_KEY", RING).run().expect(0).out[0].clone();
    let (mut one, two) = (Member::start(&home, &store), Member::start(&home, &store));
    let app = App::new();
    let listen = home.listen(&["-f", &app.target(), "--api-url", &one.url(), "--ordered"]);
    let listen = listen.env("PULLHOOK_API_KEY", &key);
    let mut listen = listen.timing(r#"{"backoff_base_ms":20,"backoff_cap_ms":60}"#).spawn();
    listen.next("ready");
    // Its poll waits at the first relay: only the second one's word ends that.
    let first = two.post("1");
    assert_eq!(listen.next("result")["event_id"], *first);
    one.run.kill();
    let sent = [two.post("2"), two.post("3")];
    listen.next("reconnecting");
    one.run = Member::serve(&home, &store, &one.port);
    sent.iter().for_each(|event| assert_eq!(listen.next("result")["event_id"], **event));
    assert_eq!(listen.all("reconnected")[0]["lost"], 0);
    let api = Api { url: two.url(), key };
    until("the acks", || api.events().iter().all(|event| event["status"] == "delivered").then_some(()));
    // A poll that waits at either is ended in order, by itself.
    let listener = api.send("POST", "/v1/webhook_listeners", &json!({})).expect(201);
    let poll = format!("/v1/webhook_listeners/{}/poll", listener["id"].as_str().unwrap());
    let parked = std::thread::spawn(move || api.send("POST", &poll, &json!({"wait_ms": 25_000})));
    let last = one.post("4");
    let polled = parked.join().unwrap().expect(200);
    assert_eq!(polled["deliveries"][0]["event_id"], *last);
    assert_eq!(listen.next("result")["event_id"], *last);
    listen.stop();
    for mut member in [one, two] {
        member.run.signal(Signal::TERM);
        member.run.end().expect(0);
    }
    assert_eq!(app.requests.len(), 4);
}
