//! Connections that must prove who is at the other end before anything is sent over them.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use subtle::ConstantTimeEq;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tower::{Layer, Service};

/// How long the other end may take to prove itself.
const DEADLINE: Duration = Duration::from_secs(5);
/// The longest head or body of its answer.
const MAX_BYTES: usize = 8 << 10;

/// Knows what the other end of a new connection must be able to say.
pub trait Guard: fmt::Debug + Send + Sync + 'static {
    /// A fresh question for the server on this port, and its only right answer; `None` when there is nobody to trust.
    fn challenge(&self, port: u16) -> Option<Challenge>;
}

/// A question and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Path and query of a `GET`, which carries nothing else.
    pub path: String,
    /// What the body of the answer must be.
    pub answer: String,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Puts a [`Guard`] before every new connection of a client to one port.
#[derive(Clone, Debug)]
pub(super) struct Guarded {
    pub(super) guard: Arc<dyn Guard>,
    pub(super) port: u16,
}

impl<S> Layer<S> for Guarded {
    type Service = GuardedConnector<S>;
    fn layer(&self, connector: S) -> Self::Service {
        GuardedConnector { connector, guarded: self.clone() }
    }
}

/// A connector whose connections have proven themselves.
#[derive(Clone, Debug)]
pub(super) struct GuardedConnector<S> {
    connector: S,
    guarded: Guarded,
}

impl<S, R> Service<R> for GuardedConnector<S>
where
    S: Service<R>,
    S::Response: hyper::rt::Read + hyper::rt::Write + Unpin + Send,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let connecting = self.connector.call(request);
        let guarded = self.guarded.clone();
        Box::pin(async move {
            let mut connection = TokioIo::new(connecting.await.map_err(Into::into)?);
            let proven = tokio::time::timeout(DEADLINE, guarded.prove(&mut connection)).await;
            proven.map_err(|_| stranger("it does not answer"))??;
            Ok(connection.into_inner())
        })
    }
}

impl Guarded {
    async fn prove(&self, connection: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
        let challenge =
            self.guard.challenge(self.port).ok_or_else(|| stranger("nobody is known to be there"))?;
        let request = format!("GET {} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\n\r\n", challenge.path, self.port);
        connection.write_all(request.as_bytes()).await?;
        let head = read_head(connection).await?;
        if !head.starts_with("HTTP/1.1 200 ") {
            return Err(stranger("it does not know the question"));
        }
        let mut body = vec![0; content_length(&head).ok_or_else(|| stranger("its answer has no length"))?];
        connection.read_exact(&mut body).await?;
        let right: bool = body.ct_eq(challenge.answer.as_bytes()).into();
        if right { Ok(()) } else { Err(stranger("its answer is wrong")) }
    }
}

fn stranger(why: &str) -> io::Error {
    io::Error::other(format!("something else is on that port: {why}"))
}

/// The status line and the headers. Byte by byte, since what follows belongs to others.
async fn read_head(connection: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let mut head = Vec::with_capacity(256);
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > MAX_BYTES {
            return Err(stranger("its answer is too long"));
        }
        head.push(connection.read_u8().await?);
    }
    String::from_utf8(head).map_err(|_| stranger("its answer is no text"))
}

fn content_length(head: &str) -> Option<usize> {
    let value = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then_some(value)
    })?;
    value.trim().parse().ok().filter(|length| *length <= MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{RelaySettings, relay_client};
    use tokio::net::TcpListener;

    #[derive(Debug)]
    struct Fixed;

    impl Guard for Fixed {
        fn challenge(&self, _port: u16) -> Option<Challenge> {
            Some(Challenge { path: "/proof?nonce=1".to_owned(), answer: "right".to_owned() })
        }
    }

    /// Answers every request on every connection with `proof`, then `ok`; gives back all it was sent.
    async fn server(proof: &'static str) -> (u16, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = tokio::spawn(async move {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut seen = String::new();
            for answer in [proof, "ok"] {
                match read_head(&mut connection).await {
                    Ok(head) => seen.push_str(&head),
                    Err(_) => break,
                }
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
                connection.write_all(answer.as_bytes()).await.unwrap();
            }
            seen
        });
        (port, served)
    }

    async fn ask(port: u16) -> Result<String, reqwest::Error> {
        let url = format!("http://127.0.0.1:{port}/").parse().unwrap();
        let settings = RelaySettings { guard: Some(Arc::new(Fixed)), ..RelaySettings::default() };
        let client = relay_client(&url, &settings).unwrap();
        client.get(url).bearer_auth("planted").send().await?.text().await
    }

    #[tokio::test]
    async fn a_right_answer_opens_the_connection_for_the_request() {
        let (port, served) = server("right").await;
        assert_eq!(ask(port).await.unwrap(), "ok");
        let seen = served.await.unwrap();
        assert!(
            seen.starts_with("GET /proof?nonce=1 HTTP/1.1\r\n") && seen.contains("Bearer planted"),
            "{seen}"
        );
    }

    #[tokio::test]
    async fn a_stranger_is_told_nothing() {
        let (port, served) = server("wrong").await;
        assert!(ask(port).await.unwrap_err().is_connect());
        let seen = served.await.unwrap();
        assert!(!seen.contains("planted") && seen.matches("GET ").count() == 1, "{seen}");
    }
}
