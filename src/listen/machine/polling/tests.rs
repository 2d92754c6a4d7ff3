//! Polls that end in unusual moments, against the machine alone.

use std::sync::Arc;

use super::*;
use crate::http::{Loopback, LoopbackSettings, RelaySettings};
use crate::listen::forward::Forwarder;
use crate::listen::link::Link;
use crate::listen::options::ListenOptions;
use crate::listen::options::SignAs;
use crate::listen::resign::Signer;
use crate::secret::Secret;
use crate::system::{SystemClock, SystemDice};

/// A machine that prints only and was never connected.
fn machine() -> Machine {
    let key = Secret::new("key");
    let o = ListenOptions::new(
        "http://127.0.0.1:1".parse().unwrap(),
        key,
        Arc::new(SystemClock),
        Arc::new(SystemDice),
    );
    let link = Link::new(&o.relay_url, &o.api_key, &RelaySettings::default(), Duration::ZERO).unwrap();
    let local = LoopbackSettings {
        allow_remote: false,
        skip_verify: false,
        ca: None,
        keep_alive: Duration::ZERO,
        connect: Duration::ZERO,
    };
    let forwarder = Forwarder {
        loopback: Loopback::new(local),
        signer: Signer::new(SignAs::None, Vec::new()),
        clock: Arc::new(SystemClock),
        timeout: None,
        append_path: false,
    };
    Machine::new(o, link, forwarder)
}

/// The answer to a poll that handed out the events of these numbers.
fn poll(numbers: &[u64]) -> Poll {
    let deliveries: Vec<_> = numbers
        .iter()
        .map(|n| {
            serde_json::json!({
                "id": format!("d{n}"), "ack_token": "t", "event_id": format!("e{n}"), "event_type": "a.b",
                "attempt": 1, "body": "", "created_at": "2026-01-01T00:00:00.000Z", "source": "s", "sequence": n,
            })
        })
        .collect();
    let time = "2026-01-01T00:00:00.000Z";
    serde_json::from_value(serde_json::json!({
        "listener": {"id": "l", "expires_at": time, "created_at": time},
        "deliveries": deliveries, "waiting": 0,
    }))
    .unwrap()
}

fn flight(serial: u64) -> Flight {
    let task = tokio::spawn(async {}).abort_handle();
    let (acks, extend) = (Vec::new(), Vec::new());
    Flight { serial, task, sent_at: Instant::now(), limit: 10, hangs: true, acks, extend, holding: false }
}

fn told(machine: &mut Machine) -> Vec<String> {
    let told = machine.out.drain(..).filter_map(|event| match event.what {
        What::Notice(Notice::Lost { from, to, .. }) => Some(format!("lost {from} to {to}")),
        What::Reconnected { lost, .. } => Some(format!("reconnected, lost {lost:?}")),
        _ => None,
    });
    told.collect()
}

#[tokio::test]
async fn what_a_cut_poll_brought_counts_for_what_is_missing() {
    let (mut machine, now) = (machine(), Instant::now());
    machine.polls.ready = true;
    machine.polled(7, Ok(poll(&[1])), None, now);
    machine.polled(8, Ok(poll(&[4])), None, now);
    assert_eq!(told(&mut machine), ["lost 2 to 3"]);
    assert_eq!(machine.summary.received, 2);
}

#[tokio::test]
async fn what_is_missing_in_a_gap_is_in_the_line_that_tells_of_it_whichever_poll_showed_it() {
    let (mut machine, now) = (machine(), Instant::now());
    machine.polls.ready = true;
    machine.polled(7, Ok(poll(&[1])), None, now);
    machine.polls.went_down(now, Duration::ZERO);
    machine.polled(8, Ok(poll(&[4])), None, now);
    assert!(told(&mut machine).is_empty());
    machine.polls.main = Some(flight(9));
    machine.polled(9, Ok(poll(&[6])), None, now);
    assert_eq!(told(&mut machine), ["reconnected, lost Some(3)", "lost 2 to 3", "lost 5 to 5"]);
}
