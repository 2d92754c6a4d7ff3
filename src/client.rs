//! A typed client of the relay's API: one method an endpoint.
//!
//! Works against any server of the public contract; what is ours (**ext** in the API's page) answers 404 elsewhere.
//! Nothing is retried here: a caller that wants that knows what it repeats.

use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use url::Url;

use crate::clock::Timestamp;
use crate::protocol::environment::Environment;
use crate::protocol::error::{ApiError, Code, ErrorBody};
use crate::protocol::events::{CreateEvent, Event, EventReplay, ReplayEvents, TestEvent};
use crate::protocol::limits::MAX_ANSWER_BYTES;
use crate::protocol::listeners::Listener;
use crate::protocol::sources::{CreateSource, SignRequest, Source, SourceSignature};
use crate::protocol::{CURRENT_VERSION, Deleted, List, VERSION_HEADER};
use crate::retry;
use crate::secret::Secret;

/// Every answer comes in under 30 s; a little more is left for the way.
const DEADLINE: Duration = Duration::from_secs(35);

/// Talks to one relay with one key.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    url: Url,
    key: Secret,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// No answer came.
    #[error("can't reach {url}: {cause}")]
    Unreachable {
        /// The relay.
        url: String,
        /// What happened, such as `connection refused`.
        cause: String,
    },
    /// The relay refused.
    #[error("{}", said(*.status, .error))]
    Api {
        /// The status.
        status: u16,
        /// What it said; with an empty code when the answer was not the contract's.
        error: Box<ApiError>,
        /// When to come again.
        retry_after: Option<Duration>,
    },
    /// The answer is not what the contract says.
    #[error("{url} answered with something that is not the relay's API: {why}")]
    Malformed {
        /// The relay.
        url: String,
        /// What is wrong with it.
        why: String,
    },
}

impl ClientError {
    /// The error code of the relay's answer, when it is one of ours.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Api { error, .. } => Code::parse(&error.code),
            _ => None,
        }
    }
}

fn said(status: u16, error: &ApiError) -> String {
    if error.message.is_empty() {
        return format!("the relay answered {status}");
    }
    let message = error.message.trim_end_matches('.');
    let issues: Vec<String> =
        error.issues.iter().map(|issue| format!("{}: {}", issue.path, issue.message)).collect();
    // Our own relay's message is the first of them.
    match issues.first() {
        Some(first) if message.starts_with(first.trim_end_matches('.')) => issues.join("; "),
        Some(_) => format!("{message}; {}", issues.join("; ")),
        None => message.to_owned(),
    }
}

/// The outcome of a call.
pub type Result<T> = std::result::Result<T, ClientError>;

/// Which events to list; everything is optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EventQuery {
    /// A pattern over types.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// A source's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Arrived at or after this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// Arrived before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// A text in the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
    /// What became of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// `asc`: oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// The last id of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// How many, 1 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// With `after`: how long to wait for newer ones, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// A page of any other list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageQuery {
    /// The last id of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// How many, 1 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

impl Client {
    /// A client of the relay at `url`. `http` comes from [`crate::http`] and fits that URL.
    pub fn new(http: reqwest::Client, mut url: Url, key: Secret) -> Self {
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        Self { http, url, key }
    }

    /// The relay's address, with a slash at its end.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The HTTP client, for what is not the API: ingress.
    pub fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// The environment that the key belongs to.
    pub async fn environment(&self) -> Result<Environment> {
        self.get("v1/environment", &()).await
    }

    /// The sources.
    pub async fn sources(&self, page: &PageQuery) -> Result<List<Source>> {
        self.get("v1/sources", page).await
    }

    /// Every source, page by page.
    pub async fn all_sources(&self) -> Result<Vec<Source>> {
        let mut all = Vec::new();
        loop {
            let after = all.last().map(|source: &Source| source.id.clone());
            let page = self.sources(&PageQuery { after, limit: Some(100) }).await?;
            let done = !page.has_more || page.data.is_empty();
            all.extend(page.data);
            if done {
                return Ok(all);
            }
        }
    }

    /// One source, by id or name.
    pub async fn source(&self, id: &str) -> Result<Source> {
        self.get(&format!("v1/sources/{}", segment(id)), &()).await
    }

    /// Makes a source.
    pub async fn create_source(&self, source: &CreateSource) -> Result<Source> {
        self.send(Method::POST, "v1/sources", source).await
    }

    /// Changes the named fields of a source.
    pub async fn update_source(&self, id: &str, fields: &Map<String, Value>) -> Result<Source> {
        self.send(Method::PATCH, &format!("v1/sources/{}", segment(id)), fields).await
    }

    /// Removes a source.
    pub async fn delete_source(&self, id: &str) -> Result<Deleted> {
        self.run(self.request(Method::DELETE, &format!("v1/sources/{}", segment(id)))?).await
    }

    /// Gives a source a new secret.
    pub async fn rotate_source(&self, id: &str, fields: &Map<String, Value>) -> Result<Source> {
        self.send(Method::POST, &format!("v1/sources/{}/rotate", segment(id)), fields).await
    }

