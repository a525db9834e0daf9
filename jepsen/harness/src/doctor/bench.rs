//! Where a capability is tried: a folder, a journal, and the end of both.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use crate::journal::Journal;
use crate::run_id::RunId;

/// What a probe makes its things in.
pub struct Bench {
    dir: TempDir,
    /// Undone at the end of [`on_bench`].
    pub journal: Journal,
    /// In every name that the machine sees.
    pub run: RunId,
}

impl Bench {
    /// An empty folder with an absolute path.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// Tries something and undoes it. That something stays behind is a failure, too: a fault that cannot be
/// undone is of no use.
pub fn on_bench(attempt: impl FnOnce(&Bench) -> Result<String>) -> Result<String> {
    let dir = TempDir::new().context("make a folder")?;
    let (run, journal) = Journal::fresh(&dir.path().join("journal")).context("start a journal")?;
    let bench = Bench { dir, journal, run };
    let outcome = attempt(&bench);
    let problems = bench.journal.undo_all();
    let seen = outcome?;
    if !problems.is_empty() {
        bail!("it works but cannot be undone: {}", problems.join("; "));
    }
    Ok(seen)
}
