//! The likely cause of a failed forward. A hint is made only from what was checked.

use std::collections::HashSet;
use std::fmt;

use http::header::{ALLOW, CONTENT_TYPE, HeaderName, LOCATION};
use http::{HeaderMap, StatusCode};

use crate::http::{Answer, Endpoint};
use crate::signature::explain::{self, Kind};

/// What probably went wrong, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// 404: the app has no such path.
    WrongPath {
        /// The path that was posted to.
        path: String,
    },
    /// A 3xx whose `Location` is the same URL with its last slash added or taken away.
    Slash {
        /// The URL to forward to.
        location: String,
    },
    /// Any other 3xx: redirects are not followed.
    Redirect {
        /// Where it points.
        location: String,
    },
    /// Any 5xx: what the person does once the app is fixed.
    Replay {
        /// The event.
        event_id: String,
    },
    /// 401, and 400 when a parsed body explains nothing: the app may verify with another secret.
    Secret(Signed),
    /// 403, and 401 without a signature of ours.
    Refused,
    /// 405.
    Method {
        /// The method that was sent.
        method: String,
        /// What the app allows, when it says.
        allow: Option<String>,
    },
    /// 415.
    MediaType {
        /// The content type that was sent.
        content_type: Option<String>,
    },
    /// 400, and the signatures over the body written again were computed and differ from the one that was sent.
    BodyParsed {
        /// The ways of writing it that give another signature; compact JSON is among them.
        written: Vec<Kind>,
    },
    /// A refused `localhost` in a container; once.
    Container,
    /// The app's certificate isn't trusted.
    Certificate,
    /// The target isn't on this machine.
    AllowRemote,
}

/// With what a forward was signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed {
    /// Nothing of ours.
    No,
    /// The secret of this project and profile, or the one that replaces it.
    Local,
    /// The provider's secret, for `--sign-as`.
    AsProvider,
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongPath { path } => {
                write!(f, "the app has nothing at {path}: check the path of --forward-to")
            }
            Self::Slash { location } => write!(f, "forward to {location}: the app wants that slash"),
            Self::Redirect { location } => {
                write!(f, "redirects are not followed, forward to {location} if that is the handler")
            }
            Self::Replay { event_id } => write!(f, "once the app is fixed: `pullhook replay {event_id}`"),
            Self::Secret(Signed::Local) => f.write_str(
                "the app may verify with another secret: `pullhook listen --print-secret` prints the one that signs here",
            ),
            Self::Secret(Signed::AsProvider | Signed::No) => {
                f.write_str("the app may verify with another secret than --sign-secret-env names")
            }
            Self::Refused => f.write_str(
                "CSRF protection or authentication may have refused it before the handler: exempt the webhook's path",
            ),
            Self::Method { method, allow: Some(allow) } => {
                write!(f, "the path doesn't take {method}, it allows {allow}")
            }
            Self::Method { method, allow: None } => write!(f, "the path doesn't take {method}"),
            Self::MediaType { content_type: Some(text) } => write!(f, "the app doesn't take {text}"),
            Self::MediaType { content_type: None } => {
                f.write_str("the app wants a content type; none came with it")
            }
            Self::BodyParsed { written } => write!(
                f,
                "if your framework parsed the body before you verified it, the signature can't match: \
                 over the body written again as {} JSON it is another one; verify over the raw bytes",
                if written.contains(&Kind::Pretty) { "compact or indented" } else { "compact" }
            ),
            Self::Container => f.write_str(
                "if your app runs outside this container, forward to host.docker.internal \
                 (on Linux start the container with --add-host host.docker.internal:host-gateway)",
            ),
            Self::Certificate => f.write_str(
                "trust the app's certificate with --ca FILE, or skip the check with --skip-verify",
            ),
            Self::AllowRemote => f.write_str("--allow-remote lets events leave this machine"),
        }
    }
}

