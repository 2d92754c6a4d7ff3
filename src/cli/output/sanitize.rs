//! Whatever was received is cleaned here before a terminal sees it.

use std::borrow::Cow;

/// `text` with everything that could steer a terminal replaced by a visible stand-in: control characters (C0, DEL,
/// C1), line and paragraph separators, and the marks that turn the reading direction. One line stays one line.
pub fn line(text: &str) -> Cow<'_, str> {
    clean(text, |_| false)
}

/// As [`line()`], but line breaks and tabs stay: for bodies that are shown on purpose.
pub fn block(text: &str) -> Cow<'_, str> {
    clean(text, |c| matches!(c, '\n' | '\t'))
}

fn clean(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let hostile = |c: char| steers(c) && !keep(c);
    if !text.contains(hostile) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().map(|c| if hostile(c) { stand_in(c) } else { c });
    Cow::Owned(shown.collect())
}

fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{feff}')
        || ('\u{202a}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
}

/// Unicode's control pictures where there is one, else the replacement character.
fn stand_in(c: char) -> char {
    match u32::from(c) {
        code @ 0..=0x1f => char::from_u32(0x2400 + code).unwrap_or('\u{fffd}'),
        0x7f => '\u{2421}',
        _ => '\u{fffd}',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escape_sequences_become_visible() {
        assert_eq!(line("a\u{1b}[2Jb\r\nc"), "a\u{241b}[2Jb\u{240d}\u{240a}c");
        assert_eq!(line("\u{9b}31m\u{7f}"), "\u{fffd}31m\u{2421}");
        assert_eq!(line("abc\u{202e}def"), "abc\u{fffd}def");
        assert_eq!(block("a\n\tb\u{7}"), "a\n\tb\u{2407}");
    }

    #[test]
    fn plain_text_is_untouched() {
        assert!(matches!(line("naïve 🎉 日本"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn nothing_that_steers_survives(text in "\\PC*|.*") {
            prop_assert!(!line(&text).chars().any(steers));
            prop_assert_eq!(line(&text).chars().count(), text.chars().count());
        }
    }
}
