//! The model's tables in a database.
//!
//! All tables share one column family, told apart by the beginning of their keys: `[group u32][table u8]`,
//! then the model's own key. One column family is one memtable and one write-ahead log, so that a batch is
//! atomic, a checkpoint needs one flush, and no table holds back the log of another. The group is 0 until
//! several Raft groups share a node. Table 0 is the store's own bookkeeping (see [`state`]).

mod floors;
mod home;
mod overlay;
mod recent;
mod state;
mod writes;

use std::path::Path;
use std::sync::Arc;

use orloj_model::tables::{RawRow, Read, TableId};
use serde::de::DeserializeOwned;

use crate::codec;
use crate::engine::{PREFIX, Snapshot};
use crate::error::Fault;

use home::Home;
pub use home::Stamp;
pub use overlay::Overlay;
pub use state::{Changed, Position, StateDb};

const GROUP: u32 = 0;
/// Keys of up to so many bytes are put together on the stack where they are only looked at; those of tasks are.
const SHORT: usize = 64;

/// What stands in front of the model's key.
fn prefix(table: u8) -> [u8; PREFIX] {
    let [a, b, c, d] = GROUP.to_be_bytes();
    [a, b, c, d, table]
}

/// The key of a row in the database.
fn full_key(table: u8, key: &[u8]) -> Vec<u8> {
    let mut full = Vec::with_capacity(PREFIX + key.len());
    full.extend_from_slice(&prefix(table));
    full.extend_from_slice(key);
    full
}

/// Looks something up by the key of a row.
fn by_key<T>(table: u8, key: &[u8], look: impl FnOnce(&[u8]) -> T) -> T {
    let mut short = [0; SHORT];
    match short.get_mut(..PREFIX + key.len()) {
        Some(full) => {
            full[..PREFIX].copy_from_slice(&prefix(table));
            full[PREFIX..].copy_from_slice(key);
            look(full)
        }
        None => look(&full_key(table, key)),
    }
}

/// The tables at one applied index. Cheap to clone.
#[derive(Clone)]
pub struct View {
    cut: Arc<Cut>,
}

struct Cut {
    /// What the database holds; or why what was applied could not be written to it.
    pinned: Result<Box<dyn Snapshot>, Arc<str>>,
    /// Keeps the directory; dropped after the snapshot, which keeps the database.
    home: Arc<Home>,
    stamp: Stamp,
}

impl View {
    /// What the database holds now, which is what `stamp` says of it.
    fn of(home: &Arc<Home>, stamp: Stamp) -> View {
        let pinned = Ok(Arc::clone(&home.db).snapshot());
        View { cut: Arc::new(Cut { pinned, home: Arc::clone(home), stamp }) }
    }

    /// Tables that could not be written: nothing can be read of them, not even that it is not there.
    fn broken(home: &Arc<Home>, stamp: Stamp, fault: &Fault) -> View {
        let pinned = Err(match fault {
            Fault::Unwritten(reason) => Arc::clone(reason),
            other => other.to_string().into(),
        });
        View { cut: Arc::new(Cut { pinned, home: Arc::clone(home), stamp }) }
    }

    fn pinned(&self) -> Result<&dyn Snapshot, Fault> {
        self.cut.pinned.as_deref().map_err(|reason| Fault::Unwritten(Arc::clone(reason)))
    }

    /// What the tables say of themselves.
    pub fn stamp(&self) -> Stamp {
        self.cut.stamp
    }

    /// Index of the last entry whose changes it shows; 0 before the first.
    pub fn applied(&self) -> u64 {
        self.cut.stamp.applied
    }

    /// The running digest of everything up to there.
    pub fn digest(&self) -> u64 {
        self.cut.stamp.digest
    }

    fn path(&self) -> &Path {
        self.cut.home.path()
    }
}

impl Read for View {
    type Error = Fault;

    fn get_raw(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        let pinned = self.pinned()?;
        by_key(table as u8, key, |key| pinned.get(key)).map_err(Fault::database("read", self.path()))
    }

    fn range_raw(&self, table: TableId, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<RawRow>, Fault> {
        let mut rows = Vec::new();
        let (from, to) = (full_key(table as u8, from), full_key(table as u8, to));
        if from >= to || limit == 0 {
            return Ok(rows);
        }
        let mut stored = self.pinned()?.scan(&from, &to);
        while let Some((key, value)) = stored.item() {
            rows.push((key[PREFIX..].to_vec(), value.to_vec()));
            if rows.len() == limit {
                break;
            }
            stored.advance();
        }
        stored.status().map_err(Fault::database("read", self.path()))?;
        Ok(rows)
    }

    fn decode<V: DeserializeOwned>(&self, bytes: &[u8]) -> Result<V, Fault> {
        decode_row(bytes)
    }
}

fn decode_row<V: DeserializeOwned>(bytes: &[u8]) -> Result<V, Fault> {
    codec::decode_row(bytes).map_err(Fault::codec("a row of the tables"))
}

#[cfg(test)]
#[path = "tables/tables_tests.rs"]
mod tests;
