//! Replaces what differs from run to run: ids, moments, durations, ports.

/// `text` as a snapshot can hold it.
pub(crate) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let begins = out.chars().next_back().is_none_or(|before| !before.is_ascii_alphanumeric());
        match begins.then(|| found(rest)).flatten() {
            Some((length, stand_in)) => {
                out.push_str(&stand_in);
                rest = &rest[length..];
            }
            None => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    out
}

/// What `text` begins with, by its length, and what stands for it.
fn found(text: &str) -> Option<(usize, String)> {
    id(text)
        .or_else(|| message(text))
        .or_else(|| shape(text, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "[UUID]"))
        .or_else(|| shape(text, "0000-00-00T00:00:00.000Z", "[TIME]"))
        .or_else(|| shape(text, "0000-00-00T00:00:00.000000Z", "[TIME]"))
        .or_else(|| shape(text, "0000-00-00 00:00:00", "[TIME]"))
        .or_else(|| number(text, "127.0.0.1:", ""))
        .or_else(|| number(text, "duration_ms\":", ""))
        .or_else(|| number(text, "", " ms)"))
}

/// `evt_` and 26 characters.
fn id(text: &str) -> Option<(usize, String)> {
    let (prefix, rest) = text.split_once('_').filter(|(prefix, _)| (2..=9).contains(&prefix.len()))?;
    let is_prefix = prefix.bytes().all(|byte| byte.is_ascii_lowercase());
    let body = rest.bytes().take_while(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()).count();
    (is_prefix && body == 26).then(|| (prefix.len() + 27, format!("[{prefix}]")))
}

/// A provider's id of a message: `msg_` and 27 letters and digits.
fn message(text: &str) -> Option<(usize, String)> {
    let rest = text.strip_prefix("msg_")?;
    let body = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
    (body == 27).then(|| ("msg_".len() + body, "[msg]".to_owned()))
}

/// Digits where `shape` has `0`, hex digits where it has `x`, and the rest as it is there.
fn shape(text: &str, shape: &str, stand_in: &str) -> Option<(usize, String)> {
    let found = text.as_bytes().get(..shape.len())?;
    let alike = |(byte, like): (&u8, u8)| match like {
        b'0' => byte.is_ascii_digit(),
        b'x' => byte.is_ascii_hexdigit(),
        _ => *byte == like,
    };
    found.iter().zip(shape.bytes()).all(alike).then(|| (shape.len(), stand_in.to_owned()))
}

/// A number between two texts.
fn number(text: &str, before: &str, after: &str) -> Option<(usize, String)> {
    let rest = text.strip_prefix(before)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0 && rest[digits..].starts_with(after))
        .then(|| (before.len() + digits + after.len(), format!("{before}[N]{after}")))
}

#[test]
fn what_differs_is_replaced_and_nothing_else() {
    let seen = "evt_01k70000000000000000000000 2026-12-01 04:27:52 2026-12-01T04:27:52.256Z (12 ms) 127.0.0.1:80 env_no";
    assert_eq!(text(seen), "[evt] [TIME] [TIME] ([N] ms) 127.0.0.1:[N] env_no");
    let sent = "[693b31ff-d625-42f2-900c-0d235fc07ba7] [msg_6yvwZl41zE9r8IWcvhm29omzTsz] msg_short";
    assert_eq!(text(sent), "[[UUID]] [[msg]] msg_short");
}
