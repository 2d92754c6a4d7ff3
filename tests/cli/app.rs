//! The app on localhost: answers what its path says (`/500`), and tells what it was sent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A request that came.
#[derive(Debug)]
pub(crate) struct Got {
    /// Method and path.
    pub(crate) line: String,
    /// The headers, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The body.
    pub(crate) body: Vec<u8>,
}

impl Got {
    /// The first header of this name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// A running app.
pub(crate) struct App {
    port: u16,
    got: Receiver<Got>,
}

impl App {
    /// Answers at once.
    pub(crate) fn start() -> Self {
        Self::answering_after(|_| {})
    }

    /// Answers after `wait` returned.
    pub(crate) fn answering_after(wait: impl Fn(&Got) + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (to, got) = channel();
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let (to, wait) = (to.clone(), wait.clone());
                std::thread::spawn(move || serve(connection, &to, &wait));
            }
        });
        Self { port, got }
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The next request.
    pub(crate) fn next(&self) -> Got {
        self.got.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    /// Requests that came and were not asked for.
    pub(crate) fn others(&self) -> Vec<Got> {
        self.got.try_iter().collect()
    }
}

fn serve(connection: TcpStream, to: &Sender<Got>, wait: &impl Fn(&Got)) {
    let mut reader = BufReader::new(connection);
    while let Some(got) = read(&mut reader) {
        wait(&got);
        let status = got
            .line
            .split('/')
            .nth(1)
            .and_then(|path| path.get(..3))
            .and_then(|code| code.parse::<u16>().ok());
        let answer = format!("HTTP/1.1 {} Answer\r\ncontent-length: 0\r\n\r\n", status.unwrap_or(200));
        if to.send(got).is_err() || reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Got> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok().filter(|read| *read > 0)?;
        match header.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
            None => break,
        }
    }
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let line = line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    Some(Got { line, headers, body })
}
