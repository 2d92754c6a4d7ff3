//! The client of the local leg: one request, one answer, exactly what it is given.
//!
//! A connection carries one request at a time. Once answered it is used again only for a moment (the app may be
//! about to close it), and given up after that, so that an app that waits for its connections can end.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;

use super::connect::{self, ConnectError, Connected, Endpoint, Look, Stream};
use super::relay::HttpError;
use super::tls;

/// How much of an answer is read before the connection is given up.
const READ_BYTES: usize = 1 << 20;
/// How much of an answer is kept.
const KEPT_BYTES: usize = 64 << 10;

/// How the local leg behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopbackSettings {
    /// Whether a target may be on another machine.
    pub allow_remote: bool,
    /// Take any certificate.
    pub skip_verify: bool,
    /// Certificates to trust beside the system's.
    pub ca: Option<PathBuf>,
    /// For how long a connection is used again after its last answer.
    pub keep_alive: Duration,
    /// How long connecting to one address, or resolving a name, may take.
    pub connect: Duration,
}

/// A request: what is sent is this, the framing, and nothing else.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub target: Uri,
    /// The headers, `host` among them.
    pub headers: HeaderMap,
    /// The exact bytes.
    pub body: Bytes,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// At most the first 64 KiB of its body.
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// No connection; no byte was sent.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The TLS handshake; no byte of the request was sent.
    #[error("TLS with {to}: {why}")]
    Tls {
        /// The peer.
        to: String,
        /// What the TLS library says.
        why: String,
        /// Whether it is the certificate that isn't trusted.
        certificate: bool,
    },
    /// The settings of this client.
    #[error("{0}")]
    Settings(String),
    /// The connection ended, or what came is no HTTP; the app may have seen the request.
    #[error("{0}")]
    Exchange(String),
}

/// The client. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Loopback(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: LoopbackSettings,
    tls: OnceCell<TlsConnectorBox>,
    idle: Mutex<Idle>,
}

struct TlsConnectorBox(TlsConnector);

impl std::fmt::Debug for TlsConnectorBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsConnector")
    }
}

#[derive(Debug, Default)]
struct Idle {
    connections: HashMap<Endpoint, Vec<(Connection, Instant)>>,
    reaping: bool,
}

#[derive(Debug)]
struct Connection {
    sender: Sender,
    look: Look,
}

#[derive(Debug)]
enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

type Unsent = Request<Full<Bytes>>;

impl Loopback {
    /// A client; certificates are read when the first TLS connection is made.
    pub fn new(settings: LoopbackSettings) -> Self {
        Self(Arc::new(Inner { settings, tls: OnceCell::new(), idle: Mutex::default() }))
    }

    /// Sends one request once, and reads its answer. There is no deadline: the caller drops the future.
    pub async fn send(&self, to: &Endpoint, outgoing: Outgoing) -> Result<Answer, SendError> {
        let length = HeaderValue::from(outgoing.body.len());
        let mut request = Request::new(Full::new(outgoing.body));
        *request.method_mut() = outgoing.method;
        *request.uri_mut() = outgoing.target;
        *request.headers_mut() = outgoing.headers;
        // Also where it is 0: an app that reads a body must not have to guess that there is none.
        request.headers_mut().insert(header::CONTENT_LENGTH, length);
        while let Some(mut connection) = self.take_idle(to) {
            match connection.sender.send(to, request).await {
                Ok(response) => return Ok(self.finish(to, connection, response).await),
                Err((error, None)) => return Err(error),
                // It ended while it was idle, and nothing was sent: that is no try.
                Err((_, Some(unsent))) => request = unsent,
            }
        }
        let mut connection = self.open(to).await?;
        let response = connection.sender.send(to, request).await.map_err(|(error, _)| error)?;
        Ok(self.finish(to, connection, response).await)
    }

    /// Whether something listens: connects, and keeps the connection for the next request.
    pub async fn probe(&self, to: &Endpoint) -> Result<(), ConnectError> {
        let Connected { stream, look } = self.connect(to).await?;
        if matches!(to, Endpoint::Tcp { tls: true, .. }) {
            return Ok(());
        }
        if let Ok(sender) = Sender::http1(stream).await {
            self.put_idle(to, Connection { sender, look });
        }
        Ok(())
    }

