//! What a verified request says about its event: the type and the provider's id. Reads, never changes.

use super::scheme::{Locator, Scheme};
use crate::headers::Headers;
use crate::json;

/// The type of an event whose source names none.
pub const UNKNOWN_TYPE: &str = "unknown";
/// The longest type or id that is taken, in characters; anything longer is no recognisable one.
const MAX_FACT_CHARS: usize = 256;

/// An event's type and its provider's id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The type, where one is recognisable.
    pub event_type: Option<String>,
    /// The provider's id of the event, where the scheme has one.
    pub event_id: Option<String>,
}

impl Facts {
    /// The type; `unknown` where none is recognisable.
    pub fn type_or_unknown(&self) -> &str {
        self.event_type.as_deref().unwrap_or(UNKNOWN_TYPE)
    }
}

/// Reads type and id as the scheme has them.
pub fn facts(scheme: Scheme, headers: &Headers, body: &[u8]) -> Facts {
    let first = |locators: &[Locator]| locators.iter().find_map(|locator| locate(*locator, headers, body));
    Facts { event_type: first(scheme.0.event_type), event_id: first(scheme.0.event_id) }
}

fn locate(locator: Locator, headers: &Headers, body: &[u8]) -> Option<String> {
    match locator {
        Locator::Header(name) => headers.get(name).and_then(plain),
        Locator::Body(path) => plain(&json::text_at(body, path)?),
        Locator::HeaderAnd(name, path) => {
            let event = headers.get(name).and_then(plain)?;
            let detail = text_in(headers, body, path).as_deref().and_then(plain);
            Some(detail.and_then(|detail| plain(&format!("{event}.{detail}"))).unwrap_or(event))
        }
    }
}

/// The text at `path` of a JSON body, or of the JSON in the `payload` field of a form.
fn text_in(headers: &Headers, body: &[u8], path: &[&str]) -> Option<String> {
    let form = headers.get("content-type").is_some_and(|kind| {
        kind.trim_start().to_ascii_lowercase().starts_with("application/x-www-form-urlencoded")
    });
    if !form {
        return json::text_at(body, path);
    }
    let (_, payload) = url::form_urlencoded::parse(body).find(|(name, _)| name == "payload")?;
    json::text_at(payload.as_bytes(), path)
}

/// The text, when it can serve as a type or an id: not blank, of sensible length, without control characters.
fn plain(text: &str) -> Option<String> {
    let text = text.trim();
    let fits =
        !text.is_empty() && text.chars().count() <= MAX_FACT_CHARS && !text.chars().any(char::is_control);
    fits.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(scheme: &str, headers: &[(&str, &str)], body: &str) -> (Option<String>, Option<String>) {
        let headers: Headers = headers.iter().copied().collect();
        let facts = facts(Scheme::parse(scheme).unwrap(), &headers, body.as_bytes());
        (facts.event_type, facts.event_id)
    }

    #[test]
    fn github_joins_header_and_action() {
        let pull = [("X-GitHub-Event", "pull_request"), ("X-GitHub-Delivery", "d-1")];
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            read("github", &pull, r#"{"action":"opened"}"#),
            (some("pull_request.opened"), some("d-1"))
        );
        assert_eq!(read("github", &pull, r#"{"action":7}"#).0, some("pull_request"));
        assert_eq!(read("github", &pull, "not JSON").0, some("pull_request"));
        let form = [("X-GitHub-Event", "issues"), ("Content-Type", "application/x-www-form-urlencoded")];
        assert_eq!(
            read("github", &form, "payload=%7B%22action%22%3A%22closed%22%7D").0,
            some("issues.closed")
        );
        assert_eq!(read("github", &form, "x=1").0, some("issues"));
        assert_eq!(read("github", &[], r#"{"action":"opened"}"#), (None, None));
    }

    #[test]
    fn standard_and_none_read_the_body() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            read("standard-webhooks", &[("svix-id", "m1")], r#"{"type":"a.b"}"#),
            (some("a.b"), some("m1"))
        );
        assert_eq!(read("none", &[("webhook-id", "m1")], r#"{"type":1,"event":"x"}"#), (some("x"), None));
        assert_eq!(read("none", &[], r#"{"type":"","event_type":"y\n"}"#), (some("y"), None));
        assert_eq!(read("none", &[], ""), (None, None));
        assert_eq!(facts(Scheme::none(), &Headers::new(), b"\xff").type_or_unknown(), "unknown");
    }
}
