//! The client of the relay leg.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{NoProxy, Proxy};
use url::Url;

use super::guard::{Guard, Guarded};
use super::tls;
use crate::target::host_is_loopback;

/// How long connecting to the relay may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How often an idle connection is probed, so that a cut one is noticed.
const TCP_KEEP_ALIVE: Duration = Duration::from_secs(30);

/// What the environment says about the way to a relay; the caller reads it.
#[derive(Clone, Debug, Default)]
pub struct RelaySettings {
    /// `HTTPS_PROXY`: for `https` relays.
    pub https_proxy: Option<String>,
    /// `HTTP_PROXY`: for `http` relays.
    pub http_proxy: Option<String>,
    /// `ALL_PROXY`: for both, where the one above isn't set.
    pub all_proxy: Option<String>,
    /// `NO_PROXY`: hosts that are reached without one.
    pub no_proxy: Option<String>,
    /// `SSL_CERT_FILE`: certificates to trust instead of the system's.
    pub ssl_cert_file: Option<PathBuf>,
    /// What every new connection must prove before anything is sent over it: for relays of this machine.
    pub guard: Option<Arc<dyn Guard>>,
}

/// Why a client can't be built.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The proxy's URL.
    #[error("the proxy {0} is no URL that can be used")]
    Proxy(String),
    /// A certificate file.
    #[error("{path}: {why}", path = path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The TLS library.
    #[error("TLS can't be set up")]
    Tls(#[from] rustls::Error),
    /// The HTTP library.
    #[error("the HTTP client can't be built")]
    Build(#[from] reqwest::Error),
}

/// A client for the relay at `url`: TLS always verified, redirects never followed, the proxy as `settings` say but
/// none towards this machine. It has no deadline of its own: each request brings one.
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub fn relay_client(url: &Url, settings: &RelaySettings) -> Result<reqwest::Client, HttpError> {
    let proxy = proxy_for(url, settings)?;
    let speaks_tls =
        url.scheme() == "https" || proxy.as_ref().is_some_and(|(text, _)| text.starts_with("https:"));
    let tls = match speaks_tls {
        true => tls::verifying(settings.ssl_cert_file.as_deref())?,
        false => tls::trusting_nobody()?,
    };
    let mut builder = reqwest::Client::builder()
        .no_proxy()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("pullhook/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .tcp_keepalive(TCP_KEEP_ALIVE);
    if let Some((_, proxy)) = proxy {
        builder = builder.proxy(proxy);
    }
    if let (Some(guard), Some(port)) = (&settings.guard, url.port_or_known_default()) {
        builder = builder.connector_layer(Guarded { guard: Arc::clone(guard), port });
    }
    Ok(builder.build()?)
}

fn proxy_for(url: &Url, settings: &RelaySettings) -> Result<Option<(String, Proxy)>, HttpError> {
    let own = if url.scheme() == "https" { &settings.https_proxy } else { &settings.http_proxy };
    let Some(text) = own.as_ref().or(settings.all_proxy.as_ref()) else { return Ok(None) };
    if url.host_str().is_some_and(host_is_loopback) {
        return Ok(None);
    }
    let bad = || HttpError::Proxy(without_credentials(text));
    let whole = if text.contains("://") { text.clone() } else { format!("http://{text}") };
    let proxy = Proxy::all(&whole).map_err(|_| bad())?;
    let except = settings.no_proxy.as_deref().and_then(NoProxy::from_string);
    Ok(Some((whole, proxy.no_proxy(except))))
}

fn without_credentials(proxy: &str) -> String {
    proxy.rsplit_once('@').map_or_else(|| proxy.to_owned(), |(_, host)| format!("…@{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxied(url: &str) -> bool {
        let settings = RelaySettings {
            https_proxy: Some("proxy.example:3128".to_owned()),
            http_proxy: Some("http://u:p@proxy.example:3128".to_owned()),
            ..RelaySettings::default()
        };
        proxy_for(&url.parse().unwrap(), &settings).unwrap().is_some()
    }

    #[test]
    fn never_a_proxy_towards_this_machine() {
        assert!(proxied("https://relay.example.com"));
        assert!(proxied("http://relay.example.com"));
        for here in ["http://127.0.0.1:1", "http://localhost:1", "https://[::1]:1", "http://a.localhost"] {
            assert!(!proxied(here), "{here}");
        }
    }

    #[tokio::test]
    async fn a_proxy_is_asked_for_the_relay_and_no_proxy_is_honoured() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("http://{}", listener.local_addr().unwrap());
        let asked = tokio::spawn(async move {
            let mut heads = Vec::new();
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = vec![0; 4096];
                let read = stream.read(&mut head).await.unwrap();
                heads.push(String::from_utf8(head[..read].to_vec()).unwrap());
                stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            }
            heads
        });
        let settings = RelaySettings {
            all_proxy: Some(proxy),
            no_proxy: Some("direct.invalid".to_owned()),
            ..RelaySettings::default()
        };
        let ask = async |url: &str| {
            let url: Url = url.parse().unwrap();
            relay_client(&url, &settings)
                .unwrap()
                .get(url)
                .send()
                .await
                .map(|answer| answer.status().as_u16())
        };
        assert_eq!(ask("http://relay.invalid/v1").await.unwrap(), 502);
        assert!(ask("https://relay.invalid/v1").await.is_err());
        assert!(ask("http://direct.invalid/v1").await.is_err(), "asked directly, where there is nobody");
        let heads = asked.await.unwrap();
        assert!(heads[0].starts_with("GET http://relay.invalid/v1 HTTP/1.1\r\n"), "{}", heads[0]);
        assert!(heads[1].starts_with("CONNECT relay.invalid:443 HTTP/1.1\r\n"), "{}", heads[1]);
    }

    #[test]
    fn a_bad_proxy_is_named_without_its_password() {
        let settings =
            RelaySettings { all_proxy: Some("http://u:p@:x".to_owned()), ..RelaySettings::default() };
        let error = relay_client(&"https://relay.example.com".parse().unwrap(), &settings).unwrap_err();
        assert_eq!(error.to_string(), "the proxy …@:x is no URL that can be used");
    }

    #[test]
    fn a_certificate_file_must_hold_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let settings =
            RelaySettings { ssl_cert_file: Some(file.path().to_owned()), ..RelaySettings::default() };
        let https = "https://relay.example.com".parse().unwrap();
        assert!(matches!(relay_client(&https, &settings), Err(HttpError::Certificates { .. })));
        let http = "http://127.0.0.1:1".parse().unwrap();
        assert!(relay_client(&http, &settings).is_ok(), "not read where nothing is verified");
    }
}
