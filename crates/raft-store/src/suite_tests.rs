//! openraft's own conformance suite, on our log and our state machine.

use std::sync::Arc;

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use orloj_model::random::SeededRandom;
use orloj_model::time::ManualClock;
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::config::DiskOptions;
use crate::disk::{Disk, Space};
use crate::environment::Environment;
use crate::faults::Faults;
use crate::log::LogStore;
use crate::machine::Machine;
use crate::snapshot::{Live, Snapshots};
use crate::types::TypeConfig;

/// Makes an empty node in a directory of its own.
struct Builder;

impl StoreBuilder<TypeConfig, LogStore, Machine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, LogStore, Machine), StorageError<TypeConfig>> {
        let dir = tempfile::tempdir().unwrap();
        let log_dir = dir.path().join("log");
        let environment =
            Environment::new(Arc::new(ManualClock::default()), Arc::new(SeededRandom::default()));
        std::fs::create_dir(&log_dir).unwrap();
        // A tail of next to nothing, so that the suite reads from the disk.
        let log = LogStore::open(&log_dir, 100, &environment).unwrap();
        let snapshots = Arc::new(Snapshots::open(dir.path().join("snapshots")).unwrap());
        let state = Live::open(dir.path().join("state"), true, environment.engine).unwrap();
        let space = Space { free: u64::MAX / 2, total: u64::MAX / 2 };
        let probe = Arc::new(move |_: &std::path::Path| Ok(space));
        let disk = Disk::open(dir.path().to_path_buf(), DiskOptions::default(), probe).unwrap();
        let shared = (snapshots, Arc::new(disk), Faults::new());
        let parts = (environment.runner, environment.clock);
        let machine = Machine::new(state, shared, parts, mpsc::channel(1).0);
        Ok((dir, log, machine.unwrap()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_conformance_suite_of_openraft_passes() {
    Suite::test_all(Builder).await.unwrap();
}
