//! The database of the tables, with what is held in memory in front of it.
//!
//! An apply does not write to the database: its rows are held here, for all reads to find, until they have become many
//! or somebody wants a [`View`](super::View). A task is granted, starts and ends within moments, so that most of its rows
//! change several times before they are written, and index entries that come and go meanwhile are never written at all.
//! A process that is killed loses what is held, with the position that goes with it; the log has it, and it is applied
//! again. The log is purged behind a snapshot alone, and a snapshot begins by writing what is held.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orloj_model::id::{Millis, Round};

use super::floors::Floors;
use super::recent::Recent;
use super::state::Position;
use super::writes::Writes;
use crate::engine::{Database, Durability};
use crate::error::Fault;
use crate::files::Retirable;

/// Rows that keep changing are written as well: when so many times as much has gone into them as is [worth a
/// write](crate::engine::Engine::worth_a_write), so that a start has not much to apply again.
const CHANGES: usize = 8;

/// What the tables say of themselves at one applied index, in front of any row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Index of the last entry whose changes they show; 0 before the first.
    pub applied: u64,
    /// The running digest of everything up to there.
    pub digest: u64,
    /// The cluster's time, as its row has it.
    pub now_ms: Millis,
    /// The scheduling round, as its row has it.
    pub round: Round,
    /// The revision of callers and keys, as its row has it.
    pub access_revision: u64,
}

impl From<&Position> for Stamp {
    fn from(position: &Position) -> Stamp {
        Stamp {
            applied: position.index(),
            digest: position.digest,
            now_ms: position.now_ms,
            round: position.round,
            access_revision: position.access_revision,
        }
    }
}

/// A database and its directory. The database closes before the directory goes.
pub(super) struct Home {
    pub(super) db: Arc<dyn Database>,
    memory: Mutex<Memory>,
    /// Bytes of held rows that are written.
    worth: usize,
    pub(super) dir: Retirable,
}

/// What is in front of the database.
struct Memory {
    held: Writes,
    recent: Recent,
    floors: Floors,
    /// Where the tables stand, with what is held.
    stamp: Stamp,
    /// Why the database took no write, once it has not. It is not asked again.
    failed: Option<Arc<str>>,
}

impl Home {
    pub(super) fn new(db: Arc<dyn Database>, dir: &Path, worth: usize) -> Home {
        let memory = Memory {
            held: Writes::default(),
            recent: Recent::new(),
            floors: Floors::default(),
            stamp: Stamp::default(),
            failed: None,
        };
        Home { db, memory: Mutex::new(memory), worth, dir: Retirable::new(dir.to_path_buf()) }
    }

    /// The directory.
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Nothing that holds this lock can panic half-way through a change.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A row as the next apply finds it, by full key.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        let memory = &mut *self.memory();
        if let Some(held) = memory.held.get(key) {
            return Ok(held.value.clone());
        }
        if memory.held.hides(key) {
            return Ok(None);
        }
        if let Some(value) = memory.recent.get(key) {
            return Ok(Some(value));
        }
        let stored = self.db.get(key).map_err(Fault::database("read", self.path()))?;
        if let Some(value) = &stored {
            memory.recent.keep(key.to_vec(), value.clone());
        }
        Ok(stored)
    }

    /// What `look` makes of the held rows, none of which is written meanwhile.
    pub(super) fn with_held<T>(&self, look: impl FnOnce(&Writes) -> T) -> T {
        look(&self.memory().held)
    }

    /// Where the queues begin, for an apply, which gives it back with what it has written.
    pub(super) fn take_floors(&self) -> Floors {
        std::mem::take(&mut self.memory().floors)
    }

    /// Holds what has been applied; `stamp` is where the tables stand with it. Where callers or their keys have changed, it is
    /// written at once: a process that is killed does not believe a disabled key when it comes back.
    ///
    /// # Errors
    /// IO, where something was to be written, now or before.
    pub(super) fn hold(&self, (applied, floors): (Writes, Floors), stamp: Stamp) -> Result<(), Fault> {
        let memory = &mut *self.memory();
        memory.check()?;
        let access = memory.stamp.access_revision != stamp.access_revision;
        memory.held.take(applied);
        (memory.floors, memory.stamp) = (floors, stamp);
        let (bytes, taken) = (memory.held.bytes(), memory.held.taken());
        match access || bytes >= self.worth || taken >= self.worth.saturating_mul(CHANGES) {
            true => self.write_out(memory),
            false => Ok(()),
        }
    }

    /// Where the tables stand from the beginning on.
    pub(super) fn begin_at(&self, stamp: Stamp) {
        self.memory().stamp = stamp;
    }

    /// Where the tables stand.
    pub(super) fn stamp(&self) -> Stamp {
        self.memory().stamp
    }

    /// What `look` makes of a database to which everything has been written; nothing is applied meanwhile.
    ///
    /// # Errors
    /// IO, now or before.
    pub(super) fn with_all_written<T>(&self, look: impl FnOnce(Stamp) -> T) -> Result<T, Fault> {
        let memory = &mut *self.memory();
        memory.check()?;
        self.write_out(memory)?;
        Ok(look(memory.stamp))
    }

    /// Writes what is held, in one batch.
    fn write_out(&self, memory: &mut Memory) -> Result<(), Fault> {
        if memory.held.is_empty() {
            return Ok(());
        }
        let batch = memory.held.batch();
        let written = self.db.write(&batch, Durability::Buffered);
        drop(batch);
        written.map_err(Fault::database("write", self.path())).inspect_err(|fault| {
            memory.failed = Some(fault.to_string().into());
        })?;
        if memory.held.has_cleared() {
            memory.recent = Recent::new();
        }
        for (key, written) in std::mem::take(&mut memory.held).into_rows() {
            memory.recent.written(key, written.value);
        }
        Ok(())
    }
}

impl Memory {
    /// Whether the database has taken every write so far.
    fn check(&self) -> Result<(), Fault> {
        match &self.failed {
            Some(reason) => Err(Fault::Unwritten(Arc::clone(reason))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "home_tests.rs"]
mod tests;
