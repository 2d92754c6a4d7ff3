//! HTTP headers as an ordered list with repeats: what came in is what goes out.

use serde::{Deserialize, Serialize};

/// An ordered header list. Names compare without case; values are kept as the bytes' Latin-1 text, so that any
/// value an HTTP message may carry survives storage and JSON unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// An empty list.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends one header; a repeat stays a repeat.
    pub fn push(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.push((name.into(), value.into()));
    }

    /// Replaces every header of this name by one value.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.remove(name);
        self.push(name, value);
    }

    /// Drops every header of this name.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
    }

    /// The first value of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// Every value of this name, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// Whether there is one of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Name and value, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }

    /// Keeps the headers for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &str) -> bool) {
        self.0.retain(|(n, v)| keep(n, v));
    }

    /// How many there are, repeats counted.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Drops what belongs to one connection only (RFC 9110, section 7.6.1): the fixed list, and every name that
    /// a `Connection` header lists.
    pub fn remove_hop_by_hop(&mut self) {
        let listed: Vec<String> = self
            .all("connection")
            .flat_map(|value| value.split(','))
            .map(|name| name.trim().to_ascii_lowercase())
            .collect();
        self.0.retain(|(name, _)| {
            let name = name.to_ascii_lowercase();
            !HOP_BY_HOP.contains(&name.as_str()) && !listed.contains(&name)
        });
    }
}

/// Headers that end at each hop, with the framing that every hop makes for itself.
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl From<&http::HeaderMap> for Headers {
    /// Every header with its repeats, in the order in which the HTTP library yields them.
    fn from(map: &http::HeaderMap) -> Self {
        map.iter().map(|(n, v)| (n.as_str().to_owned(), latin1(v.as_bytes()))).collect()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(n, v)| (n.into(), v.into())).collect())
    }
}

/// A header value's bytes as text, one character a byte.
pub fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|b| char::from(*b)).collect()
}

/// The bytes behind [`latin1`] text; `None` when a character is beyond one byte.
pub fn from_latin1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_and_order_survive() {
        let mut headers = Headers::new();
        headers.push("X-Multi", "a");
        headers.push("x-keep", "1");
        headers.push("x-multi", "b");
        assert_eq!(headers.all("X-MULTI").collect::<Vec<_>>(), ["a", "b"]);
        headers.set("x-multi", "c");
        assert_eq!(headers.all("x-multi").collect::<Vec<_>>(), ["c"]);
    }

    #[test]
    fn hop_by_hop_goes_with_what_connection_names() {
        let mut headers: Headers = [
            ("Connection", "keep-alive, X-Drop"),
            ("X-Drop", "1"),
            ("TE", "trailers"),
            ("Trailer", "X-T"),
            ("Upgrade", "h2c"),
            ("Proxy-Authorization", "Basic eA=="),
            ("Transfer-Encoding", "chunked"),
            ("X-Keep", "1"),
        ]
        .into_iter()
        .collect();
        headers.remove_hop_by_hop();
        assert_eq!(headers.iter().collect::<Vec<_>>(), [("X-Keep", "1")]);
    }

    #[test]
    fn any_byte_of_a_value_survives() {
        let bytes: Vec<u8> = (0x20..=0xff).collect();
        assert_eq!(from_latin1(&latin1(&bytes)), Some(bytes));
        assert_eq!(from_latin1("€"), None);
    }
}
