//! Every entry of `vectors.json` whose scheme is in the table: what is valid verifies, what isn't is refused, and
//! what we sign is what the vector holds.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pullhook::clock::Timestamp;
use pullhook::headers::Headers;
use pullhook::secret::Secret;
use pullhook::signature::{self, Key, Request, Scheme};
use serde_json::Value;

/// The schemes whose vectors must be there, and at least how many.
const EXPECTED: &[(&str, usize)] = &[("standard-webhooks", 20), ("github", 8)];

struct Vector {
    id: String,
    scheme: Scheme,
    key: Key,
    headers: Headers,
    body: Vec<u8>,
    now: Timestamp,
    valid: bool,
    raw: Value,
}

fn document() -> Value {
    serde_json::from_str(include_str!("vectors.json")).expect("vectors.json is JSON")
}

/// The vectors of known schemes. `svix` is the same scheme under its other names.
fn vectors() -> Vec<(String, Vector)> {
    let document = document();
    let entries = document["vectors"].as_array().expect("a list of vectors");
    entries.iter().filter_map(|raw| Some((raw["scheme"].as_str()?.to_owned(), vector(raw)?))).collect()
}

fn vector(raw: &Value) -> Option<Vector> {
    let text = |name: &str| raw[name].as_str().expect("a text").to_owned();
    let name = text("scheme");
    let scheme = Scheme::parse(if name == "svix" { "standard-webhooks" } else { &name }).ok()?;
    let headers = raw["headers"].as_object().expect("headers");
    Some(Vector {
        id: text("id"),
        scheme,
        key: Key::new(scheme, &Secret::new(text("secret"))).expect("a usable secret"),
        headers: headers
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default()))
            .collect(),
        body: STANDARD.decode(text("body")).expect("base64"),
        now: Timestamp::from_millis(raw["now"].as_i64().expect("now") * 1000),
        valid: raw["valid"].as_bool().expect("valid"),
        raw: raw.clone(),
    })
}

impl Vector {
    fn request(&self) -> Request<'_> {
        Request { method: "POST", url: None, headers: &self.headers, body: &self.body }
    }

    fn keys(&self) -> &[Key] {
        std::slice::from_ref(&self.key)
    }

    /// The headers under the names that we send.
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).or_else(|| self.headers.get(&name.replace("webhook-", "svix-")))
    }
}

/// Runs `check` over every vector, and fails when a scheme has fewer than expected.
fn every_vector(mut check: impl FnMut(&Vector)) {
    let mut ran: BTreeMap<String, usize> = BTreeMap::new();
    for (scheme, vector) in vectors() {
        check(&vector);
        *ran.entry(scheme).or_default() += 1;
    }
    for (scheme, least) in EXPECTED {
        let count = ran.get(*scheme).copied().unwrap_or_default();
        assert!(count >= *least, "{scheme}: {count} vectors ran, expected at least {least}");
    }
}

#[test]
fn valid_ones_verify_and_invalid_ones_are_refused() {
    every_vector(|vector| {
        let outcome = signature::verify(vector.scheme, vector.keys(), &vector.request(), vector.now);
        assert_eq!(outcome.is_ok(), vector.valid, "{}: {outcome:?}, {}", vector.id, vector.raw["reason"]);
    });
}

#[test]
fn what_we_sign_is_what_the_vector_holds() {
    let mut signed = BTreeMap::<&str, usize>::new();
    every_vector(|vector| {
        if !vector.valid {
            return;
        }
        let id = vector.header("webhook-id").unwrap_or_default();
        let seconds = vector.header("webhook-timestamp").map(|text| text.parse::<i64>().expect("seconds"));
        let at = seconds.map_or(vector.now, |seconds| Timestamp::from_millis(seconds * 1000));
        let ours = signature::sign(vector.scheme, &vector.key, &vector.request(), id, at);
        for (name, value) in ours.iter() {
            let theirs = vector.header(name).unwrap_or_else(|| panic!("{}: no {name}", vector.id));
            // A list of signatures holds ours among others.
            assert!(theirs.split(' ').any(|item| item == value), "{}: {name}: {value} / {theirs}", vector.id);
        }
        *signed.entry(vector.scheme.name()).or_default() += 1;
    });
    assert_eq!(signed.len(), EXPECTED.len(), "{signed:?}");
}

#[test]
fn type_and_id_are_found() {
    let mut found = 0;
    every_vector(|vector| {
        let facts = signature::facts(vector.scheme, &vector.headers, &vector.body);
        for (name, fact) in [("event_type", &facts.event_type), ("event_id", &facts.event_id)] {
            if let Some(wanted) = vector.raw[name].as_str() {
                assert_eq!(fact.as_deref(), Some(wanted), "{}: {name}", vector.id);
                found += 1;
            }
        }
    });
    assert!(found > 0);
}

#[test]
fn secrets_for_endpoints_follow_the_policy() {
    let document = document();
    let entries = document["outbound_secret_policy"].as_array().expect("a list");
    assert!(!entries.is_empty());
    for entry in entries {
        let secret = Secret::new(entry["secret"].as_str().expect("a secret"));
        let outcome = signature::standard::importable(&secret);
        assert_eq!(outcome.is_ok(), entry["accept"].as_bool().expect("accept"), "{entry}: {outcome:?}");
    }
}
