//! Signs an event and sends it: into a source, where the relay signs, or straight to an app, where we do.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use url::Url;

use super::plan::{Fault, Straight};
use crate::cli::error::{CliError, Kind};
use crate::cli::output::sanitize;
use crate::client::Client;
use crate::clock::Timestamp;
use crate::headers::{Headers, from_latin1};
use crate::http::{Endpoint, Loopback, LoopbackSettings, Outgoing};
use crate::protocol::error::ErrorBody;
use crate::protocol::sources::{Accepted, SignRequest, Source};
use crate::providers::Rendered;
use crate::signature::{self, Key, Request, standard};
use crate::target::{Place, Target};

/// Further back than any scheme's window.
const AN_HOUR: Duration = Duration::from_secs(3600);
/// How long ingress may take; it answers once the event is on disk.
const INGRESS: Duration = Duration::from_secs(35);
/// How much of an answer is read.
const ANSWER_BYTES: usize = 64 << 10;
/// How much of an app's own words is shown.
const SHOWN_CHARS: usize = 200;

/// Where events go.
pub(in crate::cli) enum Way {
    Ingress(Box<Ingress>),
    App(App),
}

/// Into a source.
pub(in crate::cli) struct Ingress {
    pub(in crate::cli) client: Client,
    /// For the source's address.
    pub(in crate::cli) http: reqwest::Client,
    pub(in crate::cli) source: Source,
}

/// Straight to an app.
pub(in crate::cli) struct App {
    http: Loopback,
    target: Target,
    key: Option<Key>,
    timeout: Option<Duration>,
}

/// A request with its signature; sent again it is a duplicate.
pub(in crate::cli) struct Signed {
    pub(in crate::cli) url: String,
    pub(in crate::cli) source: Option<String>,
    pub(in crate::cli) headers: Headers,
    pub(in crate::cli) body: Bytes,
    pub(in crate::cli) fault: Option<Fault>,
}

/// What was answered.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Sent {
    /// `None` when no answer came.
    pub(in crate::cli) status: Option<u16>,
    /// The id under which the relay stored it.
    pub(in crate::cli) event_id: Option<String>,
    /// Whether the relay had it before.
    pub(in crate::cli) duplicate: Option<bool>,
    /// What went wrong, cleaned.
    pub(in crate::cli) error: Option<String>,
    pub(in crate::cli) duration: Duration,
}

impl Sent {
    /// Whether it was taken.
    pub(in crate::cli) fn is_well(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }
}

impl Signed {
    /// Signs the event, with the fault in it.
    pub(in crate::cli) async fn new(
        way: &Way,
        event: &Rendered,
        fault: Option<Fault>,
        now: Timestamp,
    ) -> Result<Self, CliError> {
        let body = event.body.clone();
        let mut headers = event.headers.clone();
        if event.scheme.signature_headers().contains(&standard::ID) {
            headers.set(standard::ID, event.event_id.clone());
        }
        let (url, source, signature) = match way {
            Way::Ingress(ingress) => {
                let signature = ingress.sign(&headers, &body, fault).await?;
                (ingress.source.ingress_url.clone(), Some(ingress.source.name.clone()), signature)
            }
            Way::App(app) => (app.target.to_string(), None, app.sign(event, fault, now)),
        };
        for (name, value) in signature.iter() {
            headers.set(name, value);
        }
        Ok(Self { url, source, headers, body, fault })
    }
}

impl Way {
    /// Sends once. An app that can't be reached is an answer of its kind; a relay that can't is an error.
    pub(in crate::cli) async fn send(&self, signed: &Signed) -> Result<Sent, CliError> {
        let start = Instant::now();
        let sent = match self {
            Self::Ingress(ingress) => ingress.send(signed).await?,
            Self::App(app) => app.send(signed).await,
        };
        Ok(Sent { duration: start.elapsed(), ..sent })
    }
}

impl Ingress {
    async fn sign(&self, headers: &Headers, body: &Bytes, fault: Option<Fault>) -> Result<Headers, CliError> {
        let request = SignRequest {
            headers: Some(headers.clone()),
            body_base64: STANDARD.encode(body),
            fault: fault.map(|fault| fault.text().to_owned()),
            ..SignRequest::default()
        };
        Ok(self.client.sign(&self.source.id, &request).await?.headers)
    }

