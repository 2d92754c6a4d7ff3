//! Decimal numbers of any length, compared exactly: ids of twenty digits must not go through a double.

use std::cmp::Ordering;

/// A decimal number as JSON writes it, without loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    /// Significant digits without zeros at either end; empty for zero.
    digits: String,
    /// The value is 0.DIGITS times ten to this.
    magnitude: i64,
}

impl Decimal {
    /// Reads `-12.5e3`; `None` for anything else.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, read_exponent(exponent)?),
            None => (rest, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        let all = whole.to_owned() + fraction;
        if whole.is_empty() || !all.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let significant = all.trim_start_matches('0');
        if significant.is_empty() {
            return Some(Self { negative: false, digits: String::new(), magnitude: 0 });
        }
        let leading = i64::try_from(all.len() - significant.len()).ok()?;
        let magnitude = i64::try_from(whole.len()).ok()?.checked_sub(leading)?.checked_add(exponent)?;
        Some(Self { negative, digits: significant.trim_end_matches('0').to_owned(), magnitude })
    }

    fn sign(&self) -> i8 {
        match (self.digits.is_empty(), self.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }
}

/// An exponent; one beyond all reason still orders rightly, since it is cut off at a limit no digits can cross.
fn read_exponent(text: &str) -> Option<i64> {
    const LIMIT: i64 = i64::MAX / 4;
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let size = digits.parse().unwrap_or(LIMIT).min(LIMIT);
    Some(if text.starts_with('-') { -size } else { size })
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_size = || (self.magnitude, &self.digits).cmp(&(other.magnitude, &other.digits));
        self.sign().cmp(&other.sign()).then_with(|| match self.sign() {
            0 => Ordering::Equal,
            1 => by_size(),
            _ => by_size().reverse(),
        })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn compare(a: &str, b: &str) -> Ordering {
        Decimal::parse(a).unwrap().cmp(&Decimal::parse(b).unwrap())
    }

    #[test]
    fn values_not_spellings() {
        for same in [("1", "1.0"), ("0", "-0.000"), ("100", "1e2"), ("0.05", "5E-2"), ("-12.50", "-125e-1")] {
            assert_eq!(compare(same.0, same.1), Ordering::Equal, "{same:?}");
        }
        assert_eq!(compare("12345678901234567890", "12345678901234567891"), Ordering::Less);
        assert_eq!(compare("99999999999999999999", "100000000000000000000"), Ordering::Less);
        assert_eq!(compare("1e99999999999999999999", "1e308"), Ordering::Greater);
        assert_eq!(compare("1e-99999999999999999999", "0"), Ordering::Greater);
    }

    #[test]
    fn what_is_no_number() {
        for text in
            ["", "-", "+1", ".5", "1.", "1e", "1e+", "0x1", "1_000", "NaN", " 1", "1 ", "--1", "1.2.3"]
        {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn orders_like_integers(a in any::<i128>(), b in any::<i128>()) {
            prop_assert_eq!(compare(&a.to_string(), &b.to_string()), a.cmp(&b));
        }

        #[test]
        fn orders_like_scaled_integers(a in any::<i32>(), b in any::<i32>(), places in 0_u8..6) {
            let written = |n: i32| format!("{n}e-{places}");
            prop_assert_eq!(compare(&written(a), &written(b)), a.cmp(&b));
        }
    }
}
