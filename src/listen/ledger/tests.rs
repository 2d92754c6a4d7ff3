//! One POST each: hand-outs, repeats, lost leases and reopened listeners against the ledger alone.

use super::*;
use crate::clock::Timestamp;
use crate::listen::ack;
use crate::target::Target;

fn received(id: &str, event: &str, source: &str, occurrence: Option<u64>) -> Received {
    Received {
        event_id: event.to_owned(),
        delivery_id: id.to_owned(),
        event_type: "a.b".to_owned(),
        source: Some(source.to_owned()),
        attempt: 1,
        replay: false,
        redelivery: false,
        created_at: Timestamp::default(),
        method: "POST".to_owned(),
        path: String::new(),
        query: None,
        headers: None,
        body: bytes::Bytes::new(),
        sequence: None,
        occurrence,
    }
}

fn lease(now: Instant) -> Lease {
    Lease::new(now, Duration::from_secs(120))
}

fn work(received: Received) -> Work {
    let to = Destination::from(&Target::parse("unix:/run/app.sock").unwrap());
    Work { received: Arc::new(received), to: Arc::new(to), gate: None }
}

fn handed(id: &str, token: &str, event: &str, occurrence: Option<u64>) -> Delivery {
    let mut delivery: Delivery = serde_json::from_str(
        r#"{"id":"","ack_token":"","event_id":"","event_type":"a.b","attempt":2,"body":"",
            "created_at":"2026-01-01T00:00:00.000Z"}"#,
    )
    .unwrap();
    (delivery.id, delivery.ack_token) = (id.to_owned(), token.to_owned());
    (delivery.event_id, delivery.occurrence) = (event.to_owned(), occurrence);
    delivery
}

fn answer(ledger: &mut Ledger, arrival: Arrival) -> Ack {
    ledger.answer(arrival, |id, token| ack::ack(id, token, Some(200), Duration::ZERO, None)).unwrap().1
}

#[test]
fn handed_out_again_while_open_is_not_posted_twice() {
    let (mut ledger, now) = (Ledger::default(), Instant::now());
    ledger.queue(work(received("d1", "e1", "s", Some(1))), "t1", lease(now));
    let (arrival, _) = ledger.start(now, false, |_| true).unwrap();
    assert_eq!(ledger.hand_out(&handed("d1", "t2", "e1", Some(1)), lease(now)), HandOut::Adopted);
    assert!(ledger.start(now, false, |_| true).is_none());
    assert_eq!(answer(&mut ledger, arrival).ack_token, "t2");
}

#[test]
fn handed_out_again_after_its_answer_is_acked_with_the_new_token() {
    let (mut ledger, now) = (Ledger::default(), Instant::now());
    ledger.queue(work(received("d1", "e1", "s", Some(1))), "t1", lease(now));
    let (arrival, _) = ledger.start(now, false, |_| true).unwrap();
    let first = answer(&mut ledger, arrival);
    ledger.taken(&first);
    let HandOut::Answered { ack, .. } = ledger.hand_out(&handed("d1", "t2", "e1", Some(1)), lease(now))
    else {
        panic!("posted twice");
    };
    assert_eq!((ack.ack_token.as_str(), ack.status_code), ("t2", Some(200)));
    assert!(!ledger.is_newest(&first));
}

#[test]
fn after_a_reopen_sameness_is_event_and_occurrence() {
    let (mut ledger, now) = (Ledger::default(), Instant::now());
    ledger.queue(work(received("d1", "e1", "s", Some(1))), "t1", lease(now));
    ledger.start(now, false, |_| true).unwrap();
    assert_eq!(
        ledger.hand_out(&handed("d9", "t", "e1", Some(1)), lease(now)),
        HandOut::New,
        "the listener is still there"
    );
    ledger.orphan_all();
    assert_eq!(ledger.hand_out(&handed("d8", "t8", "e1", Some(2)), lease(now)), HandOut::New, "a replay");
    assert_eq!(ledger.hand_out(&handed("d7", "t7", "e1", Some(1)), lease(now)), HandOut::Adopted);
    assert_eq!(ledger.holding(), [Held { delivery_id: "d7".to_owned(), ack_token: "t7".to_owned() }]);
}

#[test]
fn a_refused_post_goes_back_to_its_place_in_line() {
    let (mut ledger, now) = (Ledger::default(), Instant::now());
    for n in 1..=3 {
        ledger.queue(work(received(&format!("d{n}"), &format!("e{n}"), "s", None)), "t", lease(now));
    }
    let (first, _) = ledger.start(now, false, |_| true).unwrap();
    ledger.start(now, false, |_| true).unwrap();
    ledger.put_back(first);
    let (_, again) = ledger.start(now, false, |_| true).unwrap();
    assert_eq!(again.received.event_id, "e1");
}

#[test]
fn ordered_is_one_at_a_time_per_source() {
    let (mut ledger, now) = (Ledger::default(), Instant::now());
    for (id, source) in [("d1", "a"), ("d2", "a"), ("d3", "b")] {
        ledger.queue(work(received(id, id, source, None)), "t", lease(now));
    }
    let (first, _) = ledger.start(now, true, |_| true).unwrap();
    let (_, other) = ledger.start(now, true, |_| true).unwrap();
    assert_eq!(other.received.delivery_id, "d3");
    assert!(ledger.start(now, true, |_| true).is_none());
    answer(&mut ledger, first);
    assert_eq!(ledger.start(now, true, |_| true).unwrap().1.received.delivery_id, "d2");
    let mut parked = Ledger::default();
    parked.queue(work(received("d1", "d1", "a", None)), "t", lease(now));
    parked.queue(work(received("d2", "d2", "a", None)), "t", lease(now));
    let second_only = |work: &Work| work.received.delivery_id == "d2";
    assert!(parked.start(now, true, second_only).is_none(), "the first one waits for its port");
}

#[test]
fn what_is_remembered_is_bounded_and_holds_no_bodies() {
    let (mut ledger, now) = (Ledger::default(), Instant::now());
    for n in 0..3000 {
        ledger.queue(work(received(&format!("d{n}"), "e", "s", None)), "t", lease(now));
        let (arrival, work) = ledger.start(now, false, |_| true).unwrap();
        let sent = answer(&mut ledger, arrival);
        assert_eq!(Arc::strong_count(&work), 1);
        ledger.taken(&sent);
    }
    assert_eq!((ledger.entries.len(), ledger.by_id.len()), (REMEMBERED, REMEMBERED));
}

#[test]
fn leases_are_extended_at_their_half_each_at_its_own() {
    let (mut ledger, now) = (Ledger::default(), Instant::now());
    let long = Duration::from_secs(120);
    ledger.queue(work(received("d1", "e1", "s", None)), "t1", Lease::new(now, long));
    ledger.queue(work(received("d2", "e2", "s", None)), "t2", Lease::new(now, long * 2));
    assert!(ledger.due(now).is_empty());
    let later = now + long / 2;
    assert_eq!(ledger.extend_at(), Some(later));
    let asked = ledger.due(later);
    assert_eq!(asked.len(), 1);
    ledger.extended(&asked, &["d1".to_owned()], later);
    assert!(ledger.due(later).is_empty());
    ledger.extended(&asked, &[], later);
    assert_eq!(ledger.due(later + long).len(), 1, "the one that was refused is not asked for again");
}
