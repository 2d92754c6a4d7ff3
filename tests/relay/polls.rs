//! One poll, step by step: acks are fenced and final, leases end, hand-outs are counted, answers are bounded.

use std::time::Duration;

use pullhook::protocol::error::Code;
use serde_json::{Value, json};

use crate::harness::{Peer, TestRelay, ack, ack_with, event_ids, held};
use crate::on_both_engines;

impl TestRelay {
    /// Level, message, status, duration, what it is about; oldest first.
    async fn logs(&self) -> Vec<Vec<String>> {
        let sql = "SELECT level, message, COALESCE(CAST(status_code AS TEXT), ''), CAST(duration_ms AS TEXT),
            resource_id FROM logs WHERE type = 'webhook.forward' ORDER BY position";
        let rows = self.relay.store().read(move |tx| {
            let rows = tx.query(sql, &[])?;
            rows.into_iter().map(|mut row| (0..5).map(|column| row.take(column)).collect()).collect()
        });
        rows.await.unwrap()
    }
}

impl Peer {
    async fn first(&self, listener: &str) -> Value {
        self.poll(listener, json!({})).await["deliveries"][0].clone()
    }

    async fn status_of(&self, event: &str) -> Value {
        self.event(event).await["deliveries"][0]["status"].clone()
    }
}

on_both_engines!(an_ack_ends_a_delivery_one_way_or_the_other, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let outcomes = [
        (json!({ "status_code": 200 }), "delivered", "info", "forwarded: 200"),
        (json!({ "status_code": 299 }), "delivered", "info", "forwarded: 299"),
        (json!({ "status_code": null }), "delivered", "info", "printed"),
        (json!({ "status_code": 199 }), "failed", "error", "forwarded: 199"),
        (json!({ "status_code": 302 }), "failed", "error", "forwarded: 302"),
        (json!({ "status_code": 500 }), "failed", "error", "forwarded: 500"),
        (json!({ "status_code": null, "error": "refused" }), "failed", "error", "not forwarded: refused"),
        (
            json!({ "status_code": null, "skipped": true }),
            "skipped",
            "info",
            "skipped by the listener's filter",
        ),
    ];
    for (more, status, level, message) in outcomes {
        let event = relay.ingest("raw", b"{}").await;
        let delivery = relay.first(&listener).await;
        let mut ack = ack_with(&delivery, more.clone());
        if more["status_code"].is_null() {
            // A missing one reads as null.
            ack.as_object_mut().unwrap().remove("status_code");
        }
        let after = relay.poll(&listener, json!({ "acks": [ack] })).await;
        assert_eq!((&after["acknowledged"], &after["stale_acks"]), (&json!(1), &json!([])));
        let shown = relay.event(&event).await;
        let ended = &shown["deliveries"][0];
        assert_eq!((&ended["status"], &shown["status"]), (&json!(status), &json!(status)), "{more}");
        assert_eq!((&ended["status_code"], &ended["duration_ms"]), (&more["status_code"], &json!(5)));
        assert_eq!(ended["finished_at"], "2025-10-09T08:53:20.000Z");
        let line = relay.logs().await.pop().unwrap();
        let status = more["status_code"].as_u64().map_or(String::new(), |code| code.to_string());
        assert_eq!(line, [level, message, &status, "5", delivery["id"].as_str().unwrap()]);
    }
    relay.advance(Duration::from_secs(121));
    assert_eq!(
        relay.poll(&listener, json!({})).await["deliveries"],
        json!([]),
        "final, and never handed out again"
    );
    assert_eq!(relay.logs().await.len(), 8);
});

