//! The likely cause of a failed forward. A hint is made only from what was checked.

use std::fmt;

use http::header::{ALLOW, CONTENT_TYPE, HeaderName, LOCATION};
use http::{HeaderMap, StatusCode};

use crate::http::Answer;
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
    /// 401 or 403.
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
    /// 400, and the signature over the re-serialised body was computed and differs from the one that was sent.
    BodyParsed,
    /// A refused `localhost` in a container; once.
    Container,
    /// The app's certificate isn't trusted.
    Certificate,
    /// The target isn't on this machine.
    AllowRemote,
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
            Self::Refused => f.write_str(
                "authentication or CSRF protection refused it before the handler: exempt the webhook's path",
            ),
            Self::Method { method, allow: Some(allow) } => {
                write!(f, "the path doesn't take {method}, it allows {allow}")
            }
            Self::Method { method, allow: None } => write!(f, "the path doesn't take {method}"),
            Self::MediaType { content_type: Some(text) } => write!(f, "the app doesn't take {text}"),
            Self::MediaType { content_type: None } => {
                f.write_str("the app wants a content type; none came with it")
            }
            Self::BodyParsed => f.write_str(
                "if your framework parsed the body before you verified it, the signature can't match: \
                 over the re-serialised body it is another one; verify over the raw bytes",
            ),
            Self::Container => f.write_str(
                "localhost is this container: forward to host.docker.internal \
                 (on Linux start it with --add-host host.docker.internal:host-gateway)",
            ),
            Self::Certificate => f.write_str(
                "trust the app's certificate with --ca FILE, or skip the check with --skip-verify",
            ),
            Self::AllowRemote => f.write_str("--allow-remote lets events leave this machine"),
        }
    }
}

/// What an answer that isn't 2xx says about its cause. `differs` recomputes the signature over another body and
/// tells whether it is another one than the one that was sent.
pub(super) fn explain(
    answer: &Answer,
    method: &str,
    sent: &HeaderMap,
    target: &str,
    body: &[u8],
    differs: impl Fn(&[u8]) -> bool,
) -> Option<Hint> {
    let text = |headers: &HeaderMap, name: HeaderName| {
        headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    match answer.status {
        StatusCode::BAD_REQUEST => {
            let compact =
                explain::reserialisations(body).into_iter().find(|(kind, _)| *kind == Kind::Compact);
            compact.filter(|(_, bytes)| differs(bytes)).map(|_| Hint::BodyParsed)
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Some(Hint::Refused),
        StatusCode::NOT_FOUND => Some(Hint::WrongPath { path: target.to_owned() }),
        StatusCode::METHOD_NOT_ALLOWED => {
            Some(Hint::Method { method: method.to_owned(), allow: text(&answer.headers, ALLOW) })
        }
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            Some(Hint::MediaType { content_type: text(sent, CONTENT_TYPE) })
        }
        status if status.is_redirection() => {
            let location = text(&answer.headers, LOCATION)?;
            match is_slash_apart(target, &location) {
                true => Some(Hint::Slash { location }),
                false => Some(Hint::Redirect { location }),
            }
        }
        _ => None,
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

    fn hint(answer: &Answer, body: &str, differs: bool) -> Option<Hint> {
        explain(answer, "POST", &HeaderMap::new(), "/hooks", body.as_bytes(), |_| differs)
    }

    #[test]
    fn a_400_is_blamed_on_a_parsed_body_only_when_that_changes_the_signature() {
        let bad = answer(400, &[]);
        assert_eq!(hint(&bad, "{ \"a\": 1 }", true), Some(Hint::BodyParsed));
        assert_eq!(hint(&bad, "{ \"a\": 1 }", false), None, "not signed by us");
        assert_eq!(hint(&bad, "{\"a\":1}", true), None, "written again it is the same");
        assert_eq!(hint(&bad, "a=1", true), None, "no JSON");
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
        assert_eq!(hint(&answer(500, &[]), "", true), None);
    }
}
