//! Every wrong value of every field, parameter and header: refused with its path, and nothing happened.

use axum::body::Body;
use http::Method;
use pullhook::protocol::error::Code;
use serde_json::{Value, json};

use crate::harness::{JSON, TestRelay};
use crate::on_both_engines;

/// A body and the path that is wrong in it.
type Case = (Value, &'static str);

impl TestRelay {
    async fn refuses(&self, path: &str, cases: Vec<Case>) {
        for (body, field) in cases {
            let answer = self.post(path, body.clone()).await;
            assert_eq!(answer.status, 400, "{path} {body}: {:?}", answer.bytes);
            answer.wrong_field(field);
        }
    }

    async fn refuses_query(&self, path: &str, cases: &[(&str, &str)]) {
        for (query, parameter) in cases {
            let answer = self.get(&format!("{path}?{query}")).await;
            assert_eq!(answer.status, 400, "{path}?{query}: {:?}", answer.bytes);
            answer.wrong_field(parameter);
        }
    }
}

/// `values`, each as the field that it is wrong for.
fn each(field: &'static str, values: &[Value]) -> Vec<Case> {
    values.iter().map(|value| (json!({ field: value }), field)).collect()
}

fn long(length: usize) -> String {
    "x".repeat(length)
}

/// What is wrong for a list of texts, wherever there is one.
fn texts(field: &'static str, items: [&'static str; 2], most: usize, longest: usize) -> Vec<Case> {
    let mut cases = each(field, &[json!("x"), json!({}), json!(1), json!(vec!["x"; most + 1])]);
    for bad in
        [json!(""), json!(1), json!(null), json!(["x"]), json!("a\nb"), json!("\0"), json!(long(longest + 1))]
    {
        cases.push((json!({ field: [bad] }), items[0]));
    }
    cases.push((json!({ field: ["fine", false] }), items[1]));
    cases
}

fn open_cases() -> Vec<Case> {
    let mut cases = texts("event_types", ["event_types.0", "event_types.1"], 100, 256);
    cases.extend(texts("sources", ["sources.0", "sources.1"], 100, 100));
    for pattern in ["*.paid", "a*b", "a*.*b*"] {
        cases.push((json!({ "event_types": ["fine.*", pattern] }), "event_types.1"));
    }
    cases.extend(each("api_version", &[json!("2020-01-01"), json!(""), json!(2026)]));
    cases.extend(each("description", &[json!(long(257)), json!(1), json!(["x"]), json!("a\0b")]));
    cases.extend(each(
        "since",
        &[
            json!("soon"),
            json!(""),
            json!(1),
            json!("2025-10-09"),
            json!("evt_"),
            json!("\0"),
            json!("whlis_01k7y3w8q2m5t9x4c6v1b0n7z3"),
        ],
    ));
    cases.extend(each("continues", &[json!(1), json!(long(101)), json!("a\0b"), json!({})]));
    cases.extend(each("max_backlog", &[json!(-1), json!(1.5), json!("5"), json!(1_000_001), json!(1e30)]));
    cases.extend(each("ordered", &[json!(1), json!("true"), json!([])]));
    cases.push((json!({ "since": "beginning", "continues": "whlis_1" }), "since"));
    cases
}

fn poll_cases() -> Vec<Case> {
    let good = json!({ "delivery_id": "whlisdel_1", "ack_token": "t", "status_code": 200, "duration_ms": 1 });
    let mut cases = Vec::new();
    for field in ["acks", "extend", "holding"] {
        cases.extend(each(field, &[json!({}), json!("x"), json!(1), json!(vec![good.clone(); 51])]));
        let item: &'static str = match field {
            "acks" => "acks.1",
            "extend" => "extend.1",
            _ => "holding.1",
        };
        for bad in [json!(1), json!("x"), json!(null), json!([])] {
            cases.push((json!({ field: [good, bad] }), item));
        }
    }
    let mut ack = |name: &str, path: &'static str, values: &[Value]| {
        for value in values {
            let mut bad = good.clone();
            bad[name] = value.clone();
            cases.push((json!({ "acks": [good, bad] }), path));
        }
    };
    ack(
        "delivery_id",
        "acks.1.delivery_id",
        &[json!(null), json!(""), json!(1), json!(long(101)), json!("\0")],
    );
    ack("ack_token", "acks.1.ack_token", &[json!(null), json!(""), json!(1), json!(long(65)), json!("\0")]);
    ack("status_code", "acks.1.status_code", &[json!(99), json!(600), json!("200"), json!(200.5), json!(-1)]);
    ack(
        "duration_ms",
        "acks.1.duration_ms",
        &[json!(null), json!(-1), json!(3_600_001), json!("1"), json!(0.5)],
    );
    ack("error", "acks.1.error", &[json!(1), json!({}), json!(["x"])]);
    ack("skipped", "acks.1.skipped", &[json!(1), json!("true")]);
    let token = |field: &str, bad: Value| json!({ field: [bad] });
    cases.push((token("extend", json!({ "delivery_id": "d" })), "extend.0.ack_token"));
    cases.push((token("extend", json!({ "ack_token": "t" })), "extend.0.delivery_id"));
    cases.push((
        token("holding", json!({ "delivery_id": "d", "ack_token": long(65) })),
        "holding.0.ack_token",
    ));
    cases.extend(each("limit", &[json!(-1), json!(51), json!("10"), json!(1.5)]));
    cases.extend(each("wait_ms", &[json!(-1), json!(25_001), json!("0"), json!(0.1)]));
    cases
}