on_both_engines!(only_the_newest_hand_outs_token_counts, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let event = relay.ingest("raw", b"{}").await;
    let first = relay.first(&listener).await;
    relay.advance(Duration::from_secs(120));
    let second = relay.first(&listener).await;
    assert_eq!((&second["id"], &second["attempt"]), (&first["id"], &json!(2)));
    assert_ne!(second["ack_token"], first["ack_token"]);
    let stale = relay.poll(&listener, json!({ "acks": [ack(&first)] })).await;
    assert_eq!((&stale["acknowledged"], &stale["stale_acks"]), (&json!(0), &json!([first["id"]])));
    assert_eq!(relay.status_of(&event).await, "leased");
    // The lease of the second ran out, and nobody has it since: its token still counts.
    relay.advance(Duration::from_secs(121));
    let late = relay.poll(&listener, json!({ "acks": [ack(&second)], "limit": 0 })).await;
    assert_eq!((&late["acknowledged"], &late["stale_acks"]), (&json!(1), &json!([])));
    // Repeated: nothing changes, nothing is wrong.
    let failed = ack_with(&second, json!({ "status_code": 500 }));
    let again = relay.poll(&listener, json!({ "acks": [failed, ack(&second)] })).await;
    assert_eq!((&again["acknowledged"], &again["stale_acks"]), (&json!(0), &json!([])));
    assert_eq!(relay.status_of(&event).await, "delivered");
    assert_eq!(relay.logs().await.len(), 1);
});

on_both_engines!(a_foreign_ack_changes_nothing, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let (ours, theirs) = (relay.open(json!({})).await, relay.open(json!({})).await);
    let stranger = relay.stranger().await;
    let outside = stranger.open(json!({})).await;
    relay.ingest("raw", b"{}").await;
    let delivery = relay.first(&ours).await;
    let invented = json!({ "delivery_id": "whlisdel_nothing", "ack_token": "x", "duration_ms": 0 });
    let guessed = json!({ "delivery_id": delivery["id"], "ack_token": "x".repeat(64), "duration_ms": 0 });
    for (peer, listener) in [(&*relay, &theirs), (&stranger, &outside)] {
        let polled =
            peer.poll(listener, json!({ "acks": [ack(&delivery), invented, guessed], "limit": 0 })).await;
        assert_eq!((&polled["acknowledged"], &polled["stale_acks"]), (&json!(0), &json!([])));
    }
    let polled = relay.poll(&ours, json!({ "acks": [invented, guessed, ack(&delivery)] })).await;
    assert_eq!((&polled["acknowledged"], &polled["stale_acks"]), (&json!(1), &json!([delivery["id"]])));
});

on_both_engines!(an_ack_of_a_listener_that_ended_is_404_and_changes_nothing, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let event = relay.ingest("raw", b"{}").await;
    let delivery = relay.first(&listener).await;
    relay.advance(Duration::from_secs(600));
    relay.try_poll(&listener, json!({ "acks": [ack(&delivery)] })).await.refused(Code::NotFound);
    assert_eq!((relay.status_of(&event).await, relay.logs().await.len()), (json!("dropped"), 0));
});

on_both_engines!(after_five_hand_outs_without_an_ack_a_delivery_is_exhausted, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let event = relay.ingest("raw", b"poison").await;
    let mut last = json!(null);
    for attempt in 1..=5 {
        last = relay.first(&listener).await;
        assert_eq!(last["attempt"], attempt);
        relay.advance(Duration::from_secs(120));
    }
    let other = relay.ingest("raw", b"fine").await;
    let polled = relay.poll(&listener, json!({})).await;
    assert_eq!((event_ids(&polled), &polled["waiting"]), (vec![other], &json!(0)));
    let shown = relay.event(&event).await;
    let ended = &shown["deliveries"][0];
    assert_eq!((&ended["status"], &shown["status"]), (&json!("exhausted"), &json!("failed")));
    assert!(ended["error"].as_str().unwrap().contains("5 times"));
    let logs = relay.logs().await;
    assert_eq!((logs.len(), logs[0][0].as_str(), &json!(logs[0][4])), (1, "error", &ended["id"]));
    assert!(logs[0][1].contains("exhausted"));
    let late = relay.poll(&listener, json!({ "acks": [ack(&last)], "limit": 0 })).await;
    assert_eq!((&late["acknowledged"], &late["stale_acks"]), (&json!(0), &json!([last["id"]])));
    assert_eq!((relay.status_of(&event).await, relay.logs().await.len()), (json!("exhausted"), 1));
});

