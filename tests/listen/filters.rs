//! What is held back is shown, counted and acked as skipped.

use pullhook::filter::Filter;
use pullhook::listen::{Outcome, Skip};
use pullhook::target::Route;

use crate::app::App;
use crate::fake::Fake;
use crate::rig::{options, start};

#[tokio::test]
async fn event_globs_decide_what_is_forwarded() {
    let all: &[&str] = &["invoice.paid", "customer.created", "customer.deleted"];
    for (events, forwarded) in [
        (&["invoice.paid", "customer.created"][..], &all[..2]),
        (&["customer.*"], &all[1..]),
        (&["*"], all),
        (&["invoice.piad"], &[]),
    ] {
        let (relay, app) = (Fake::ours().await, App::ok().await);
        let mut options = options(&relay.url(), Some(&app.target("/")));
        options.events = events.iter().map(|&event| event.to_owned()).collect();
        let mut running = start(options);
        running.ready().await;
        let mut delivered = Vec::new();
        for kind in all {
            let id = relay.publish(kind, b"{}");
            let ended = running.ended().await;
            match ended.outcome {
                Outcome::Delivered => delivered.push(ended.received.event_type.clone()),
                outcome => {
                    assert_eq!(outcome, Outcome::Skipped(Skip::Events));
                    relay
                        .until("a skip", |state| state.acked(&id).is_some_and(|ack| ack["skipped"] == true))
                        .await;
                }
            }
        }
        assert_eq!(delivered, forwarded);
        let (_, summary) = running.stop().await;
        assert_eq!((summary.received, summary.skipped), (3, 3 - forwarded.len() as u64));
        assert!(relay.state().opens[0].get("event_types").is_none(), "they run here");
    }
}

#[tokio::test]
async fn filters_excludes_and_sources_hold_back() {
    let (relay, app) = (Fake::ours().await, App::ok().await);
    let mut options = options(&relay.url(), Some(&app.target("/")));
    options.exclude = vec!["b.*".to_owned()];
    options.sources = vec!["raw".to_owned()];
    options.filters = vec![Filter::parse("body.amount>=100").unwrap()];
    let mut running = start(options);
    running.ready().await;
    assert_eq!(relay.state().opens[0]["sources"], serde_json::json!(["raw"]));
    let mut outcome = async |kind: &str, body: &str, source: &str| {
        relay.publish_with(kind, body.as_bytes(), &serde_json::json!({"source": source}));
        running.ended().await.outcome
    };
    assert_eq!(outcome("a.b", r#"{"amount":100}"#, "raw").await, Outcome::Delivered);
    assert_eq!(outcome("a.b", r#"{"amount":99}"#, "raw").await, Outcome::Skipped(Skip::Filter));
    assert_eq!(outcome("a.b", "no JSON", "raw").await, Outcome::Skipped(Skip::Filter));
    assert_eq!(outcome("b.c", r#"{"amount":100}"#, "raw").await, Outcome::Skipped(Skip::Exclude));
    assert_eq!(outcome("a.b", r#"{"amount":100}"#, "other").await, Outcome::Skipped(Skip::Source));
    running.stop().await;
}

#[tokio::test]
async fn the_first_route_that_fits_takes_it() {
    let (relay, one, two) = (Fake::ours().await, App::ok().await, App::ok().await);
    let mut options = options(&relay.url(), None);
    options.routes = vec![
        Route::parse(&format!("type:invoice.*=:{}/billing", one.port)).unwrap(),
        Route::parse(&format!("source:raw=:{}/raw", two.port)).unwrap(),
    ];
    let mut running = start(options);
    running.ready().await;
    relay.publish("invoice.paid", b"{}");
    assert_eq!(running.ended().await.url.unwrap(), format!("http://localhost:{}/billing", one.port));
    relay.publish("push", b"{}");
    assert_eq!(running.ended().await.url.unwrap(), format!("http://localhost:{}/raw", two.port));
    relay.publish_with("push", b"{}", &serde_json::json!({"source": "other"}));
    assert_eq!(running.ended().await.outcome, Outcome::Skipped(Skip::Route));
    running.stop().await;
}
