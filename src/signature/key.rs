//! Secrets become keys: decoded as the scheme says, and refused at configuration, not at the first webhook.

use std::fmt;

use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use base64::engine::{DecodePaddingMode, Engine as _};

use super::scheme::{KeyForm, Scheme};
use crate::clock::Dice;
use crate::secret::Secret;

/// What stands before the base64 of a Standard Webhooks secret.
const WHSEC: &str = "whsec_";
/// The fewest bytes of a key that pass without a warning.
const COMFORTABLE_KEY_BYTES: usize = 16;
/// The bytes in a secret that we make; the specification allows 24 to 64.
const MINTED_BYTES: usize = 32;
/// The lengths that the specification allows for secrets made or imported for an endpoint.
const MINTABLE_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Providers show secrets with and without padding, so a secret may have either. Presented signatures may not.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A secret, decoded for one scheme and checked. Its `Debug` hides it.
#[derive(Clone)]
pub struct Key {
    scheme: Scheme,
    bytes: Vec<u8>,
    warnings: Vec<SecretWarning>,
}

impl Key {
    /// Decodes and checks a secret as the scheme has it.
    pub fn new(scheme: Scheme, secret: &Secret) -> Result<Self, BadSecret> {
        let text = secret.expose();
        let bytes = match scheme.0.key {
            KeyForm::Keyless => return Err(BadSecret::NotWanted { scheme: scheme.name() }),
            _ if secret.is_blank() => return Err(BadSecret::Empty),
            KeyForm::Text => text.as_bytes().to_vec(),
            KeyForm::Whsec => decode_whsec(text)?,
        };
        let mut warnings = Vec::new();
        if bytes.len() < COMFORTABLE_KEY_BYTES {
            warnings.push(SecretWarning::Short { bytes: bytes.len() });
        }
        if text.trim() != text {
            warnings.push(SecretWarning::EdgeWhitespace);
        }
        Ok(Self { scheme, bytes, warnings })
    }

    /// The scheme it was decoded for.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// What is doubtful about it, though it works.
    pub fn warnings(&self) -> &[SecretWarning] {
        &self.warnings
    }

    /// The key's bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}, …)", self.scheme.name())
    }
}

/// The key's bytes behind `whsec_`.
fn decode_whsec(text: &str) -> Result<Vec<u8>, BadSecret> {
    if text.starts_with("v1,") {
        return Err(BadSecret::SignaturePrefix);
    }
    if text.starts_with("whsk_") || text.starts_with("whpk_") {
        return Err(BadSecret::Asymmetric);
    }
    let encoded = text.strip_prefix(WHSEC).ok_or(BadSecret::NoPrefix)?;
    if encoded.is_empty() {
        return Err(BadSecret::Empty);
    }
    let bytes = LENIENT.decode(encoded).map_err(|_| BadSecret::NotBase64)?;
    if bytes.is_empty() { Err(BadSecret::Empty) } else { Ok(bytes) }
}

/// Why a secret can't be used. Says the rule, never the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    /// Nothing is there.
    #[error("the secret is empty")]
    Empty,
    /// `v1,whsec_...`.
    #[error("the secret must start with whsec_; `v1,` is a signature prefix: leave it out")]
    SignaturePrefix,
    /// Anything else that doesn't start with `whsec_`.
    #[error(
        "the secret must start with whsec_; where the provider shows only the base64, put whsec_ in front of it"
    )]
    NoPrefix,
    /// `whsk_` or `whpk_`.
    #[error("whsk_ and whpk_ are asymmetric keys; the secret must be a shared one that starts with whsec_")]
    Asymmetric,
    /// Not base64 after `whsec_`.
    #[error("what follows whsec_ must be standard base64; check that the secret was copied whole")]
    NotBase64,
    /// A length that the specification doesn't allow for new secrets.
    #[error("a secret for an endpoint holds 24 to 64 bytes; this one holds {bytes}")]
    Length {
        /// How many it holds.
        bytes: usize,
    },
    /// The scheme has no key.
    #[error("scheme `{scheme}` verifies nothing and takes no secret")]
    NotWanted {
        /// The scheme.
        scheme: &'static str,
    },
}

/// What is doubtful about a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretWarning {
    /// Few bytes.
    Short {
        /// How many.
        bytes: usize,
    },
    /// White space at an end; it is part of the key.
    EdgeWhitespace,
}

impl fmt::Display for SecretWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { bytes } => write!(f, "the secret holds only {bytes} bytes; use 24 or more"),
            Self::EdgeWhitespace => {
                f.write_str("the secret begins or ends with white space, which is part of the key")
            }
        }
    }
}

/// The secret in a file's text: one trailing line end is the file's, everything else is the secret's. White space
/// that is left at an end shows among [`Key::warnings`].
pub fn secret_from_file(contents: &str) -> Secret {
    let text = contents.strip_suffix('\n').map_or(contents, |line| line.strip_suffix('\r').unwrap_or(line));
    Secret::new(text)
}

/// A new Standard Webhooks secret.
pub(super) fn mint(dice: &dyn Dice) -> Secret {
    let mut bytes = [0; MINTED_BYTES];
    dice.fill(&mut bytes);
    Secret::new(format!("{WHSEC}{}", STANDARD.encode(bytes)))
}

/// Checks a secret that is to sign what we send: 24 to 64 bytes, in canonical base64.
pub(super) fn importable(secret: &Secret) -> Result<(), BadSecret> {
    decode_whsec(secret.expose())?;
    let encoded = secret.expose().strip_prefix(WHSEC).ok_or(BadSecret::NoPrefix)?;
    let bytes = STANDARD.decode(encoded).map_err(|_| BadSecret::NotBase64)?.len();
    if MINTABLE_BYTES.contains(&bytes) { Ok(()) } else { Err(BadSecret::Length { bytes }) }
}
