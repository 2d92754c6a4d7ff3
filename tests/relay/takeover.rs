//! What an opening listener is given: the past (`since`), another's work (`continues`), one by one (`ordered`).

use std::time::Duration;

use pullhook::protocol::error::Code;
use serde_json::{Value, json};

use crate::harness::{B1, Peer, TestRelay, ack, borrow, event_ids, github, ids};
use crate::on_both_engines;

const LISTENERS: &str = "/v1/webhook_listeners";

impl TestRelay {
    /// Five events, a second apart, with nobody listening.
    async fn past(&self) -> Vec<String> {
        self.source("raw", "none").await;
        let mut events = Vec::new();
        for kind in ["a", "b", "a", "b", "a"] {
            events.push(self.ingest("raw", format!("{{\"type\":\"{kind}\"}}").as_bytes()).await);
            self.advance(Duration::from_secs(1));
        }
        events
    }
}

impl Peer {
    /// What a listener opened like this is handed out.
    async fn opened_with(&self, body: Value) -> (Value, Vec<String>) {
        let opened = self.post(LISTENERS, body).await.expect(201);
        let id = opened["id"].as_str().unwrap();
        let got = event_ids(&self.poll(id, json!({ "limit": 50 })).await);
        self.delete(&format!("{LISTENERS}/{id}")).await.expect(200);
        (opened, got)
    }
}

on_both_engines!(the_past_is_handed_out_from_where_it_is_asked, async |relay: TestRelay| {
    let events = relay.past().await;
    for (since, want) in [
        (json!(null), &events[5..]),
        (json!("beginning"), &events[..]),
        (json!("2025-10-09T08:53:22Z"), &events[2..]),
        (json!("2025-10-09T10:53:22.001+02:00"), &events[3..]),
        (json!(events[1]), &events[2..]),
        (json!(events[4]), &events[5..]),
    ] {
        let (opened, got) = relay.opened_with(json!({ "since": since })).await;
        assert_eq!((&got[..], &opened["backlog"]), (want, &json!(want.len())), "{since}");
        assert_eq!(opened["latest_event_id"], json!(events[4]));
    }
    let (opened, got) =
        relay.opened_with(json!({ "since": "beginning", "event_types": ["b"], "max_backlog": 2 })).await;
    assert_eq!((got, &opened["backlog"]), (vec![events[1].clone(), events[3].clone()], &json!(2)));
    let (_, got) = relay.opened_with(json!({ "since": "beginning", "sources": ["nobody"] })).await;
    assert_eq!(got, Vec::<String>::new());
});

on_both_engines!(too_much_past_opens_nothing, async |relay: TestRelay| {
    let events = relay.past().await;
    let ask = json!({ "since": "beginning", "max_backlog": 4 });
    let error = relay.post(LISTENERS, ask).await.refused(Code::BacklogTooLarge);
    assert!(error["message"].as_str().unwrap().starts_with("5 "), "{error}");
    assert_eq!((&error["param"], relay.trail().await), (&json!("since"), vec![]));
    assert_eq!(relay.get(LISTENERS).await.expect(200)["data"], json!([]));
    for since in ["evt_01k7y3w8q2m5t9x4c6v1b0n7z3", &events[0]] {
        let peer = if since == events[0] { relay.stranger().await } else { (*relay).clone() };
        let error = peer.post(LISTENERS, json!({ "since": since })).await.refused(Code::NotFound);
        assert_eq!(error["param"], "since");
    }
});

on_both_engines!(what_is_not_dispatched_yet_is_live_and_comes_once, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let before = relay.ingest("raw", b"1").await;
    let pending = relay.webhook("raw", &[], "2").await.accepted();
    let opened = relay.post(LISTENERS, json!({ "since": "beginning" })).await.expect(201);
    assert_eq!((&opened["backlog"], &opened["latest_event_id"]), (&json!(1), &json!(pending)));
    let id = opened["id"].as_str().unwrap();
    relay.dispatch().await;
    assert_eq!(event_ids(&relay.poll(id, json!({})).await), [before, pending]);
});

on_both_engines!(a_listener_continues_another, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let old = relay.open(json!({})).await;
    let [leased, done, waiting] = [
        relay.ingest("raw", b"leased").await,
        relay.ingest("raw", b"done").await,
        relay.ingest("raw", b"waiting").await,
    ];
    let polled = relay.poll(&old, json!({ "limit": 2 })).await;
    let deliveries = polled["deliveries"].as_array().unwrap();
    relay.advance(Duration::from_secs(1));
    relay.poll(&old, json!({ "acks": [ack(&deliveries[1])], "limit": 0 })).await;
    // It sleeps past its end; what comes then has no receiver.
    relay.advance(Duration::from_secs(601));
    let missed = relay.ingest("raw", b"missed").await;
    let opened = relay.post(LISTENERS, json!({ "continues": old, "ordered": false })).await.expect(201);
    assert_eq!(opened["backlog"], 1);
    let new = opened["id"].as_str().unwrap();
    let polled = relay.poll(new, json!({})).await;
    assert_eq!(event_ids(&polled), [leased, waiting, missed]);
    let attempts: Vec<_> =
        polled["deliveries"].as_array().unwrap().iter().map(|d| d["attempt"].clone()).collect();
    assert_eq!(attempts, [json!(2), json!(1), json!(1)]);
    // The old one is gone, and so is its hold.
    relay.try_poll(&old, json!({})).await.refused(Code::NotFound);
    let after = relay.poll(new, json!({ "acks": [ack(&deliveries[0])] })).await;
    assert_eq!((&after["acknowledged"], &after["waiting"]), (&json!(0), &json!(0)));
    assert_eq!(relay.event(&done).await["deliveries"].as_array().unwrap().len(), 1);
});

