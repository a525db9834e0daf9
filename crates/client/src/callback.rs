//! Checking callbacks that come in.
//!
//! ```
//! # fn example(id: &str, timestamp: &str, signature: &str, body: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//! use orloj_client::callback::{Event, Receiver};
//!
//! let receiver = Receiver::new("whsec_…")?;
//! // The three headers as they came, and the body before anybody parsed it.
//! let event: Event = receiver.check(id, timestamp, signature, body)?;
//! println!("{}: {}", event.kind, event.data.task_id);
//! # Ok(())
//! # }
//! ```
//!
//! The same event may come more than once: remember its id, and answer 2xx to one that is known.

use std::sync::Arc;

use orloj_wire::callback::{VerifyError, WebhookSecret, verify};
use orloj_wire::clock::{Clock, SystemClock};

pub use orloj_wire::callback::{
    Event, EventTask, ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, TOLERANCE_S,
};

use crate::error::Error;

/// Why a callback is not to be believed.
#[derive(Debug, thiserror::Error)]
pub enum CallbackError {
    /// Its signature or its time.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// It is signed and no event that this version knows.
    #[error("the body is no event: {0}")]
    Body(#[from] serde_json::Error),
}

/// Checks callbacks with the secrets of one caller.
#[derive(Debug, Clone)]
pub struct Receiver {
    secrets: Vec<WebhookSecret>,
    clock: Arc<SystemClock>,
}

impl Receiver {
    /// A receiver with this secret, `whsec_…`.
    ///
    /// # Errors
    /// The text is no secret.
    pub fn new(secret: &str) -> Result<Self, Error> {
        let receiver = Receiver { secrets: Vec::new(), clock: Arc::new(SystemClock::new()) };
        receiver.or(secret)
    }

    /// Lets another secret pass too, while one takes the place of the other.
    ///
    /// # Errors
    /// The text is no secret.
    pub fn or(mut self, secret: &str) -> Result<Self, Error> {
        let parsed = WebhookSecret::parse(secret).ok_or(Error::Config {
            what: "webhook secret",
            value: "…".to_owned(),
            why: "is not whsec_ and base64 of 24-64 bytes",
        })?;
        self.secrets.push(parsed);
        Ok(self)
    }

    /// The event of a callback that was signed within the last five minutes with one of the secrets.
    ///
    /// # Errors
    /// See [`CallbackError`].
    pub fn check(
        &self,
        id: &str,
        timestamp: &str,
        signature: &str,
        body: &[u8],
    ) -> Result<Event, CallbackError> {
        let now_s = self.clock.wall_ms().div_euclid(1000);
        let mut checked = Err(VerifyError::Signature);
        for secret in &self.secrets {
            checked = verify(secret, id, timestamp, signature, body, now_s);
            if checked.is_ok() {
                break;
            }
        }
        checked?;
        Ok(serde_json::from_slice(body)?)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use orloj_wire::callback::sign;

    use super::*;

    #[test]
    fn either_secret_is_enough_and_no_other_is() {
        let of = |byte| WebhookSecret::of([byte; 32]);
        let receiver = Receiver::new(&of(7).expose()).unwrap().or(&of(8).expose()).unwrap();
        let now_s = SystemClock::new().wall_ms().div_euclid(1000);
        let body = br#"{"type":"task.failed","timestamp":"2027-01-15T08:00:00.000Z","data":{"taskId":"tsk_AAECAwQFBgcICQoLDA0ODw",
            "handler":"echo","status":"FAILED","version":3,"attempt":1,"createdAt":"2027-01-15T08:00:00.000Z","later":1}}"#;
        let check = |byte, at: i64, body: &[u8]| {
            let signature = sign(&[of(byte)], "evt_1", at, body);
            receiver.check("evt_1", &at.to_string(), &signature, body)
        };
        for byte in [7, 8] {
            assert_eq!(check(byte, now_s, body).unwrap().kind, "task.failed");
        }
        assert!(matches!(check(9, now_s, body), Err(CallbackError::Verify(VerifyError::Signature))));
        assert!(matches!(check(7, now_s - 400, body), Err(CallbackError::Verify(VerifyError::Timestamp))));
        assert!(matches!(check(7, now_s, b"{}"), Err(CallbackError::Body(_))));
        assert!(Receiver::new("sk_x").is_err());
    }
}
