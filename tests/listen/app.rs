//! An app on this machine: records exact requests, answers as told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Bytes,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.all(name).into_iter().next()
    }

    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(n, _)| n == name);
        named.map(|(_, value)| std::str::from_utf8(value).unwrap()).collect()
    }
}

type Answer = Arc<dyn Fn(&Seen) -> Response<Bytes> + Send + Sync>;

/// The app; dropping it ends it.
pub(crate) struct App {
    pub(crate) port: u16,
    shared: Arc<Shared>,
    stop: Mutex<CancellationToken>,
}

struct Shared {
    seen: Mutex<Vec<Seen>>,
    changed: Notify,
    answer: Answer,
    /// Each answer takes a permit.
    permits: Semaphore,
    /// Requests open now, and at most.
    open: Mutex<(usize, usize)>,
}

impl App {
    /// Answers 200 to everything.
    pub(crate) async fn ok() -> Self {
        Self::answering(|_| Response::new(Bytes::from_static(b"ok"))).await
    }

    /// Answers this status to everything.
    pub(crate) async fn status(status: u16) -> Self {
        Self::answering(move |_| Response::builder().status(status).body(Bytes::new()).unwrap()).await
    }

    pub(crate) async fn answering(answer: impl Fn(&Seen) -> Response<Bytes> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, answer, Semaphore::MAX_PERMITS)
    }

    /// Answers 200, each time only when [`App::let_answer`] allows it.
    pub(crate) async fn held() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, |_| Response::new(Bytes::new()), 0)
    }

    pub(crate) fn on(
        listener: TcpListener,
        answer: impl Fn(&Seen) -> Response<Bytes> + Send + Sync + 'static,
        permits: usize,
    ) -> Self {
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            seen: Mutex::new(Vec::new()),
            changed: Notify::new(),
            answer: Arc::new(answer),
            permits: Semaphore::new(permits),
            open: Mutex::new((0, 0)),
        });
        let stop = CancellationToken::new();
        tokio::spawn(serve(listener, Arc::clone(&shared), stop.clone()));
        Self { port, shared, stop: Mutex::new(stop) }
    }

    pub(crate) fn target(&self, path: &str) -> String {
        format!("localhost:{}{path}", self.port)
    }

    pub(crate) fn let_answer(&self, count: usize) {
        self.shared.permits.add_permits(count);
    }

    /// Closes the port and every connection; returns when it is closed.
    pub(crate) async fn down(&self) {
        self.stop.lock().unwrap().cancel();
        while tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }

    /// Listens again on the same port.
    pub(crate) async fn up(&self) {
        let listener = loop {
            match TcpListener::bind(("127.0.0.1", self.port)).await {
                Ok(listener) => break listener,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let stop = CancellationToken::new();
        *self.stop.lock().unwrap() = stop.clone();
        tokio::spawn(serve(listener, Arc::clone(&self.shared), stop));
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// The most requests that were open at once.
    pub(crate) fn most_open(&self) -> usize {
        self.shared.open.lock().unwrap().1
    }

    /// Waits for so many requests.
    pub(crate) async fn until(&self, count: usize) -> Vec<Seen> {
        let wait = async {
            loop {
                let changed = self.shared.changed.notified();
                let seen = self.seen();
                if seen.len() >= count {
                    return seen;
                }
                let _again = tokio::time::timeout(Duration::from_millis(20), changed).await;
            }
        };
        match tokio::time::timeout(Duration::from_secs(20), wait).await {
            Ok(seen) => seen,
            Err(_) => panic!("the app never saw {count} requests but {:#?}", self.seen()),
        }
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.stop.lock().unwrap().cancel();
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
        let service = service_fn(move |request| handle(Arc::clone(&shared), request));
        let http = hyper::server::conn::http1::Builder::new();
        connections.spawn(http.serve_connection(TokioIo::new(stream), service));
    }
    drop(listener);
    connections.shutdown().await;
}

async fn handle(
    shared: Arc<Shared>,
    request: Request<hyper::body::Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let headers = parts.headers.iter().map(|(n, v)| (n.to_string(), v.as_bytes().to_vec())).collect();
    let seen = Seen { method: parts.method.to_string(), target: parts.uri.to_string(), headers, body };
    {
        let mut open = shared.open.lock().unwrap();
        open.0 += 1;
        open.1 = open.1.max(open.0);
    }
    shared.seen.lock().unwrap().push(seen.clone());
    shared.changed.notify_waiters();
    if let Ok(permit) = shared.permits.acquire().await {
        permit.forget();
    }
    shared.open.lock().unwrap().0 -= 1;
    let (parts, body) = (shared.answer)(&seen).into_parts();
    Ok(Response::from_parts(parts, Full::new(body)))
}
