//! Where one forward goes: the exact URL, and what to connect to.

use std::fmt;

use crate::http::Endpoint;

/// A target, taken apart once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The exact URL, as it is shown.
    pub(super) url: String,
    /// What to connect to.
    pub(super) endpoint: Endpoint,
    /// The `host` header.
    pub(super) host: String,
    /// Path and query, beginning with a slash.
    pub(super) path_and_query: String,
}

impl Destination {
    /// From a target's parts: its URL as shown, what to connect to, the `host` header, path and query.
    pub fn new(url: String, endpoint: Endpoint, host: String, path_and_query: String) -> Self {
        Self { url, endpoint, host, path_and_query }
    }

    /// The exact URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What is connected to.
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Path and query with the event's own path and query joined to them.
    pub(super) fn appended(&self, path: &str, query: Option<&str>) -> String {
        let (own_path, own_query) = match self.path_and_query.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (self.path_and_query.as_str(), None),
        };
        let mut joined = own_path.to_owned();
        if !path.is_empty() && path != "/" {
            joined.truncate(joined.trim_end_matches('/').len());
            joined.push('/');
            joined.push_str(path.trim_start_matches('/'));
        }
        let queries = [own_query, query].into_iter().flatten().filter(|query| !query.is_empty());
        let query = queries.collect::<Vec<_>>().join("&");
        if !query.is_empty() {
            joined.push('?');
            joined.push_str(&query);
        }
        joined
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_queries_are_joined_once() {
        let joined = |own: &str, path: &str, query| {
            let endpoint = Endpoint::Unix("/run/app.sock".into());
            Destination::new(String::new(), endpoint, String::new(), own.to_owned()).appended(path, query)
        };
        assert_eq!(joined("/base", "/x/y", Some("z=1")), "/base/x/y?z=1");
        assert_eq!(joined("/base/", "/x/y", None), "/base/x/y");
        assert_eq!(joined("/", "/x", None), "/x");
        assert_eq!(joined("/base", "", None), "/base");
        assert_eq!(joined("/base/", "", None), "/base/");
        assert_eq!(joined("/base?a=1", "/x", Some("b=2")), "/base/x?a=1&b=2");
        assert_eq!(joined("/base?a=1", "", None), "/base?a=1");
    }
}
