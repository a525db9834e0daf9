//! The executor: takes attempts from the leader, runs their handlers and brings the outcomes back.
//!
//! ```text
//!  leader ── signed push ──▶ intake ──▶ book (queue ▸ slots) ──▶ attempt ──▶ handler
//!    ▲                                                             │ ended
//!    └── reports, heartbeats, saves ◀── leader client ◀── outbox ◀─┴─ journal (fsync)
//! ```
//!
//! What an executor promises:
//! - An attempt that it has seen is not started again, however often it is pushed.
//! - A push of an older round than it has seen is refused, also after a restart.
//! - An outcome is on disk before it is reported, and is reported until it is acknowledged.
//! - Work that succeeded here within the dedupe window is answered from memory, also after a restart.
//! - An attempt is reported as cancelled or timed out only when its handler has really stopped.
//!
//! What it does not promise: that a handler runs once. A machine that dies between a handler's effect and
//! the record of its outcome leaves nobody who knows; the handler makes itself idempotent with the
//! business key that every attempt carries.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use orloj_executor::{AttemptContext, Handler, HandlerError, HandlerOutput, Handlers, Options, Service};
//! use orloj_wire::clock::SystemClock;
//!
//! struct DailyReport;
//!
//! impl Handler for DailyReport {
//!     async fn run(&self, context: AttemptContext) -> Result<HandlerOutput, HandlerError> {
//!         context.log("reading");
//!         context.progress(50, Some("half of it"));
//!         Ok(HandlerOutput::none())
//!     }
//! }
//!
//! # async fn example(options: Options) -> Result<(), orloj_executor::Error> {
//! let handlers = Handlers::new().with("daily-report", DailyReport)?;
//! let handle = Service::start(options, handlers, Arc::new(SystemClock::new())).await?;
//! handle.stopped().await
//! # }
//! ```
//!
//! The pure core is the book (what is held) and the ledger (what is remembered): plain data without clock,
//! disk or socket. The shells around them act. A program gives [`Service::start`] its [`Options`] and
//! [`Handlers`].

mod attempt;
mod auth;
mod backoff;
mod book;
mod builtin;
mod context;
mod core;
mod dir;
mod drain;
mod ended;
mod error;
mod handler;
mod intake;
mod journal;
mod leader;
mod ledger;
mod load;
mod log;
mod metrics;
mod nonces;
mod options;
mod outbox;
mod presence;
mod problem;
mod procs;
mod retention;
mod save_sender;
mod saves;
mod segment;
mod service;
mod stats;
mod sync;
mod targets;
mod text;

pub use error::{Error, OptionsError};
pub use handler::{AttemptContext, Handler, HandlerError, HandlerOutput, Handlers, SaveError};
pub use options::{HandlersOptions, HttpOptions, LogOptions, Options, SecretText, ShellOptions};
pub use service::{Handle, Service};
