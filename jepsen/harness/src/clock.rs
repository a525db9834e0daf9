//! The wall clock of one process, moved away from the machine's while its monotonic clock goes on.
//!
//! A small library that is preloaded into the process (`jepsen/harness/clock/wall.c`, compiled at the start
//! of a run) adds an offset to what it reads. The offset lives in a file that both sides map, so that a jump
//! is one store: cheap, and never seen half done.

mod page;

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::tool::tool;
use crate::wait::monotonic;
use page::Page;

const SOURCE: &str = include_str!("../clock/wall.c");
const MS_NS: i64 = 1_000_000;
/// Between two steps of a ramp.
const RAMP_STEP: Duration = Duration::from_millis(10);

/// The compiled library of one run.
#[derive(Debug, Clone)]
pub struct WallShim {
    library: PathBuf,
    dir: PathBuf,
}

impl WallShim {
    /// Compiles it into `dir`, which has an absolute path and outlives the processes.
    ///
    /// # Errors
    /// When there is no C compiler called `cc`, or `dir` cannot be written.
    pub fn compile(dir: &Path) -> Result<WallShim> {
        let (source, library) = (dir.join("wall.c"), dir.join("wall.so"));
        fs::write(&source, SOURCE).with_context(|| format!("write {}", source.display()))?;
        let paths = [&library, &source].map(|path| path.to_string_lossy().into_owned());
        tool("cc", &["-shared", "-fPIC", "-O2", "-o", &paths[0], &paths[1]])?;
        Ok(WallShim { library, dir: dir.to_path_buf() })
    }

    /// A clock for the processes of `node`, with the true time. It keeps its offset over their restarts.
    ///
    /// # Errors
    /// When its file cannot be written or mapped.
    pub fn clock(&self, node: &str) -> Result<WallClock> {
        let path = self.dir.join(format!("wall-{node}"));
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let page = file.and_then(|file| Page::map(&file));
        let page = Arc::new(page.with_context(|| format!("map {}", path.display()))?);
        page.offset_ns().store(0, ORDER);
        Ok(WallClock { library: self.library.clone(), path, page, ramp: Mutex::new(None) })
    }
}

/// Each store stands alone: nothing else is told through this memory.
const ORDER: std::sync::atomic::Ordering = std::sync::atomic::Ordering::Relaxed;

/// The wall clock of one node.
#[derive(Debug)]
pub struct WallClock {
    library: PathBuf,
    path: PathBuf,
    page: Arc<Page>,
    ramp: Mutex<Option<Ramp>>,
}

impl WallClock {
    /// The environment of a process that lives by this clock. The program must be linked dynamically.
    pub fn env(&self) -> Vec<(OsString, OsString)> {
        vec![
            ("LD_PRELOAD".into(), self.library.clone().into()),
            ("ORLOJ_WALL_OFFSET".into(), self.path.clone().into()),
        ]
    }

    /// Moves the clock by `ms` from where it is, at once; a ramp goes on.
    pub fn jump(&self, ms: i64) {
        self.page.offset_ns().fetch_add(ms * MS_NS, ORDER);
    }

    /// Lets the clock gain `ms_per_s` on the true time in each second (lose, when negative), in steps of 10
    /// ms. It replaces the ramp before it; 0 ends it, and the clock keeps the offset that it has.
    pub fn ramp(&self, ms_per_s: i64) {
        let mut ramp = self.current_ramp();
        // The one before has ended when the next begins.
        *ramp = None;
        if ms_per_s != 0 {
            *ramp = Some(Ramp::start(Arc::clone(&self.page), ms_per_s));
        }
    }

    /// Ends a ramp and sets the true time, which is a jump of its own.
    pub fn restore(&self) {
        *self.current_ramp() = None;
        self.page.offset_ns().store(0, ORDER);
    }

    fn current_ramp(&self) -> MutexGuard<'_, Option<Ramp>> {
        // Every change is one assignment.
        self.ramp.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far the clock is ahead of the true time, in ms; negative when it is behind.
    pub fn offset(&self) -> i64 {
        self.page.offset_ns().load(ORDER) / MS_NS
    }
}

/// A clock that drifts until this is dropped.
#[derive(Debug)]
struct Ramp {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ramp {
    fn start(page: Arc<Page>, ms_per_s: i64) -> Ramp {
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let (begin, mut gained) = (monotonic(), 0);
            while stopped.recv_timeout(RAMP_STEP) == Err(RecvTimeoutError::Timeout) {
                let due = gain(monotonic() - begin, ms_per_s);
                page.offset_ns().fetch_add(due - gained, ORDER);
                gained = due;
            }
        });
        Ramp { stop: Some(stop), thread: Some(thread) }
    }
}

/// What a clock has gained after `elapsed`, in ns.
fn gain(elapsed: Duration, ms_per_s: i64) -> i64 {
    let elapsed_us = i64::try_from(elapsed.as_micros()).expect("a run is shorter than ages");
    // One ms per s is one ns per us.
    elapsed_us * ms_per_s
}

impl Drop for Ramp {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It does nothing that can panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
