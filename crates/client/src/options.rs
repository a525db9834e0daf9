//! Who calls, and how patiently.

use std::sync::Arc;
use std::time::Duration;

use orloj_wire::clock::{Clock, SystemClock};
use orloj_wire::sign::{Label, Secret};

use crate::error::Error;

/// An access key and its secret.
#[derive(Debug, Clone)]
pub struct Credentials {
    pub(crate) access_key: String,
    pub(crate) secret: Secret,
    pub(crate) label: Label,
}

impl Credentials {
    /// A caller's key (`ak_…`) or an administrator's (`adk_…`).
    pub fn new(access_key: impl Into<String>, secret: impl Into<String>) -> Result<Self, Error> {
        let access_key = access_key.into();
        let label = match access_key.starts_with("adk_") {
            true => Label::Admin,
            false => Label::Caller,
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if access_key.is_empty() || !access_key.chars().all(plain) {
            return Err(Error::Config {
                what: "access key",
                value: access_key,
                why: "is not [A-Za-z0-9_.-]+",
            });
        }
        let secret = Secret::new(secret).ok_or(Error::Config {
            what: "secret key",
            value: String::new(),
            why: "is empty",
        })?;
        Ok(Credentials { access_key, secret, label })
    }
}

/// How a [`Client`](crate::Client) behaves.
#[derive(Clone)]
pub struct Options {
    /// The audience that signatures are made for; must be the servers'. By default `default`.
    pub audience: String,
    /// The longest that one try may take beyond the time that it asks the server to wait; with several replicas no
    /// more than each one's share of the deadline, so that all are asked. By default 10 s.
    pub try_timeout: Duration,
    /// The longest that a call may take with all its tries. By default 30 s.
    pub deadline: Duration,
    /// The delay before the second try; it doubles up to 2 s and is jittered. By default 50 ms.
    pub backoff: Duration,
    /// The authorities that servers' certificates may come from, in PEM, instead of the machine's.
    pub ca_pem: Option<Vec<u8>>,
    /// A certificate of one's own with its private key, in PEM, for servers that ask for one.
    pub identity_pem: Option<Vec<u8>>,
    /// Tells the timestamps.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            audience: "default".to_owned(),
            try_timeout: Duration::from_secs(10),
            deadline: Duration::from_secs(30),
            backoff: Duration::from_millis(50),
            ca_pem: None,
            identity_pem: None,
            clock: Arc::new(SystemClock::new()),
        }
    }
}
