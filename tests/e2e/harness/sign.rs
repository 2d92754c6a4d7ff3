//! Signatures, made and checked here and not by the code under test.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::app::Request;

fn hmac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

/// GitHub's `X-Hub-Signature-256`.
pub fn github(secret: &str, body: &[u8]) -> String {
    let hex: String = hmac(secret.as_bytes(), &[body]).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

/// Whether what the app got carries a good Standard Webhooks signature by this `whsec_` secret.
pub fn is_signed_by(secret: &str, request: &Request) -> bool {
    let key = STANDARD.decode(secret.trim().strip_prefix("whsec_").unwrap()).unwrap();
    let (id, at) = (request.header("webhook-id"), request.header("webhook-timestamp"));
    let parts = [id.as_bytes(), b".", at.as_bytes(), b".", &request.body];
    let right = format!("v1,{}", STANDARD.encode(hmac(&key, &parts)));
    request.header("webhook-signature").split(' ').any(|one| one == right)
}