on_both_engines!(a_poll_hands_out_the_oldest_up_to_its_limit, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    let mut events = Vec::new();
    for _ in 0..12 {
        events.push(relay.ingest("raw", b"{}").await);
    }
    let polled = relay.poll(&listener, json!({ "limit": 1 })).await;
    assert_eq!((event_ids(&polled), &polled["waiting"]), (events[..1].to_vec(), &json!(11)));
    let polled = relay.poll(&listener, json!({})).await;
    assert_eq!((event_ids(&polled), &polled["waiting"]), (events[1..11].to_vec(), &json!(1)));
    let leased = polled["deliveries"][0]["lease_expires_at"].as_str().unwrap();
    assert_eq!(leased, "2025-10-09T08:55:20.000Z");
    let shown = relay.get(&format!("/v1/webhook_listeners/{listener}")).await.expect(200);
    assert_eq!(shown["waiting"], 12, "what it holds counts, whether handed out or not");
    let polled = relay.poll(&listener, json!({ "limit": 50 })).await;
    assert_eq!((event_ids(&polled), &polled["waiting"]), (events[11..].to_vec(), &json!(0)));
});

on_both_engines!(an_answer_carries_four_mebibytes_but_always_one_delivery, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    for size in [5 << 20, 2 << 20, 2 << 20, 1] {
        relay.ingest("raw", &vec![b'x'; size]).await;
    }
    let mut sizes = Vec::new();
    for waiting in [3, 1, 0] {
        let polled = relay.poll(&listener, json!({ "limit": 50 })).await;
        assert_eq!(polled["waiting"], waiting);
        let bodies = polled["deliveries"].as_array().unwrap();
        sizes.push(bodies.iter().map(|d| d["body"].as_str().unwrap().len()).collect::<Vec<_>>());
    }
    assert_eq!(sizes, [vec![5 << 20], vec![2 << 20, 2 << 20], vec![1]]);
});

on_both_engines!(leases_move_on_where_their_token_is_the_newest, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    for _ in 0..3 {
        relay.ingest("raw", b"{}").await;
    }
    let polled = relay.poll(&listener, json!({})).await;
    let [one, two, three] = polled["deliveries"].as_array().unwrap().as_slice() else { panic!("{polled}") };
    relay.advance(Duration::from_secs(100));
    let forged = json!({ "delivery_id": two["id"], "ack_token": "forged" });
    let extended = relay.poll(&listener, json!({ "extend": [held(one), forged, held(three)] })).await;
    assert_eq!(extended["extended"], json!([one["id"], three["id"]]));
    // Past the first lease only the one that was not extended is handed out; the tokens of the others stay.
    relay.advance(Duration::from_secs(20));
    let polled = relay.poll(&listener, json!({})).await;
    assert_eq!(event_ids(&polled), [two["event_id"].as_str().unwrap()]);
    relay.advance(Duration::from_secs(99));
    assert_eq!(
        relay.poll(&listener, json!({ "extend": [held(one)], "limit": 0 })).await["extended"],
        json!([one["id"]])
    );
    relay.advance(Duration::from_secs(1));
    assert_eq!(
        event_ids(&relay.poll(&listener, json!({ "acks": [ack(one)] })).await),
        [three["event_id"].as_str().unwrap()]
    );
    // What was acked or handed out to somebody else is not extended.
    let late = relay.poll(&listener, json!({ "extend": [held(one), held(three)], "limit": 0 })).await;
    assert_eq!(late["extended"], json!([]));
});

on_both_engines!(a_cut_answer_costs_nothing, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let listener = relay.open(json!({})).await;
    for _ in 0..3 {
        relay.ingest("raw", b"{}").await;
    }
    let known = relay.poll(&listener, json!({ "limit": 1 })).await["deliveries"][0].clone();
    // This answer never arrives.
    let lost = relay.poll(&listener, json!({ "limit": 1 })).await["deliveries"][0].clone();
    let again = relay.poll(&listener, json!({ "holding": [held(&known)] })).await;
    let deliveries = again["deliveries"].as_array().unwrap();
    assert_eq!(deliveries.iter().map(|d| d["attempt"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(deliveries[0]["id"], lost["id"]);
    let acks = json!({ "acks": [ack(&known), ack(&lost), ack(&deliveries[0])], "limit": 0 });
    let after = relay.poll(&listener, acks).await;
    assert_eq!((&after["acknowledged"], &after["stale_acks"]), (&json!(2), &json!([lost["id"]])));
    // Cut without end, and never exhausted.
    for _ in 0..8 {
        let polled = relay.poll(&listener, json!({ "holding": [] })).await;
        assert_eq!((event_ids(&polled).len(), &polled["deliveries"][0]["attempt"]), (1, &json!(1)));
    }
    assert_eq!(relay.logs().await.len(), 2);
});
