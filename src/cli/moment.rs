//! Moments as people type them: `2h` (ago), an RFC 3339 time.

use crate::cli::duration;
use crate::cli::error::CliError;
use crate::clock::Timestamp;

/// Reads the value of a flag: how long ago, or a time.
pub(super) fn parse(flag: &str, text: &str, now: Timestamp) -> Result<Timestamp, CliError> {
    match (Timestamp::parse(text), duration::parse(text)) {
        (Some(at), _) => Ok(at),
        (None, Ok(ago)) => Ok(now - ago),
        (None, Err(_)) => Err(CliError::usage(format!(
            "`{flag} {text}`: expected how long ago, such as 2h, or a time such as 2026-08-21T20:53:11Z"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn how_long_ago_or_when() {
        let now = Timestamp::from_millis(1_760_000_000_000);
        assert_eq!(parse("--from", "2h", now).unwrap(), now - Duration::from_secs(7200));
        assert_eq!(parse("--from", "2025-10-09T08:53:20Z", now).unwrap(), now);
        let error = parse("--from", "yesterday", now).unwrap_err();
        assert!(error.message().contains("--from yesterday"), "{}", error.message());
    }
}
