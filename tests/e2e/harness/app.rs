//! The app on localhost: records exactly what it is sent, answers as it is told.

use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::http::{Message, header, read_message};
use super::log::{Log, PATIENCE};
use super::port::Port;

/// One request, as it came.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// The first header of this name, or nothing.
    pub fn header(&self, name: &str) -> &str {
        header(&self.headers, name)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// What to answer.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// A byte now and then, without end, instead of the body.
    pub drips: bool,
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: b"ok".to_vec(), drips: false }
    }

    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::status(status).header("content-type", "application/json").body(body.to_string().as_bytes())
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self
    }

    pub fn dripping(mut self) -> Self {
        self.drips = true;
        self
    }
}

/// Keeps requests waiting until it is released.
#[derive(Clone, Default)]
pub struct Hold(Arc<(Mutex<usize>, Condvar)>);

impl Hold {
    /// Waits for one release.
    pub fn wait(&self) {
        let (permits, changed) = &*self.0;
        let guard = permits.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = changed.wait_timeout_while(guard, PATIENCE, |permits| *permits == 0);
        let (mut permits, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *permits = permits.saturating_sub(1);
    }

    /// Lets this many go.
    pub fn release(&self, count: usize) {
        let (permits, changed) = &*self.0;
        *permits.lock().unwrap_or_else(PoisonError::into_inner) += count;
        changed.notify_all();
    }
}

type Script = Arc<dyn Fn(&Request) -> Reply + Send + Sync>;
type Close = Box<dyn Fn() + Send>;

/// The app.
pub struct App {
    shared: Arc<Shared>,
    door: Door,
    accepting: Option<JoinHandle<()>>,
    /// What it was sent, as it arrived.
    pub requests: Log<Request>,
    /// Connections that ended: it or the other end closed them.
    pub ended: Log<u64>,
}

enum Door {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

struct Shared {
    script: Mutex<Script>,
    idle: Mutex<Option<Duration>>,
    requests: Log<Request>,
    ended: Log<u64>,
    connections: AtomicU64,
    open: Mutex<Vec<Close>>,
    stopped: AtomicBool,
}

trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

impl App {
    /// On a free port of 127.0.0.1; answers 200.
    pub fn new() -> Self {
        Self::listen(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), None)
    }

    /// On this port of 127.0.0.1.
    pub fn on(port: &Port) -> Self {
        Self::listen(TcpListener::bind((Ipv4Addr::LOCALHOST, port.number)).unwrap(), None)
    }

    /// On this port of ::1.
    pub fn on_v6(port: &Port) -> Self {
        Self::listen(TcpListener::bind((Ipv6Addr::LOCALHOST, port.number)).unwrap(), None)
    }

    /// Speaks TLS with a certificate of its own, for `localhost`.
    pub fn tls() -> Self {
        let certificate = CertificateDer::from_pem_file(pem("localhost.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(pem("localhost.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_no_client_auth().with_single_cert(vec![certificate], key);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        Self::listen(listener, Some(Arc::new(config.unwrap())))
    }

    /// On a Unix socket.
    pub fn unix(path: &Path) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let shared = Arc::new(Shared::new());
        let accepting = {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                while let Ok((stream, _)) = listener.accept() {
                    let other = stream.try_clone().unwrap();
                    let close = move || drop(other.shutdown(std::net::Shutdown::Both));
                    if !shared.serve(Box::new(stream), Box::new(close)) {
                        return;
                    }
                }
            })
        };
        Self::started(shared, Door::Unix(path.to_owned()), accepting)
    }

