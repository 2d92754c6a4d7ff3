//! Patterns over event types and names: `*` stands for any text, dots included.

/// Whether `text` matches `pattern`. Everything but `*` stands for itself; case counts.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    let mut rest = rest;
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_crosses_dots_and_nothing_else_is_special() {
        for (pattern, text, want) in [
            ("*", "", true),
            ("*", "a.b.c", true),
            ("a.*", "a.b.c", true),
            ("a.*", "a", false),
            ("a.b", "a.b", true),
            ("a.b", "axb", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*.paid", "invoice.paid", true),
            ("*.paid", "invoice.paid.late", false),
            ("a*b*c", "a.b.b.c", true),
            ("a**c", "abc", true),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, text), want, "{pattern} {text}");
        }
    }
}
