//! Signatures of callbacks: Standard Webhooks, `v1`.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use orloj_model::id::TaskId;
use sha2::Sha256;

use crate::sign::PUBLISHED;

/// Names the event, the same on every send.
pub const ID_HEADER: &str = "webhook-id";
/// Unix seconds of the send.
pub const TIMESTAMP_HEADER: &str = "webhook-timestamp";
/// `v1,` and base64, one for each secret of the caller, with a blank between.
pub const SIGNATURE_HEADER: &str = "webhook-signature";
/// How far the timestamp may be from the receiver's clock, in seconds.
pub const TOLERANCE_S: i64 = 300;

const PREFIX: &str = "whsec_";
/// Bytes of a secret: what Standard Webhooks asks for.
const LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;

/// A secret that signs callbacks. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

impl WebhookSecret {
    /// Reads `whsec_` and base64 of 24-64 bytes; `None` for anything else, and for what the
    /// documentation shows.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
        (LENGTHS.contains(&bytes.len()) && !PUBLISHED.contains(&text)).then_some(WebhookSecret(bytes))
    }

    /// A secret of these 32 random bytes.
    pub fn of(bytes: [u8; 32]) -> Self {
        WebhookSecret(bytes.to_vec())
    }

    /// The displayed string, for the one place that shows or seals it.
    pub fn expose(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes any key length");
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        mac
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

/// The id of the event that a task has ended: the same for every send, so that a receiver can tell repeats.
pub fn event_id(task: TaskId) -> String {
    task.to_string().replacen("tsk_", "evt_", 1)
}

/// The value of [`SIGNATURE_HEADER`] for a body that is sent as it is given here.
pub fn sign(secrets: &[WebhookSecret], id: &str, timestamp_s: i64, body: &[u8]) -> String {
    let timestamp = timestamp_s.to_string();
    let one = |secret: &WebhookSecret| {
        format!("v1,{}", STANDARD.encode(secret.mac(id, &timestamp, body).finalize().into_bytes()))
    };
    secrets.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Why a callback is not to be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The timestamp is no number, or further from `now_s` than [`TOLERANCE_S`].
    #[error("the timestamp is not within {TOLERANCE_S} s of now")]
    Timestamp,
    /// No signature of the list fits.
    #[error("no signature fits")]
    Signature,
}

/// Checks a callback that came in: the values of its three headers and its body as it arrived. Whoever accepts it
/// remembers the id, since the same event may come more than once.
///
/// # Errors
/// See [`VerifyError`]. Signatures are compared in constant time.
pub fn verify(
    secret: &WebhookSecret,
    id: &str,
    timestamp: &str,
    signatures: &str,
    body: &[u8],
    now_s: i64,
) -> Result<(), VerifyError> {
    let digits = (1..=12).contains(&timestamp.len()) && timestamp.bytes().all(|byte| byte.is_ascii_digit());
    let sent_s: i64 = timestamp.parse().ok().filter(|_| digits).ok_or(VerifyError::Timestamp)?;
    if now_s.abs_diff(sent_s) > TOLERANCE_S.unsigned_abs() {
        return Err(VerifyError::Timestamp);
    }
    let fits = |signature: &str| {
        let tag = signature.strip_prefix("v1,").and_then(|text| STANDARD.decode(text).ok());
        tag.is_some_and(|tag| secret.mac(id, timestamp, body).verify_slice(&tag).is_ok())
    };
    // The list of a stranger's making is bounded.
    match signatures.split(' ').take(8).any(fits) {
        true => Ok(()),
        false => Err(VerifyError::Signature),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;

    const BODY: &[u8] = br#"{"type":"task.succeeded","timestamp":"2027-01-15T08:00:00.000Z","data":{"taskId":"tsk_AAECAwQFBgcICQoLDA0ODw","status":"SUCCESS"}}"#;
    const ID: &str = "evt_AAECAwQFBgcICQoLDA0ODw";
    const NOW: i64 = 1_800_000_000;
    /// Computed with Python's `hmac` and with `openssl dgst`.
    const PUBLISHED: &str = "v1,GERYax1WDexOE5akF0FlnfIk8Sx7qWjuf1DAECAxrjw=";

    fn published() -> WebhookSecret {
        let mut bytes = [0; 32];
        for (number, byte) in (0..).zip(&mut bytes) {
            *byte = number;
        }
        WebhookSecret::of(bytes)
    }

    #[test]
    fn the_published_vector() {
        assert_eq!(BODY.len(), 130);
        assert_eq!(event_id("tsk_AAECAwQFBgcICQoLDA0ODw".parse().unwrap()), ID);
        assert_eq!(sign(&[published()], ID, NOW, BODY), PUBLISHED);
        assert_eq!(verify(&published(), ID, "1800000000", PUBLISHED, BODY, NOW), Ok(()));
        assert_eq!(WebhookSecret::parse(&published().expose()), None, "everybody knows it");
    }

    #[test]
    fn one_of_two_secrets_is_enough() {
        let other = WebhookSecret::of([9; 32]);
        let both = sign(&[other.clone(), published()], ID, NOW, BODY);
        for secret in [&other, &published()] {
            assert_eq!(verify(secret, ID, "1800000000", &both, BODY, NOW), Ok(()));
        }
        let third = WebhookSecret::of([8; 32]);
        assert_eq!(verify(&third, ID, "1800000000", &both, BODY, NOW), Err(VerifyError::Signature));
    }

    #[test]
    fn whatever_is_changed_does_not_pass() {
        let secret = published();
        let bad = [
            ("evt_BAECAwQFBgcICQoLDA0ODw", "1800000000", PUBLISHED, BODY),
            (ID, "1800000001", PUBLISHED, BODY),
            (ID, "1800000000", PUBLISHED, &BODY[1..]),
            (ID, "1800000000", &PUBLISHED[..PUBLISHED.len() - 4], BODY),
            (ID, "1800000000", PUBLISHED.trim_start_matches("v1,"), BODY),
            (ID, "1800000000", &PUBLISHED.replacen("v1", "v2", 1), BODY),
            (ID, "1800000000", "none", BODY),
            (ID, "1800000000", "v1,", BODY),
            (ID, "1800000000", "", BODY),
        ];
        for (id, timestamp, signature, body) in bad {
            let result = verify(&secret, id, timestamp, signature, body, NOW);
            assert_eq!(result, Err(VerifyError::Signature), "{id} {timestamp} {signature}");
        }
        for timestamp in ["", "x", "-1", "+1800000000", " 1800000000", "1800000000000", "18e8"] {
            let result = verify(&secret, ID, timestamp, PUBLISHED, BODY, NOW);
            assert_eq!(result, Err(VerifyError::Timestamp), "{timestamp}");
        }
        for (skew, expected) in [(300, Ok(())), (301, Err(VerifyError::Timestamp))] {
            assert_eq!(verify(&secret, ID, "1800000000", PUBLISHED, BODY, NOW + skew), expected);
            assert_eq!(verify(&secret, ID, "1800000000", PUBLISHED, BODY, NOW - skew), expected);
        }
    }

    #[test]
    fn secrets_have_one_form_and_are_not_printed() {
        let good = WebhookSecret::of([7; 32]).expose();
        for bad in
            ["", "whsec_", "whsec_AAAA", &good[6..], &good.replace("whsec_", "WHSEC_"), &format!("{good} ")]
        {
            assert_eq!(WebhookSecret::parse(bad), None, "{bad:?}");
        }
        assert!(!format!("{:?}", WebhookSecret::of([7; 32])).contains(&good[6..12]));
    }
}
