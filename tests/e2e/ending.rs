//! How a run ends: L13, SIGTERM, the drain, a reader that goes away.

use serde_json::Value;

use crate::harness::log::until;
use crate::harness::{App, Hold, Relay, Reply, Run, Signal};

/// A relay, an app that keeps every request until it is told, and a listener.
struct Scene {
    relay: Relay,
    app: App,
    hold: Hold,
    listen: Run,
}

impl Scene {
    fn new(args: &[&str]) -> Self {
        let (relay, hold) = (Relay::new(), Hold::default());
        let waits = hold.clone();
        let app = App::new().answers(move |_| {
            waits.wait();
            Reply::status(200)
        });
        let mut listen = relay.listen(&[&["-f", &app.target()], args].concat()).spawn();
        listen.next("ready");
        Self { relay, app, hold, listen }
    }

    /// Waits until it claims nothing more; an event that stays where it is.
    fn stopped_claiming(&self) -> String {
        until("an event that is not taken", || {
            let late = self.relay.post("late");
            until("its fan-out", || self.delivery(&late).is_object().then_some(()));
            (self.delivery(&late)["status"] == "waiting").then_some(late)
        })
    }

    fn delivery(&self, event: &str) -> Value {
        self.relay.api().event(event)["deliveries"][0].clone()
    }
}

/// L13, first run, and the same for SIGTERM: nothing new is taken, what runs may end, and is acked.
#[test]
fn one_signal_lets_the_running_post_end_and_acks_it() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut scene = Scene::new(&[]);
        let event = scene.relay.post("{}");
        scene.app.got(1);
        scene.listen.signal(signal);
        let late = scene.stopped_claiming();
        scene.hold.release(1000);
        let ended = scene.listen.end();
        ended.expect(0);
        assert_eq!(ended.summary()["failed"], 0);
        let delivery = scene.delivery(&event);
        assert_eq!((&delivery["status"], &delivery["status_code"]), (&"delivered".into(), &200.into()));
        assert_eq!(scene.delivery(&late)["status"], "dropped");
        assert_eq!(scene.relay.api().listeners().len(), 0, "the listener is closed");
    }
}

/// L13, second run: at once, nothing acked, and handed out again to `--since last`.
#[test]
fn two_signals_end_it_at_once_and_lose_nothing() {
    let mut scene = Scene::new(&[]);
    let event = scene.relay.post("{}");
    scene.app.got(1);
    scene.listen.signal(Signal::INT);
    scene.stopped_claiming();
    scene.listen.signal(Signal::INT);
    scene.listen.end().expect(130);
    assert_eq!(scene.delivery(&event)["status"], "leased");
    assert_eq!(scene.relay.api().listeners().len(), 1, "left open");
    scene.hold.release(1000);
    let mut again = scene.relay.listen(&["-f", &scene.app.target(), "--since", "last"]).spawn();
    again.next("ready");
    assert_eq!(again.next_where("result", |line| line["event_id"] == *event)["outcome"], "delivered");
    again.stop();
    let ids = scene.app.requests.all();
    assert_eq!(ids.iter().filter(|request| request.header("webhook-id") == event).count(), 2);
}

/// What the drain cuts off is acked as failed, and said.
#[test]
fn the_drain_has_an_end() {
    let mut scene = Scene::new(&["--drain", "100ms"]);
    let event = scene.relay.post("{}");
    scene.app.got(1);
    scene.listen.signal(Signal::TERM);
    let ended = scene.listen.end();
    ended.expect(0);
    let result = &ended.all("result")[0];
    assert_eq!(result["error"], "interrupted");
    assert!(result["duration_ms"].as_u64() >= Some(100), "as long as it was open: {result}");
    assert!(ended.stderr().contains("1 POST interrupted"), "{ended:#?}");
    let delivery = scene.delivery(&event);
    assert_eq!((&delivery["status"], &delivery["error"]), (&"failed".into(), &"interrupted".into()));
}

/// `| head`: when nobody reads any more it ends, cleanly.
#[test]
fn a_reader_that_goes_away_ends_it() {
    let relay = Relay::new();
    let app = App::new();
    let listen = relay.listen(&["-f", &app.target()]);
    let mut piped = listen.through("sh", &["-c", "\"$@\" | head -n 1; echo end >&2", "sh"]).spawn();
    piped.next("ready");
    let event = relay.post("{}");
    piped.says("end");
    let ended = piped.end();
    assert!(!ended.stderr().contains("panicked"), "{ended:#?}");
    until("the ack of what was in flight", || {
        let event = relay.api().event(&event);
        (event["status"] == "delivered").then_some(())
    });
    assert_eq!(relay.api().listeners().len(), 0);
}

/// The relay is gone when the end comes: what it could not be told is said, and the next run goes on there.
#[test]
fn an_end_without_the_relay_says_what_it_was_not_told() {
    let mut scene = Scene::new(&[]);
    let event = scene.relay.post("{}");
    scene.app.got(1);
    scene.relay.kill();
    scene.hold.release(1000);
    scene.listen.next("result");
    scene.listen.signal(Signal::INT);
    let ended = scene.listen.end();
    assert!(ended.stderr().contains("could not be told how 1 event ended"), "{ended:#?}");
    scene.relay.start();
    assert_eq!(scene.relay.api().listeners().len(), 1, "nobody closed it");
    let target = scene.app.target();
    let mut again = scene.relay.listen(&["-f", &target, "--since", "last"]).spawn();
    again.next("ready");
    assert_eq!(again.next("result")["event_id"], *event);
    again.stop();
    assert_eq!(scene.relay.api().event(&event)["status"], "delivered");
    assert_eq!(scene.relay.api().listeners().len(), 0, "the left one is closed by its successor");
}
