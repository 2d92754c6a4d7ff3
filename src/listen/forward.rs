//! One POST: built, sent once, its answer judged.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::LOCATION;
use http::{Method, Uri};

use super::event::{Received, Sent};
use super::hint::{self, Asked, Hint};
use super::ledger::Work;
use super::resign::Signer;
use crate::clock::Clock;
use crate::http::{Answer, ConnectError, Loopback, Outgoing, SendError};

/// Makes forwards.
#[derive(Debug)]
pub(super) struct Forwarder {
    /// The client.
    pub loopback: Loopback,
    /// Makes the headers.
    pub signer: Signer,
    /// The time of signatures.
    pub clock: Arc<dyn Clock>,
    /// For how long a forward may take.
    pub timeout: Option<Duration>,
    /// Whether the event's path and query are joined to the target's.
    pub append_path: bool,
}

/// What became of a forward.
#[derive(Clone, Debug)]
pub(super) struct Forwarded {
    /// The outcome.
    pub result: Result<u16, Failure>,
    /// From the start to the answer read.
    pub took: Duration,
    /// The URL.
    pub url: String,
    /// What was sent.
    pub sent: Arc<Sent>,
    /// What the app answered, as far as it is kept.
    pub answer: Bytes,
}

/// Why a forward failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Nothing listens: no byte was sent.
    NobodyThere {
        /// The addresses.
        tried: Vec<String>,
    },
    /// Anything else.
    Final {
        /// What the app answered.
        status: Option<u16>,
        /// Why, when the status alone doesn't say.
        error: Option<String>,
        /// The likely cause.
        hint: Option<Hint>,
    },
}

impl Failure {
    /// The text of a refusal.
    pub(super) fn nobody(tried: &[String]) -> String {
        ConnectError::Refused { tried: tried.to_vec() }.to_string()
    }

    fn because(error: String, hint: Option<Hint>) -> Self {
        Self::Final { status: None, error: Some(error), hint }
    }
}

impl Forwarder {
    /// Posts a delivery once.
    pub(super) async fn forward(&self, work: &Work) -> Forwarded {
        let started = Instant::now();
        let (received, to) = (&*work.received, &*work.to);
        let at = self.clock.now();
        let headers = self.signer.headers(received, to, at);
        let target = match self.append_path {
            true => to.appended(&received.path, received.query.as_deref()),
            false => to.path_and_query.clone(),
        };
        let url = to.url_with(&target);
        let method = Method::from_bytes(received.method.as_bytes()).unwrap_or(Method::POST);
        let sent = Arc::new(Sent { method: method.to_string(), headers: headers.clone() });
        let done = |result, answer| Forwarded {
            result,
            took: started.elapsed(),
            url,
            sent: Arc::clone(&sent),
            answer,
        };
        let Ok(uri) = target.parse::<Uri>() else {
            let error = format!("{target:?} can't be requested over HTTP");
            return done(Err(Failure::because(error, None)), Bytes::new());
        };
        let outgoing = Outgoing { method, target: uri, headers, body: received.body.clone() };
        match self.within(self.loopback.send(&to.endpoint, outgoing)).await {
            Err(failure) => done(Err(failure), Bytes::new()),
            Ok(answer) => {
                let result = self.judge(&answer, received, &sent, &target, at);
                done(result, answer.body)
            }
        }
    }

    /// One deadline over connecting, writing, waiting and reading.
    async fn within(&self, send: impl Future<Output = Result<Answer, SendError>>) -> Result<Answer, Failure> {
        let sent = match self.timeout {
            None => send.await,
            Some(limit) => tokio::time::timeout(limit, send)
                .await
                .map_err(|_| Failure::because(format!("timed out after {}s", limit.as_secs_f64()), None))?,
        };
        sent.map_err(|error| match error {
            SendError::Connect(ConnectError::Refused { tried }) => Failure::NobodyThere { tried },
            other => {
                let hint = match &other {
                    SendError::Tls { certificate: true, .. } => Some(Hint::Certificate),
                    SendError::Connect(ConnectError::NotLoopback { .. }) => Some(Hint::AllowRemote),
                    _ => None,
                };
                Failure::because(other.to_string(), hint)
            }
        })
    }

    fn judge(
        &self,
        answer: &Answer,
        received: &Received,
        sent: &Sent,
        target: &str,
        at: crate::clock::Timestamp,
    ) -> Result<u16, Failure> {
        let status = answer.status.as_u16();
        if answer.status.is_success() {
            return Ok(status);
        }
        let location =
            answer.headers.get(LOCATION).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let error = match location {
            Some(location) if answer.status.is_redirection() => {
                Some(format!("redirects to {location}, which is not followed: change the URL"))
            }
            _ if answer.status.is_informational() => Some(format!("answered {status} and nothing more")),
            _ => None,
        };
        let parsed = |body: &[u8]| self.signer.differs(&sent.headers, body, at);
        let asked = Asked {
            event_id: &received.event_id,
            method: &sent.method,
            headers: &sent.headers,
            target,
            body: &received.body,
            signed: self.signer.signed(),
        };
        let hint = hint::explain(answer, asked, parsed);
        Err(Failure::Final { status: Some(status), error, hint })
    }
}
