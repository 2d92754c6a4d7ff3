//! Who may knock: Host and Origin checks that keep web pages (DNS rebinding, cross-site forms) out of a relay on
//! loopback.

use http::HeaderMap;
use http::header::{HOST, ORIGIN};

use super::Settings;
use super::api::error::Failure;
use crate::protocol::error::Code;

const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl Settings {
    /// On loopback the API answers to allow-listed hosts only.
    pub(super) fn check_host(&self, headers: &HeaderMap) -> Result<(), Failure> {
        if !self.loopback || self.is_allowed(headers) {
            return Ok(());
        }
        let text =
            "the Host header names neither this machine nor a configured host; use localhost or 127.0.0.1";
        Err(Failure::new(Code::HostNotAllowed, text))
    }

    /// An unsigned source on loopback must not be reachable for a web page.
    pub(super) fn check_unsigned(&self, headers: &HeaderMap) -> Result<(), Failure> {
        self.check_host(headers)?;
        let same = |value: &http::HeaderValue| value == "same-origin" || value == "none";
        let cross = headers.contains_key(ORIGIN) || headers.get("sec-fetch-site").is_some_and(|v| !same(v));
        if self.loopback && cross {
            let text = "a browser sent this from a page; an unsigned source takes nothing from web pages";
            return Err(Failure::new(Code::HostNotAllowed, text));
        }
        Ok(())
    }

    fn is_allowed(&self, headers: &HeaderMap) -> bool {
        let Some(name) = host_name(headers) else {
            return false;
        };
        is_loopback_name(name)
            || self.allowed_hosts.iter().any(|known| name.eq_ignore_ascii_case(known))
            || self.public_host().is_some_and(|known| name.eq_ignore_ascii_case(&known))
    }

    fn public_host(&self) -> Option<String> {
        url::Url::parse(&self.public_url).ok()?.host_str().map(str::to_owned)
    }
}

/// Whether the Host header names this machine, in one of the few ways in which programs do. No name that is resolved:
/// whose it is would be up to whoever answers for it.
pub(crate) fn names_this_machine(headers: &HeaderMap) -> bool {
    host_name(headers).is_some_and(is_loopback_name)
}

fn is_loopback_name(name: &str) -> bool {
    LOOPBACK_NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// The Host header without its port.
fn host_name(headers: &HeaderMap) -> Option<&str> {
    let host = headers.get(HOST)?.to_str().ok()?;
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => Some(name),
        _ => Some(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn only_known_hosts_on_loopback() {
        let settings = Settings { public_url: "https://hooks.example.com/".into(), ..Settings::default() };
        for good in ["localhost", "LOCALHOST:4750", "127.0.0.1:1", "[::1]", "[::1]:4750", "hooks.example.com"]
        {
            assert!(settings.check_host(&headers(&[("host", good)])).is_ok(), "{good}");
        }
        for bad in ["evil.test", "localhost.evil.test", "127.0.0.1.evil.test:4750", "", "::1"] {
            assert!(settings.check_host(&headers(&[("host", bad)])).is_err(), "{bad}");
        }
        assert!(settings.check_host(&headers(&[])).is_err());
        assert!(names_this_machine(&headers(&[("host", "[::1]")])));
        assert!(!names_this_machine(&headers(&[("host", "hooks.example.com")])));
        let open = Settings { loopback: false, ..settings };
        assert!(open.check_host(&headers(&[("host", "evil.test")])).is_ok());
    }

    #[test]
    fn unsigned_sources_take_nothing_from_web_pages() {
        let settings = Settings::default();
        let host = ("host", "localhost");
        assert!(settings.check_unsigned(&headers(&[host])).is_ok());
        assert!(settings.check_unsigned(&headers(&[host, ("sec-fetch-site", "none")])).is_ok());
        assert!(settings.check_unsigned(&headers(&[host, ("sec-fetch-site", "cross-site")])).is_err());
        assert!(settings.check_unsigned(&headers(&[host, ("origin", "http://evil.test")])).is_err());
    }
}
