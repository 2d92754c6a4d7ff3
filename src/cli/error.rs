//! Errors of commands: the one place that turns what went wrong into a text, hints and an exit code.

use std::fmt;

use crate::cli::exit::Exit;
use crate::cli::output::sanitize;
use crate::client::ClientError;
use crate::protocol::error::Code;

/// What kind of thing went wrong; decides the exit code and the `code` of a `fatal` record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A flag, an argument or a setting is wrong.
    Usage,
    /// The relay doesn't take the key.
    Unauthorised,
    /// The key may not do that.
    Forbidden,
    /// No such object, or nobody to do it.
    NotFound,
    /// Too many requests.
    RateLimited,
    /// No relay answered.
    Unreachable,
    /// A backlog or a further listener was refused.
    Refused,
    /// A forward or a receiver failed.
    Failed,
    /// A limit ran out.
    NotMet,
    /// Our fault, or the machine's.
    Internal,
    /// Whoever read stdout went away.
    OutputClosed,
}

impl Kind {
    /// The exit code.
    pub const fn exit(self) -> Exit {
        match self {
            Self::Usage => Exit::Usage,
            Self::Unauthorised => Exit::Unauthorised,
            Self::Forbidden => Exit::Forbidden,
            Self::NotFound => Exit::NotFound,
            Self::RateLimited => Exit::RateLimited,
            Self::Unreachable => Exit::Unreachable,
            Self::Refused => Exit::Refused,
            Self::Failed => Exit::Failed,
            Self::NotMet => Exit::NotMet,
            Self::Internal => Exit::Internal,
            Self::OutputClosed => Exit::Done,
        }
    }

    /// The text in a `fatal` record.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Unauthorised => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::RateLimited => "rate_limited",
            Self::Unreachable => "relay_unreachable",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::NotMet => "not_met",
            Self::Internal => "internal_error",
            Self::OutputClosed => "output_closed",
        }
    }
}

/// Why a command failed, and what helps. The message is a lower-case fragment without a full stop.
#[derive(Clone, PartialEq, Eq)]
pub struct CliError(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    kind: Kind,
    message: String,
    hints: Vec<String>,
}

impl CliError {
    /// An error of this kind.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), hints: Vec::new() }))
    }

    /// A wrong flag, argument or setting.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// Our fault, or the machine's.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// The reader of stdout went away: no failure, and nothing to say.
    pub fn output_closed() -> Self {
        Self::new(Kind::OutputClosed, "")
    }

    /// With a command or a setting that helps.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hints.push(hint.into());
        self
    }

    /// What kind it is.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// How the command ends.
    pub fn exit(&self) -> Exit {
        self.0.kind.exit()
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The hints.
    pub fn hints(&self) -> &[String] {
        &self.0.hints
    }

    /// Whether there is nothing to say about it.
    pub fn is_silent(&self) -> bool {
        self.0.kind == Kind::OutputClosed
    }
}

impl fmt::Debug for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for CliError {}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        let kind = kind_of(&error);
        let ours = Self::new(kind, sanitize::line(&error.to_string()));
        let ours = match &error {
            ClientError::Api { error, .. } => match &error.hint {
                Some(hint) => ours.hint(sanitize::line(hint)),
                None => ours,
            },
            ClientError::Malformed { .. } => ours.hint("is that the URL of a relay?"),
            ClientError::Unreachable { .. } => ours,
        };
        match (kind, &error) {
            (Kind::Unauthorised, _) => ours.hint("`pullhook keys create` on the relay's machine makes a key"),
            (Kind::RateLimited, ClientError::Api { retry_after: Some(after), .. }) => {
                ours.hint(format!("try again in {} s", after.as_secs()))
            }
            _ => ours,
        }
    }
}

fn kind_of(error: &ClientError) -> Kind {
    match (error.code(), error) {
        (Some(Code::NoOpenListener), _) => Kind::NotFound,
        (Some(Code::ListenerLimitReached | Code::BacklogTooLarge), _) => Kind::Refused,
        (_, ClientError::Api { status, .. }) => match status {
            401 => Kind::Unauthorised,
            403 => Kind::Forbidden,
            404 => Kind::NotFound,
            429 => Kind::RateLimited,
            400..=499 => Kind::Usage,
            _ => Kind::Unreachable,
        },
        (_, ClientError::Unreachable { .. } | ClientError::Malformed { .. }) => Kind::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::error::ApiError;

    fn refused(status: u16, code: &str) -> CliError {
        let error = ApiError {
            kind: String::new(),
            code: code.to_owned(),
            message: "no \u{1b}[31mway.".to_owned(),
            param: None,
            issues: Vec::new(),
            hint: Some("do this".to_owned()),
            request_id: String::new(),
        };
        ClientError::Api { status, error: Box::new(error), retry_after: None }.into()
    }

    #[test]
    fn each_refusal_has_its_exit_code() {
        for (status, code, exit) in [
            (401, "unauthorized", 10),
            (403, "forbidden", 11),
            (404, "not_found", 12),
            (429, "rate_limited", 14),
            (422, "no_open_listener", 12),
            (422, "webhook_listener_limit_reached", 17),
            (422, "backlog_too_large", 17),
            (422, "name_taken", 2),
            (400, "", 2),
            (500, "internal_error", 16),
            (503, "unavailable", 16),
            (502, "", 16),
        ] {
            assert_eq!(refused(status, code).exit().code(), exit, "{status} {code}");
        }
    }

    #[test]
    fn what_a_relay_says_is_cleaned_and_its_hint_is_kept() {
        let error = refused(422, "name_taken");
        assert_eq!(
            (error.message(), error.hints()),
            ("no \u{241b}[31mway", ["do this".to_owned()].as_slice())
        );
    }

    #[test]
    fn every_kind_has_an_exit_code_of_the_table() {
        assert!(Exit::ALL.contains(&Kind::Internal.exit()) && Kind::OutputClosed.exit() == Exit::Done);
    }
}
