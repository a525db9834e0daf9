//! Who is speaking: checks that a push was signed by a replica, for this executor, now, and for the first time.

use std::sync::{Arc, Mutex};

use axum::http::{HeaderMap, Uri};
use orloj_wire::clock::Clock;
use orloj_wire::sign::{self, Label, Parts, Secret};

use crate::nonces::{Nonces, Rejected};
use crate::problem::Problem;
use crate::sync::lock;

/// Checks signatures of pushes to one executor.
pub(crate) struct Auth {
    secret: Secret,
    executor_id: String,
    clock: Arc<dyn Clock>,
    nonces: Mutex<Nonces>,
}

/// The headers of a signature, each there exactly once and of the right form.
struct Stamp<'a> {
    access_key: &'a str,
    timestamp: &'a str,
    stamped_s: i64,
    nonce: &'a str,
    signature: &'a str,
}

impl Auth {
    pub(crate) fn new(secret: Secret, executor_id: &str, clock: Arc<dyn Clock>) -> Self {
        Auth { secret, executor_id: executor_id.to_owned(), clock, nonces: Mutex::default() }
    }

    /// Checks what can be checked before the body is read, so that strangers cost little.
    pub(crate) fn precheck(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let stamp = stamp(headers)?;
        let now_ms = self.clock.wall_ms();
        match lock(&self.nonces).in_time(stamp.stamped_s, now_ms.div_euclid(1_000)) {
            true => Ok(()),
            false => Err(Problem::out_of_time(now_ms)),
        }
    }

    /// Checks a whole POST and takes its nonce.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Result<(), Problem> {
        let stamp = stamp(headers)?;
        let parts = Parts {
            label: Label::Executor,
            audience: &self.executor_id,
            access_key: stamp.access_key,
            timestamp: stamp.timestamp,
            nonce: stamp.nonce,
            method: "POST",
            path: uri.path(),
            query: uri.query().unwrap_or(""),
            idempotency_key: once(headers, sign::IDEMPOTENCY_HEADER)?.unwrap_or(""),
            body,
        };
        if !parts.verify(&self.secret, stamp.signature) {
            return Err(Problem::unauthorized("invalid_signature", "the signature is not this request's"));
        }
        let now_ms = self.clock.wall_ms();
        let now_s = now_ms.div_euclid(1_000);
        // Only after the signature: a stranger cannot use up anybody's nonces.
        lock(&self.nonces).take(stamp.access_key, stamp.nonce, stamp.stamped_s, now_s).map_err(|rejected| {
            match rejected {
                Rejected::Time => Problem::out_of_time(now_ms),
                Rejected::Replayed => Problem::unauthorized("nonce_replayed", "the nonce was used before"),
                Rejected::Full => Problem::new(503, "overloaded", "the memory of nonces is full"),
            }
        })
    }
}

fn stamp(headers: &HeaderMap) -> Result<Stamp<'_>, Problem> {
    let need = |name| {
        once(headers, name)?.ok_or_else(|| {
            Problem::unauthorized("missing_credentials", format!("the header {name} is missing"))
        })
    };
    let (access_key, timestamp) = (need(sign::ACCESS_KEY_HEADER)?, need(sign::TIMESTAMP_HEADER)?);
    let (nonce, signature) = (need(sign::NONCE_HEADER)?, need(sign::SIGNATURE_HEADER)?);
    let nonce_ok = (16..=64).contains(&nonce.len())
        && nonce.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    let digits = timestamp.len() == 10 && timestamp.bytes().all(|b| b.is_ascii_digit());
    match timestamp.parse() {
        Ok(stamped_s) if digits && nonce_ok && !access_key.is_empty() => {
            Ok(Stamp { access_key, timestamp, stamped_s, nonce, signature })
        }
        _ => Err(Problem::unauthorized(
            "malformed_credentials",
            "timestamp, nonce or access key has a wrong form",
        )),
    }
}

/// A header that may be there once; twice is refused, since two readers could take different ones.
fn once<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| {
            Problem::unauthorized("malformed_credentials", format!("the header {name} is not text"))
        }),
        (Some(_), Some(_)) => {
            Err(Problem::unauthorized("malformed_credentials", format!("the header {name} is there twice")))
        }
    }
}
