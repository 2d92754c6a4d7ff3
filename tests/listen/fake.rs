//! A relay in memory: the listener contract, with our fields or without them, and with faults on demand.

mod state;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use pullhook::protocol::listeners::body_fields;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(crate) use state::{Manners, State};

/// What a poll does instead of its work.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// Answer this, and do nothing.
    Answer(u16, Value),
    /// Do the work, then cut the connection.
    CutAnswer,
    /// The same, of the next poll that claims.
    CutClaim,
    /// Never answer.
    Stall,
}

/// The relay; dropping it ends it.
pub(crate) struct Fake {
    port: u16,
    shared: Arc<Shared>,
    server: Mutex<CancellationToken>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.down();
    }
}

impl Fake {
    /// One with our fields.
    pub(crate) async fn ours() -> Self {
        Self::start(Manners { ext: true, idle_polls: true, lease: Duration::from_secs(120) }).await
    }

    /// One of the public contract alone.
    pub(crate) async fn foreign() -> Self {
        Self::start(Manners { ext: false, idle_polls: false, lease: Duration::from_secs(120) }).await
    }

    pub(crate) async fn start(manners: Manners) -> Self {
        let state = State::new(manners);
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Notify::new() });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = CancellationToken::new();
        tokio::spawn(serve(listener, Arc::clone(&shared), server.clone()));
        Self { port, shared, server: Mutex::new(server) }
    }

    pub(crate) fn url(&self) -> url::Url {
        format!("http://127.0.0.1:{}", self.port).parse().unwrap()
    }

    /// Ends every connection and takes no new one.
    pub(crate) fn down(&self) {
        self.server.lock().unwrap().cancel();
    }

    /// Listens again on the same port.
    pub(crate) async fn up(&self) {
        let listener = loop {
            match TcpListener::bind(("127.0.0.1", self.port)).await {
                Ok(listener) => break listener,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let server = CancellationToken::new();
        *self.server.lock().unwrap() = server.clone();
        tokio::spawn(serve(listener, Arc::clone(&self.shared), server));
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }

    /// Stores an event and hands it to every open listener; its id.
    pub(crate) fn publish(&self, kind: &str, body: &[u8]) -> String {
        self.publish_with(kind, body, &json!({}))
    }

    /// As [`Fake::publish`], with these fields on the delivery.
    pub(crate) fn publish_with(&self, kind: &str, body: &[u8], fields: &Value) -> String {
        let mut state = self.state();
        state.sequence += 1;
        let id = format!("evt_{:04}", state.sequence);
        let (text, encoded) = body_fields(body);
        let mut event = json!({
            "event_id": id, "event_type": kind, "body": text, "created_at": "2026-01-01T00:00:00.000Z",
            "source": "raw", "sequence": state.sequence, "method": "POST", "path": "", "headers": [],
            "redelivery": false,
        });
        if let Some(encoded) = encoded {
            event["body_base64"] = encoded.into();
        }
        for (name, value) in fields.as_object().unwrap() {
            event[name] = value.clone();
        }
        state.events.push(event.clone());
        state.fan_out(&event, 1, false);
        drop(state);
        self.shared.changed.notify_waiters();
        id
    }

    /// A further occurrence of a stored event, asked for by somebody.
    pub(crate) fn replay(&self, id: &str) {
        let mut state = self.state();
        let event = state.events.iter().find(|event| event["event_id"] == id).unwrap().clone();
        state.fan_out(&event, 2, true);
        drop(state);
        self.shared.changed.notify_waiters();
    }

    /// Takes numbers that never arrive.
    pub(crate) fn lose(&self, count: u64) {
        self.state().sequence += count;
    }

    /// Lets every lease end now.
    pub(crate) fn end_leases(&self) {
        self.state().deliveries.iter_mut().for_each(|delivery| delivery.leased_until = None);
        self.shared.changed.notify_waiters();
    }

    /// No longer knows any listener.
    pub(crate) fn forget_listeners(&self) {
        self.state().listeners.iter_mut().for_each(|(_, open)| *open = false);
        self.shared.changed.notify_waiters();
    }

    /// Ends a coming poll like this.
    pub(crate) fn fault(&self, fault: Fault) {
        self.state().faults.push_back(fault);
    }

    /// Waits until the state fits.
    pub(crate) async fn until(&self, what: &str, fits: impl Fn(&State) -> bool) {
        let wait = async {
            loop {
                let changed = self.shared.changed.notified();
                if fits(&self.state()) {
                    return;
                }
                let _again = tokio::time::timeout(Duration::from_millis(20), changed).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(20), wait).await.is_err() {
            panic!("never: {what}; {:#?}", self.state());
        }
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted.unwrap().0,
        };
        let shared = Arc::clone(&shared);
        let service = service_fn(move |request| answer(Arc::clone(&shared), request));
        let http = hyper::server::conn::http1::Builder::new();
        connections.spawn(http.serve_connection(TokioIo::new(stream), service));
    }
    drop(listener);
    connections.shutdown().await;
}

async fn answer(
    shared: Arc<Shared>,
    request: Request<hyper::body::Incoming>,
) -> Result<Response<Full<Bytes>>, std::io::Error> {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let method = request.method().to_string();
    assert_eq!(request.headers()["authorization"], "Bearer key_test");
    let body = request.into_body().collect().await.map_err(std::io::Error::other)?.to_bytes();
    let ask: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (status, value) = match (method.as_str(), parts.as_slice()) {
        ("POST", ["v1", "webhook_listeners"]) => shared.state.lock().unwrap().open(&ask),
        ("POST", ["v1", "webhook_listeners", id, "poll"]) => match poll(&shared, id, &ask).await {
            Some(answer) => answer,
            None => return Err(std::io::Error::other("cut")),
        },
        ("DELETE", ["v1", "webhook_listeners", id]) => {
            let mut state = shared.state.lock().unwrap();
            state.closes.push((*id).to_owned());
            state.listeners.iter_mut().filter(|(other, _)| other == id).for_each(|(_, open)| *open = false);
            (200, json!({"object": "webhook_listener", "id": id, "deleted": true}))
        }
        ("GET", ["v1", what @ ("sources" | "events")]) => list(&shared.state.lock().unwrap(), what, &query),
        _ => (404, error("not_found")),
    };
    shared.changed.notify_waiters();
    let mut response = Response::builder().status(status).header("content-type", "application/json");
    if let (400.., Some(wait)) = (status, &shared.state.lock().unwrap().retry_after) {
        response = response.header("retry-after", wait);
    }
    Ok(response.body(Full::new(Bytes::from(value.to_string()))).unwrap())
}

fn list(state: &State, what: &str, query: &str) -> (u16, Value) {
    if !state.manners.ext {
        return (404, error("not_found"));
    }
    if what == "sources" {
        return (200, json!({"object": "list", "data": state.sources, "has_more": false}));
    }
    let wanted = |name: &str| {
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    };
    let after = wanted("after").and_then(|id| state.events.iter().position(|event| event["event_id"] == id));
    let kind = wanted("type");
    let fits = |event: &&Value| {
        let event_type = event["event_type"].as_str().unwrap();
        kind.as_ref().is_none_or(|kind| pullhook::glob::matches(kind, event_type))
    };
    let events: Vec<Value> = state.events[after.map_or(0, |at| at + 1)..]
        .iter()
        .filter(fits)
        .map(|event| {
            json!({"object": "event", "id": event["event_id"], "type": event["event_type"],
                   "source": event["source"], "sequence": event["sequence"], "size_bytes": 0,
                   "occurrences": 1, "status": "none", "created_at": event["created_at"]})
        })
        .collect();
    (200, json!({"object": "list", "data": events, "has_more": false}))
}

/// An error's body.
pub(crate) fn error(code: &str) -> Value {
    json!({"error": {"type": "x", "code": code, "message": format!("because {code}"), "request_id": "req_1"}})
}

/// An error's body that names this field.
pub(crate) fn issue(path: &str) -> Value {
    let mut refusal = error("invalid_request");
    refusal["error"]["issues"] = json!([{"path": path, "message": format!("{path} is wrong")}]);
    refusal
}

/// `None` = the connection is cut.
async fn poll(shared: &Shared, id: &str, ask: &Value) -> Option<(u16, Value)> {
    let fault = {
        let mut state = shared.state.lock().unwrap();
        state.polls.push(ask.clone());
        let spared = ask["limit"] == 0 && matches!(state.faults.front(), Some(Fault::CutClaim));
        if spared { None } else { state.faults.pop_front() }
    };
    shared.changed.notify_waiters();
    match fault {
        Some(Fault::Answer(status, value)) => return Some((status, value)),
        Some(Fault::Stall) => std::future::pending().await,
        _ => {}
    }
    let limit = ask["limit"].as_u64().unwrap_or(10);
    let mut answer = {
        let mut state = shared.state.lock().unwrap();
        if !state.is_open(id) {
            return Some((404, error("not_found")));
        }
        if limit == 0 && !state.manners.idle_polls {
            return Some((400, issue("limit")));
        }
        state.note(id, ask)
    };
    shared.changed.notify_waiters();
    let wait = Duration::from_millis(ask["wait_ms"].as_u64().unwrap_or(20_000));
    let until = tokio::time::Instant::now() + wait;
    let before = shared.state.lock().unwrap().ready(id);
    loop {
        let changed = shared.changed.notified();
        {
            let mut state = shared.state.lock().unwrap();
            if !state.is_open(id) {
                return Some((404, error("not_found")));
            }
            let claimed = state.claim(id, usize::try_from(limit).unwrap());
            let news = limit == 0 && state.ready(id) != before;
            if !claimed.is_empty() || news || tokio::time::Instant::now() >= until {
                if state.manners.ext {
                    answer["waiting"] = state.ready(id).into();
                }
                answer["deliveries"] = claimed.into();
                break;
            }
        }
        let _ended = tokio::time::timeout_at(until, changed).await;
    }
    match fault {
        Some(Fault::CutAnswer | Fault::CutClaim) => None,
        _ => Some((200, answer)),
    }
}
