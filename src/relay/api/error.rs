//! How a request fails: a code of the one table, a message that says what to do, and where.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

use crate::protocol::error::{ApiError, Code, ErrorBody, Issue};
use crate::store::StoreError;

/// Seconds after which a client may try again when the store can't be used.
const RETRY_AFTER_S: u32 = 5;

/// A failed request, before it knows its id.
#[derive(Clone, Debug)]
pub(crate) struct Failure(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    code: Code,
    message: String,
    param: Option<String>,
    issues: Vec<Issue>,
    hint: Option<String>,
    retry_after: Option<u32>,
    allow: Option<HeaderValue>,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            code,
            message: message.into(),
            param: None,
            issues: Vec::new(),
            hint: None,
            retry_after: None,
            allow: None,
        }))
    }

    /// Every field at fault, the first of them in the message.
    pub(crate) fn fields(issues: Vec<Issue>) -> Self {
        let message = match issues.as_slice() {
            [] => "the request is invalid".to_owned(),
            [only] => format!("{}: {}", only.path, only.message),
            [first, rest @ ..] => format!("{}: {} (and {} more)", first.path, first.message, rest.len()),
        };
        let mut failure = Self::new(Code::InvalidRequest, message);
        failure.0.param = issues.first().map(|issue| issue.path.clone());
        failure.0.issues = issues;
        failure
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("no such {what} in this environment"))
    }

    pub(crate) fn param(mut self, name: &str) -> Self {
        self.0.param = Some(name.to_owned());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// The methods that a path does take (RFC 9110, section 15.5.6).
    pub(crate) fn allow(mut self, methods: &str) -> Self {
        self.0.allow = HeaderValue::from_str(methods).ok();
        self
    }

    /// A webhook that could not be stored, whatever the cause: the provider shall send it again.
    pub(crate) fn not_taken(error: &StoreError) -> Self {
        tracing::error!(%error, "a webhook could not be stored");
        Self::unavailable()
    }

    /// The store didn't answer in time; what it was asked for may still happen.
    pub(crate) fn stuck() -> Self {
        tracing::error!("the store hangs: a request was given up");
        Self::unavailable()
    }

    /// The store can't be used now.
    pub(crate) fn unavailable() -> Self {
        let text = "the relay's store can't be used now; try again shortly";
        let mut failure = Self::new(Code::Unavailable, text);
        failure.0.retry_after = Some(RETRY_AFTER_S);
        failure
    }

    pub(crate) fn code(&self) -> Code {
        self.0.code
    }

    /// The answer, once the request's id is known.
    pub(crate) fn answer(&self, request_id: &str) -> Response {
        let Inner { code, message, param, issues, hint, retry_after, allow } = &*self.0;
        let error = ApiError {
            kind: code.kind().to_owned(),
            code: code.text().to_owned(),
            message: message.clone(),
            param: param.clone(),
            issues: issues.clone(),
            hint: hint.clone(),
            request_id: request_id.to_owned(),
        };
        let status = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(ErrorBody { error })).into_response();
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, (*seconds).into());
        }
        if let Some(methods) = allow {
            response.headers_mut().insert(header::ALLOW, methods.clone());
        }
        response
    }
}

impl IntoResponse for Failure {
    /// Travels as an extension to the outermost layer, which knows the request's id.
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        // Logged once, here, where the cause leaves our hands.
        tracing::error!(%error, "the store failed a request");
        match error {
            StoreError::Unavailable(_) | StoreError::Conflict(_) => Self::unavailable(),
            _ => Self::new(Code::Internal, "the relay failed; its log names this request id"),
        }
    }
}
