//! Request signatures: HMAC-SHA256 over ten fixed lines (docs/openapi.md gives the rule and its vectors).
//!
//! One function builds the string for signer and verifier alike. The bytes of path, query and
//! Idempotency-Key are taken as they were sent: nothing is sorted, decoded or normalised.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

/// The public access key.
pub const ACCESS_KEY_HEADER: &str = "x-access-key";
/// Unix seconds, exactly ten digits.
pub const TIMESTAMP_HEADER: &str = "x-timestamp";
/// `[A-Za-z0-9_-]{16,64}`, never used twice.
pub const NONCE_HEADER: &str = "x-nonce";
/// 64 lower-case hex digits.
pub const SIGNATURE_HEADER: &str = "x-signature";
/// The caller's name for the effect that it wants once.
pub const IDEMPOTENCY_HEADER: &str = "idempotency-key";

/// How far a timestamp may be from the verifier's clock, in seconds.
pub const TIME_WINDOW_S: i64 = 300;
/// How long after its timestamp a nonce is remembered, in seconds.
pub const NONCE_KEEP_S: i64 = 360;

/// Which class of principal signs. A signature of one class never passes for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// A caller of the OpenAPI.
    Caller,
    /// An administrator.
    Admin,
    /// Leader and executors among each other.
    Executor,
    /// Scheduler replicas among each other.
    Peer,
}

impl Label {
    /// The first signed line.
    pub fn line(self) -> &'static str {
        match self {
            Label::Caller => "ORLOJ1-HMAC-SHA256",
            Label::Admin => "ORLOJ1-ADMIN-HMAC-SHA256",
            Label::Executor => "ORLOJ1-EXEC-HMAC-SHA256",
            Label::Peer => "ORLOJ1-RPC-HMAC-SHA256",
        }
    }
}

/// The shortest secret that anybody should use, in bytes. A generated one has 46 or 47.
const SECRET_MIN: usize = 32;
/// The secrets in the documentation: of vectors and of examples. Everybody knows them.
pub(crate) const PUBLISHED: [&str; 4] = [
    "sk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
    "sk_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG",
    "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
];

/// A secret key: the UTF-8 bytes of the whole displayed string, prefix included. Never printed.
#[derive(Clone)]
pub struct Secret {
    text: String,
    /// HMAC under this key, before the first byte of a message: every signature begins with a copy of it.
    keyed: Hmac<Sha256>,
}

impl Secret {
    /// Takes a displayed secret; an empty or blank one is refused.
    pub fn new(text: impl Into<String>) -> Option<Self> {
        let text = text.into();
        if text.trim().is_empty() {
            return None;
        }
        // HMAC takes a key of any length, so the error cannot occur.
        let keyed = Hmac::<Sha256>::new_from_slice(text.as_bytes()).expect("HMAC takes any key length");
        Some(Secret { text, keyed })
    }

    /// The displayed string, for the one place that shows or stores it.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Why nobody should use it: it is published, short, or holds what does not survive copying. `None` for a good
    /// one. Never shows it.
    pub fn weakness(&self) -> Option<&'static str> {
        if PUBLISHED.contains(&self.text.as_str()) {
            return Some("the secret is a published example");
        }
        if self.text.len() < SECRET_MIN {
            return Some("the secret has fewer than 32 characters");
        }
        let odd = !self.text.bytes().all(|byte| byte.is_ascii_graphic());
        odd.then_some("the secret has a blank or a character outside ASCII")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The signed parts of a request, as they are on the wire.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// The class of the principal.
    pub label: Label,
    /// Whom the request is for: the environment of the OpenAPI, or the receiving node or executor.
    pub audience: &'a str,
    /// The header `X-Access-Key`.
    pub access_key: &'a str,
    /// The header `X-Timestamp`.
    pub timestamp: &'a str,
    /// The header `X-Nonce`.
    pub nonce: &'a str,
    /// The method in upper case.
    pub method: &'a str,
    /// The path as sent, from the first `/` up to `?`.
    pub path: &'a str,
    /// The query as sent after the first `?`, else empty.
    pub query: &'a str,
    /// The header `Idempotency-Key` as sent, else empty.
    pub idempotency_key: &'a str,
    /// The body.
    pub body: &'a [u8],
}

/// A request that is about to be sent: what its sender says, before time and nonce.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// The class of the principal.
    pub label: Label,
    /// Whom the request is for.
    pub audience: &'a str,
    /// The sender's access key.
    pub access_key: &'a str,
    /// The method in upper case.
    pub method: &'a str,
    /// The path as it will be sent.
    pub path: &'a str,
    /// The query as it will be sent, without `?`; else empty.
    pub query: &'a str,
    /// The header `Idempotency-Key` as it will be sent, else empty.
    pub idempotency_key: &'a str,
    /// The body.
    pub body: &'a [u8],
}

impl Outgoing<'_> {
    /// The four headers that sign it at `now_s` (Unix seconds, by the receiver's clock), under a fresh nonce.
    pub fn headers(&self, secret: &Secret, now_s: i64) -> [(&'static str, String); 4] {
        let timestamp = format!("{:010}", now_s.max(0));
        let nonce = new_nonce();
        let parts = Parts {
            label: self.label,
            audience: self.audience,
            access_key: self.access_key,
            timestamp: &timestamp,
            nonce: &nonce,
            method: self.method,
            path: self.path,
            query: self.query,
            idempotency_key: self.idempotency_key,
            body: self.body,
        };
        let signature = parts.sign(secret);
        [
            (ACCESS_KEY_HEADER, self.access_key.to_owned()),
            (TIMESTAMP_HEADER, timestamp),
            (NONCE_HEADER, nonce),
            (SIGNATURE_HEADER, signature),
        ]
    }
}

impl Parts<'_> {
    /// The ten lines, joined by LF, without a final LF.
    pub fn canonical(&self) -> String {
        let digest = hex(&Sha256::digest(self.body));
        [
            self.label.line(),
            self.audience,
            self.access_key,
            self.timestamp,
            self.nonce,
            self.method,
            self.path,
            self.query,
            self.idempotency_key,
            &digest,
        ]
        .join("\n")
    }

    /// The signature: 64 lower-case hex digits.
    pub fn sign(&self, secret: &Secret) -> String {
        hex(&self.mac(secret).finalize().into_bytes())
    }

    /// Whether `signature` is this request's, compared in constant time. Only 64 lower-case hex digits pass.
    pub fn verify(&self, secret: &Secret, signature: &str) -> bool {
        match unhex(signature) {
            Some(tag) => self.mac(secret).verify_slice(&tag).is_ok(),
            None => false,
        }
    }

    fn mac(&self, secret: &Secret) -> Hmac<Sha256> {
        let mut mac = secret.keyed.clone();
        mac.update(self.canonical().as_bytes());
        mac
    }
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)] as char);
        text.push(DIGITS[usize::from(byte & 15)] as char);
    }
    text
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let text = text.as_bytes();
    if text.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = (digit(pair[0])? << 4) | digit(pair[1])?;
    }
    Some(bytes)
}

/// base64url without padding.
pub fn base64url(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}

/// A fresh nonce: 128 bits from the operating system, in hex.
pub fn new_nonce() -> String {
    let mut bytes = [0; 16];
    // Without random numbers from the operating system nothing can be signed safely.
    getrandom::fill(&mut bytes).expect("the operating system supplies random numbers");
    hex(&bytes)
}

/// SHA-256, for fingerprints.
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}
