//! HTTP/1.1 by hand: what a provider or a client sends, byte by byte, and reading messages on either side.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::log::PATIENCE;

/// A message's first line, headers and body.
#[derive(Clone, Debug, Default)]
pub struct Message {
    pub first: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Message {
    /// The first header of this name, or nothing.
    pub fn header(&self, name: &str) -> &str {
        header(&self.headers, name)
    }
}

pub fn header<'a>(headers: &'a [(String, String)], name: &str) -> &'a str {
    headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
}

/// Reads one message; `None` when the other end closed before one began.
pub fn read_message(from: &mut impl BufRead) -> io::Result<Option<Message>> {
    let Some(first) = read_line(from)? else { return Ok(None) };
    let mut message = Message { first, ..Message::default() };
    loop {
        let line = read_line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or(io::ErrorKind::InvalidData)?;
        message.headers.push((name.to_owned(), value.trim().to_owned()));
    }
    if message.header("transfer-encoding").eq_ignore_ascii_case("chunked") {
        read_chunks(from, &mut message.body)?;
    } else if let Ok(length) = message.header("content-length").parse() {
        message.body = vec![0; length];
        from.read_exact(&mut message.body)?;
    }
    Ok(Some(message))
}

fn read_line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if from.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&line);
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}

fn read_chunks(from: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let line = read_line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let size = usize::from_str_radix(&line, 16).map_err(|_| io::ErrorKind::InvalidData)?;
        let start = body.len();
        body.resize(start + size, 0);
        from.read_exact(&mut body[start..])?;
        read_line(from)?;
        if size == 0 {
            return Ok(());
        }
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub message: Message,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.message.body);
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("not JSON: {text}"))
    }

    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.message.body));
        self.json()
    }
}

/// Sends one request on a connection of its own and reads the answer.
pub fn send(method: &str, url: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Answer> {
    let length = body.len().to_string();
    let headers = [&[("content-length", length.as_str())], headers].concat();
    exchange(method, url, &headers, |to| to.write_all(body))
}

/// Posts a body without saying beforehand how long it is.
pub fn post_in_chunks(url: &str, body: &[u8]) -> io::Result<Answer> {
    exchange("POST", url, &[("transfer-encoding", "chunked")], |to| {
        for chunk in body.chunks(64 << 10) {
            to.write_all(format!("{:x}\r\n", chunk.len()).as_bytes())?;
            to.write_all(chunk)?;
            to.write_all(b"\r\n")?;
        }
        to.write_all(b"0\r\n\r\n")
    })
}

fn exchange(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: impl FnOnce(&mut TcpStream) -> io::Result<()>,
) -> io::Result<Answer> {
    let (address, path) = split(url);
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    body(&mut stream)?;
    let message = read_message(&mut BufReader::new(stream))?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = message.first.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok(Answer { status: status.ok_or(io::ErrorKind::InvalidData)?, message })
}

/// `127.0.0.1:4750` and `/path?query` of a URL.
pub fn split(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("http://").unwrap();
    let at = rest.find('/').unwrap_or(rest.len());
    (&rest[..at], if at == rest.len() { "/" } else { &rest[at..] })
}
