//! What a node stands on and does not choose itself: the seams at which a simulation takes the place of the
//! machine. The network is one more, see [`Transport`](crate::Transport).

use std::sync::Arc;

use orloj_model::{Clock, Random};

use crate::disk::{self, Probe};
use crate::engine::Engine;
use crate::engine::rocks::Rocks;
use crate::runner::{Runner, Threads};

/// The machine under a node. Clones are cheap.
#[derive(Clone)]
pub struct Environment {
    /// Keeps the databases.
    pub engine: Arc<dyn Engine>,
    /// Runs what waits for the disk.
    pub runner: Arc<dyn Runner>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Draws what nobody may guess, or what must not fall together.
    pub random: Arc<dyn Random>,
    /// Tells how much space the disk has.
    pub probe: Probe,
}

impl Environment {
    /// The real machine: RocksDB, threads, and the file system's own word for its space.
    pub fn new(clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Environment {
        Environment {
            engine: Arc::new(Rocks),
            runner: Arc::new(Threads),
            clock,
            random,
            probe: disk::statvfs(),
        }
    }
}
