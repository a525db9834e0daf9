//! RocksDB as the storage engine.

use std::path::Path;
use std::sync::Arc;

use rocksdb::checkpoint::Checkpoint;
use rocksdb::{DB, DBRawIterator, ReadOptions, SnapshotWithThreadMode, WriteOptions};
use self_cell::self_cell;

use super::{Change, Cursor, Database, Durability, Engine, EngineError, Purpose, Snapshot, WriteBatch};

mod options;

/// A file that is there once there is a database.
const MARKER: &str = "CURRENT";
/// The end of the names of files that are never changed once they are written.
const TABLE_SUFFIX: &str = ".sst";

/// In RocksDB's form of a batch: its number and the count of its changes.
const BATCH_HEAD: usize = 12;
/// Likewise, at most: what kind of change it is, and two lengths.
const CHANGE_HEAD: usize = 11;

/// Opens RocksDB's databases.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rocks;

impl Engine for Rocks {
    fn exists(&self, dir: &Path) -> Result<bool, EngineError> {
        dir.join(MARKER).try_exists().map_err(EngineError::new)
    }

    fn open(&self, dir: &Path, purpose: Purpose) -> Result<Arc<dyn Database>, EngineError> {
        let options = match purpose {
            Purpose::Log => options::log(),
            Purpose::State => options::state()?,
        };
        Ok(Arc::new(Open::new(dir, &options)?))
    }

    fn is_immutable(&self, file: &str) -> bool {
        file.ends_with(TABLE_SUFFIX)
    }
}

/// An open database.
struct Open(DB);

impl Open {
    fn new(dir: &Path, options: &rocksdb::Options) -> Result<Open, EngineError> {
        DB::open(options, dir).map(Open).map_err(EngineError::new)
    }
}

/// The database itself, for tests that look at its files.
///
/// # Panics
/// It is another engine's.
#[cfg(test)]
pub(crate) fn inner(database: &dyn Database) -> &DB {
    let open: &dyn std::any::Any = database;
    &open.downcast_ref::<Open>().expect("the test has opened RocksDB").0
}

impl Database for Open {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        self.0.get(key).map_err(EngineError::new)
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<(), EngineError> {
        let mut options = WriteOptions::default();
        options.set_sync(durability == Durability::Synced);
        self.0.write_opt(native(batch), &options).map_err(EngineError::new)
    }

    fn scan<'a>(&'a self, from: &[u8], to: &[u8]) -> Box<dyn Cursor + 'a> {
        walk(self.0.raw_iterator_opt(upto(to)), from)
    }

    fn snapshot(self: Arc<Self>) -> Box<dyn Snapshot> {
        Box::new(Pinned::new(self, |open| open.0.snapshot()))
    }

    fn checkpoint(&self, dir: &Path) -> Result<(), EngineError> {
        Checkpoint::new(&self.0)
            .and_then(|checkpoint| checkpoint.create_checkpoint(dir))
            .map_err(EngineError::new)
    }

    fn reclaim(&self, from: &[u8], to: &[u8]) -> Result<(), EngineError> {
        self.0.delete_file_in_range(from, to).map_err(EngineError::new)
    }
}

/// The batch in RocksDB's own form: the one copy of its bytes.
fn native(batch: &WriteBatch<'_>) -> rocksdb::WriteBatch {
    let mut native = rocksdb::WriteBatch::with_capacity_bytes(room_for(batch));
    for change in batch.changes() {
        match change {
            Change::Put { key, value } => native.put(key, value),
            Change::Delete { key } => native.delete(key),
            Change::DeleteRange { from, to } => native.delete_range(from.as_ref(), to.as_ref()),
        }
    }
    native
}

/// Bytes that RocksDB's form of a batch takes at most.
fn room_for(batch: &WriteBatch<'_>) -> usize {
    let bytes = |change: &Change<'_>| match change {
        Change::Put { key, value } => key.len() + value.len(),
        Change::Delete { key } => key.len(),
        Change::DeleteRange { from, to } => from.len() + to.len(),
    };
    BATCH_HEAD + batch.changes().iter().map(|change| CHANGE_HEAD + bytes(change)).sum::<usize>()
}

/// The bound keeps an iterator off the tombstones behind the range.
fn upto(end: &[u8]) -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_iterate_upper_bound(end);
    options
}

fn walk<'a>(mut iterator: DBRawIterator<'a>, from: &[u8]) -> Box<dyn Cursor + 'a> {
    iterator.seek(from);
    Box::new(Walk(iterator))
}

struct Walk<'a>(DBRawIterator<'a>);

impl Cursor for Walk<'_> {
    fn item(&self) -> Option<(&[u8], &[u8])> {
        self.0.item()
    }

    fn advance(&mut self) {
        self.0.next();
    }

    fn status(&self) -> Result<(), EngineError> {
        self.0.status().map_err(EngineError::new)
    }
}

type DbSnapshot<'a> = SnapshotWithThreadMode<'a, DB>;

self_cell!(
    /// A snapshot together with the database that it belongs to.
    struct Pinned {
        owner: Arc<Open>,
        #[covariant]
        dependent: DbSnapshot,
    }
);

impl Snapshot for Pinned {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        self.borrow_dependent().get(key).map_err(EngineError::new)
    }

    fn scan<'a>(&'a self, from: &[u8], to: &[u8]) -> Box<dyn Cursor + 'a> {
        walk(self.borrow_dependent().raw_iterator_opt(upto(to)), from)
    }
}

#[cfg(test)]
#[path = "rocks/rocks_tests.rs"]
mod tests;
