//! Checks of a signed request that need no body and no leader, and the check of its signature. Pure.
//!
//! Credentials stand in four headers, each exactly once; there is no other place for them, and no other
//! algorithm than the documented one.

use std::fmt;
use std::sync::LazyLock;

use orloj_model::apply::CLAIM_LIFE_MS;
use orloj_model::command::Claim;
use orloj_wire::problem::{Code, FieldError};
use orloj_wire::sign::{self, Label, NONCE_KEEP_S, Parts, Secret, TIME_WINDOW_S};
use orloj_wire::time::Time;
use serde::{Deserialize, Serialize};

use crate::keyring::{Key, Principal, is_access_key};
use crate::outcome::Failure;
use crate::route::Access;

// What is let in here is remembered by the tables for as long as it can come again.
const _: () = assert!(CLAIM_LIFE_MS == (TIME_WINDOW_S + NONCE_KEEP_S) * 1000);

/// The credentials of a request, of the right form but not yet checked.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Credentials {
    /// `X-Access-Key`
    pub access_key: String,
    /// `X-Timestamp`
    pub timestamp: String,
    /// `X-Nonce`
    pub nonce: String,
    /// `X-Signature`
    pub signature: String,
    /// `Idempotency-Key` as it was sent.
    pub idempotency_key: Option<String>,
}

impl fmt::Debug for Credentials {
    /// Without the signature, which is as good as the request itself until its nonce is spent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({} at {})", self.access_key, self.timestamp)
    }
}

/// Looks a header up: every value of this lower-case name, in bytes.
pub trait Headers {
    /// The values.
    fn values(&self, name: &'static str) -> Vec<&[u8]>;
}

impl Credentials {
    /// Takes the credentials out of a request's headers.
    pub fn from_headers(headers: &impl Headers) -> Result<Self, Failure> {
        Credentials::from_headers_of(headers, "must be 1-64 of [A-Za-z0-9_-]", is_access_key)
    }

    /// The same where access keys are names of another form.
    pub fn from_headers_of(
        headers: &impl Headers,
        form: &str,
        is_name: fn(&str) -> bool,
    ) -> Result<Self, Failure> {
        let missing: Vec<FieldError> =
            [sign::ACCESS_KEY_HEADER, sign::TIMESTAMP_HEADER, sign::NONCE_HEADER, sign::SIGNATURE_HEADER]
                .into_iter()
                .filter(|name| headers.values(name).is_empty())
                .map(|name| FieldError::new(name, "this header is missing"))
                .collect();
        if !missing.is_empty() {
            return Err(Failure::fields(Code::MissingCredentials, missing));
        }
        let malformed = |name: &'static str, why: &str| {
            Failure::fields(Code::MalformedCredentials, vec![FieldError::new(name, why)])
        };
        let one = |name: &'static str, why: &str, fits: fn(&str) -> bool| match headers.values(name)[..] {
            [value] => match std::str::from_utf8(value) {
                Ok(text) if fits(text) => Ok(text.to_owned()),
                _ => Err(malformed(name, why)),
            },
            _ => Err(malformed(name, "this header stands there more than once")),
        };
        let idempotency_key = match headers.values(sign::IDEMPOTENCY_HEADER)[..] {
            [] => None,
            _ => Some(idempotency_header(headers)?),
        };
        Ok(Credentials {
            access_key: one(sign::ACCESS_KEY_HEADER, form, is_name)?,
            timestamp: one(sign::TIMESTAMP_HEADER, "must be Unix seconds, exactly 10 digits", is_timestamp)?,
            nonce: one(sign::NONCE_HEADER, "must be 16-64 of [A-Za-z0-9_-]", is_nonce)?,
            signature: one(sign::SIGNATURE_HEADER, "must be 64 lower-case hex digits", is_signature)?,
            idempotency_key,
        })
    }

    /// The timestamp as a number.
    pub fn timestamp_s(&self) -> i64 {
        self.timestamp.parse().expect("ten digits are a number")
    }

    /// The nonce, to be spent in the log by what is asked for.
    pub fn claim(&self) -> Claim {
        Claim { nonce: self.nonce_hash(), expires_at: (self.timestamp_s() + NONCE_KEEP_S) * 1000 }
    }

    /// The first 16 bytes of SHA-256(access key LF nonce).
    pub fn nonce_hash(&self) -> [u8; 16] {
        let hash = sign::sha256(&[self.access_key.as_bytes(), b"\n", self.nonce.as_bytes()]);
        let mut short = [0; 16];
        short.copy_from_slice(&hash[..16]);
        short
    }

    /// The Idempotency-Key without its quotes.
    pub fn idempotency_text(&self) -> Option<&str> {
        self.idempotency_key.as_deref().map(unquoted)
    }

    /// Refuses a timestamp that is further from `now_s` than the window.
    pub fn check_time(&self, now_s: i64) -> Result<(), Failure> {
        if (now_s - self.timestamp_s()).abs() <= TIME_WINDOW_S {
            return Ok(());
        }
        let detail =
            format!("{} is more than {TIME_WINDOW_S} s away from the server's clock", self.timestamp);
        let mut failure = Failure::new(Code::TimestampOutOfWindow, detail);
        failure.server_time = Some(Time(now_s.saturating_mul(1000)));
        Err(failure)
    }
}