    /// Whether the target may be used at all: resolves its name.
    pub async fn check(&self, to: &Endpoint) -> Result<(), ConnectError> {
        let settings = &self.0.settings;
        match to {
            Endpoint::Unix(_) => Ok(()),
            Endpoint::Tcp { host, port, .. } => {
                connect::resolve(host, *port, settings.allow_remote, settings.connect).await.map(|_| ())
            }
        }
    }

    /// Gives up every idle connection.
    pub fn drop_idle(&self) {
        self.idle().connections.clear();
    }

    async fn connect(&self, to: &Endpoint) -> Result<Connected, ConnectError> {
        connect::connect(to, self.0.settings.allow_remote, self.0.settings.connect).await
    }

    async fn open(&self, to: &Endpoint) -> Result<Connection, SendError> {
        let Connected { stream, look } = self.connect(to).await?;
        let sender = match to {
            Endpoint::Tcp { tls: true, host, .. } => self.encrypted(to, host, stream).await?,
            _ => Sender::http1(stream).await?,
        };
        Ok(Connection { sender, look })
    }

    async fn encrypted(
        &self,
        to: &Endpoint,
        host: &str,
        stream: Box<dyn Stream>,
    ) -> Result<Sender, SendError> {
        let failed = |why: String, certificate| SendError::Tls { to: to.to_string(), why, certificate };
        let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(error.to_string(), false))?;
        let connector = self.tls().await.map_err(|error| SendError::Settings(error.to_string()))?;
        let stream = connector.connect(name, stream).await.map_err(|error| {
            let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            failed(error.to_string(), matches!(cause, Some(rustls::Error::InvalidCertificate(_))))
        })?;
        match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => Sender::http2(stream).await,
            _ => Sender::http1(stream).await,
        }
    }

    async fn tls(&self) -> Result<&TlsConnector, HttpError> {
        let settings = &self.0.settings;
        let build = || async {
            let config = match &settings.ca {
                _ if settings.skip_verify => tls::unverified()?,
                Some(file) => tls::verifying_with(file)?,
                None => tls::verifying(None)?,
            };
            Ok::<_, HttpError>(TlsConnectorBox(TlsConnector::from(Arc::new(config))))
        };
        self.0.tls.get_or_try_init(build).await.map(|connector| &connector.0)
    }

    /// Reads the answer; the connection stays when it ended in good order.
    async fn finish(&self, to: &Endpoint, connection: Connection, response: Response<Incoming>) -> Answer {
        let (parts, mut body) = response.into_parts();
        let mut kept = BytesMut::new();
        let mut read = 0;
        let whole = loop {
            match body.frame().await {
                None => break true,
                // The status came: an answer that is cut short is still an answer.
                Some(Err(_)) => break false,
                Some(Ok(frame)) => {
                    let Some(data) = frame.data_ref() else { continue };
                    read += data.len();
                    kept.extend_from_slice(&data[..data.len().min(KEPT_BYTES - kept.len())]);
                    if read > READ_BYTES {
                        break false;
                    }
                }
            }
        };
        if whole {
            self.put_idle(to, connection);
        }
        Answer { status: parts.status, headers: parts.headers, body: kept.freeze() }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Idle> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_idle(&self, to: &Endpoint) -> Option<Connection> {
        let mut idle = self.idle();
        let connections = idle.connections.get_mut(to)?;
        while let Some((connection, since)) = connections.pop() {
            if since.elapsed() < self.0.settings.keep_alive && connection.is_usable() {
                return Some(connection);
            }
        }
        None
    }

    fn put_idle(&self, to: &Endpoint, connection: Connection) {
        if !connection.is_usable() {
            return;
        }
        let mut idle = self.idle();
        let entry = (connection, Instant::now());
        match idle.connections.get_mut(to) {
            Some(connections) => connections.push(entry),
            None => drop(idle.connections.insert(to.clone(), vec![entry])),
        }
        if !std::mem::replace(&mut idle.reaping, true) {
            tokio::spawn(reap(Arc::downgrade(&self.0)));
        }
    }
}

/// Closes connections as they grow old, and ends when none is left.
async fn reap(inner: std::sync::Weak<Inner>) {
    loop {
        let Some(keep_alive) = inner.upgrade().map(|inner| inner.settings.keep_alive) else { return };
        tokio::time::sleep(keep_alive).await;
        let Some(inner) = inner.upgrade() else { return };
        let mut idle = inner.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.connections.retain(|_, connections| {
            connections.retain(|(connection, since)| since.elapsed() < keep_alive && connection.is_usable());
            !connections.is_empty()
        });
        if idle.connections.is_empty() {
            idle.reaping = false;
            return;
        }
    }
}