fn event_cases() -> Vec<Case> {
    let with = |more: Value| {
        let mut body = json!({ "type": "a.b", "data": {} });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let mut cases = vec![
        (json!({ "data": {} }), "type"),
        (json!({ "type": "a" }), "data"),
        (with(json!({ "body": "x" })), "data"),
        (json!({ "type": "a", "body": "x", "occurred_at": "2025-10-09T08:53:20Z" }), "occurred_at"),
    ];
    for kind in [json!(null), json!(""), json!(1), json!(long(257)), json!("a\nb"), json!("a\u{85}b")] {
        cases.push((with(json!({ "type": kind })), "type"));
    }
    for at in [json!("soon"), json!(1), json!("2025-10-09")] {
        cases.push((with(json!({ "occurred_at": at })), "occurred_at"));
    }
    for source in [json!(1), json!(long(65)), json!("a\0b")] {
        cases.push((with(json!({ "source": source })), "source"));
    }
    cases
}

fn replay_cases() -> Vec<Case> {
    let from = "2025-10-09T08:53:20Z";
    let mut cases = texts("event_ids", ["event_ids.0", "event_ids.1"], 1000, 256);
    cases.push((json!({}), "event_ids"));
    cases.push((json!({ "event_ids": [] }), "event_ids"));
    cases.push((json!({ "event_ids": ["evt_1"], "from": from }), "from"));
    for to in [
        json!("endpoints"),
        json!(1),
        json!({}),
        json!({ "listener": 1 }),
        json!({ "endpoint": "whep_1" }),
        json!([]),
    ] {
        cases.push((json!({ "event_ids": ["evt_1"], "to": to }), "to"));
    }
    for (field, values) in [
        ("to_time", vec![json!("soon"), json!(1)]),
        ("type", vec![json!(1), json!(long(257)), json!("\0")]),
        ("source", vec![json!(1), json!(long(257)), json!("\0")]),
        ("status", vec![json!("lost"), json!(1), json!("")]),
        ("limit", vec![json!(0), json!(1001), json!(-1), json!("5")]),
        ("dry_run", vec![json!(1), json!("yes")]),
    ] {
        cases.extend(values.into_iter().map(|value| (json!({ "from": from, field: value }), field)));
    }
    cases.extend([json!("soon"), json!(1)].map(|value| (json!({ "from": value, "to": from }), "from")));
    cases
}

fn source_cases() -> Vec<Case> {
    let with = |more: Value| {
        let mut body = json!({ "name": "ok", "scheme": "github" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let mut cases = vec![(json!({ "scheme": "none" }), "name"), (json!({ "name": "ok" }), "scheme")];
    for name in [
        json!(null),
        json!(""),
        json!(1),
        json!("Git"),
        json!("a b"),
        json!("a/b"),
        json!("-a"),
        json!("ü"),
        json!(long(65)),
        json!("a\0b"),
        json!(".."),
    ] {
        cases.push((with(json!({ "name": name })), "name"));
    }
    for scheme in [json!(null), json!(""), json!(1)] {
        cases.push((with(json!({ "scheme": scheme })), "scheme"));
    }
    let secrets = texts("secrets", ["secrets.0", "secrets.1"], 10, 4096);
    cases.extend(secrets.into_iter().map(|(body, path)| (with(body), path)));
    cases.extend(setting_cases().into_iter().map(|(body, path)| (with(body), path)));
    cases
}

/// What creating and changing a source have in common.
fn setting_cases() -> Vec<Case> {
    let mut cases = each("dedupe", &[json!("never"), json!(1), json!("")]);
    cases.extend(each("dedupe_window_s", &[json!(599), json!(2_592_001), json!("600"), json!(-1)]));
    cases.extend(each(
        "max_body_bytes",
        &[json!(0), json!(-1), json!("1"), json!((25 << 20) + 1), json!(2_u64 << 30)],
    ));
    cases.extend(each(
        "public_url",
        &[json!("hooks"), json!("ftp://x"), json!(1), json!(""), json!(long(2049))],
    ));
    cases
}

on_both_engines!(opening_names_what_is_wrong, async |relay: TestRelay| {
    relay.refuses("/v1/webhook_listeners", open_cases()).await;
    assert_eq!(relay.trail().await, []);
});

on_both_engines!(polling_names_what_is_wrong_and_touches_nothing, async |relay: TestRelay| {
    let listener = relay.open(json!({})).await;
    relay.refuses(&format!("/v1/webhook_listeners/{listener}/poll"), poll_cases()).await;
    let shown = relay.get(&format!("/v1/webhook_listeners/{listener}")).await.expect(200);
    assert_eq!(shown.get("last_polled_at"), None);
    // An outcome is never lost for the text that comes with it.
    relay.source("raw", "none").await;
    let event = relay.ingest("raw", b"{}").await;
    let delivery = relay.poll(&listener, json!({})).await["deliveries"][0].clone();
    let error = format!("a\0b{}", long(10_000));
    let ack = crate::harness::ack_with(&delivery, json!({ "status_code": null, "error": error }));
    assert_eq!(relay.poll(&listener, json!({ "acks": [ack] })).await["acknowledged"], 1);
    let kept = relay.event(&event).await["deliveries"][0]["error"].as_str().unwrap().to_owned();
    assert!(kept.starts_with("a\u{fffd}bx") && kept.chars().count() == 5000);
});

on_both_engines!(making_events_names_what_is_wrong, async |relay: TestRelay| {
    relay.refuses("/v1/events", event_cases()).await;
    let mut data = each("data", &[json!(1), json!("x"), json!([]), json!(true)]);
    data.iter_mut().for_each(|(body, _)| body["type"] = json!("a"));
    relay.refuses("/v1/webhook_events/test", data).await;
    relay
        .refuses(
            "/v1/webhook_events/test",
            vec![
                (json!({}), "type"),
                (json!({ "type": "" }), "type"),
                (json!({ "type": "a\nb" }), "type"),
                (json!({ "type": long(257) }), "type"),
            ],
        )
        .await;
    // Both reasons of a wrong `data`.
    let error =
        relay.post("/v1/events", json!({ "type": "a", "data": 1 })).await.refused(Code::InvalidRequest);
    assert_eq!(error["param"], "data");
    assert_eq!(relay.listed("").await, Vec::<String>::new());
});

on_both_engines!(replaying_names_what_is_wrong, async |relay: TestRelay| {
    relay.refuses("/v1/events/replay", replay_cases()).await;
});

on_both_engines!(sources_name_what_is_wrong, async |relay: TestRelay| {
    relay.refuses("/v1/sources", source_cases()).await;
    assert_eq!(relay.get("/v1/sources").await.expect(200)["data"], json!([]));
    let before = relay.source("gh", "github").await;
    let mut changes = setting_cases();
    changes.extend(each("enabled", &[json!(1), json!("false")]));
    changes.extend(each("name", &[json!("other"), json!(1)]));
    changes.extend(each("secrets", &[json!([]), json!("x")]));
    for (body, field) in changes {
        relay.patch("/v1/sources/gh", body).await.wrong_field(field);
    }
    let mut rotations = texts("secrets", ["secrets.0", "secrets.1"], 10, 4096);
    rotations.push((json!({}), "secrets"));
    rotations.push((json!({ "secrets": [] }), "secrets"));
    relay.refuses("/v1/sources/gh/rotate", rotations).await;
    assert_eq!(relay.get("/v1/sources/gh").await.expect(200), before);
});

on_both_engines!(signing_names_what_is_wrong, async |relay: TestRelay| {
    relay.source("gh", "github").await;
    let mut cases = vec![(json!({}), "body_base64")];
    for (field, values) in [
        ("body_base64", vec![json!("!"), json!(1), json!("eA"), json!("eA=="[..3].to_owned())]),
        ("method", vec![json!(1), json!(long(17))]),
        ("path", vec![json!(1), json!(long(2049))]),
        ("headers", vec![json!({}), json!(1), json!([["a"]]), json!([["a", 1]]), json!(["a", "b"])]),
        ("at", vec![json!("soon"), json!(1_760_000_000)]),
        ("fault", vec![json!("none"), json!(1), json!("")]),
    ] {
        for value in values {
            let mut body = json!({ "body_base64": "" });
            body[field] = value;
            cases.push((body, field));
        }
    }
    relay.refuses("/v1/sources/gh/sign", cases).await;
});

on_both_engines!(queries_name_what_is_wrong, async |relay: TestRelay| {
    let limits = [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=-1", "limit"),
        ("limit=ten", "limit"),
        ("limit=1.5", "limit"),
        ("limit=+1%00", "limit"),
        ("limit=5&limit=0", "limit"),
        ("after=%00", "after"),
    ];
    for path in ["/v1/events", "/v1/sources", "/v1/webhook_listeners"] {
        relay.refuses_query(path, &limits).await;
        let answer = relay.get(&format!("{path}?after=evt_nobody")).await;
        assert_eq!(answer.refused(Code::NotFound)["param"], "after", "{path}");
        relay.get(&format!("{path}?limit=100&after=&news=1")).await.expect(200);
    }
    relay
        .refuses_query(
            "/v1/events",
            &[
                ("wait_ms=-1", "wait_ms"),
                ("wait_ms=25001", "wait_ms"),
                ("wait_ms=x", "wait_ms"),
                ("wait_ms=0&order=desc", "wait_ms"),
                ("order=up", "order"),
                ("status=lost", "status"),
                ("from=yesterday", "from"),
                ("to=1760000000", "to"),
                ("type=%00", "type"),
                ("source=%00", "source"),
                ("q=%00", "q"),
            ],
        )
        .await;
});

on_both_engines!(paths_with_nonsense_are_not_found, async |relay: TestRelay| {
    for id in ["%00", "%FF", "%20", "a%2Fb", "..", "%F0%9F%98%8A", &long(3000)] {
        for path in ["/v1/events/", "/v1/sources/", "/v1/webhook_listeners/"] {
            relay.get(&format!("{path}{id}")).await.refused(Code::NotFound);
        }
        relay
            .post(&format!("/v1/webhook_listeners/{id}/poll"), json!({ "wait_ms": 0 }))
            .await
            .refused(Code::NotFound);
        relay.patch(&format!("/v1/sources/{id}"), json!({})).await.refused(Code::NotFound);
        relay.delete(&format!("/v1/sources/{id}")).await.refused(Code::NotFound);
    }
});

on_both_engines!(an_idempotency_key_has_a_sensible_length, async |relay: TestRelay| {
    let body = json!({ "type": "a", "data": {} }).to_string();
    for key in [&long(257), "ü"] {
        let headers = [JSON[0], ("idempotency-key", key)];
        let answer = relay.send(Method::POST, "/v1/events", &headers, body.clone()).await;
        assert_eq!(answer.refused(Code::InvalidRequest)["param"], "idempotency-key", "{key}");
    }
    let headers = [JSON[0], ("idempotency-key", &long(256))];
    relay.send(Method::POST, "/v1/events", &headers, Body::from(body)).await.expect(202);
});

on_both_engines!(everything_that_is_wrong_comes_at_once, async |relay: TestRelay| {
    let body = json!({ "event_types": ["a*b", ""], "since": "soon", "ordered": 1, "max_backlog": -1 });
    let error = relay.post("/v1/webhook_listeners", body).await.refused(Code::InvalidRequest);
    let mut paths: Vec<_> =
        error["issues"].as_array().unwrap().iter().map(|issue| issue["path"].as_str().unwrap()).collect();
    assert_eq!(error["param"], paths[0]);
    assert!(error["message"].as_str().unwrap().contains("and 4 more"), "{error}");
    paths.sort_unstable();
    assert_eq!(paths, ["event_types.0", "event_types.1", "max_backlog", "ordered", "since"]);
    let error = relay.get("/v1/events?limit=0&order=x&from=y").await.refused(Code::InvalidRequest);
    assert_eq!(error["issues"].as_array().unwrap().len(), 3);
});
