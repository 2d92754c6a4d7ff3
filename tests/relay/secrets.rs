//! Secrets are planted everywhere one can be sent, then looked for everywhere one may come out.

use axum::body::Body;
use http::Method;
use pullhook::protocol::error::Code;
use pullhook::relay::{KeyRing, Relay, Settings, StartError};
use pullhook::secret::Secret;
use pullhook::system::SystemDice;
use serde_json::json;

use crate::harness::{B1, Engine, JSON, TestRelay, TestStore, pairs, signed};
use crate::{log, on_both_engines};

const SECRETS: [&str; 4] = ["planted-github", "planted-rotated", "planted-refused", "planted-unsigned"];

impl TestRelay {
    /// Everything that the store holds, as text.
    async fn everything_stored(&self) -> String {
        match self.engine() {
            Engine::Sqlite => {
                // The whole file, whatever was freed, with what is still in the log beside it.
                let files = std::fs::read_dir(self.store.folder()).unwrap();
                files
                    .map(|file| {
                        String::from_utf8_lossy(&std::fs::read(file.unwrap().path()).unwrap()).into_owned()
                    })
                    .collect()
            }
            Engine::Postgres => {
                let mut text = String::new();
                for table in [
                    "environments",
                    "api_keys",
                    "sources",
                    "events",
                    "event_contents",
                    "logs",
                    "audit_events",
                    "idempotency_keys",
                    "listeners",
                ] {
                    let sql = format!("SELECT CAST(t AS TEXT) FROM {table} t");
                    let rows = self.relay.store().read(move |tx| {
                        tx.query(&sql, &[])?
                            .into_iter()
                            .map(|mut row| row.take::<String>(0))
                            .collect::<Result<Vec<_>, _>>()
                    });
                    text.push_str(&rows.await.unwrap().join("\n"));
                }
                text
            }
        }
    }

    /// Every answer to a request that could tell a secret.
    async fn answers(&self) -> String {
        let mut text = String::new();
        let body = |secret: &str| json!({ "name": "gh", "scheme": "github", "secrets": [secret] });
        for (method, path, sent) in [
            (Method::POST, "/v1/sources", body(SECRETS[0])),
            (Method::POST, "/v1/sources", body(SECRETS[0])),
            (Method::POST, "/v1/sources/gh/rotate", json!({ "secrets": [SECRETS[1]] })),
            (
                Method::POST,
                "/v1/sources",
                json!({ "name": "s", "scheme": "standard-webhooks", "secrets": [SECRETS[2]] }),
            ),
            (Method::POST, "/v1/sources", json!({ "name": "s", "scheme": "none", "secrets": [SECRETS[3]] })),
            (
                Method::POST,
                "/v1/sources",
                json!({ "name": SECRETS[2], "scheme": "x", "secrets": SECRETS[2] }),
            ),
            (
                Method::PATCH,
                "/v1/sources/gh",
                json!({ "secrets": [SECRETS[2], format!("{}\n", SECRETS[2])] }),
            ),
            (Method::POST, "/v1/sources/gh/sign", json!({ "body_base64": "" })),
        ] {
            let answer = self.send(method, path, JSON, sent.to_string()).await;
            text.push_str(&String::from_utf8_lossy(&answer.bytes));
        }
        let broken = format!("{{\"secrets\":[\"{}\"", SECRETS[0]);
        text.push_str(&String::from_utf8_lossy(
            &self.send(Method::POST, "/v1/sources", JSON, broken).await.bytes,
        ));
        for path in
            ["/v1/sources", "/v1/sources/gh", "/v1/environment", "/v1/events", "/openapi.json", "/readyz"]
        {
            text.push_str(&String::from_utf8_lossy(&self.get(path).await.bytes));
        }
        text
    }
}

on_both_engines!(no_secret_comes_out_anywhere, async |relay: TestRelay| {
    log::keep();
    let answers = relay.answers().await;
    for secret in &SECRETS[..2] {
        let headers = signed("github", secret, "d1", relay.now(), B1);
        relay.webhook("gh", &pairs(&headers), B1).await.accepted();
    }
    let wrong = format!("Bearer {}x", relay.key);
    relay
        .send(Method::GET, "/v1/sources", &[("authorization", &wrong)], Body::empty())
        .await
        .refused(Code::Unauthorized);
    let (stored, shown) = (relay.everything_stored().await, format!("{:?}", relay.relay));
    assert!(stored.contains("v2:"), "the store was read at all");
    let mut planted = SECRETS.to_vec();
    planted.push(&relay.key);
    for secret in planted {
        assert!(!stored.contains(secret), "{secret} is in the store");
        assert!(!answers.contains(secret), "{secret} is in an answer: {answers}");
        assert!(!shown.contains(secret), "{secret} is in Debug");
        assert_eq!(log::lines(secret), Vec::<String>::new());
    }
});