on_both_engines!(continuing_an_open_listener_closes_it_and_needs_no_room, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let mut open = Vec::new();
    for _ in 0..5 {
        open.push(relay.open(json!({})).await);
    }
    let event = relay.ingest("raw", b"1").await;
    let parked = relay.park(&open[0], json!({ "limit": 0 })).await;
    let new = relay.open(json!({ "continues": open[0], "ordered": true })).await;
    parked.answer().await.refused(Code::NotFound);
    assert_eq!(event_ids(&relay.poll(&new, json!({})).await), std::slice::from_ref(&event));
    assert_eq!(relay.event(&event).await["deliveries"].as_array().unwrap().len(), 5);
    relay.post(LISTENERS, json!({})).await.refused(Code::ListenerLimitReached);
});

on_both_engines!(an_opening_whose_answer_was_lost_is_asked_for_again, async |relay: TestRelay| {
    relay.source("raw", "none").await;
    let old = relay.open(json!({})).await;
    let [leased, waiting] = [relay.ingest("raw", b"leased").await, relay.ingest("raw", b"waiting").await];
    relay.poll(&old, json!({ "limit": 1 })).await;
    relay.advance(Duration::from_secs(1));
    relay.poll(&old, json!({ "limit": 0 })).await;
    // Two answers that never arrive; the deliveries went along each time.
    for _ in 0..2 {
        relay.open(json!({ "continues": old })).await;
    }
    let later = relay.ingest("raw", b"later").await;
    let new = relay.open(json!({ "continues": old })).await;
    assert_eq!(event_ids(&relay.poll(&new, json!({})).await), [leased, waiting, later]);
    assert_eq!(ids(&relay.get(LISTENERS).await.expect(200)["data"]), std::slice::from_ref(&new));
    // Once the new one was polled, it is somebody's: it keeps what it has.
    let another = relay.open(json!({ "continues": old })).await;
    relay.poll(&another, json!({ "limit": 0 })).await;
    relay.poll(&new, json!({ "limit": 0 })).await;
});

on_both_engines!(a_redelivery_that_was_missed_is_part_of_what_is_continued, async |relay: TestRelay| {
    relay.source("gh", "github").await;
    let old = relay.open(json!({})).await;
    let push = github("d1", B1);
    let event = relay.webhook("gh", &borrow(&push), B1).await.accepted();
    relay.dispatch().await;
    let delivery = relay.poll(&old, json!({})).await["deliveries"][0].clone();
    relay.poll(&old, json!({ "acks": [ack(&delivery)] })).await;
    relay.advance(Duration::from_secs(601));
    relay.webhook("gh", &borrow(&push), B1).await.accepted();
    relay.dispatch().await;
    let new = relay.open(json!({ "continues": old })).await;
    let polled = relay.poll(&new, json!({})).await;
    assert_eq!((event_ids(&polled), &polled["deliveries"][0]["redelivery"]), (vec![event], &json!(true)));
});

on_both_engines!(only_a_listener_of_ours_of_the_last_day_can_be_continued, async |relay: TestRelay| {
    let old = relay.open(json!({})).await;
    for (peer, id) in [(relay.stranger().await, old.as_str()), ((*relay).clone(), "whlis_nobody")] {
        let error = peer.post(LISTENERS, json!({ "continues": id })).await.refused(Code::NotFound);
        assert_eq!(error["param"], "continues");
    }
    relay.advance(Duration::from_secs(600 + 86_400) - Duration::from_millis(1));
    let new = relay.open(json!({ "continues": old })).await;
    relay.advance(Duration::from_secs(600 + 86_400));
    relay.post(LISTENERS, json!({ "continues": new })).await.refused(Code::NotFound);
});

on_both_engines!(an_ordered_listener_has_one_of_each_source_in_hand, async |relay: TestRelay| {
    relay.source("a", "none").await;
    relay.source("b", "none").await;
    let listener = relay.open(json!({ "ordered": true })).await;
    let [a1, a2, b1, a3] = [
        relay.ingest("a", b"1").await,
        relay.ingest("a", b"2").await,
        relay.ingest("b", b"1").await,
        relay.ingest("a", b"3").await,
    ];
    let polled = relay.poll(&listener, json!({})).await;
    assert_eq!(event_ids(&polled), [a1.clone(), b1]);
    let (head, other) = (&polled["deliveries"][0], &polled["deliveries"][1]);
    assert_eq!(event_ids(&relay.poll(&listener, json!({})).await), Vec::<String>::new());
    // A lease that ran out is handed out again, before anything behind it.
    relay.advance(Duration::from_secs(120));
    let polled = relay.poll(&listener, json!({ "acks": [ack(other)] })).await;
    assert_eq!(event_ids(&polled), [a1]);
    assert_eq!(polled["deliveries"][0]["id"], head["id"]);
    // The ack frees the next one, also for a poll that waits.
    let parked = relay.park(&listener, json!({})).await;
    relay.poll(&listener, json!({ "acks": [ack(&polled["deliveries"][0])], "limit": 0 })).await;
    let polled = parked.answer().await.expect(200);
    assert_eq!(event_ids(&polled), [a2]);
    let failed = crate::harness::ack_with(&polled["deliveries"][0], json!({ "status_code": 500 }));
    assert_eq!(event_ids(&relay.poll(&listener, json!({ "acks": [failed] })).await), [a3]);
});
