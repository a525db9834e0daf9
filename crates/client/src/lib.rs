//! Signed client of Orloj's REST API.
//!
//! A [`Client`] knows the addresses of several replicas; any of them answers every call. A try that fails
//! for a reason that passes (no connection, `503`, `429`, `408`) is repeated at the next replica with a
//! growing, jittered delay until the deadline. Each try has a new timestamp, nonce and signature; a
//! submission keeps one Idempotency-Key over all of its tries, so that it makes one task at most. What makes a secret or
//! begins a backfill has no such key, and is not repeated once it may have had an effect. How the cluster is, every
//! replica is asked at the same time.
//!
//! ```no_run
//! # async fn example() -> Result<(), orloj_client::Error> {
//! use orloj_client::{Client, Credentials, Options};
//! use orloj_wire::rest::Submit;
//!
//! let credentials = Credentials::new("ak_…", "sk_…")?;
//! let client = Client::new(["http://127.0.0.1:8080"], credentials, Options::default())?;
//! let task = client.submit(&Submit::new("echo", serde_json::json!({"n": 1})), None).await?;
//! let task = client.wait(&task.task_id, std::time::Duration::from_secs(60)).await?;
//! println!("{}", task.status);
//! # Ok(())
//! # }
//! ```

mod admin;
pub mod callback;
mod calls;
mod error;
mod jobs;
mod options;
mod retry;
mod send;

pub use admin::{AuditKind, AuditQuery, CallersQuery};
pub use calls::{ListQuery, LogQuery};
pub use error::Error;
pub use options::{Credentials, Options};
pub use send::Client;
