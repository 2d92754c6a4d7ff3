//! Standard Webhooks as this project itself sends them: minting secrets, the `v1` signature, the reserved names.

use super::digest::{Message, digest, encode};
use super::{BadSecret, Key, Scheme};
use crate::clock::{Dice, Timestamp};
use crate::secret::Secret;

/// The header with the message id.
pub const ID: &str = "webhook-id";
/// The header with the time of signing.
pub const TIMESTAMP: &str = "webhook-timestamp";
/// The header with the signatures.
pub const SIGNATURE: &str = "webhook-signature";

/// A new secret: `whsec_` and 32 random bytes in base64.
pub fn mint(dice: &dyn Dice) -> Secret {
    super::key::mint(dice)
}

/// Checks a secret that somebody brings to sign what we send: `whsec_` and 24 to 64 bytes. (A source's secret is its
/// provider's business: [`Key::new`] takes any length.)
pub fn importable(secret: &Secret) -> Result<(), BadSecret> {
    super::key::importable(secret)
}

/// `v1,` and the signature of this message: what stands in `webhook-signature`.
pub fn sign_v1(key: &Key, id: &str, at: Timestamp, body: &[u8]) -> String {
    let (row, timestamp) = (Scheme::standard().0, at.unix_seconds().to_string());
    let message = Message { id: Some(id), timestamp: Some(&timestamp), body };
    row.syntax.prefix().to_owned() + &encode(row, &digest(row, key, &message))
}

/// Whether only the signer may set this header.
pub fn is_reserved(name: &str) -> bool {
    name.get(.."webhook-".len()).is_some_and(|start| start.eq_ignore_ascii_case("webhook-"))
}
