//! The headers of a forward: what came, minus what belonged to other connections, plus a signature made now.

use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::destination::Destination;
use super::event::Received;
use super::hint::Signed;
use super::options::{SignAs, UserHeader};
use crate::clock::Timestamp;
use crate::headers::{Headers, from_latin1};
use crate::json;
use crate::signature::{self, Key, Request, Scheme, standard};

/// The event's number in its source.
const SEQUENCE: &str = "x-pullhook-sequence";
/// `1` on a replay.
const REPLAY: &str = "webhook-replay";
/// The host that the provider posted to.
const FORWARDED_HOST: &str = "x-forwarded-host";
/// W3C trace context.
const TRACEPARENT: &str = "traceparent";
/// What stands before a provider's own header that ours replaced.
const ORIGINAL: &str = "x-pullhook-original-";

/// Makes headers.
#[derive(Debug)]
pub(super) struct Signer {
    sign: SignAs,
    user: Vec<UserHeader>,
}

impl Signer {
    /// Signs like this, and sets these.
    pub(super) fn new(sign: SignAs, user: Vec<UserHeader>) -> Self {
        Self { sign, user }
    }

    /// The headers for one forward, signed at `now`.
    pub(super) fn headers(&self, received: &Received, to: &Destination, now: Timestamp) -> HeaderMap {
        let mut headers = original(received);
        if let Some(host) = headers.remove(HOST)
            && !headers.contains_key(FORWARDED_HOST)
        {
            headers.insert(FORWARDED_HOST, host);
        }
        set(&mut headers, HOST.as_str(), &to.host);
        if let Some(sequence) = received.sequence {
            set(&mut headers, SEQUENCE, &sequence.to_string());
        }
        if received.replay {
            set(&mut headers, REPLAY, "1");
        }
        if let Some(trace) = traceparent(&received.body).filter(|_| !headers.contains_key(TRACEPARENT)) {
            set(&mut headers, TRACEPARENT, &trace);
        }
        match &self.sign {
            SignAs::None => {}
            SignAs::With(key) if key.scheme() == Scheme::standard() => {
                sign_standard(&mut headers, key, received, now);
            }
            SignAs::With(key) => sign_as(&mut headers, key, received, now),
        }
        for header in &self.user {
            headers.insert(header.name.clone(), header.value.clone());
        }
        headers
    }

    /// With what it signs.
    pub(super) fn signed(&self) -> Signed {
        match &self.sign {
            SignAs::None => Signed::No,
            SignAs::With(key) if key.scheme() == Scheme::standard() => Signed::Local,
            SignAs::With(_) => Signed::AsProvider,
        }
    }

    /// Whether the signature in `sent` would be another one over `body`.
    pub(super) fn differs(&self, sent: &HeaderMap, body: &[u8], at: Timestamp) -> bool {
        let SignAs::With(key) = &self.sign else { return false };
        if key.scheme() != Scheme::standard() {
            let request = Request { method: "POST", url: None, headers: &Headers::new(), body };
            let fresh = signature::sign(key.scheme(), key, &request, "", at);
            return fresh.iter().any(|(name, value)| {
                key.scheme().signature_headers().contains(&name)
                    && sent.get(name).is_some_and(|sent| sent != value)
            });
        }
        let id = sent.get(standard::ID).and_then(|id| id.to_str().ok());
        let signature = sent.get(standard::SIGNATURE).and_then(|signature| signature.to_str().ok());
        id.zip(signature).is_some_and(|(id, sent)| standard::sign_v1(key, id, at, body) != sent)
    }
}

