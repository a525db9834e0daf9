//! The API of one node: the signed OpenAPI, health and metrics on the public listener; peers, followers and
//! executors on the internal one.
//!
//! Every replica answers every call. A follower checks a request (form, signature, scope) and hands it on to
//! the leader, which checks it again, lets it in (time, nonce, rates) and makes the call. Only the leader
//! knows which nonces are spent and how many tokens are left, so limits are exact over all replicas.
//!
//! The core is plain functions over plain data: [`route`] knows the calls, [`auth`] the signatures, [`limit`]
//! and [`nonce`] what the leader remembers, `view` how records are shown. axum stays in the few modules that
//! listen.

#![warn(clippy::iter_over_hash_type, reason = "its order differs between two runs of one seed")]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that cannot go on fails"))]

pub mod auth;
pub mod backend;
mod bodies;
mod debug;
mod denials;
pub mod directory;
mod document;
mod etag;
mod forward;
mod gate;
mod health;
mod heard;
mod http;
mod hub;
mod internal;
pub mod keyring;
pub mod leader;
pub mod limit;
mod metrics;
mod missing;
pub mod nonce;
mod ops;
pub mod outcome;
mod outlook;
mod page;
pub mod peer;
mod public;
mod recorder;
mod request;
pub mod route;
pub mod seal;
mod service;
#[cfg(test)]
mod testing;
mod tries;
mod view;

pub use backend::Backend;
pub use debug::router as debug_router;
pub use directory::Directory;
pub use forward::{Carrier, ForwardError, PeerAnswer, PeerCall};
pub use internal::router as internal_router;
pub use keyring::{Keyring, KeyringError, Limits};
pub use leader::Leader;
pub use metrics::Metrics;
pub use outlook::Outlook;
pub use public::{Takes, router as public_router};
pub use seal::Sealer;
pub use service::{Api, Options, Parts};