impl Connection {
    /// Whether it can be used again: what the app has closed by now would cost the request that is sent over it.
    fn is_usable(&self) -> bool {
        !self.sender.is_closed() && self.look.is_quiet()
    }
}

impl Sender {
    async fn http1<S>(stream: S) -> Result<Self, SendError>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| exchange(&error))?;
        tokio::spawn(connection);
        Ok(Self::Http1(sender))
    }

    async fn http2<S>(stream: S) -> Result<Self, SendError>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    {
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| exchange(&error))?;
        tokio::spawn(connection);
        Ok(Self::Http2(sender))
    }

    fn is_closed(&self) -> bool {
        match self {
            Self::Http1(sender) => sender.is_closed(),
            Self::Http2(sender) => sender.is_closed(),
        }
    }

    /// Sends; the request comes back when no byte of it was written.
    async fn send(
        &mut self,
        to: &Endpoint,
        request: Unsent,
    ) -> Result<Response<Incoming>, (SendError, Option<Unsent>)> {
        let sent = match self {
            Self::Http1(sender) => match sender.ready().await {
                Ok(()) => sender.try_send_request(for_http1(request)).await,
                Err(error) => return Err((exchange(&error), Some(request))),
            },
            Self::Http2(sender) => match sender.ready().await {
                Ok(()) => sender.try_send_request(for_http2(request, to)).await,
                Err(error) => return Err((exchange(&error), Some(request))),
            },
        };
        sent.map_err(|mut error| (exchange(error.error()), error.take_message()))
    }
}

/// HTTP/1.1 has the path alone in its request line.
fn for_http1(mut request: Unsent) -> Unsent {
    if request.uri().authority().is_some() {
        let host = request.uri().authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok());
        let target = request.uri().path_and_query().cloned().map(Uri::from);
        *request.uri_mut() = target.unwrap_or_default();
        if let Some(host) = host {
            request.headers_mut().insert(header::HOST, host);
        }
    }
    request
}

/// HTTP/2 has the host in the URL.
fn for_http2(mut request: Unsent, to: &Endpoint) -> Unsent {
    if request.uri().authority().is_none() {
        let host = request.headers_mut().remove(header::HOST);
        let host =
            host.and_then(|host| host.to_str().ok().map(str::to_owned)).unwrap_or_else(|| to.to_string());
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let absolute = Uri::builder().scheme("https").authority(host).path_and_query(target).build();
        *request.uri_mut() = absolute.unwrap_or_else(|_| request.uri().clone());
    }
    request
}

fn exchange(error: &hyper::Error) -> SendError {
    let mut text = if error.is_incomplete_message() {
        "the app closed the connection before it answered".to_owned()
    } else if error.is_parse() {
        "what the app answered is no HTTP/1.1".to_owned()
    } else {
        error.to_string()
    };
    if let Some(cause) = std::error::Error::source(error) {
        text = format!("{text}: {cause}");
    }
    SendError::Exchange(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc;

    /// Answers one request, and closes the connection when it is told to.
    fn app(listener: TcpListener, close: mpsc::Receiver<()>) -> std::thread::JoinHandle<()> {
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut seen = Vec::new();
            while !seen.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                seen.push(byte[0]);
            }
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
            close.recv().unwrap();
        })
    }

    #[tokio::test]
    async fn a_connection_that_was_closed_a_moment_ago_is_not_used_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = Endpoint::Tcp {
            tls: false,
            host: "127.0.0.1".to_owned(),
            port: listener.local_addr().unwrap().port(),
        };
        let loopback = Loopback::new(LoopbackSettings {
            allow_remote: false,
            skip_verify: false,
            ca: None,
            keep_alive: Duration::from_secs(60),
            connect: Duration::from_secs(10),
        });
        for _ in 0..20 {
            let (close, told) = mpsc::channel();
            let app = app(listener.try_clone().unwrap(), told);
            let outgoing = Outgoing {
                method: Method::POST,
                target: Uri::from_static("/"),
                headers: HeaderMap::new(),
                body: Bytes::new(),
            };
            assert_eq!(loopback.send(&to, outgoing).await.unwrap().status, StatusCode::NO_CONTENT);
            // Without giving the runtime a chance to hear of the end.
            close.send(()).unwrap();
            app.join().unwrap();
        }
    }
}