    /// The headers with which the source's provider would send this.
    pub async fn sign(&self, source: &str, request: &SignRequest) -> Result<SourceSignature> {
        self.send(Method::POST, &format!("v1/sources/{}/sign", segment(source)), request).await
    }

    /// A page of events.
    pub async fn events(&self, query: &EventQuery) -> Result<List<Event>> {
        self.get("v1/events", query).await
    }

    /// One event with headers, body and deliveries.
    pub async fn event(&self, id: &str) -> Result<Event> {
        self.get(&format!("v1/events/{}", segment(id)), &()).await
    }

    /// Makes an event. With an idempotency key it can be sent again without making another.
    pub async fn create_event(&self, event: &CreateEvent, idempotency_key: Option<&str>) -> Result<Event> {
        let mut request = self.request(Method::POST, "v1/events")?.json(event);
        if let Some(key) = idempotency_key {
            request = request.header("idempotency-key", key);
        }
        self.run(request).await
    }

    /// Sends a sample event of this type, with `data` merged over it.
    pub async fn test_event(&self, kind: &str, data: Option<&Map<String, Value>>) -> Result<TestEvent> {
        let body = match data {
            Some(data) => json!({"type": kind, "data": data}),
            None => json!({"type": kind}),
        };
        self.send(Method::POST, "v1/webhook_events/test", &body).await
    }

    /// Delivers stored events once more.
    pub async fn replay(&self, replay: &ReplayEvents) -> Result<EventReplay> {
        self.send(Method::POST, "v1/events/replay", replay).await
    }

    /// The open listeners.
    pub async fn listeners(&self) -> Result<List<Listener>> {
        self.get("v1/webhook_listeners", &()).await
    }

    /// One listener.
    pub async fn listener(&self, id: &str) -> Result<Listener> {
        self.get(&format!("v1/webhook_listeners/{}", segment(id)), &()).await
    }

    /// Closes a listener.
    pub async fn close_listener(&self, id: &str) -> Result<Deleted> {
        self.run(self.request(Method::DELETE, &format!("v1/webhook_listeners/{}", segment(id)))?).await
    }

    /// Any `GET` of this relay that answers JSON, with the key.
    pub async fn get<T: DeserializeOwned>(&self, path: &str, query: &impl Serialize) -> Result<T> {
        let pairs = query_pairs(query);
        let mut url = self.join(path)?;
        if !pairs.is_empty() {
            url.query_pairs_mut().extend_pairs(pairs);
        }
        self.run(self.authorised(self.http.get(url))).await
    }

    /// Any request of this relay with a JSON body that answers JSON, with the key.
    pub async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T> {
        self.run(self.request(method, path)?.json(body)).await
    }

    fn request(&self, method: Method, path: &str) -> Result<RequestBuilder> {
        Ok(self.authorised(self.http.request(method, self.join(path)?)))
    }

    fn authorised(&self, request: RequestBuilder) -> RequestBuilder {
        request.bearer_auth(self.key.expose()).header(VERSION_HEADER, CURRENT_VERSION).timeout(DEADLINE)
    }

    fn join(&self, path: &str) -> Result<Url> {
        self.url.join(path).map_err(|error| self.malformed(&error))
    }

    async fn run<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(retry::retry_after);
        let body = self.read(response).await?;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|error| self.malformed(&error));
        }
        Err(refusal(status, retry_after, &body))
    }

    async fn read(&self, mut response: reqwest::Response) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            if body.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(self.malformed(&"the answer is too large"));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn unreachable(&self, error: &reqwest::Error) -> ClientError {
        ClientError::Unreachable { url: self.url.to_string(), cause: root_cause(error) }
    }

    fn malformed(&self, why: &impl ToString) -> ClientError {
        ClientError::Malformed { url: self.url.to_string(), why: why.to_string() }
    }
}

/// A refusal as the contract has it, or as much of it as there is.
fn refusal(status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> ClientError {
    let empty = || ApiError {
        kind: String::new(),
        code: String::new(),
        message: String::new(),
        param: None,
        issues: Vec::new(),
        hint: None,
        request_id: String::new(),
    };
    let error = serde_json::from_slice::<ErrorBody>(body).map_or_else(|_| empty(), |body| body.error);
    ClientError::Api { status: status.as_u16(), error: Box::new(error), retry_after }
}

/// What lies at the bottom of a failure: its outer layers only say that sending failed.
fn root_cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    match cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
        Some(std::io::ErrorKind::ConnectionRefused) => "connection refused".to_owned(),
        _ => cause.to_string(),
    }
}

/// A path segment that stays one whatever is in it.
pub(crate) fn segment(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    let encode = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    match text {
        // Dots alone are a step up, encoded once too; encoded twice they are the name of nothing.
        "." | ".." => text.replace('.', "%252E"),
        _ => text.bytes().map(encode).collect(),
    }
}

/// The fields of a flat struct as query pairs.
fn query_pairs(query: &impl Serialize) -> Vec<(String, String)> {
    let Ok(Value::Object(fields)) = serde_json::to_value(query) else {
        return Vec::new();
    };
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    fields.into_iter().map(|(name, value)| (name, text(value))).collect()
}

#[cfg(test)]
mod tests;
