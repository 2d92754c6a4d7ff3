//! Secrets at rest: `v2:<key id>:<iv>:<ciphertext>:<tag>`, AES-256-GCM, with `v2:<key id>` as associated data.

use std::sync::Arc;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};

use crate::clock::Dice;
use crate::secret::Secret;

const VERSION: &str = "v2";
const KEY_BYTES: usize = 32;
const IV_BYTES: usize = 12;
const TAG_BYTES: usize = 16;

/// The keys that seal secrets: the first encrypts, the one that is named decrypts.
#[derive(Clone)]
pub struct KeyRing(Arc<Vec<RingKey>>);

struct RingKey {
    id: String,
    cipher: Aes256Gcm,
}

/// Why a key ring or a sealed secret is of no use. Never holds either.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The ring holds no key.
    #[error("the key ring is empty: give at least one base64 key of 32 bytes")]
    Empty,
    /// A key of the ring can't be read.
    #[error("key {0} of the ring is not base64 of 32 bytes")]
    BadKey(usize),
    /// The secret was sealed with a key that the ring lacks.
    #[error("sealed with the key `{0}`, which the key ring does not hold")]
    UnknownKey(String),
    /// It is not of the form that [`KeyRing::seal`] makes, or was changed.
    #[error("the sealed secret can't be opened: it was changed, or the key ring is another one's")]
    Broken,
}

impl KeyRing {
    /// Reads base64 keys, separated by commas or white space; the first is the one that encrypts.
    pub fn parse(text: &Secret) -> Result<Self, SealError> {
        let mut keys = Vec::new();
        let parts = text.expose().split([',', ' ', '\n', '\r', '\t']).filter(|part| !part.is_empty());
        for (index, part) in parts.enumerate() {
            let bytes = STANDARD.decode(part).or_else(|_| URL_SAFE_NO_PAD.decode(part));
            let bytes = bytes.map_err(|_| SealError::BadKey(index + 1))?;
            let cipher = Aes256Gcm::new_from_slice(&bytes).map_err(|_| SealError::BadKey(index + 1))?;
            let id = URL_SAFE_NO_PAD.encode(&Sha256::digest(&bytes)[..6]);
            keys.push(RingKey { id, cipher });
        }
        if keys.is_empty() { Err(SealError::Empty) } else { Ok(Self(Arc::new(keys))) }
    }

    /// A new ring of one random key, as text to keep.
    pub fn mint(dice: &dyn Dice) -> Secret {
        let mut bytes = [0; KEY_BYTES];
        dice.fill(&mut bytes);
        Secret::new(STANDARD.encode(bytes))
    }

    /// Seals a secret with the first key.
    pub fn seal(&self, secret: &Secret, dice: &dyn Dice) -> Result<String, SealError> {
        let key = self.0.first().ok_or(SealError::Empty)?;
        let mut iv = [0; IV_BYTES];
        dice.fill(&mut iv);
        let aad = format!("{VERSION}:{}", key.id);
        let payload = Payload { msg: secret.expose().as_bytes(), aad: aad.as_bytes() };
        let sealed = key.cipher.encrypt(&Nonce::from(iv), payload).map_err(|_| SealError::Broken)?;
        let (ciphertext, tag) = sealed.split_at(sealed.len().saturating_sub(TAG_BYTES));
        let [iv, ciphertext, tag] = [&iv[..], ciphertext, tag].map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
        Ok(format!("{aad}:{iv}:{ciphertext}:{tag}"))
    }

    /// Opens what [`KeyRing::seal`] made.
    pub fn open(&self, sealed: &str) -> Result<Secret, SealError> {
        let parts: Vec<&str> = sealed.split(':').collect();
        let [VERSION, id, iv, ciphertext, tag] = parts[..] else {
            return Err(SealError::Broken);
        };
        let key = self.0.iter().find(|key| key.id == id);
        let key = key.ok_or_else(|| SealError::UnknownKey(id.to_owned()))?;
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| SealError::Broken);
        let iv: [u8; IV_BYTES] = decode(iv)?.try_into().map_err(|_| SealError::Broken)?;
        let message = [decode(ciphertext)?, decode(tag)?].concat();
        let aad = format!("{VERSION}:{id}");
        let payload = Payload { msg: &message, aad: aad.as_bytes() };
        let plain = key.cipher.decrypt(&Nonce::from(iv), payload).map_err(|_| SealError::Broken)?;
        String::from_utf8(plain).map(Secret::new).map_err(|_| SealError::Broken)
    }
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| &key.id)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::SystemDice;

    fn ring(parts: &[&Secret]) -> KeyRing {
        let text: Vec<&str> = parts.iter().map(|part| part.expose()).collect();
        KeyRing::parse(&Secret::new(text.join(","))).unwrap()
    }

    #[test]
    fn the_first_key_seals_and_any_of_the_ring_opens() {
        let (old, new) = (KeyRing::mint(&SystemDice), KeyRing::mint(&SystemDice));
        let secret = Secret::new("gh-secret");
        let sealed = ring(&[&old]).seal(&secret, &SystemDice).unwrap();
        assert!(!sealed.contains("gh-secret"));
        assert_eq!(ring(&[&new, &old]).open(&sealed), Ok(secret));
        assert!(matches!(ring(&[&new]).open(&sealed), Err(SealError::UnknownKey(_))));
    }

    #[test]
    fn a_changed_text_does_not_open() {
        let ring = ring(&[&KeyRing::mint(&SystemDice)]);
        let sealed = ring.seal(&Secret::new("gh-secret"), &SystemDice).unwrap();
        let parts: Vec<&str> = sealed.split(':').collect();
        let shuffled = [parts[0], parts[1], parts[2], parts[4], parts[3]].join(":");
        for broken in ["", "v2", "v1:a:b:c:d", &shuffled, &sealed[..sealed.len() - 2]] {
            assert_eq!(ring.open(broken), Err(SealError::Broken), "{broken}");
        }
    }

    #[test]
    fn useless_rings_are_refused() {
        assert_eq!(KeyRing::parse(&Secret::new(" ")).unwrap_err(), SealError::Empty);
        assert_eq!(KeyRing::parse(&Secret::new("c2hvcnQ=")).unwrap_err(), SealError::BadKey(1));
    }
}
