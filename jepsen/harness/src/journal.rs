//! What a run has set up on the machine, written down before it is done, so that everything can be undone:
//! by the run itself, or by a later process when the run died.
//!
//! A journal is a file of JSON lines. A line `begin` holds a numbered [`Step`]; a line `end` says that the
//! step of that number is undone. The running harness holds a lock on the file, which the kernel drops when
//! the harness dies, however it dies: a journal whose lock is free is a leftover.

mod process;
mod undo;

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::run_id::RunId;

pub use process::Pid;

/// The end of a journal's file name, after the run's id.
const ENDING: &str = ".journal";

/// One thing done to the machine, and enough to undo it. Undoing a step that was never done, or was undone
/// already, has no effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "camelCase")]
pub enum Step {
    /// A network namespace. Undone: every process in it is killed, the name removed.
    Netns {
        /// The name, as `ip netns` knows it.
        name: String,
    },
    /// A child process. It is written down just after its start, since it has no number before: start it in
    /// a host of the run, whose `Netns` step covers the moment between. Undone: killed.
    Process(Pid),
    /// A process that was sent SIGSTOP. Undone: SIGCONT.
    Stopped(Pid),
    /// A tracer (`strace`) that hurts another process. Undone: SIGTERM, which makes it detach.
    Tracer(Pid),
    /// A frozen file system. Undone: thawed, so that its processes can be killed.
    Frozen {
        /// Where it is mounted.
        mount: PathBuf,
    },
    /// A frozen freezer cgroup. Undone: thawed.
    FrozenCgroup {
        /// Its folder.
        path: PathBuf,
    },
    /// A mounted file system. Undone: unmounted.
    Mount {
        /// Where it is mounted.
        path: PathBuf,
    },
    /// A file that a loop device gives as a disk. Undone: the device is detached.
    Loop {
        /// The file.
        image: PathBuf,
    },
    /// A cgroup. Undone: its processes are killed, the folder removed.
    Cgroup {
        /// Its folder.
        path: PathBuf,
    },
    /// A file that only the run needs, such as a disk image. Undone: removed.
    File {
        /// The file.
        path: PathBuf,
    },
    /// A folder that only the run needs, such as a mount point. Undone: removed when it is empty.
    Folder {
        /// The folder.
        path: PathBuf,
    },
}

/// The number of a step in its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ticket(u64);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Line {
    Begin { ticket: Ticket, what: Step },
    End { ticket: Ticket },
}

/// The journal of a run. Clones write to the same file.
#[derive(Debug, Clone)]
pub struct Journal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    next: u64,
    open: Vec<(Ticket, Step)>,
}

/// What [`Journal::undo_leftovers`] did about one dead run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The journal.
    pub path: PathBuf,
    /// How many steps were still to be undone.
    pub steps: usize,
    /// What could not be undone. The journal is kept for another try when there is anything.
    pub problems: Vec<String>,
}

/// Where journals lie unless told otherwise: what they speak of does not outlive the machine's start, and
/// `/run` does not either. Unprivileged users get a folder of their own among the temporary ones.
pub fn default_folder() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        PathBuf::from("/run/orloj-jepsen")
    } else {
        std::env::temp_dir().join(format!("orloj-jepsen-{}", rustix::process::geteuid().as_raw()))
    }
}

