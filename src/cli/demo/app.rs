//! The sample app: what a developer would have on localhost. It verifies each signature, tells what it got, and can be
//! stopped, started again, and broken.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::routing::post;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cli::error::CliError;
use crate::cli::os;
use crate::clock::Clock;
use crate::headers::Headers;
use crate::signature::{self, Key, Rejection, Request, Scheme};

/// Where it takes webhooks.
const PATH: &str = "/webhooks";
/// The largest body that it takes.
const MAX_BODY: usize = 32 << 20;
/// Connections that may wait to be accepted.
const BACKLOG: u32 = 128;

/// A request that the app answered.
#[derive(Debug)]
pub(super) struct Got {
    /// The event's type, as its provider says it.
    pub event_type: String,
    /// Whether the signature is that of the listener.
    pub verified: Result<(), Rejection>,
    /// What is in it, for people.
    pub about: String,
    /// Whether the listener sent it, and not somebody else on this machine.
    pub forwarded: bool,
    /// Whether it is marked as a replay.
    pub replay: bool,
    /// What was answered.
    pub status: StatusCode,
}

/// The running, or stopped, app.
#[derive(Debug)]
pub(super) struct App {
    address: SocketAddr,
    inside: Arc<Inside>,
    running: Option<(CancellationToken, JoinHandle<()>)>,
    /// Holds the port while nothing listens there, so that nobody else takes it.
    parked: Option<TcpSocket>,
    got: mpsc::Receiver<Got>,
}

#[derive(Debug)]
struct Inside {
    key: Key,
    clock: Arc<dyn Clock>,
    broken: AtomicBool,
    got: mpsc::Sender<Got>,
}

impl App {
    /// Starts it on a free port; it trusts whoever signs with this key.
    pub(super) fn start(key: Key, clock: Arc<dyn Clock>) -> Result<Self, CliError> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = os::hold_port(any).and_then(|socket| socket.listen(BACKLOG)).map_err(broken)?;
        let address = listener.local_addr().map_err(broken)?;
        let (to, got) = mpsc::channel(64);
        let inside = Arc::new(Inside { key, clock, broken: AtomicBool::new(false), got: to });
        let mut app = Self { address, inside, running: None, parked: None, got };
        app.serve(listener);
        Ok(app)
    }

    /// Where it takes webhooks.
    pub(super) fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Its port.
    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Closes its port: whoever connects is refused.
    pub(super) async fn stop(&mut self) -> Result<(), CliError> {
        if let Some((stop, server)) = self.running.take() {
            stop.cancel();
            let _ended = server.await;
            self.parked = Some(os::hold_port(self.address).map_err(broken)?);
        }
        Ok(())
    }

    /// Opens its port again.
    pub(super) fn restart(&mut self) -> Result<(), CliError> {
        if let Some(parked) = self.parked.take() {
            self.serve(parked.listen(BACKLOG).map_err(broken)?);
        }
        Ok(())
    }

    /// Whether it answers 500 to what it should handle.
    pub(super) fn set_broken(&self, broken: bool) {
        self.inside.broken.store(broken, Ordering::Relaxed);
    }

    /// The next request that it answered.
    pub(super) async fn got(&mut self) -> Option<Got> {
        self.got.recv().await
    }

    /// A request that it answered and that nobody has asked for yet.
    pub(super) fn try_got(&mut self) -> Option<Got> {
        self.got.try_recv().ok()
    }

    fn serve(&mut self, listener: TcpListener) {
        let router = Router::new()
            .route(PATH, post(take))
            .layer(DefaultBodyLimit::max(MAX_BODY))
            .with_state(Arc::clone(&self.inside));
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(stopped).await {
                tracing::error!(%error, "the sample app ended badly");
            }
        });
        self.running = Some((stop, server));
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn broken(error: io::Error) -> CliError {
    CliError::internal(format!("the sample app can't listen: {error}"))
}

async fn take(State(inside): State<Arc<Inside>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let headers = Headers::from(&headers);
    let request = Request { method: "POST", url: None, headers: &headers, body: &body };
    let keys = std::slice::from_ref(&inside.key);
    let verified = signature::verify(Scheme::standard(), keys, &request, inside.clock.now());
    let status = match (&verified, inside.broken.load(Ordering::Relaxed)) {
        (Err(_), _) => StatusCode::UNAUTHORIZED,
        (Ok(()), true) => StatusCode::INTERNAL_SERVER_ERROR,
        (Ok(()), false) => StatusCode::NO_CONTENT,
    };
    let got = Got {
        event_type: event_type(&headers, &body),
        verified,
        about: about(&body),
        forwarded: headers.contains("x-pullhook-sequence"),
        replay: headers.get("webhook-replay") == Some("1"),
        status,
    };
    // Told before it is answered, so that the answer is never told first.
    let _ended = inside.got.send(got).await;
    status
}

fn event_type(headers: &Headers, body: &[u8]) -> String {
    let provider = if headers.contains("x-github-event") { "github" } else { "standard-webhooks" };
    let scheme = Scheme::parse(provider).unwrap_or(Scheme::none());
    signature::facts(scheme, headers, body).type_or_unknown().to_owned()
}

/// What the events of the demo say; of others, their size.
fn about(body: &[u8]) -> String {
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |pointer: &str| json.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let push = || {
        let commits = json["commits"].as_array()?.len();
        Some(format!(
            "{} pushed {commits} commits to {}",
            text("/pusher/name")?,
            text("/repository/full_name")?
        ))
    };
    let order =
        || Some(format!("order {} left with {}", text("/data/number")?, text("/data/shipment/carrier")?));
    let invoice = || {
        let cents = json.pointer("/data/amount_paid")?.as_u64()?;
        let currency = text("/data/currency")?.to_uppercase();
        Some(format!("invoice {}, {}.{:02} {currency}", text("/data/number")?, cents / 100, cents % 100))
    };
    push().or_else(order).or_else(invoice).unwrap_or_else(|| format!("{} bytes", body.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers;
    use crate::system::{SystemClock, SystemDice};

    #[test]
    fn the_demo_s_events_are_told_in_words() {
        let told = |name: &str| about(&providers::find(name).unwrap().render(&SystemClock, &SystemDice).body);
        assert_eq!(told("github.push"), "rosalind-dev pushed 2 commits to rosalind-dev/orbit");
        assert!(told("standard.order.shipped").contains("left with dhl"));
        assert!(told("standard.invoice.paid").ends_with(", 49.98 EUR"));
        assert_eq!(about(b"\xff\xfe"), "2 bytes");
    }
}