/// The parts of a request that are signed, beside the credentials.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Whom signatures must be made for.
    pub audience: &'a str,
    /// The method.
    pub method: &'a str,
    /// The path as it was sent.
    pub path: &'a str,
    /// The query as it was sent.
    pub query: &'a str,
    /// The body.
    pub body: &'a [u8],
}

/// Whether the signature of `target` under `label` is made with `secret`.
pub fn is_signed(credentials: &Credentials, target: Target<'_>, label: Label, secret: &Secret) -> bool {
    let parts = Parts {
        label,
        audience: target.audience,
        access_key: &credentials.access_key,
        timestamp: &credentials.timestamp,
        nonce: &credentials.nonce,
        method: target.method,
        path: target.path,
        query: target.query,
        idempotency_key: credentials.idempotency_key.as_deref().unwrap_or_default(),
        body: target.body,
    };
    parts.verify(secret, &credentials.signature)
}

/// Made once, as the secret of a key that there is was: a check with it takes as long.
static NOBODY: LazyLock<Secret> =
    LazyLock::new(|| Secret::new("a secret that nobody has").expect("it is not blank"));

/// Whether a request is signed with the key that it names, and may make such a call. An unknown key costs as much time as a known
/// one and answers the same as a wrong signature.
pub fn authenticate(
    key: Option<&Key>,
    credentials: &Credentials,
    target: Target<'_>,
    access: Access,
) -> Result<(), Failure> {
    let invalid = || Failure::new(Code::InvalidSignature, "the access key or the signature is wrong");
    let Some(key) = key else {
        // The result does not matter, the time that it takes does.
        let _ = is_signed(credentials, target, Label::Caller, &NOBODY);
        return Err(invalid());
    };
    if !is_signed(credentials, target, key.principal.label(), &key.secret) {
        return Err(invalid());
    }
    if !key.enabled {
        return Err(Failure::new(Code::AccessKeyDisabled, "this access key is disabled"));
    }
    if is_of_class(access, &key.principal) {
        return Ok(());
    }
    let detail = match access {
        Access::Admin => "only an administrator's key may make this call",
        Access::Caller | Access::Both => "only a caller's key may make this call",
    };
    Err(Failure::new(Code::ScopeDenied, detail))
}

/// Whether keys of this principal's class make such calls.
pub fn is_of_class(access: Access, principal: &Principal) -> bool {
    match access {
        Access::Both => true,
        Access::Caller => matches!(principal, Principal::Caller(_)),
        Access::Admin => matches!(principal, Principal::Admin),
    }
}

fn is_timestamp(text: &str) -> bool {
    text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_nonce(text: &str) -> bool {
    (16..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn is_signature(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn idempotency_header(headers: &impl Headers) -> Result<String, Failure> {
    let name = sign::IDEMPOTENCY_HEADER;
    let error = |why: &str| Failure::fields(Code::InvalidRequest, vec![FieldError::new(name, why)]);
    match headers.values(name)[..] {
        [value] => {
            let text = std::str::from_utf8(value).unwrap_or_default();
            let key = unquoted(text);
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-');
            match (1..=128).contains(&key.len()) && key.bytes().all(fits) {
                true => Ok(text.to_owned()),
                false => Err(error("must be 1-128 of [A-Za-z0-9._:-], bare or in one pair of double quotes")),
            }
        }
        _ => Err(error("this header stands there more than once")),
    }
}

fn unquoted(text: &str) -> &str {
    text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text)
}
