//! What a program implements to give its executor work to do.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::error::Error;
use crate::options::check_name;

pub use crate::context::{AttemptContext, SaveError};

/// Code that runs attempts. One value serves all attempts of its name, many at a time.
///
/// A handler runs at least once per attempt that counts, and in rare cases (a machine that dies between the
/// effect and the record of it) more than once for one task: it makes its effect idempotent by
/// [`AttemptContext::business_key`].
pub trait Handler: Send + Sync + 'static {
    /// Runs one attempt.
    ///
    /// When the attempt is cancelled or outruns its timeout, [`AttemptContext::cancelled`] resolves; a
    /// handler that has not returned after [`Handler::grace`] is aborted at its next await point. Until then
    /// its slot stays taken, and nothing is reported.
    fn run(
        &self,
        context: AttemptContext,
    ) -> impl Future<Output = Result<HandlerOutput, HandlerError>> + Send;

    /// How long it may go on after a cancel before it is aborted. None takes the executor's `stop-grace-ms`.
    fn grace(&self) -> Option<Duration> {
        None
    }
}

/// What a handler returns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HandlerOutput {
    /// The result of the task: at most 64 KiB as JSON text; more is a failure.
    pub result: Option<Value>,
}

impl HandlerOutput {
    /// Success without a result.
    pub fn none() -> Self {
        HandlerOutput::default()
    }
}

impl From<Value> for HandlerOutput {
    fn from(result: Value) -> Self {
        HandlerOutput { result: Some(result) }
    }
}

/// Why a handler failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerError {
    /// For people; cut at 4 KiB.
    pub message: String,
    /// Whether another try can help.
    pub retryable: bool,
    /// The least delay before the next try that it asks for, up to seven days; the task's backoff holds where it is longer.
    pub retry_after: Option<Duration>,
}

impl HandlerError {
    /// A failure after which another try can help.
    pub fn retryable(message: impl Into<String>) -> Self {
        HandlerError { message: message.into(), retryable: true, retry_after: None }
    }

    /// A failure that will repeat itself.
    pub fn fatal(message: impl Into<String>) -> Self {
        HandlerError { message: message.into(), retryable: false, retry_after: None }
    }

    /// Asks for a delay before the next try.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for HandlerError {}

/// [`Handler`] behind a pointer.
pub(crate) trait DynHandler: Send + Sync {
    fn run_boxed(&self, context: AttemptContext) -> BoxFuture<'_, Result<HandlerOutput, HandlerError>>;
    fn grace(&self) -> Option<Duration>;
}

impl<H: Handler> DynHandler for H {
    fn run_boxed(&self, context: AttemptContext) -> BoxFuture<'_, Result<HandlerOutput, HandlerError>> {
        Box::pin(self.run(context))
    }

    fn grace(&self) -> Option<Duration> {
        Handler::grace(self)
    }
}

/// The handlers of an executor, by name.
#[derive(Clone, Default)]
pub struct Handlers {
    by_name: BTreeMap<String, Arc<dyn DynHandler>>,
}

impl Handlers {
    /// No handlers.
    pub fn new() -> Self {
        Handlers::default()
    }

    /// Adds a handler under a name of 1-128 of `[A-Za-z0-9._-]` that is not taken yet.
    pub fn with(mut self, name: &str, handler: impl Handler) -> Result<Self, Error> {
        check_name("handler", name)?;
        if self.by_name.insert(name.to_owned(), Arc::new(handler)).is_some() {
            return Err(Error::HandlerTwice { name: name.to_owned() });
        }
        Ok(self)
    }

    /// Every name, in order.
    pub fn names(&self) -> Vec<String> {
        self.by_name.keys().cloned().collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<dyn DynHandler>> {
        self.by_name.get(name).cloned()
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.by_name.keys()).finish()
    }
}
