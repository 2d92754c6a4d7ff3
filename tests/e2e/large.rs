//! F17: what GitHub may send goes through every hop as it is, and what is larger is refused in words.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::harness::http::{post_in_chunks, send};
use crate::harness::relay::{GH_SECRET, accepted};
use crate::harness::sign::{github, is_signed_by};
use crate::harness::{App, Relay};

const MIB: usize = 1 << 20;

#[test]
fn large_bodies_arrive_as_they_were_sent() {
    let relay = Relay::new();
    let app = App::new();
    let secret = relay.home.cli(&["listen", "--print-secret"]).run().expect(0).out[0].clone();
    let mut listen = relay.listen(&["-f", &app.target()]).spawn();
    listen.next("ready");
    let text = |size: usize| format!("{{\"pad\":\"{}\"}}", "x".repeat(size - 10)).into_bytes();
    // Not UTF-8: base64 on its way.
    let binary: Vec<u8> = (0_u8..=255).cycle().take(25 * MIB).collect();
    // Text, six times as long within JSON.
    let escaped = vec![0x01; 25 * MIB - 1];
    let bodies = [text(156_484), text(8 * MIB), text(25 * MIB), binary, escaped];
    for (n, body) in bodies.into_iter().enumerate() {
        let event = accepted(&relay.post_signed(&body));
        let result = listen.next("result");
        assert_eq!(
            (&result["event_id"], &result["outcome"]),
            (&(*event).into(), &"delivered".into()),
            "{result}"
        );
        let request = &app.got(n + 1)[n];
        assert!(request.body == body, "{n}: {} bytes came as {}", body.len(), request.body.len());
        assert!(is_signed_by(&secret, request));
        assert_eq!(request.header("x-hub-signature-256"), github(GH_SECRET, &body));
        assert!(stored(&relay, &event) == body, "{n}: `events show` shows another body");
    }
    // Acked, all of them.
    assert_eq!(listen.stop().summary()["fenced"], 0);
    assert!(relay.api().events().iter().all(|event| event["status"] == "delivered"));
}

/// The body that `events show` shows.
fn stored(relay: &Relay, event: &str) -> Vec<u8> {
    let show = relay.home.cli(&["events", "show", event, "--output", "json", "--api-url", &relay.url()]);
    let shown = show.env("PULLHOOK_API_KEY", &relay.key).run();
    let shown: serde_json::Value = serde_json::from_str(&shown.expect(0).out[0]).unwrap();
    match shown["body_base64"].as_str() {
        Some(text) => STANDARD.decode(text).unwrap(),
        None => shown["body"].as_str().unwrap().as_bytes().to_vec(),
    }
}

/// The most memory that the relay ever had, in bytes; 0 where the system doesn't say.
fn peak(relay: &Relay) -> usize {
    let pid = relay.run.as_ref().unwrap().pid.as_raw_nonzero();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap_or(0) << 10
}

#[test]
fn a_body_over_the_limit_is_refused_readably_and_not_stored() {
    let relay = Relay::new();
    let body = vec![b'x'; 33 * MIB];
    let before = peak(&relay);
    let answer = send("POST", &relay.ingress("raw"), &[], &body).unwrap();
    assert!(peak(&relay) < before + 8 * MIB, "the refused body is in nobody's memory");
    assert_eq!(answer.expect(413)["error"]["type"], "invalid_request_error");
    let answer = post_in_chunks(&relay.ingress("raw"), &body).unwrap();
    assert!(answer.expect(413)["error"]["message"].as_str().unwrap().contains("nothing was stored"));
    assert_eq!(relay.api().events().len(), 0);
    // One byte over, after as much as is allowed.
    let answer = send("POST", &relay.ingress("raw"), &[], &body[..=25 * MIB]).unwrap();
    assert_eq!(answer.status, 413);
    let id = accepted(&post_in_chunks(&relay.ingress("raw"), &body[..25 * MIB]).unwrap());
    assert_eq!(relay.api().events()[0]["id"], *id);
}
