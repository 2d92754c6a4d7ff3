//! Where one forward goes: the exact URL, and what to connect to.

use crate::http::Endpoint;
use crate::target::{Place, Target};

/// A target, taken apart once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Destination {
    /// The exact URL, as it is shown.
    pub(super) url: String,
    /// What to connect to.
    pub(super) endpoint: Endpoint,
    /// The `host` header.
    pub(super) host: String,
    /// Path and query, beginning with a slash.
    pub(super) path_and_query: String,
}

impl From<&Target> for Destination {
    fn from(target: &Target) -> Self {
        let endpoint = match target.place() {
            Place::Tcp { tls, host, port } => Endpoint::Tcp { tls: *tls, host: host.bare(), port: *port },
            Place::Unix { socket } => Endpoint::Unix(socket.clone()),
        };
        Self {
            url: target.to_string(),
            endpoint,
            host: target.host_header(),
            path_and_query: target.path_and_query().to_owned(),
        }
    }
}

impl Destination {
    /// The URL with another path and query.
    pub(super) fn url_with(&self, path_and_query: &str) -> String {
        let base = self.url.strip_suffix(self.path_and_query.as_str()).unwrap_or(&self.url);
        format!("{base}{path_and_query}")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_queries_are_joined_once() {
        let joined = |own: &str, path: &str, query| {
            let target = Target::parse(&format!("localhost:3000{own}")).unwrap();
            Destination::from(&target).appended(path, query)
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
