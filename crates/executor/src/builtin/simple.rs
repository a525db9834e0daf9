//! Handlers for demos and tests.

use std::time::Duration;

use serde::Deserialize;

use super::parse;
use crate::handler::{AttemptContext, Handler, HandlerError, HandlerOutput};

/// Returns its parameters.
pub(super) struct Echo;

impl Handler for Echo {
    async fn run(&self, context: AttemptContext) -> Result<HandlerOutput, HandlerError> {
        Ok(context.params().clone().into())
    }
}

/// Waits.
pub(super) struct Sleep;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SleepParams {
    /// For how long, in ms.
    duration_ms: u64,
}

impl Handler for Sleep {
    async fn run(&self, context: AttemptContext) -> Result<HandlerOutput, HandlerError> {
        let params: SleepParams = parse(context.params())?;
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(params.duration_ms)) => Ok(HandlerOutput::none()),
            () = context.cancelled() => Err(HandlerError::retryable("cancelled")),
        }
    }
}

/// Fails on demand.
pub(super) struct Fail;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct FailParams {
    message: String,
    retryable: bool,
    /// Attempts that fail; later ones succeed. None: all of them.
    times: Option<u32>,
}

impl Default for FailParams {
    fn default() -> Self {
        FailParams { message: "failed on demand".to_owned(), retryable: true, times: None }
    }
}

impl Handler for Fail {
    async fn run(&self, context: AttemptContext) -> Result<HandlerOutput, HandlerError> {
        let params: FailParams = match context.params() {
            serde_json::Value::Null => FailParams::default(),
            params => parse(params)?,
        };
        if params.times.is_some_and(|times| context.attempt() > times) {
            return Ok(HandlerOutput::none());
        }
        Err(HandlerError { message: params.message, retryable: params.retryable, retry_after: None })
    }
}