    async fn send(&self, signed: &Signed) -> Result<Sent, CliError> {
        let request =
            self.http.post(url(&signed.url)?).headers(map(&signed.headers)).body(signed.body.clone());
        let failed = |error: reqwest::Error| {
            let cause = if error.is_timeout() { "no answer in time" } else { "the connection failed" };
            CliError::new(Kind::Unreachable, format!("can't reach {}: {cause}", sanitize::line(&signed.url)))
        };
        let mut answer = request.timeout(INGRESS).send().await.map_err(failed)?;
        let status = answer.status();
        let mut text = Vec::new();
        while text.len() < ANSWER_BYTES
            && let Some(chunk) = answer.chunk().await.map_err(failed)?
        {
            text.extend_from_slice(&chunk);
        }
        let mut sent = Sent { status: Some(status.as_u16()), ..Sent::default() };
        match serde_json::from_slice::<Accepted>(&text) {
            Ok(accepted) if status.is_success() => {
                sent.event_id = Some(sanitize::line(&accepted.event_id).into_owned());
                sent.duplicate = Some(accepted.duplicate);
            }
            _ if status.is_success() => {}
            _ => sent.error = Some(refusal(&text)),
        }
        Ok(sent)
    }
}

impl App {
    pub(super) fn new(straight: Straight) -> Self {
        let Straight { target, key, timeout, skip_verify, ca, .. } = straight;
        Self { http: loopback(skip_verify, ca), target, key, timeout }
    }

    fn sign(&self, event: &Rendered, fault: Option<Fault>, now: Timestamp) -> Headers {
        let Some(key) = &self.key else { return Headers::new() };
        let at = if fault == Some(Fault::Stale) { now - AN_HOUR } else { now };
        let bare = Request { method: "POST", url: None, headers: &event.headers, body: &event.body };
        // The signature of another body is well-formed, and wrong.
        let body: &[u8] = if fault == Some(Fault::BadSignature) { b"another body" } else { &event.body };
        signature::sign(event.scheme, key, &Request { body, ..bare }, &event.event_id, at)
    }

    async fn send(&self, signed: &Signed) -> Sent {
        let mut headers = map(&signed.headers);
        if let Ok(host) = HeaderValue::from_str(&self.target.host_header()) {
            headers.insert(header::HOST, host);
        }
        let Ok(path) = self.target.path_and_query().parse() else {
            return Sent { error: Some("the target's path is no path".to_owned()), ..Sent::default() };
        };
        let outgoing = Outgoing { method: Method::POST, target: path, headers, body: signed.body.clone() };
        let endpoint = endpoint(&self.target);
        let sending = self.http.send(&endpoint, outgoing);
        let answer = match self.timeout {
            None => sending.await,
            Some(limit) => match tokio::time::timeout(limit, sending).await {
                Ok(answer) => answer,
                Err(_) => {
                    let error = format!("no answer within {} s", limit.as_secs_f64());
                    return Sent { error: Some(error), ..Sent::default() };
                }
            },
        };
        match answer {
            Ok(answer) => Sent {
                status: Some(answer.status.as_u16()),
                error: (!answer.status.is_success()).then(|| said(&answer.body)).flatten(),
                ..Sent::default()
            },
            Err(error) => {
                Sent { error: Some(sanitize::line(&error.to_string()).into_owned()), ..Sent::default() }
            }
        }
    }
}

fn loopback(skip_verify: bool, ca: Option<std::path::PathBuf>) -> Loopback {
    Loopback::new(LoopbackSettings {
        // It was typed for this one send, and never comes from a file.
        allow_remote: true,
        skip_verify,
        ca,
        keep_alive: Duration::from_secs(1),
        connect: Duration::from_secs(5),
    })
}

fn endpoint(target: &Target) -> Endpoint {
    match target.place() {
        Place::Tcp { tls, host, port } => Endpoint::Tcp { tls: *tls, host: host.bare(), port: *port },
        Place::Unix { socket } => Endpoint::Unix(socket.clone()),
    }
}

/// An address that the relay gave.
pub(super) fn url(text: &str) -> Result<Url, CliError> {
    let wrong = |_| CliError::internal(format!("`{}` is no URL", sanitize::line(text)));
    text.parse().map_err(wrong)
}

fn map(headers: &Headers) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers.iter() {
        let name = HeaderName::from_bytes(name.as_bytes()).ok();
        let value = from_latin1(value).and_then(|bytes| HeaderValue::from_bytes(&bytes).ok());
        if let (Some(name), Some(value)) = (name, value) {
            map.append(name, value);
        }
    }
    map
}

/// Why the relay refused.
fn refusal(text: &[u8]) -> String {
    match serde_json::from_slice::<ErrorBody>(text) {
        Ok(body) => sanitize::line(&body.error.message).into_owned(),
        Err(_) => said(text).unwrap_or_else(|| "the relay didn't say why".to_owned()),
    }
}

/// The beginning of what an app answered, on one line.
fn said(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = sanitize::line(&words).chars().take(SHOWN_CHARS).collect();
    (!shown.is_empty()).then_some(shown)
}
