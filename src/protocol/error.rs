//! Errors on the wire, and the one table of their codes.

use serde::{Deserialize, Serialize};

/// The body of every answer that is not 2xx.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// The error.
    pub error: ApiError,
}

/// What went wrong and what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct ApiError {
    /// The family: `invalid_request_error`, `authentication_error`, ...
    #[serde(rename = "type", default)]
    pub kind: String,
    /// The code, snake_case.
    #[serde(default)]
    pub code: String,
    /// For people; says what to do next.
    #[serde(default)]
    pub message: String,
    /// The field at fault, when it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub param: Option<String>,
    /// Every field at fault.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
    /// A command or a setting that helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The request's id.
    #[serde(default)]
    pub request_id: String,
}

/// One field at fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "relay", derive(utoipa::ToSchema))]
pub struct Issue {
    /// Dotted: `acks.0.status_code`.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
}

macro_rules! codes {
    ($($name:ident = $text:literal, $status:literal, $kind:literal, $about:literal;)*) => {
        /// Every error code, with its status and family.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $(#[doc = $about] $name,)* }

        impl Code {
            /// All of them, in the order of the reference page.
            pub const ALL: &[Code] = &[$(Code::$name,)*];
            /// The wire text.
            pub const fn text(self) -> &'static str { match self { $(Self::$name => $text,)* } }
            /// The HTTP status.
            pub const fn status(self) -> u16 { match self { $(Self::$name => $status,)* } }
            /// The family.
            pub const fn kind(self) -> &'static str { match self { $(Self::$name => $kind,)* } }
            /// When it is answered.
            pub const fn about(self) -> &'static str { match self { $(Self::$name => $about,)* } }
        }
    };
}

codes! {
    InvalidRequest = "invalid_request", 400, "invalid_request_error", "A field, a query parameter or a header has a wrong value.";
    InvalidJson = "invalid_json", 400, "invalid_request_error", "The body is no JSON object.";
    InvalidApiVersion = "invalid_api_version", 400, "invalid_request_error", "The version header names an unknown version.";
    BodyTooLarge = "body_too_large", 413, "invalid_request_error", "The body is over the limit.";
    RequestTimeout = "request_timeout", 408, "invalid_request_error", "The body came too slowly.";
    UnsupportedMediaType = "unsupported_media_type", 415, "invalid_request_error", "A body needs `Content-Type: application/json`.";
    MethodNotAllowed = "method_not_allowed", 405, "invalid_request_error", "The path exists, the method doesn't.";
    ListenerLimitReached = "webhook_listener_limit_reached", 422, "invalid_request_error", "Five listeners of this environment are open.";
    BacklogTooLarge = "backlog_too_large", 422, "invalid_request_error", "`since` would bring more events than `max_backlog`.";
    NoOpenListener = "no_open_listener", 422, "invalid_request_error", "A replay found no open listener.";
    ReplayTooLarge = "replay_too_large", 422, "invalid_request_error", "A replay takes at most 1,000 events.";
    UnknownScheme = "unknown_scheme", 422, "invalid_request_error", "No such signature scheme.";
    InvalidSecret = "invalid_secret", 422, "invalid_request_error", "The secret can't be used with this scheme.";
    NameTaken = "name_taken", 422, "invalid_request_error", "The name is in use in this environment.";
    UnsignedNotAllowed = "unsigned_not_allowed", 422, "invalid_request_error", "`scheme = none` beyond loopback needs `--allow-unsigned`.";
    Unauthorized = "unauthorized", 401, "authentication_error", "The key is missing, unknown or revoked.";
    InvalidSignature = "invalid_signature", 401, "authentication_error", "The webhook's signature was not accepted.";
    HostNotAllowed = "host_not_allowed", 403, "permission_error", "The Host header is not on the allow-list, or the request comes from another site.";
    Forbidden = "forbidden", 403, "permission_error", "The key lacks the permission.";
    NotFound = "not_found", 404, "not_found_error", "No such path or object in this environment.";
    IdempotencyInProgress = "idempotency_in_progress", 409, "idempotency_error", "A request with this key is still running.";
    IdempotencyMismatch = "idempotency_mismatch", 422, "idempotency_error", "This key was used with another body.";
    Internal = "internal_error", 500, "api_error", "The relay failed; its log names the request id.";
    Unavailable = "unavailable", 503, "api_error", "The store can't be written now; see `Retry-After`.";
}

impl Code {
    /// The code with this wire text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.text() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_snake_case_and_in_their_family() {
        for code in Code::ALL {
            assert_eq!(Code::parse(code.text()), Some(*code));
            assert!(code.text().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{}", code.text());
            let fits = match code.kind() {
                "invalid_request_error" => [400, 405, 408, 413, 415, 422].contains(&code.status()),
                "authentication_error" => code.status() == 401,
                "permission_error" => code.status() == 403,
                "not_found_error" => code.status() == 404,
                "idempotency_error" => [409, 422].contains(&code.status()),
                "api_error" => [500, 503].contains(&code.status()),
                _ => false,
            };
            assert!(fits, "{}", code.text());
        }
    }
}