on_both_engines!(only_the_local_master_makes_local_keys, async |relay: TestRelay| {
    let key = relay.relay.admin().local_key(&relay.environment.id).unwrap();
    let ask = async |key: &str| {
        let bearer = format!("Bearer {key}");
        relay.send(Method::GET, "/v1/environment", &[("authorization", &bearer)], Body::empty()).await
    };
    let shown = ask(key.expose()).await.expect(200);
    assert_eq!((&shown["slug"], &shown["api_key"]["access"]), (&json!("shop"), &json!("full")));
    let other = relay.relay.admin().named_environment("another").await.unwrap();
    let proof = key.expose().rsplit_once(&format!("{}_", relay.environment.id)).unwrap().1;
    let stranger = pullhook::relay::local_key(&Secret::new("another master"), &relay.environment.id);
    for forged in [
        stranger.expose(),
        &format!("phk_local_{}_{proof}", other.id),
        &format!("phk_local_env_nobody_{proof}"),
        &key.expose()[..key.expose().len() - 1],
        &format!("{}A", key.expose()),
        &format!("phk_local_{}_", relay.environment.id),
        &format!("phk_local_{}", relay.environment.id),
    ] {
        ask(forged).await.refused(Code::Unauthorized);
    }
});

/// A relay on a store that outlives it.
async fn start(store: &TestStore, ring: &Secret, settings: Settings) -> Result<Relay, StartError> {
    let ring = KeyRing::parse(ring).unwrap();
    Relay::builder(store.url.clone()).settings(settings).key_ring(ring).build().await
}

#[tokio::test]
async fn a_relay_starts_only_with_a_ring_that_opens_what_is_stored() {
    for store in [Engine::Sqlite, Engine::Postgres].into_iter().filter_map(TestStore::new) {
        let (old, new) = (KeyRing::mint(&SystemDice), KeyRing::mint(&SystemDice));
        let relay = start(&store, &old, Settings::default()).await.unwrap();
        let environment = relay.admin().named_environment("shop").await.unwrap();
        let config = pullhook::relay::SourceConfig {
            name: "gh".to_owned(),
            scheme: "github".to_owned(),
            secrets: vec![Secret::new(crate::harness::GH_SECRET)],
            ..Default::default()
        };
        let refusals = relay.admin().configure_sources(&environment, &[config]).await;
        assert_eq!(refusals, Vec::<String>::new());
        drop(relay);
        let error = start(&store, &new, Settings::default()).await.unwrap_err().to_string();
        assert!(error.contains("`gh`") && error.contains("PULLHOOK_SECRETS_KEY"), "{error}");
        let both = Secret::new(format!("{},{}", new.expose(), old.expose()));
        let relay = start(&store, &both, Settings::default()).await.unwrap();
        let peer = crate::harness::Peer { relay, key: String::new() };
        let headers =
            signed("github", crate::harness::GH_SECRET, "d1", pullhook::clock::Timestamp::default(), B1);
        peer.webhook("gh", &pairs(&headers), B1).await.accepted();
    }
}

#[tokio::test]
async fn a_relay_does_not_start_with_settings_that_contradict_the_store_or_each_other() {
    let (store, ring) = (TestStore::new(Engine::Sqlite).unwrap(), KeyRing::mint(&SystemDice));
    let relay = start(&store, &ring, Settings::default()).await.unwrap();
    let environment = relay.admin().named_environment("shop").await.unwrap();
    let raw = |name: &str| pullhook::relay::SourceConfig {
        name: name.to_owned(),
        scheme: "none".to_owned(),
        ..Default::default()
    };
    let refusals = relay.admin().configure_sources(&environment, &[raw("raw"), raw("Not a name")]).await;
    assert!(refusals.len() == 1 && refusals[0].contains("Not a name"), "{refusals:?}");
    drop(relay);
    let open = Settings { loopback: false, ..Settings::default() };
    let error = start(&store, &ring, open.clone()).await.unwrap_err().to_string();
    assert!(error.contains("`raw`") && error.contains("--allow-unsigned"), "{error}");
    start(&store, &ring, Settings { allow_unsigned: true, ..open }).await.unwrap();
    let short = Settings { dedupe_window: std::time::Duration::from_secs(1), ..Settings::default() };
    assert!(start(&store, &ring, short).await.unwrap_err().to_string().contains("dedupe_window"));
}
