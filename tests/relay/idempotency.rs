//! `Idempotency-Key` on `POST /v1/events`.

use std::time::Duration;

use http::Method;
use pullhook::protocol::error::Code;

use crate::harness::{JSON, TestRelay};
use crate::on_both_engines;

on_both_engines!(a_repeated_request_gets_the_stored_answer, async |relay: TestRelay| {
    let body = r#"{"type":"a","data":{"n":1}}"#.to_owned();
    let headers = [JSON[0], ("Idempotency-Key", "k-1")];
    let first = relay.send(Method::POST, "/v1/events", &headers, body.clone()).await;
    assert_eq!(first.header("idempotent-replayed"), "");
    relay.advance(Duration::from_secs(86_400));
    let again = relay.send(Method::POST, "/v1/events", &headers, body.clone()).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (first.status, "true"));
    assert_eq!(again.json(), first.json());
    let other = relay.send(Method::POST, "/v1/events", &headers, r#"{"type":"b","data":{}}"#).await;
    assert_eq!(other.refused(Code::IdempotencyMismatch)["param"], "idempotency-key");
    // Keys of another environment, and of other routes, are others.
    let stranger = relay.stranger().await;
    let theirs =
        stranger.send(Method::POST, "/v1/events", &headers, r#"{"type":"b","data":{}}"#).await.expect(202);
    assert_ne!(theirs["id"], first.json()["id"]);
    for _ in 0..2 {
        let answer = relay.send(Method::POST, "/v1/webhook_listeners", &headers, "{}").await;
        assert_eq!((answer.status.as_u16(), answer.header("idempotent-replayed")), (201, ""));
    }
    assert_eq!(relay.listed("").await.len(), 1);
    // After a day it is forgotten.
    relay.advance(Duration::from_millis(1));
    let fresh = relay.send(Method::POST, "/v1/events", &headers, body).await.expect(202);
    assert_ne!(fresh["id"], first.json()["id"]);
});

on_both_engines!(
    a_key_is_free_again_after_a_failure_and_held_while_its_request_runs,
    async |relay: TestRelay| {
        let headers = [JSON[0], ("Idempotency-Key", "k-2")];
        let (bad, good) = (r#"{"type":"a","data":{},"source":"nobody"}"#, r#"{"type":"a","data":{}}"#);
        relay.send(Method::POST, "/v1/events", &headers, bad).await.refused(Code::NotFound);
        relay.sql("ALTER TABLE events RENAME TO hidden").await;
        relay.send(Method::POST, "/v1/events", &headers, good).await.refused(Code::Unavailable);
        relay.sql("ALTER TABLE hidden RENAME TO events").await;
        relay.send(Method::POST, "/v1/events", &headers, good).await.expect(202);
        assert_eq!(relay.listed("").await.len(), 1);
        // As if it still ran: there is no answer yet.
        relay.sql("UPDATE idempotency_keys SET answer = NULL").await;
        relay.send(Method::POST, "/v1/events", &headers, good).await.refused(Code::IdempotencyInProgress);
        relay.advance(Duration::from_millis(60_001));
        relay.send(Method::POST, "/v1/events", &headers, good).await.expect(202);
    }
);

on_both_engines!(of_many_at_once_one_is_carried_out, async |relay: TestRelay| {
    let headers = [JSON[0], ("Idempotency-Key", "k-3")];
    let posts =
        (0..20).map(|_| relay.send(Method::POST, "/v1/events", &headers, r#"{"type":"a","data":{}}"#));
    let answers = futures_util::future::join_all(posts).await;
    let fresh =
        answers.iter().filter(|a| a.status == 202 && a.header("idempotent-replayed").is_empty()).count();
    assert_eq!(fresh, 1);
    assert!(answers.iter().all(|answer| answer.status == 202 || answer.status == 409));
    assert_eq!(relay.listed("").await.len(), 1);
});
