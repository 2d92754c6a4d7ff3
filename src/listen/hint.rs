//! The likely cause of a failed forward. A hint is made only from what was checked.

use std::fmt;

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
