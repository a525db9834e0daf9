//! The log's database: how writes become one RocksDB batch, how entries are read back, and what is checked
//! when the log is opened.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocksdb::{DB, DBRawIterator, ReadOptions, WriteBatch, WriteOptions};

use super::memory::Memory;
use super::queue::Item;
use crate::codec::{CodecError, Schema, decode, encode};
use crate::db::LogKey;
use crate::error::Fault;
use crate::stored::{StoredEntry, StoredLogId, StoredVote};
use crate::types::{Entry, LogId};

/// The database with its place, for error messages.
#[derive(Clone)]
pub(super) struct Disk {
    db: Arc<DB>,
    path: PathBuf,
}

/// Where the writer thread puts a batch; a seam for tests, which watch the syncs or make them fail.
pub(super) trait Sink: Send {
    /// Writes the batch and returns once it is synced.
    fn commit(&mut self, batch: WriteBatch) -> Result<(), Fault>;

    /// Gives whole files back whose entries are all up to this index, which a synced batch has purged.
    fn reclaim(&mut self, upto: u64) -> Result<(), Fault>;
}

impl Sink for Disk {
    fn commit(&mut self, batch: WriteBatch) -> Result<(), Fault> {
        let mut options = WriteOptions::default();
        options.set_sync(true);
        self.db.write_opt(batch, &options).map_err(Fault::database("write to", &self.path))
    }

    fn reclaim(&mut self, upto: u64) -> Result<(), Fault> {
        // From the very first index, though the tombstone of a purge starts at the purge before: a file
        // that reached across that one is given back as well, and a file deletion leaves no tombstone.
        let (from, to) = (LogKey::Entry(0).encode(), LogKey::Entry(upto).encode());
        self.db.delete_file_in_range(from, to).map_err(Fault::database("purge", &self.path))
    }
}

/// Encodes an entry as its row.
pub(super) fn encode_entry(entry: &Entry) -> Result<Vec<u8>, Fault> {
    encode(Schema::LogEntry, &StoredEntry::from(entry))
        .map_err(|error| Fault::Misuse(format!("entry {}: {error}", entry.log_id.index)))
}

/// Puts writes into one batch, in their order.
pub(super) fn batch(items: &[Item]) -> Result<WriteBatch, Fault> {
    let mut batch = WriteBatch::default();
    let unencodable = |error: CodecError| Fault::Misuse(error.to_string());
    for item in items {
        match item {
            Item::Append { start, rows, .. } => {
                if let Some(start) = start {
                    let row = encode(Schema::LogStart, start).map_err(unencodable)?;
                    batch.put(LogKey::Start.encode(), row);
                }
                for (index, row) in rows {
                    batch.put(LogKey::Entry(*index).encode(), row);
                }
            }
            Item::Vote { vote, .. } => {
                let row = encode(Schema::Vote, &StoredVote::from(vote)).map_err(unencodable)?;
                batch.put(LogKey::Vote.encode(), row);
            }
            Item::Truncate { drop, .. } => delete(&mut batch, drop),
            Item::Purge { drop, upto } => {
                let row = encode(Schema::LogId, &StoredLogId::from(upto)).map_err(unencodable)?;
                batch.put(LogKey::Purged.encode(), row);
                delete(&mut batch, drop);
            }
        }
    }
    Ok(batch)
}

fn delete(batch: &mut WriteBatch, drop: &Range<u64>) {
    if !drop.is_empty() {
        batch.delete_range(LogKey::Entry(drop.start).encode(), LogKey::Entry(drop.end).encode());
    }
}

impl Disk {
    pub(super) fn new(db: DB, path: &Path) -> Disk {
        Disk { db: Arc::new(db), path: path.to_path_buf() }
    }

