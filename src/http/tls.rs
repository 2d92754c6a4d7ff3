//! TLS configurations, all on one provider; native roots are read only when something is about to be verified.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::relay::HttpError;

/// What each handshake offers, best first.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// A configuration that trusts the certificates of `file`, else the system's.
pub(super) fn verifying(file: Option<&Path>) -> Result<ClientConfig, HttpError> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(path) => add_file(&mut roots, path)?,
        None => add_native(&mut roots),
    }
    with_roots(roots)
}

/// The system's certificates and those of `file`.
pub(super) fn verifying_with(file: &Path) -> Result<ClientConfig, HttpError> {
    let mut roots = RootCertStore::empty();
    add_native(&mut roots);
    add_file(&mut roots, file)?;
    with_roots(roots)
}

/// A configuration for clients that never speak TLS: it trusts nobody and costs nothing.
pub(super) fn trusting_nobody() -> Result<ClientConfig, HttpError> {
    with_roots(RootCertStore::empty())
}

/// A configuration that takes any certificate; the local leg's `--skip-verify`.
pub(super) fn unverified() -> Result<ClientConfig, HttpError> {
    let provider = provider();
    let verifier = Arc::new(AnyCertificate(Arc::clone(&provider)));
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(finish(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()))
}

fn with_roots(roots: RootCertStore) -> Result<ClientConfig, HttpError> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    Ok(finish(builder.with_root_certificates(roots).with_no_client_auth()))
}

fn finish(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = ALPN.iter().map(|name| name.to_vec()).collect();
    config
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn add_native(roots: &mut RootCertStore) {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "a system certificate can't be read");
    }
    roots.add_parsable_certificates(found.certs);
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), HttpError> {
    let bad = |why: String| HttpError::Certificates { path: path.to_owned(), why };
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))?;
    let mut count = 0_usize;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        roots.add(certificate).map_err(|error| bad(error.to_string()))?;
        count += 1;
    }
    if count == 0 {
        return Err(bad("there is no certificate in it".to_owned()));
    }
    Ok(())
}

/// Takes any certificate, but still checks that the handshake is signed with it.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
