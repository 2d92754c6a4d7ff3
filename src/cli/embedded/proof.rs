//! How a local relay proves who it is before anything secret is sent to it: an HMAC over the client's nonce, made with
//! the key that stands in `relay.json`. A stranger on the freed port doesn't have that key; the port is part of what
//! is proven, so that it can't have another relay prove it either.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::cli::embedded::state::RelayFile;
use crate::clock::Dice;
use crate::http::{Challenge, Guard};
use crate::secret::Secret;

/// Where a local relay answers for itself.
pub const PATH: &str = "/local/proof";

/// The proof for this nonce by a relay on this port.
pub fn prove(key: &Secret, port: u16, nonce: &str) -> String {
    // HMAC takes a key of any length.
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key.expose().as_bytes()).expect("any key length");
    mac.update(format!("pullhook local proof\n{port}\n{nonce}").as_bytes());
    hex(&mac.finalize().into_bytes())
}

/// Whether a text is a nonce: 32 hex digits.
pub fn is_nonce(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether two keys are the same, in constant time.
pub fn same(a: &Secret, b: &str) -> bool {
    a.expose().as_bytes().ct_eq(b.as_bytes()).into()
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Asks each new connection for its proof. The file is read each time: the host may be another one by now.
#[derive(Debug)]
pub struct LocalGuard {
    /// Where the host says who it is.
    pub file: RelayFile,
    /// For nonces.
    pub dice: std::sync::Arc<dyn Dice>,
}

impl Guard for LocalGuard {
    fn challenge(&self, port: u16) -> Option<Challenge> {
        let state = self.file.read().ok()??;
        let mut bytes = [0; 16];
        self.dice.fill(&mut bytes);
        let nonce = hex(&bytes);
        let answer = prove(&state.key(), port, &nonce);
        Some(Challenge { path: format!("{PATH}?nonce={nonce}"), answer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_key_one_port_and_one_nonce() {
        let key = Secret::new("a");
        let proof = prove(&key, 4750, "n");
        assert_eq!(proof, prove(&key, 4750, "n"));
        assert_ne!(proof, prove(&key, 4751, "n"));
        assert_ne!(proof, prove(&key, 4750, "m"));
        assert_ne!(proof, prove(&Secret::new("b"), 4750, "n"));
        assert!(is_nonce("0123456789abcdef0123456789abcdef") && !is_nonce("x") && !is_nonce(""));
    }
}
