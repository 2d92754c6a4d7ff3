//! Which headers reach the app: the provider's own, what the relay adds, and nothing that belongs to one connection.

use std::io::{BufReader, Write as _};
use std::net::TcpStream;

use crate::harness::app::Request;
use crate::harness::http::{read_message, send, split};
use crate::harness::relay::{GH_SECRET, accepted};
use crate::harness::sign::github;
use crate::harness::{App, Relay};

/// What arrives at the app of a running listener.
fn forwarded(relay: &Relay, count: usize, deliver: impl FnOnce()) -> Vec<Request> {
    let app = App::new();
    let mut listen = relay.listen(&["-f", &app.target()]).spawn();
    listen.next("ready");
    deliver();
    (0..count).for_each(|_| assert_eq!(listen.next("result")["outcome"], "delivered"));
    listen.stop();
    app.got(count)
}

/// F04: an app's server may cap headers at 8 KiB.
#[test]
fn what_is_added_is_small_and_holds_nothing_of_the_body() {
    let body: String = (0..2_500).map(|n| format!("{n:07},")).collect();
    let sent = [("content-type", "application/json"), ("user-agent", "Provider/1")];
    let relay = Relay::new();
    let requests = forwarded(&relay, 1, || {
        accepted(&send("POST", &relay.ingress("raw"), &sent, body.as_bytes()).unwrap());
    });
    let request = &requests[0];
    assert_eq!((request.body.len(), request.text()), (20_000, body.clone()));
    let added: Vec<_> = request
        .headers
        .iter()
        .filter(|(name, value)| !sent.contains(&(&*name.to_ascii_lowercase(), value)))
        .collect();
    let size: usize = added.iter().map(|(name, value)| name.len() + value.len() + ": \r\n".len()).sum();
    assert!(size <= 1024, "{size} bytes: {added:?}");
    let piece = |value: &str| {
        value.as_bytes().windows(8).any(|piece| body.as_bytes().windows(8).any(|at| at == piece))
    };
    assert!(added.iter().all(|(_, value)| !piece(value)), "{added:?}");
}

/// F14: what belongs to the connection ends with it, the rest is kept, in order.
#[test]
fn headers_of_one_hop_stay_there() {
    let relay = Relay::new();
    let requests = forwarded(&relay, 1, || {
        let url = relay.ingress("raw");
        let (host, path) = split(&url);
        let mut to = TcpStream::connect(host).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive, X-Drop\r\n\
             X-Drop: 1\r\nTE: trailers\r\nTrailer: X-T\r\nUpgrade: h2c\r\nProxy-Authorization: Basic eA==\r\n\
             X-Keep: 1\r\nX-Multi: a\r\nX-Multi: b\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nX-T: 1\r\n\r\n"
        );
        to.write_all(head.as_bytes()).unwrap();
        let answer = read_message(&mut BufReader::new(to)).unwrap().unwrap();
        assert!(answer.first.contains(" 202"), "{}", answer.first);
    });
    let request = &requests[0];
    assert_eq!((request.text().as_str(), request.header("content-length")), ("hello", "5"));
    let dropped = ["transfer-encoding", "te", "trailer", "upgrade", "x-drop", "proxy-authorization", "x-t"];
    for name in dropped {
        assert_eq!(request.header(name), "", "{name}");
    }
    let kept = |name: &str| {
        let same = request.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        same.map(|(_, value)| value.as_str()).collect::<Vec<_>>()
    };
    assert_eq!((kept("x-keep"), kept("x-multi")), (vec!["1"], vec!["a", "b"]));
}

/// I10: whoever presses "Redeliver" wants it: the same delivery comes again, under the same id, and is marked.
#[test]
fn a_redelivery_comes_again_under_the_same_id() {
    let signature = github(GH_SECRET, b"{}");
    let sent = [
        ("x-github-event", "push"),
        ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
        ("x-hub-signature-256", signature.as_str()),
    ];
    let relay = Relay::new();
    let requests = forwarded(&relay, 2, || {
        for _ in 0..2 {
            accepted(&send("POST", &relay.ingress("gh"), &sent, b"{}").unwrap());
        }
    });
    let [first, second] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!((first.header("webhook-id"), &first.body), (second.header("webhook-id"), &second.body));
    let event = relay.api().event(first.header("webhook-id"));
    let marks =
        event["deliveries"].as_array().unwrap().iter().map(|delivery| delivery["redelivery"].as_bool());
    assert_eq!(marks.collect::<Vec<_>>(), [Some(false), Some(true)], "{event}");
}