impl Journal {
    /// Starts the journal of `run` in `folder`, which is made when missing.
    ///
    /// # Errors
    /// When a journal of that id exists (`AlreadyExists`: pick another id) or the file cannot be written.
    pub fn create(folder: &Path, run: &RunId) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(format!("{run}{ENDING}"));
        // Locked before it has its name: otherwise another harness could take it for a leftover.
        let unnamed = tempfile::NamedTempFile::new_in(folder)?;
        unnamed.as_file().lock()?;
        let file = unnamed.persist_noclobber(&path)?;
        File::open(folder)?.sync_all()?;
        let state = State { file, next: 1, open: Vec::new() };
        Ok(Self(Arc::new(Inner { path, state: Mutex::new(state) })))
    }

    /// Starts a journal under a fresh random id.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn fresh(folder: &Path) -> io::Result<(RunId, Self)> {
        loop {
            let run = RunId::random()?;
            match Self::create(folder, &run) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                outcome => return Ok((run, outcome?)),
            }
        }
    }

    /// The journal's file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Writes down that `step` is about to be done. It is on disk when this returns.
    ///
    /// # Errors
    /// When the file cannot be written: do not do the step.
    pub fn begin(&self, step: Step) -> Result<Ticket> {
        let mut state = self.state();
        let ticket = Ticket(state.next);
        state.append(&Line::Begin { ticket, what: step.clone() }).context("writing the journal")?;
        state.next += 1;
        state.open.push((ticket, step));
        Ok(ticket)
    }

    /// Writes down that the caller has undone the step itself.
    ///
    /// # Errors
    /// When the file cannot be written; undoing the step again later does no harm.
    pub fn end(&self, ticket: Ticket) -> Result<()> {
        let mut state = self.state();
        state.append(&Line::End { ticket }).context("writing the journal")?;
        state.open.retain(|(open, _)| *open != ticket);
        Ok(())
    }

    /// Undoes these steps (thaws, continues and kills first, then the rest from the last to the first) and
    /// gives what could not be undone. Steps that are undone already are passed over.
    pub fn undo(&self, tickets: &[Ticket]) -> Vec<String> {
        let open = self.state().open.clone();
        self.undo_steps(open.into_iter().filter(|(ticket, _)| tickets.contains(ticket)).collect())
    }

    /// Undoes every step that is not undone yet, and removes the journal when nothing is left.
    pub fn undo_all(&self) -> Vec<String> {
        let open = self.state().open.clone();
        let problems = self.undo_steps(open);
        if problems.is_empty() {
            // A journal that stays behind empty is a leftover without steps, which the next run removes.
            let _ = std::fs::remove_file(&self.0.path);
        }
        problems
    }

    fn undo_steps(&self, steps: Vec<(Ticket, Step)>) -> Vec<String> {
        let mut problems = Vec::new();
        for (ticket, step) in undo::ordered(steps) {
            match undo::undo(&step) {
                Ok(()) => {
                    if let Err(error) = self.end(ticket) {
                        problems.push(format!("{error:#}"));
                    }
                }
                Err(error) => problems.push(format!("{step:?}: {error:#}")),
            }
        }
        problems
    }

    /// Undoes the journals in `folder` whose harness is dead. Those of running harnesses are left alone.
    ///
    /// # Errors
    /// When the folder cannot be read; a missing one is empty.
    pub fn undo_leftovers(folder: &Path) -> Result<Vec<Leftover>> {
        let entries = match std::fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.with_context(|| format!("reading {}", folder.display()))?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.to_string_lossy().ends_with(ENDING) {
                found.extend(undo(&path)?);
            }
        }
        Ok(found)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is a single push, assignment or retain after the file was written.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Said aloud, since closing is not enough while another thread is just starting a process: between its
        // fork and its exec that has a copy of the descriptor, and the copy keeps the lock.
        let _ = self.state.get_mut().unwrap_or_else(PoisonError::into_inner).file.unlock();
    }
}

impl State {
    fn append(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()
    }
}

/// Undoes the journal at `path` when its harness is dead; `None` when that still runs or the file is gone.
///
/// # Errors
/// When the file cannot be read or says what this version does not know.
pub fn undo(path: &Path) -> Result<Option<Leftover>> {
    let mut file = match OpenOptions::new().append(true).read(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.with_context(|| format!("opening {}", path.display()))?,
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(None),
        outcome => outcome.with_context(|| format!("locking {}", path.display()))?,
    }
    // Whoever had the lock before may have undone and removed the journal while this call waited to open it.
    let named = std::fs::metadata(path).map(|named| named.ino());
    if named.ok() != Some(file.metadata()?.ino()) {
        return Ok(None);
    }
    file.rewind()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let open = open_steps(&text).with_context(|| format!("reading {}", path.display()))?;
    if !text.is_empty() && !text.ends_with('\n') {
        // The torn last line must not swallow the lines that follow now.
        file.write_all(b"\n")?;
    }
    let steps = open.len();
    let next = open.iter().map(|(ticket, _)| ticket.0 + 1).max().unwrap_or(1);
    let state = State { file, next, open };
    let journal = Journal(Arc::new(Inner { path: path.to_path_buf(), state: Mutex::new(state) }));
    Ok(Some(Leftover { path: path.to_path_buf(), steps, problems: journal.undo_all() }))
}

/// The steps of a journal's text that are not undone. A last line without an end was torn by the harness's
/// death before its step was done, and counts for nothing; so does such a line closed later by [`undo`].
fn open_steps(text: &str) -> Result<Vec<(Ticket, Step)>> {
    let mut open: Vec<(Ticket, Step)> = Vec::new();
    for line in text.split('\n').filter(|line| !line.is_empty()) {
        match serde_json::from_str(line) {
            Ok(Line::Begin { ticket, what }) => open.push((ticket, what)),
            Ok(Line::End { ticket }) => open.retain(|(begun, _)| *begun != ticket),
            Err(error) if error.is_eof() => {}
            Err(error) => return Err(error).with_context(|| format!("the line {line:?}")),
        }
    }
    Ok(open)
}

#[cfg(test)]
mod tests;
