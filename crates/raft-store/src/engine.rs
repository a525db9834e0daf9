//! The storage engine, as the store needs it: ordered keys on a disk, written in atomic batches.
//!
//! The product has one, [`rocks`]; it is the only place that names the vendor. A simulation brings another one
//! that loses at a crash what was not synced.

mod batch;
pub mod rocks;

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub use batch::{Change, WriteBatch};

/// Bytes in front of each key of a [`Purpose::State`] database, which name the group and the table. What the engine does may
/// go by them, as rows of one table come and go together.
pub(crate) const PREFIX: usize = 5;

/// What an engine says of a fault: of the disk, or damage that its checksums found. The node stops at the
/// first one.
#[derive(Debug)]
pub struct EngineError(Box<dyn std::error::Error + Send + Sync>);

impl EngineError {
    /// Wraps the engine's own error, or its words.
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> EngineError {
        EngineError(error.into())
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for EngineError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// What a database is for, which decides how it is tuned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The Raft log and the vote: appends of growing keys, removal from the front, every write synced.
    Log,
    /// The tables: point reads and short ranges over small rows, no write synced.
    State,
}

/// What a write waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The batch, and every batch before it, survives a loss of power once the write has returned.
    Synced,
    /// The batch survives the end of the process. A loss of power may take it, and then every batch after it.
    Buffered,
}

/// Opens databases.
pub trait Engine: Send + Sync + 'static {
    /// Whether there is a database in `dir`. A directory that is missing, or that only a refused open made,
    /// has none.
    ///
    /// # Errors
    /// It cannot be told.
    fn exists(&self, dir: &Path) -> Result<bool, EngineError>;

    /// Opens the database in `dir`. Where there is none one is made, with its directory; the parent is there.
    /// A directory that holds the files of a [checkpoint](Database::checkpoint) is a database.
    ///
    /// # Errors
    /// The disk failed, the database is open already, or something is damaged. Damage is never taken for
    /// absence.
    fn open(&self, dir: &Path, purpose: Purpose) -> Result<Arc<dyn Database>, EngineError>;

    /// Whether nobody ever writes to a checkpoint's file of this name again, also when a database is opened
    /// on it, so that it may be linked instead of copied.
    fn is_immutable(&self, file: &str) -> bool;

    /// So many bytes of rows of the state database are worth a write of their own. Less is held in memory, until
    /// somebody wants to read it.
    fn worth_a_write(&self) -> usize {
        3 << 19
    }
}

/// An open database. It closes when the last handle and the last [`Snapshot`] are gone.
pub trait Database: Any + Send + Sync {
    /// The value under a key.
    ///
    /// # Errors
    /// IO or damage.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError>;

    /// Writes a batch: all of it or nothing, and in the order of the calls.
    ///
    /// # Errors
    /// IO. Whether the batch will be found after a restart is open then, and nothing may be written any more.
    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<(), EngineError>;

    /// Walks the keys of `from..to` as they are now; what is written meanwhile does not show.
    fn scan<'a>(&'a self, from: &[u8], to: &[u8]) -> Box<dyn Cursor + 'a>;

    /// What the database holds now, for as long as the snapshot is held. Cheap: a busy leader takes hundreds a second.
    fn snapshot(self: Arc<Self>) -> Box<dyn Snapshot>;

    /// Writes what the database holds now as files into `dir`, which is made and whose parent is there.
    /// Nobody writes to the database meanwhile. The files are not synced, and there are no directories among
    /// them.
    ///
    /// # Errors
    /// IO.
    fn checkpoint(&self, dir: &Path) -> Result<(), EngineError>;

    /// Gives back the space of whole files whose keys all lie in `from..=to`; a synced batch has removed
    /// every one of these keys before. An engine without such files does nothing.
    ///
    /// # Errors
    /// IO.
    fn reclaim(&self, from: &[u8], to: &[u8]) -> Result<(), EngineError>;
}

/// A database as it was at one moment. It keeps the database open.
pub trait Snapshot: Send + Sync {
    /// The value under a key.
    ///
    /// # Errors
    /// IO or damage.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError>;

    /// Walks the keys of `from..to`.
    fn scan<'a>(&'a self, from: &[u8], to: &[u8]) -> Box<dyn Cursor + 'a>;
}

/// A walk over keys in ascending order; it stands at the first one when it begins.
pub trait Cursor {
    /// The key and value where it stands; `None` behind the last one, and after a fault.
    fn item(&self) -> Option<(&[u8], &[u8])>;

    /// Goes to the next key. Only called while there is an item.
    fn advance(&mut self);

    /// Whether a fault ended the walk; asked when there is no item any more.
    ///
    /// # Errors
    /// IO or damage.
    fn status(&self) -> Result<(), EngineError>;
}