/// The headers as they came, without those of the connection. A server that hands out none has JSON.
fn original(received: &Received) -> HeaderMap {
    let Some(came) = &received.headers else {
        return HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    };
    let mut came = came.clone();
    came.remove_hop_by_hop();
    let mut headers = HeaderMap::with_capacity(came.len() + 8);
    for (name, value) in came.iter() {
        let name = HeaderName::from_bytes(name.as_bytes()).ok();
        let value = from_latin1(value).and_then(|bytes| HeaderValue::from_bytes(&bytes).ok());
        if let (Some(name), Some(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

/// Standard Webhooks: where the provider uses these headers itself, its id stays and its values travel beside ours.
fn sign_standard(headers: &mut HeaderMap, key: &Key, received: &Received, now: Timestamp) {
    let names = [standard::ID, standard::TIMESTAMP, standard::SIGNATURE];
    let providers = headers.get(standard::ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
    for name in names {
        for value in remove_all(headers, name) {
            if let Ok(original) = HeaderName::try_from(format!("{ORIGINAL}{name}")) {
                headers.append(original, value);
            }
        }
    }
    let id = providers.filter(|id| !id.is_empty()).unwrap_or_else(|| received.event_id.clone());
    set(headers, standard::ID, &id);
    set(headers, standard::TIMESTAMP, &now.unix_seconds().to_string());
    set(headers, standard::SIGNATURE, &standard::sign_v1(key, &id, now, &received.body));
}

/// Any other scheme: its own headers, made afresh, replace what came.
fn sign_as(headers: &mut HeaderMap, key: &Key, received: &Received, now: Timestamp) {
    let came = received.headers.clone().unwrap_or_default();
    let request = Request { method: &received.method, url: None, headers: &came, body: &received.body };
    for (name, value) in signature::sign(key.scheme(), key, &request, &received.event_id, now).iter() {
        set(headers, name, value);
    }
}

fn remove_all(headers: &mut HeaderMap, name: &str) -> Vec<HeaderValue> {
    let values = headers.get_all(name).iter().cloned().collect();
    headers.remove(name);
    values
}

/// Sets a header; a value that no header can hold is left out.
fn set(headers: &mut HeaderMap, name: &str, value: &str) {
    let value = from_latin1(value).and_then(|bytes| HeaderValue::from_bytes(&bytes).ok());
    if let (Ok(name), Some(value)) = (HeaderName::try_from(name), value) {
        headers.insert(name, value);
    }
}

/// `data.traceparent` of the envelope, when it is a valid one.
fn traceparent(body: &[u8]) -> Option<String> {
    // Nearly no body has one: look before parsing.
    let named = body.windows(TRACEPARENT.len()).any(|window| window == TRACEPARENT.as_bytes());
    let text = named.then(|| json::text_at(body, &["data", TRACEPARENT])).flatten()?;
    is_traceparent(&text).then_some(text)
}

/// W3C Trace Context, section 3.2: version, trace id, parent id, flags.
fn is_traceparent(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let hex =
        |part: &str, len| part.len() == len && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let zeros = |part: &str| part.bytes().all(|b| b == b'0');
    match parts[..] {
        [version, trace, parent, flags] => {
            hex(version, 2)
                && version != "ff"
                && hex(trace, 32)
                && hex(parent, 16)
                && hex(flags, 2)
                && !zeros(trace)
                && !zeros(parent)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;
    use crate::target::Target;

    const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    const BODY: &str = r#"{"id":"evt_1","type":"invoice.paid","amount":2000}"#;

    fn received(headers: &[(&str, &str)]) -> Received {
        Received {
            event_id: "msg_1".to_owned(),
            delivery_id: "whlisdel_1".to_owned(),
            event_type: "invoice.paid".to_owned(),
            source: None,
            attempt: 1,
            replay: false,
            redelivery: false,
            created_at: Timestamp::default(),
            method: "POST".to_owned(),
            path: String::new(),
            query: None,
            headers: Some(headers.iter().copied().collect()),
            body: BODY.into(),
            sequence: Some(7),
            occurrence: Some(1),
        }
    }

    fn made_with(sign: SignAs, user: &[&str], received: &Received) -> Vec<(String, String)> {
        let to = Destination::from(&Target::parse("3000").unwrap());
        let user = user.iter().map(|text| UserHeader::parse(text).unwrap()).collect();
        let now = Timestamp::from_millis(1_760_000_000_000);
        let headers = Headers::from(&Signer::new(sign, user).headers(received, &to, now));
        let mut sorted: Vec<_> = headers.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        sorted
    }

    fn standard() -> SignAs {
        SignAs::With(Key::new(Scheme::standard(), &Secret::new(SECRET)).unwrap())
    }

    fn pairs(made: &[(String, String)]) -> Vec<(&str, &str)> {
        made.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect()
    }

    #[test]
    fn original_headers_stay_and_the_signature_is_added() {
        let came = received(&[
            ("Host", "relay.example.com"),
            ("X-Multi", "a"),
            ("X-Multi", "b"),
            ("Connection", "close, X-Drop"),
            ("X-Drop", "1"),
            ("Content-Length", "50"),
            ("X-Hub-Signature-256", "sha256=aa"),
        ]);
        let made = made_with(standard(), &[], &came);
        assert_eq!(
            pairs(&made),
            [
                ("host", "localhost:3000"),
                ("webhook-id", "msg_1"),
                ("webhook-signature", "v1,12tg0DdisNfKbUxsZJtpoG5VEvVCART5UY5U9iyoEUI="),
                ("webhook-timestamp", "1760000000"),
                ("x-forwarded-host", "relay.example.com"),
                ("x-hub-signature-256", "sha256=aa"),
                ("x-multi", "a"),
                ("x-multi", "b"),
                ("x-pullhook-sequence", "7"),
            ]
        );
    }

    #[test]
    fn a_provider_of_standard_webhooks_keeps_its_id_and_its_own_values_travel_beside() {
        let came = received(&[
            ("webhook-id", "msg.p"),
            ("webhook-timestamp", "1"),
            ("webhook-signature", "v1,AAAA"),
        ]);
        let made = made_with(standard(), &[], &came);
        let value = |name: &str| made.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        assert_eq!(value("webhook-id"), Some("msg.p"));
        assert_eq!(value("webhook-timestamp"), Some("1760000000"));
        assert_eq!(value("x-pullhook-original-webhook-id"), Some("msg.p"));
        assert_eq!(value("x-pullhook-original-webhook-timestamp"), Some("1"));
        assert_eq!(value("x-pullhook-original-webhook-signature"), Some("v1,AAAA"));
        let untouched = made_with(SignAs::None, &[], &came);
        assert!(pairs(&untouched).contains(&("webhook-signature", "v1,AAAA")));
    }

    #[test]
    fn user_headers_replace_and_a_replay_says_so() {
        let mut came = received(&[("X-Env", "a"), ("X-Env", "b"), ("Host", "relay")]);
        came.replay = true;
        let made = made_with(standard(), &["X-Env: c", "Host: foo.test"], &came);
        let made = pairs(&made);
        assert!(made.contains(&("host", "foo.test")) && made.contains(&("x-env", "c")));
        assert!(made.contains(&("webhook-replay", "1")));
        assert!(!made.contains(&("x-env", "a")));
        assert!(!made.iter().any(|(name, _)| *name == "accept"));
    }

    #[test]
    fn another_scheme_is_made_afresh() {
        let key = Key::new(Scheme::parse("github").unwrap(), &Secret::new("gh-secret")).unwrap();
        let came = received(&[("X-Hub-Signature-256", "sha256=stale")]);
        let made = made_with(SignAs::With(key), &[], &came);
        let wanted = "sha256=21750bde97e6604fcc1a06b7b2a3584e0ca12b5d36a0662181e362dfed8538c8";
        assert!(pairs(&made).contains(&("x-hub-signature-256", wanted)));
    }

    #[test]
    fn a_traceparent_is_taken_from_the_envelope_when_valid() {
        let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let body = format!(r#"{{"data":{{"traceparent":"{valid}"}}}}"#);
        assert_eq!(traceparent(body.as_bytes()).as_deref(), Some(valid));
        assert_eq!(traceparent(br#"{"traceparent":"x"}"#), None);
        for bad in
            ["", "00-0-0-0", "00-00000000000000000000000000000000-b7ad6b7169203331-01", &valid.to_uppercase()]
        {
            assert!(!is_traceparent(bad), "{bad}");
        }
    }
}
