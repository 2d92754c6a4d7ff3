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

/// Reads the value of a flag that may be left out.
pub(super) fn optional(
    flag: &str,
    text: Option<&str>,
    now: Timestamp,
) -> Result<Option<Timestamp>, CliError> {
    text.map(|text| parse(flag, text, now)).transpose()
}

/// Refuses a stretch of time that ends before it begins: nothing could lie in it.
pub(super) fn in_order(
    (from_flag, from): (&str, Option<Timestamp>),
    (to_flag, to): (&str, Option<Timestamp>),
) -> Result<(), CliError> {
    match (from, to) {
        (Some(from), Some(to)) if to < from => {
            Err(CliError::usage(format!("`{to_flag}` is before `{from_flag}`: {to} and {from}")))
        }
        _ => Ok(()),
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

    #[test]
    fn a_stretch_of_time_goes_forward() {
        let at = |millis| Some(Timestamp::from_millis(millis));
        let check = |from, to| in_order(("--from", from), ("--to", to));
        assert!(check(at(1), at(2)).is_ok() && check(at(1), at(1)).is_ok());
        assert!(check(None, at(1)).is_ok() && check(at(1), None).is_ok());
        let error = check(at(2), at(1)).unwrap_err();
        assert!(error.message().starts_with("`--to` is before `--from`"), "{}", error.message());
    }
}
