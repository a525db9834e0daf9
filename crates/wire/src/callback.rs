//! Callbacks on the wire: where one may go, what it carries, and its signature (Standard Webhooks).
//!
//! A receiver verifies with [`verify`]; docs/callbacks.md gives the rule with its vector.

mod event;
mod retry_after;
mod rule;
mod secret;

pub use event::{BODY_LIMIT, Event, EventTask, event_type};
pub use retry_after::retry_after_ms;
pub use rule::{Destination, HostEntry, HostRule, UrlFault, check_url};
pub use secret::{
    ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, TOLERANCE_S, VerifyError, WebhookSecret, event_id, sign,
    verify,
};