    fn get<T: serde::de::DeserializeOwned>(&self, key: LogKey, schema: Schema) -> Result<Option<T>, Fault> {
        let bytes = self.db.get(key.encode()).map_err(Fault::database("read", &self.path))?;
        bytes
            .map(|bytes| decode(schema, &bytes).map_err(Fault::codec(format!("log record {key:?}"))))
            .transpose()
    }

    /// The vote, if one was saved.
    pub(super) fn vote(&self) -> Result<Option<StoredVote>, Fault> {
        self.get(LogKey::Vote, Schema::Vote)
    }

    /// The purge point, if there is one.
    pub(super) fn purged(&self) -> Result<Option<LogId>, Fault> {
        Ok(self.get::<StoredLogId>(LogKey::Purged, Schema::LogId)?.map(Into::into))
    }

    /// Where the log began, if not at 0.
    fn start(&self) -> Result<u64, Fault> {
        Ok(self.get(LogKey::Start, Schema::LogStart)?.unwrap_or(0))
    }

    /// Reads the whole log into `memory`, oldest first (which keeps the newest), checking every entry. A node
    /// learns of damage when it starts, not when the entry is needed.
    pub(super) fn load(&self, memory: &mut Memory) -> Result<(), Fault> {
        let mut scan = self.scan(memory.first_index()..u64::MAX);
        let mut last: Option<LogId> = memory.state().last_log_id;
        let start = self.start()?;
        while let Some((entry, bytes)) = scan.next()? {
            if entry.log_id.index == start {
                memory.begin_at(start);
            }
            let expected = memory.next_index();
            if entry.log_id.index != expected {
                let found = entry.log_id.index;
                return Err(Fault::Damaged(format!("log entry {expected} is missing before entry {found}")));
            }
            if last.is_some_and(|last| entry.log_id.leader_id < last.leader_id) {
                return Err(Fault::Damaged(format!(
                    "log entry {} is of an older leader than the one before it",
                    entry.log_id
                )));
            }
            last = Some(entry.log_id);
            memory.restore(entry, bytes);
        }
        Ok(())
    }

    /// The database itself, for tests.
    #[cfg(test)]
    pub(super) fn database(&self) -> &DB {
        &self.db
    }

    /// A consistent view of a range of entries, as of now.
    pub(super) fn scan(&self, range: Range<u64>) -> Scan<'_> {
        let mut options = ReadOptions::default();
        // Bounds keep the iterator off the tombstones of what was purged.
        options.set_iterate_lower_bound(LogKey::Entry(range.start).encode());
        let end =
            if range.end == u64::MAX { LogKey::entries_end() } else { LogKey::Entry(range.end).encode() };
        options.set_iterate_upper_bound(end);
        let mut iterator = self.db.raw_iterator_opt(options);
        iterator.seek_to_first();
        Scan { iterator, disk: self }
    }
}

/// Entries of the disk, in order.
pub(super) struct Scan<'a> {
    iterator: DBRawIterator<'a>,
    disk: &'a Disk,
}

impl Scan<'_> {
    /// The next entry with its encoded size.
    pub(super) fn next(&mut self) -> Result<Option<(Entry, usize)>, Fault> {
        let Some((key, value)) = self.iterator.item() else {
            // The end of the range, or a fault: only the status tells.
            self.iterator.status().map_err(Fault::database("read", &self.disk.path))?;
            return Ok(None);
        };
        let index = LogKey::entry_index(key)
            .ok_or_else(|| Fault::Damaged(format!("key {key:02x?} lies among the log's entries")))?;
        let what = || format!("log entry {index}");
        let stored: StoredEntry = decode(Schema::LogEntry, value).map_err(Fault::codec(what()))?;
        if stored.log_id.index != index {
            let found = stored.log_id.index;
            return Err(Fault::Damaged(format!("entry {found} lies at the place of log entry {index}")));
        }
        let bytes = value.len();
        let entry = stored.into_entry().map_err(|error| Fault::Damaged(format!("{}: {error}", what())))?;
        self.iterator.next();
        Ok(Some((entry, bytes)))
    }
}
