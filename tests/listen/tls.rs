//! HTTPS on this machine: a certificate of the app's own, and apps that speak HTTP/2 only.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pullhook::listen::{Hint, Outcome};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::fake::Fake;
use crate::rig::{options, start};

fn pem(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "support", "pem", name].iter().collect()
}

/// An app that speaks TLS and only this protocol; it answers with what it was asked over.
async fn app(protocol: &'static str) -> u16 {
    let certificates = vec![CertificateDer::from_pem_file(pem("localhost.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(pem("localhost.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_no_client_auth().with_single_cert(certificates, key).unwrap();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let io = TokioIo::new(stream);
                let service = service_fn(answer);
                if protocol == "h2" {
                    let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let _ended = http.serve_connection(io, service).await;
                } else {
                    let _ended =
                        hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
                }
            });
        }
    });
    port
}

async fn answer(request: Request<hyper::body::Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let host = request.uri().authority().map(ToString::to_string);
    let host = host.or_else(|| request.headers().get("host").map(|host| host.to_str().unwrap().to_owned()));
    let text = format!("{:?} {} {}", request.version(), host.unwrap(), request.uri().path());
    Ok(Response::new(Full::new(Bytes::from(text))))
}

#[tokio::test]
async fn a_certificate_of_its_own_needs_ca_or_skip_verify() {
    let port = app("http/1.1").await;
    let relay = Fake::ours().await;
    for (ca, skip_verify, trusted) in
        [(None, false, false), (Some(pem("localhost.pem")), false, true), (None, true, true)]
    {
        let mut options = options(&relay.url(), Some(&format!("https://localhost:{port}/")));
        (options.ca, options.skip_verify) = (ca, skip_verify);
        let mut running = start(options);
        running.ready().await;
        relay.publish("a.b", b"{}");
        let ended = running.ended().await;
        if trusted {
            assert_eq!(ended.outcome, Outcome::Delivered, "{:?}", ended.error);
        } else {
            assert_eq!((ended.outcome, ended.hint), (Outcome::Failed, Some(Hint::Certificate)));
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn an_app_that_speaks_only_http2_is_reached() {
    let port = app("h2").await;
    let relay = Fake::ours().await;
    let mut options = options(&relay.url(), Some(&format!("https://localhost:{port}/hooks")));
    options.skip_verify = true;
    let mut running = start(options);
    running.ready().await;
    for _ in 0..3 {
        relay.publish("a.b", b"{}");
        let ended = running.ended().await;
        assert_eq!(ended.outcome, Outcome::Delivered, "{:?}", ended.error);
        assert_eq!(ended.answer, format!("HTTP/2.0 localhost:{port} /hooks"));
    }
    running.stop().await;
}