/// A forward whose answer is to be explained.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    /// The event.
    pub event_id: &'a str,
    /// The method that was sent.
    pub method: &'a str,
    /// The headers that were sent.
    pub headers: &'a HeaderMap,
    /// The path and the query that were posted to.
    pub target: &'a str,
    /// The exact bytes.
    pub body: &'a [u8],
    /// With what it was signed.
    pub signed: Signed,
}

/// What an answer that isn't 2xx says about its cause. `differs` recomputes the signature over another body and
/// tells whether it is another one than the one that was sent.
pub(super) fn explain(answer: &Answer, asked: Asked<'_>, differs: impl Fn(&[u8]) -> bool) -> Option<Hint> {
    let text = |headers: &HeaderMap, name: HeaderName| {
        headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let secret = (asked.signed != Signed::No).then_some(Hint::Secret(asked.signed));
    match answer.status {
        StatusCode::BAD_REQUEST => parsed(asked.body, differs).or(secret),
        StatusCode::UNAUTHORIZED => Some(secret.unwrap_or(Hint::Refused)),
        StatusCode::FORBIDDEN => Some(Hint::Refused),
        StatusCode::NOT_FOUND => Some(Hint::WrongPath { path: asked.target.to_owned() }),
        StatusCode::METHOD_NOT_ALLOWED => {
            Some(Hint::Method { method: asked.method.to_owned(), allow: text(&answer.headers, ALLOW) })
        }
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            Some(Hint::MediaType { content_type: text(asked.headers, CONTENT_TYPE) })
        }
        status if status.is_redirection() => {
            let location = text(&answer.headers, LOCATION)?;
            match is_slash_apart(asked.target, &location) {
                true => Some(Hint::Slash { location }),
                false => Some(Hint::Redirect { location }),
            }
        }
        status if status.is_server_error() => Some(Hint::Replay { event_id: asked.event_id.to_owned() }),
        _ => None,
    }
}

/// Whether a parsed body explains it. Most frameworks write compact JSON, so that where this gives the signature that
/// was sent, a parsed body is no likely cause, however indented JSON would be signed.
fn parsed(body: &[u8], differs: impl Fn(&[u8]) -> bool) -> Option<Hint> {
    let written = explain::reserialisations(body).into_iter();
    let written = written.filter(|(kind, _)| matches!(kind, Kind::Compact | Kind::Pretty));
    let written: Vec<Kind> = written.filter(|(_, bytes)| differs(bytes)).map(|(kind, _)| kind).collect();
    written.contains(&Kind::Compact).then_some(Hint::BodyParsed { written })
}

/// What need not be said again.
#[derive(Debug, Default)]
pub(super) struct Said {
    container: bool,
    moved: HashSet<Endpoint>,
}

impl Said {
    /// In a container `localhost` is the container; said once.
    pub(super) fn container(&mut self, endpoint: &Endpoint) -> Option<Hint> {
        let first = endpoint.is_localhost() && !std::mem::replace(&mut self.container, true);
        first.then_some(Hint::Container)
    }

    /// The hint of this answer. An app that has moved answers everything with a 307 or a 308: said once per app.
    pub(super) fn unless_moved(&mut self, app: &Endpoint, status: Option<u16>, hint: Hint) -> Option<Hint> {
        let again = matches!(status, Some(307 | 308)) && !self.moved.insert(app.clone());
        (!again).then_some(hint)
    }
}