    fn listen(listener: TcpListener, tls: Option<Arc<ServerConfig>>) -> Self {
        let door = Door::Tcp(listener.local_addr().unwrap());
        let shared = Arc::new(Shared::new());
        let accepting = {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                while let Ok((stream, _)) = listener.accept() {
                    let (stream, close) = shared.take_in(stream, tls.clone());
                    if !shared.serve(stream, close) {
                        return;
                    }
                }
            })
        };
        Self::started(shared, door, accepting)
    }

    fn started(shared: Arc<Shared>, door: Door, accepting: JoinHandle<()>) -> Self {
        let (requests, ended) = (shared.requests.clone(), shared.ended.clone());
        Self { shared, door, accepting: Some(accepting), requests, ended }
    }

    /// From now on it answers so.
    pub fn answers(self, script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        *self.shared.script.lock().unwrap() = Arc::new(script);
        self
    }

    /// It closes connections over which nothing came for so long.
    pub fn idle(self, limit: Duration) -> Self {
        *self.shared.idle.lock().unwrap() = Some(limit);
        self
    }

    /// Where it is, as `--forward-to` takes it.
    pub fn target(&self) -> String {
        match &self.door {
            Door::Tcp(address) => address.to_string(),
            Door::Unix(path) => format!("unix:{}:/", path.display()),
        }
    }

    /// With a path.
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.target())
    }

    pub fn port(&self) -> u16 {
        match &self.door {
            Door::Tcp(address) => address.port(),
            Door::Unix(_) => 0,
        }
    }

    /// Waits for this many requests.
    #[track_caller]
    pub fn got(&self, count: usize) -> Vec<Request> {
        self.requests.wait_for(count, "requests of the app")
    }

    /// Closes the port and every connection.
    pub fn stop(&mut self) {
        let Some(accepting) = self.accepting.take() else { return };
        self.shared.stopped.store(true, Ordering::SeqCst);
        // One more connection, so that the thread which accepts looks up.
        match &self.door {
            Door::Tcp(address) => drop(TcpStream::connect(address)),
            Door::Unix(path) => {
                drop(UnixStream::connect(path));
                let _gone = std::fs::remove_file(path);
            }
        }
        let _ended = accepting.join();
        let open = std::mem::take(&mut *self.shared.open.lock().unwrap_or_else(PoisonError::into_inner));
        open.iter().for_each(|close| close());
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A certificate or key for `localhost`, good from 2020 to 2120.
pub fn pem(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "support", "pem", name].iter().collect()
}

impl Shared {
    fn new() -> Self {
        Self {
            script: Mutex::new(Arc::new(|_| Reply::status(200))),
            idle: Mutex::new(None),
            requests: Log::new(),
            ended: Log::new(),
            connections: AtomicU64::new(0),
            open: Mutex::new(Vec::new()),
            stopped: AtomicBool::new(false),
        }
    }

    fn take_in(&self, stream: TcpStream, tls: Option<Arc<ServerConfig>>) -> (Box<dyn Stream>, Close) {
        let _small_answers_go_at_once = stream.set_nodelay(true);
        stream.set_read_timeout(*self.idle.lock().unwrap()).unwrap();
        let other = stream.try_clone().unwrap();
        let close = Box::new(move || drop(other.shutdown(std::net::Shutdown::Both)));
        match tls {
            None => (Box::new(stream), close),
            Some(config) => {
                (Box::new(StreamOwned::new(ServerConnection::new(config).unwrap(), stream)), close)
            }
        }
    }

    /// Serves a connection on a thread of its own; `false` when the app has stopped.
    fn serve(self: &Arc<Self>, stream: Box<dyn Stream>, close: Close) -> bool {
        if self.stopped.load(Ordering::SeqCst) {
            return false;
        }
        self.open.lock().unwrap_or_else(PoisonError::into_inner).push(close);
        let connection = self.connections.fetch_add(1, Ordering::SeqCst) + 1;
        let shared = Arc::clone(self);
        std::thread::spawn(move || shared.converse(stream, connection));
        true
    }

    fn converse(&self, stream: Box<dyn Stream>, connection: u64) {
        let mut stream = BufReader::new(stream);
        while let Ok(Some(message)) = read_message(&mut stream) {
            let request = request(message);
            self.requests.push(request.clone());
            let script = Arc::clone(&self.script.lock().unwrap_or_else(PoisonError::into_inner));
            if write(stream.get_mut(), &script(&request)).is_err() {
                break;
            }
        }
        drop(stream);
        // The handle kept for `stop` would hold the socket open.
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(close) = usize::try_from(connection - 1).ok().and_then(|at| open.get(at)) {
            close();
        }
        drop(open);
        self.ended.push(connection);
    }
}

fn request(message: Message) -> Request {
    let mut first = message.first.split(' ');
    let mut word = || first.next().unwrap_or_default().to_owned();
    Request { method: word(), target: word(), headers: message.headers, body: message.body }
}

fn write(to: &mut Box<dyn Stream>, reply: &Reply) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Scripted\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if reply.drips {
        to.write_all(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes())?;
        loop {
            to.write_all(b"1\r\nx\r\n")?;
            to.flush()?;
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let head = format!("{head}content-length: {}\r\n\r\n", reply.body.len());
    to.write_all(&[head.as_bytes(), &reply.body].concat())?;
    to.flush()
}
