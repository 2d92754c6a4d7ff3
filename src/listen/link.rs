//! Calls of the relay: each with a hard deadline, each failure told apart.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use url::Url;

use super::cause::Cause;
use crate::http::{HttpError, RelaySettings, relay_client};
use crate::protocol::List;
use crate::protocol::error::{ApiError, ErrorBody};
use crate::protocol::events::Event;
use crate::protocol::limits::MAX_ANSWER_BYTES;
use crate::protocol::listeners::{Listener, OpenListener, Poll, PollListener};
use crate::protocol::sources::Source;
use crate::retry;
use crate::secret::Secret;

/// An answer's buffer is made this large at most before the bytes are there.
const TRUSTED_LENGTH: usize = 8 << 20;

/// Why a call failed.
#[derive(Clone, Debug)]
pub(super) struct LinkError {
    /// What happened.
    pub cause: Cause,
    /// The relay's own words.
    pub api: Option<Box<ApiError>>,
    /// When to come again.
    pub retry_after: Option<Duration>,
}

impl LinkError {
    /// The status of the answer, when there was one.
    pub(super) fn status(&self) -> Option<u16> {
        match self.cause {
            Cause::Answered { status, .. } => Some(status),
            _ => None,
        }
    }

    /// The code of the answer, empty when there was none.
    pub(super) fn code(&self) -> &str {
        self.api.as_ref().map_or("", |api| &api.code)
    }

    /// Whether the answer names this field, or a part of it.
    pub(super) fn names(&self, field: &str) -> bool {
        let Some(api) = &self.api else { return false };
        let is_it =
            |path: &str| path == field || path.strip_prefix(field).is_some_and(|rest| rest.starts_with('.'));
        api.param.as_deref().is_some_and(is_it) || api.issues.iter().any(|issue| is_it(&issue.path))
    }
}

impl From<Cause> for LinkError {
    fn from(cause: Cause) -> Self {
        Self { cause, api: None, retry_after: None }
    }
}

/// The way to one relay. Clones share its connections until one of them is renewed.
#[derive(Clone, Debug)]
pub(super) struct Link {
    client: reqwest::Client,
    place: Arc<Place>,
}

#[derive(Debug)]
struct Place {
    base: Url,
    settings: RelaySettings,
    authorization: HeaderValue,
    slack: Duration,
}

impl Link {
    /// A way to the relay at `base`. `slack` is how much longer than the server's own wait a call may take.
    pub(super) fn new(
        base: &Url,
        key: &Secret,
        settings: &RelaySettings,
        slack: Duration,
    ) -> Result<Self, HttpError> {
        let mut authorization = HeaderValue::from_str(&format!("Bearer {}", key.expose()))
            .unwrap_or_else(|_| HeaderValue::from_static("Bearer"));
        authorization.set_sensitive(true);
        let client = relay_client(base, settings)?;
        let place = Place { base: base.clone(), settings: settings.clone(), authorization, slack };
        Ok(Self { client, place: Arc::new(place) })
    }

    /// Gives up every pooled connection: they may be dead without knowing it.
    pub(super) fn renew(&mut self) {
        if let Ok(client) = relay_client(&self.place.base, &self.place.settings) {
            self.client = client;
        }
    }

    /// The same way to another place.
    pub(super) fn moved(&mut self, base: &Url) {
        if *base == self.place.base {
            return;
        }
        if let Ok(client) = relay_client(base, &self.place.settings) {
            self.client = client;
            let Place { settings, authorization, slack, .. } = &*self.place;
            self.place = Arc::new(Place {
                base: base.clone(),
                settings: settings.clone(),
                authorization: authorization.clone(),
                slack: *slack,
            });
        }
    }

    /// The relay's base URL, as it is shown.
    pub(super) fn base(&self) -> String {
        self.place.base.as_str().trim_end_matches('/').to_owned()
    }

    /// Opens a listener.
    pub(super) async fn open(&self, ask: &OpenListener) -> Result<Listener, LinkError> {
        let path = ["v1", "webhook_listeners"];
        read(&self.call(Method::POST, &path, &[], Some(json(ask)), Duration::ZERO).await?)
    }

    /// Polls a listener; the server may take as long as `ask` says, and the slack.
    pub(super) async fn poll(&self, listener: &str, ask: &PollListener) -> Result<Poll, LinkError> {
        let wait = Duration::from_millis(ask.wait_ms.unwrap_or(0));
        let path = ["v1", "webhook_listeners", listener, "poll"];
        read(&self.call(Method::POST, &path, &[], Some(json(ask)), wait).await?)
    }

    /// Closes a listener.
    pub(super) async fn close(&self, listener: &str) -> Result<(), LinkError> {
        self.call(Method::DELETE, &["v1", "webhook_listeners", listener], &[], None, Duration::ZERO)
            .await
            .map(|_| ())
    }

    /// The sources of the environment; ours.
    pub(super) async fn sources(&self) -> Result<List<Source>, LinkError> {
        let query = [("limit", "100")];
        let bytes = self.call(Method::GET, &["v1", "sources"], &query, None, Duration::ZERO).await?;
        read(&bytes)
    }

    /// Stored events; ours.
    pub(super) async fn events(&self, query: &[(&str, &str)]) -> Result<List<Event>, LinkError> {
        let bytes = self.call(Method::GET, &["v1", "events"], query, None, Duration::ZERO).await?;
        read(&bytes)
    }

