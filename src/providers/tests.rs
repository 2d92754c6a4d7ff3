//! Every fixture is an event that its provider could have sent: it renders, it signs, it reads back.

use std::collections::HashSet;

use super::*;
use crate::clock::{ManualClock, Timestamp};
use crate::signature::{Key, Request, standard};
use crate::system::SystemDice;

const NOW: Timestamp = Timestamp::from_millis(1_760_000_000_123);

fn render(fixture: &Fixture) -> Rendered {
    fixture.render(&ManualClock::at(NOW), &SystemDice)
}

#[test]
fn every_fixture_is_complete_and_signs_like_the_real_thing() {
    assert!(all().len() >= 9);
    for fixture in all() {
        let name = fixture.name();
        let event = render(fixture);
        let text = std::str::from_utf8(&event.body).unwrap();
        assert!(!text.contains("{{") && !format!("{:?}", event.headers).contains("{{"), "{name}: {text}");
        let json: serde_json::Value =
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(json.is_object() && !text.contains('\n'), "{name} is compact");
        assert_eq!(format!("{}.{}", fixture.provider().name, event.event_type), name);
        assert!(fixture.about().ends_with('.'), "{name} has a line about it");
        assert!(!event.event_id.is_empty() && !event.event_id.contains('.'), "{name}");
        assert!(event.headers.contains("user-agent") && event.headers.contains("content-type"), "{name}");
        assert!(event.scheme.is_signed(), "{name}");

        let key = Key::new(event.scheme, &standard::mint(&SystemDice)).unwrap();
        let request = Request { method: "POST", url: None, headers: &event.headers, body: &event.body };
        let mut headers = event.headers.clone();
        for (header, value) in signature::sign(event.scheme, &key, &request, &event.event_id, NOW).iter() {
            headers.push(header, value);
        }
        let signed = Request { headers: &headers, ..request };
        assert_eq!(signature::verify(event.scheme, &[key], &signed, NOW), Ok(()), "{name}");
        let facts = signature::facts(event.scheme, &headers, &event.body);
        assert_eq!(facts.event_id.as_deref(), Some(&*event.event_id), "{name}");
    }
}

#[test]
fn names_are_unique_and_schemes_exist() {
    let names: HashSet<_> = all().iter().map(Fixture::name).collect();
    assert_eq!(names.len(), all().len());
    for provider in PROVIDERS {
        assert!(Scheme::parse(provider.scheme).is_ok() && all().iter().any(|f| f.provider() == *provider));
    }
}

#[test]
fn every_file_is_in_the_table() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/providers/fixtures");
    for provider in PROVIDERS {
        for file in std::fs::read_dir(root.join(provider.name)).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            if let Some(event) = name.strip_suffix(".http") {
                assert!(find(&format!("{}.{event}", provider.name)).is_ok(), "{name} is not in the table");
            }
        }
    }
}

#[test]
fn ids_and_times_are_fresh_and_refer_to_each_other() {
    let (one, two) = (render(find("github.push").unwrap()), render(find("github.push").unwrap()));
    assert_ne!(one.event_id, two.event_id);
    assert_ne!(one.body, two.body);
    let json: serde_json::Value = serde_json::from_slice(&one.body).unwrap();
    assert_eq!(json["after"], json["head_commit"]["id"]);
    assert_eq!(json["after"], json["commits"][1]["id"]);
    let short = &json["after"].as_str().unwrap()[..12];
    assert!(json["compare"].as_str().unwrap().ends_with(short));
    assert_eq!(json["repository"]["pushed_at"], 1_760_000_000);
    assert_eq!(json["head_commit"]["timestamp"], "2025-10-09T08:51:45Z");
    let paid = render(find("standard.invoice.paid").unwrap());
    let json: serde_json::Value = serde_json::from_slice(&paid.body).unwrap();
    assert_eq!(json["timestamp"], "2025-10-09T08:53:20.123Z");
    assert!(json["data"]["hosted_url"].as_str().unwrap().ends_with(json["data"]["id"].as_str().unwrap()));
    assert!(!paid.headers.contains("webhook-id"), "the signer adds it");
}

#[test]
fn unknown_names_suggest_near_ones() {
    let near = |name: &str| find(name).unwrap_err().suggestions;
    assert_eq!(near("gihub.push")[0], "github.push");
    assert_eq!(near("push")[0], "github.push");
    assert_eq!(near("github.pull_request")[0], "github.pull_request.opened");
    assert_eq!(near("invoice.paid")[0], "standard.invoice.paid");
    assert_eq!(near("Github.Ping")[0], "github.ping");
    assert!(near("xyz").is_empty());
    assert_eq!(find("xyz").unwrap_err().to_string(), "no fixture `xyz`");
    assert!(
        find("push").unwrap_err().to_string().starts_with("no fixture `push`; near it are `github.push`")
    );
}

#[test]
fn overrides_change_the_type_with_the_body() {
    let event = render(find("github.issues.opened").unwrap());
    let changes = [Override::parse("action=closed").unwrap(), Override::parse("issue.number=7").unwrap()];
    let changed = event.with(&changes).unwrap();
    assert_eq!(changed.event_type, "issues.closed");
    let json: serde_json::Value = serde_json::from_slice(&changed.body).unwrap();
    assert_eq!(json["issue"]["number"], 7);
}
