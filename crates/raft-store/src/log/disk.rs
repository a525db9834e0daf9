//! The log's database: how writes become one batch, how entries are read back, and what is checked
//! when the log is opened.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orloj_model::mutant::{Mutant, is_on};

use super::key::LogKey;
use super::memory::Memory;
use super::queue::Item;
use crate::codec::{CodecError, Schema, decode, encode};
use crate::engine::{Cursor, Database, Durability, Engine, Purpose, WriteBatch};
use crate::error::Fault;
use crate::stored::{StoredEntry, StoredLogId, StoredVote};
use crate::types::{Entry, LogId};

/// The database with its place, for error messages.
#[derive(Clone)]
pub(super) struct Disk {
    db: Arc<dyn Database>,
    path: PathBuf,
}

/// Encodes an entry as its row.
pub(super) fn encode_entry(entry: &Entry) -> Result<Vec<u8>, Fault> {
    encode(Schema::LogEntry, &StoredEntry::from(entry))
        .map_err(|error| Fault::Misuse(format!("entry {}: {error}", entry.log_id.index)))
}

/// Puts writes into one batch, in their order.
pub(super) fn batch(items: &[Item]) -> Result<WriteBatch<'_>, Fault> {
    let mut batch = WriteBatch::default();
    let unencodable = |error: CodecError| Fault::Misuse(error.to_string());
    for item in items {
        match item {
            Item::Append { start, rows, .. } => {
                if let Some(start) = start {
                    let row = encode(Schema::LogStart, start).map_err(unencodable)?;
                    batch.put(LogKey::Start.bytes(), row);
                }
                for (index, row) in rows {
                    batch.put(LogKey::Entry(*index).bytes(), row.as_slice());
                }
            }
            Item::Vote { .. } if is_on(Mutant::VoteForgotten) => {}
            Item::Vote { vote, .. } => {
                let row = encode(Schema::Vote, &StoredVote::from(vote)).map_err(unencodable)?;
                batch.put(LogKey::Vote.bytes(), row);
            }
            Item::Truncate { drop, .. } => delete(&mut batch, drop),
            Item::Purge { drop, upto } => {
                let row = encode(Schema::LogId, &StoredLogId::from(upto)).map_err(unencodable)?;
                batch.put(LogKey::Purged.bytes(), row);
                delete(&mut batch, drop);
            }
        }
    }
    Ok(batch)
}

fn delete(batch: &mut WriteBatch<'_>, drop: &Range<u64>) {
    if !drop.is_empty() {
        batch.delete_range(LogKey::Entry(drop.start).bytes(), LogKey::Entry(drop.end).bytes());
    }
}

impl Disk {
    /// Opens the database in a directory, or makes it.
    pub(super) fn open(path: &Path, engine: &dyn Engine) -> Result<Disk, Fault> {
        let db = engine.open(path, Purpose::Log).map_err(Fault::database("open", path))?;
        Ok(Disk { db, path: path.to_path_buf() })
    }

    /// Writes the batch and returns once it is synced.
    pub(super) fn commit(&self, batch: &WriteBatch<'_>) -> Result<(), Fault> {
        let durability = if is_on(Mutant::LogNotSynced) { Durability::Buffered } else { Durability::Synced };
        self.db.write(batch, durability).map_err(Fault::database("write to", &self.path))
    }

    /// Syncs what the database was found with. A write whose sync had failed may be there, and be no more than
    /// what the kernel still holds of it: nobody may be answered by that.
    pub(super) fn confirm(&self) -> Result<(), Fault> {
        let mut batch = WriteBatch::default();
        // A sync covers every write before it, so that one row is enough; an empty log has none.
        for key in [LogKey::Vote, LogKey::Purged, LogKey::Start] {
            if let Some(row) = self.db.get(&key.encode()).map_err(Fault::database("read", &self.path))? {
                batch.put(key.bytes(), row);
            }
        }
        if batch.changes().is_empty() { Ok(()) } else { self.commit(&batch) }
    }

    /// Gives whole files back whose entries are all up to this index, which a synced batch has purged.
    pub(super) fn reclaim(&self, upto: u64) -> Result<(), Fault> {
        // From the very first index, though the tombstone of a purge starts at the purge before: a file
        // that reached across that one is given back as well, and a file deletion leaves no tombstone.
        let (from, to) = (LogKey::Entry(0).encode(), LogKey::Entry(upto).encode());
        self.db.reclaim(&from, &to).map_err(Fault::database("purge", &self.path))
    }

    fn get<T: serde::de::DeserializeOwned>(&self, key: LogKey, schema: Schema) -> Result<Option<T>, Fault> {
        let bytes = self.db.get(&key.encode()).map_err(Fault::database("read", &self.path))?;
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
    pub(super) fn database(&self) -> &dyn Database {
        &*self.db
    }

    /// A consistent view of a range of entries, as of now.
    pub(super) fn scan(&self, range: Range<u64>) -> Scan<'_> {
        let end =
            if range.end == u64::MAX { LogKey::entries_end() } else { LogKey::Entry(range.end).encode() };
        let cursor = self.db.scan(&LogKey::Entry(range.start).encode(), &end);
        Scan { cursor, disk: self }
    }
}

/// Entries of the disk, in order.
pub(super) struct Scan<'a> {
    cursor: Box<dyn Cursor + 'a>,
    disk: &'a Disk,
}

impl Scan<'_> {
    /// The next entry with its encoded size.
    pub(super) fn next(&mut self) -> Result<Option<(Entry, usize)>, Fault> {
        let Some((key, value)) = self.cursor.item() else {
            // The end of the range, or a fault: only the status tells.
            self.cursor.status().map_err(Fault::database("read", &self.disk.path))?;
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
        self.cursor.advance();
        Ok(Some((entry, bytes)))
    }
}