    async fn call(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<Vec<u8>>,
        wait: Duration,
    ) -> Result<Vec<u8>, LinkError> {
        let place = &*self.place;
        let url = url_of(&place.base, path, query);
        let mut request = self.client.request(method, url).header(AUTHORIZATION, place.authorization.clone());
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let limit = wait + place.slack;
        let late = || LinkError::from(Cause::TimedOut { after: limit });
        let response = timeout(limit, request.send()).await.map_err(|_| late())?;
        let response = response.map_err(|error| LinkError::from(self.told_apart(&error)))?;
        let status = response.status();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(retry::retry_after);
        let bytes = self.body(response).await?;
        if status.is_success() { Ok(bytes) } else { Err(refused(status, retry_after, &bytes)) }
    }

    /// The answer's bytes: no pause longer than the slack, no more than there is room for.
    async fn body(&self, mut response: Response) -> Result<Vec<u8>, LinkError> {
        let slack = self.place.slack;
        let announced =
            response.content_length().and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
        let mut bytes = Vec::with_capacity(announced.min(TRUSTED_LENGTH));
        loop {
            let chunk =
                timeout(slack, response.chunk()).await.map_err(|_| Cause::TimedOut { after: slack })?;
            match chunk.map_err(|error| Cause::Cut(innermost(&error)))? {
                None => return Ok(bytes),
                Some(chunk) if bytes.len() + chunk.len() > MAX_ANSWER_BYTES => {
                    return Err(Cause::Malformed(format!("it is over {MAX_ANSWER_BYTES} bytes")).into());
                }
                Some(chunk) => bytes.extend_from_slice(&chunk),
            }
        }
    }

    fn told_apart(&self, error: &reqwest::Error) -> Cause {
        let base = &self.place.base;
        let host = base.host_str().unwrap_or_default();
        let text = innermost(error);
        let chain = || causes(error);
        let io_kind =
            chain().filter_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind).next();
        let is_tls = chain().any(|error| unwrapped(error).is::<rustls::Error>());
        if is_tls {
            Cause::Tls(text)
        } else if !error.is_connect() {
            Cause::Cut(text)
        } else if io_kind == Some(io::ErrorKind::ConnectionRefused) {
            let port = base.port_or_known_default().map_or_else(String::new, |port| format!(":{port}"));
            Cause::Refused { address: format!("{host}{port}") }
        } else if chain().any(|error| error.to_string().contains("dns error")) {
            Cause::Dns { host: host.to_owned() }
        } else if chain().any(|error| error.to_string().contains("tunnel")) {
            Cause::Proxy(text)
        } else {
            Cause::Connect(text)
        }
    }
}

fn json(ask: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(ask).unwrap_or_default()
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, LinkError> {
    serde_json::from_slice(bytes).map_err(|error| Cause::Malformed(error.to_string()).into())
}

fn url_of(base: &Url, path: &[&str], query: &[(&str, &str)]) -> Url {
    let mut url = base.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    url
}

fn refused(status: StatusCode, retry_after: Option<Duration>, bytes: &[u8]) -> LinkError {
    let api = serde_json::from_slice::<ErrorBody>(bytes).ok().map(|body| Box::new(body.error));
    let (code, message) =
        api.as_ref().map_or_else(Default::default, |api| (api.code.clone(), api.message.clone()));
    LinkError { cause: Cause::Answered { status: status.as_u16(), code, message }, api, retry_after }
}

/// The last text of a chain of errors: the one that names the fact.
fn innermost(error: &reqwest::Error) -> String {
    causes(error).last().map_or_else(|| error.to_string(), ToString::to_string)
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let mut next = error.source();
    std::iter::from_fn(move || {
        let this = next?;
        next = this.source();
        Some(this)
    })
}

/// What an I/O error was made from, however often it was wrapped in another one: `source` skips that.
fn unwrapped<'e>(error: &'e (dyn std::error::Error + 'static)) -> &'e (dyn std::error::Error + 'static) {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => unwrapped(inner),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_opaque_and_a_base_may_have_a_path() {
        let base: Url = "https://example.com/relay/".parse().unwrap();
        let url = url_of(&base, &["v1", "webhook_listeners", "a/b?c", "poll"], &[]);
        assert_eq!(url.as_str(), "https://example.com/relay/v1/webhook_listeners/a%2Fb%3Fc/poll");
        let url = url_of(&"http://h:1".parse().unwrap(), &["v1", "events"], &[("type", "a.*")]);
        assert_eq!(url.as_str(), "http://h:1/v1/events?type=a.*");
    }

    #[test]
    fn an_error_is_found_however_often_it_was_wrapped() {
        let tls = rustls::Error::HandshakeNotComplete;
        let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, tls));
        assert!(unwrapped(&wrapped).is::<rustls::Error>());
        assert!(unwrapped(&io::Error::from(io::ErrorKind::TimedOut)).is::<io::Error>());
    }

    #[test]
    fn a_refusal_names_its_fields() {
        let body = br#"{"error":{"code":"invalid_request","issues":[{"path":"acks.0.status_code","message":"no"}]}}"#;
        let error = refused(StatusCode::BAD_REQUEST, None, body);
        assert!(error.names("acks") && error.names("acks.0") && !error.names("limit") && !error.names("ack"));
        assert_eq!((error.status(), error.code()), (Some(400), "invalid_request"));
        assert!(!refused(StatusCode::BAD_GATEWAY, None, b"<html>").names("acks"));
    }
}
