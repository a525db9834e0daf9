//! The built-in handlers: `echo`, `sleep`, `fail`, `shell`, `http`.

mod allow;
mod http;
mod shell;
mod simple;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Error;
use crate::handler::{HandlerError, Handlers};
use crate::options::HandlersOptions;

/// Adds the built-in handlers that the options switch on.
pub(crate) fn add(mut handlers: Handlers, options: &HandlersOptions) -> Result<Handlers, Error> {
    if options.echo {
        handlers = handlers.with("echo", simple::Echo)?;
    }
    if options.sleep {
        handlers = handlers.with("sleep", simple::Sleep)?;
    }
    if options.fail {
        handlers = handlers.with("fail", simple::Fail)?;
    }
    if options.shell.enabled {
        handlers = handlers.with("shell", shell::Shell::new(&options.shell)?)?;
    }
    if options.http.enabled {
        handlers = handlers.with("http", http::Http::new(&options.http)?)?;
    }
    Ok(handlers)
}

/// Parameters of a known form; others are a failure that no retry can help.
fn parse<T: DeserializeOwned>(params: &Value) -> Result<T, HandlerError> {
    T::deserialize(params).map_err(|cause| HandlerError::fatal(format!("params: {cause}")))
}