/// Whether a `Location` is the path that was asked for with a slash more or less at its end.
fn is_slash_apart(target: &str, location: &str) -> bool {
    let path = |text: &str| text.split(['?', '#']).next().unwrap_or_default().to_owned();
    let location = match location.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or_else(|| "/".to_owned(), |at| rest[at..].to_owned()),
        None => location.to_owned(),
    };
    let (asked, offered) = (path(target), path(&location));
    asked != offered && asked.trim_end_matches('/') == offered.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(HeaderName, &'static str)]) -> Answer {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        Answer { status: StatusCode::from_u16(status).unwrap(), headers, body: bytes::Bytes::new() }
    }

    fn asked(body: &str) -> Asked<'_> {
        static NONE: std::sync::LazyLock<HeaderMap> = std::sync::LazyLock::new(HeaderMap::new);
        Asked {
            event_id: "evt_1",
            method: "POST",
            headers: &NONE,
            target: "/hooks",
            body: body.as_bytes(),
            signed: Signed::Local,
        }
    }

    fn hint(answer: &Answer, body: &str, differs: bool) -> Option<Hint> {
        explain(answer, asked(body), |_| differs)
    }

    #[test]
    fn a_400_is_blamed_on_a_parsed_body_only_when_that_changes_the_signature() {
        let bad = answer(400, &[]);
        let both = Hint::BodyParsed { written: vec![Kind::Compact, Kind::Pretty] };
        assert_eq!(hint(&bad, "{ \"a\": 1 }", true), Some(both));
        let indented = hint(&bad, "{\n  \"a\": 1\n}", true);
        assert_eq!(
            indented,
            Some(Hint::BodyParsed { written: vec![Kind::Compact] }),
            "indented it is the same"
        );
        let secret = Some(Hint::Secret(Signed::Local));
        assert_eq!(hint(&bad, "{\"a\":1}", true), secret, "written again it is the same");
        assert_eq!(hint(&bad, "a=1", true), secret, "no JSON");
        let unsigned = Asked { signed: Signed::No, ..asked("{ \"a\": 1 }") };
        assert_eq!(explain(&bad, unsigned, |_| false), None, "not signed by us");
    }

    #[test]
    fn another_secret_is_suspected_only_where_one_was_used() {
        let with = |status, signed| explain(&answer(status, &[]), Asked { signed, ..asked("") }, |_| false);
        assert_eq!(with(401, Signed::Local), Some(Hint::Secret(Signed::Local)));
        assert_eq!(with(401, Signed::AsProvider), Some(Hint::Secret(Signed::AsProvider)));
        assert_eq!(with(401, Signed::No), Some(Hint::Refused));
        assert!(Hint::Secret(Signed::Local).to_string().contains("`pullhook listen --print-secret`"));
        assert!(Hint::Refused.to_string().contains("CSRF"));
    }

    #[test]
    fn what_holds_for_every_event_is_said_once() {
        let app = |port| Endpoint::Tcp { tls: false, host: "localhost".to_owned(), port };
        let mut said = Said::default();
        let mut told = |port, status| said.unless_moved(&app(port), Some(status), Hint::Refused).is_some();
        assert!(told(1, 307) && !told(1, 308), "once per app");
        assert!(told(2, 308) && told(1, 301) && told(1, 301));
        assert_eq!(said.container(&Endpoint::Unix("/a".into())), None);
        assert_eq!(said.container(&app(1)), Some(Hint::Container));
        assert_eq!(said.container(&app(2)), None);
    }

    #[test]
    fn redirects_name_the_slash_when_it_is_one() {
        let to = |location| hint(&answer(301, &[(LOCATION, location)]), "", true);
        let slash = |location: &str| Some(Hint::Slash { location: location.to_owned() });
        assert_eq!(to("/hooks/"), slash("/hooks/"));
        assert_eq!(to("http://localhost:3000/hooks/"), slash("http://localhost:3000/hooks/"));
        assert_eq!(to("/login"), Some(Hint::Redirect { location: "/login".to_owned() }));
    }

    #[test]
    fn the_others_say_what_they_saw() {
        assert!(
            matches!(hint(&answer(404, &[]), "", true), Some(Hint::WrongPath { path }) if path == "/hooks")
        );
        assert_eq!(hint(&answer(403, &[]), "", true), Some(Hint::Refused));
        let method = hint(&answer(405, &[(ALLOW, "GET, HEAD")]), "", true).unwrap();
        assert_eq!(method.to_string(), "the path doesn't take POST, it allows GET, HEAD");
        let failed = hint(&answer(500, &[]), "", true).unwrap();
        assert_eq!(failed.to_string(), "once the app is fixed: `pullhook replay evt_1`");
        assert_eq!(hint(&answer(418, &[]), "", true), None);
    }
}
