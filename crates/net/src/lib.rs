//! Connections: listeners that a crowd cannot exhaust, TLS on both ends, and who a certificate speaks for.
//!
//! Knows nothing of what is said over a connection. The only home of rustls.
//!
//! | module | does |
//! |---|---|
//! | [`identity`] | whom a certificate names: `orloj://<cluster>/<role>/<name>` |
//! | `files`, `material`, `validity` | certificates, keys and authorities, read from files and checked |
//! | [`tls`], `cluster` | the current ones, read again when the files change; the check of who speaks |
//! | [`dial`], [`accept`] | the two ends of a connection |
//! | `outside` | TLS to hosts that are no part of a cluster |
//! | [`serve`], `preface`, `crowd` | a listener with bounds, how a connection begins, and who must go when it is full |
//! | [`issue`] | makes a cluster's own authority and certificates |

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that cannot go on fails"))]

pub mod accept;
mod cluster;
mod crowd;
pub mod dial;
mod error;
mod files;
pub mod identity;
pub mod issue;
mod material;
mod outside;
mod preface;
mod remote;
pub mod serve;
#[cfg(test)]
mod testing;
pub mod tls;
mod validity;

pub use accept::{Admission, ServerTls};
pub use cluster::{ClusterTls, Impostor};
pub use dial::{Clients, Protocol};
pub use error::TlsError;
pub use files::{Files, TlsOptions};
pub use identity::{Identity, Peer, Role};
pub use outside::{OutsideError, OutsideTls};
pub use remote::Remote;
pub use serve::{Bounds, serve};
pub use tls::Tls;
