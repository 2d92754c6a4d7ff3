//! A network between `listen` and the relay that cuts and stalls, by plan.

use std::collections::BTreeMap;

use crate::harness::log::until;
use crate::harness::proxy::{Fate, Fault};
use crate::harness::{App, Home, Proxy, Relay};

const LISTEN: &str = r#"{"poll_wait_ms":300,"poll_slack_ms":250,"backoff_base_ms":10,"backoff_cap_ms":40,
    "close_ms":2000}"#;

/// How often each event was posted to the app.
fn counts(app: &App) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in app.requests.all() {
        *counts.entry(request.header("webhook-id").to_owned()).or_default() += 1;
    }
    counts
}

/// Every connection is cut or goes silent sooner or later, in what is asked or in what is answered.
fn fate(connection: u64) -> Fate {
    let chance = connection.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let at = usize::try_from(chance / 8 % 16_000).unwrap();
    match chance % 8 {
        0 => Fate { up: Some(Fault::Stall(at / 4)), ..Fate::default() },
        1 => Fate { down: Some(Fault::Stall(at)), ..Fate::default() },
        2..=4 => Fate { up: Some(Fault::Cut(at / 4)), ..Fate::default() },
        _ => Fate { down: Some(Fault::Cut(at)), ..Fate::default() },
    }
}

/// However it is cut: every event is posted once, and its outcome known to the relay in the end.
#[test]
fn cuts_and_stalls_lose_nothing_and_repeat_nothing() {
    let relay = Relay::new();
    let proxy = Proxy::to(relay.port.number).fates(fate);
    let app = App::new();
    let home = Home::new();
    let mut listen = relay.listen_from(&home, &proxy.url(), &["-f", &app.target()]).timing(LISTEN).spawn();
    listen.next("ready");
    let mut sent = Vec::new();
    for _ in 0..10 {
        sent.extend((0..10).map(|n| relay.post(&format!("{{\"n\":{n}}}"))));
        app.got(sent.len());
    }
    until("every outcome at the relay", || {
        relay.api().events().iter().all(|event| event["status"] == "delivered").then_some(())
    });
    let counts = counts(&app);
    assert_eq!(counts.len(), sent.len());
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    assert!(proxy.accepted.len() > 10, "it was no quiet network");
    assert!(listen.all("reconnected").iter().all(|line| line["lost"] == 0));
}

/// A link that says nothing for longer than a poll may take is given up, and one that comes back is used.
#[test]
fn a_silent_link_is_noticed() {
    let relay = Relay::new();
    let proxy = Proxy::to(relay.port.number);
    let app = App::new();
    let home = Home::new();
    let mut listen = relay.listen_from(&home, &proxy.url(), &["-f", &app.target()]).timing(LISTEN).spawn();
    listen.next("ready");
    proxy.stall(true);
    let cause = listen.next("reconnecting")["cause"].as_str().unwrap().to_owned();
    assert!(cause.contains("no answer within"), "{cause}");
    let event = relay.post("{}");
    proxy.stall(false);
    listen.next("reconnected");
    assert_eq!(app.got(1)[0].header("webhook-id"), event);
    let ended = listen.stop();
    assert_eq!((ended.all("reconnected").len(), app.requests.len()), (1, 1));
}

/// A crash of `listen` behind a bad link: only what had an ack in flight may be posted again.
#[test]
fn a_killed_listener_goes_on_where_it_was() {
    let relay = Relay::new();
    let proxy = Proxy::to(relay.port.number);
    let app = App::new();
    let home = Home::new();
    let args = ["-f", &app.target(), "--since", "last", "--max-in-flight", "1"];
    let start = || {
        let mut listen = relay.listen_from(&home, &proxy.url(), &args).timing(LISTEN).spawn();
        listen.next("ready");
        listen
    };
    let mut listen = start();
    let first = relay.post("first");
    until("the ack", || (relay.api().event(&first)["status"] == "delivered").then_some(()));
    // From here on no ack gets through.
    proxy.stall(true);
    proxy.cut();
    listen.kill();
    let sent = [relay.post("second"), relay.post("third")];
    proxy.stall(false);
    let mut listen = start();
    sent.iter().for_each(|event| assert_eq!(listen.next("result")["event_id"], **event));
    listen.stop();
    assert!(counts(&app).values().all(|count| *count == 1), "{:?}", counts(&app));
    assert_eq!(app.requests.len(), 3);
}
