//! Durations as people type them: `30s`, `500ms`, `1m30s`, `2h`, `0`.

use std::time::Duration;

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// A number without its unit.
    #[error("give a unit: `{0}s`, `{0}ms`, `{0}m`, `{0}h` or `{0}d`")]
    NoUnit(String),
    /// Anything else.
    #[error("expected a duration such as 30s, 500ms, 1m30s or 2h")]
    Form,
    /// Longer than can be counted.
    #[error("that is too long")]
    TooLong,
}

/// Reads a duration; a bare `0` needs no unit.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(DurationError::NoUnit(text.to_owned()));
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or(DurationError::Form)?;
        let (number, after) = rest.split_at(digits);
        let number: u64 = number
            .parse()
            .map_err(|_| if digits == 0 { DurationError::Form } else { DurationError::TooLong })?;
        let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let millis = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(DurationError::Form),
        };
        let part = number.checked_mul(millis).map(Duration::from_millis).ok_or(DurationError::TooLong)?;
        total = total.checked_add(part).ok_or(DurationError::TooLong)?;
        rest = after;
    }
    if text.is_empty() { Err(DurationError::Form) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type() {
        for (text, want) in [
            ("30s", 30_000),
            ("500ms", 500),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(want)), "{text}");
        }
        assert_eq!(parse("30"), Err(DurationError::NoUnit("30".to_owned())));
        for text in ["", "s", "3x", "-1s", "1.5s", "1s2", " 1s", "five"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse("99999999999999999999s"), Err(DurationError::TooLong));
        assert_eq!(parse("18446744073709551615d"), Err(DurationError::TooLong));
    }
}
