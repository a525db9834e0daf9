//! One database of a simulated disk, as the store's storage engine sees it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orloj_jepsen_agents::rng::Rng;
use orloj_raft_store::engine::{Change, Cursor, Database, Durability, EngineError, Snapshot, WriteBatch};

use super::rows::{Key, Rows};
use super::{CHECKPOINT, Disk};

/// Share of unsynced writes after which the kernel writes some of what waits to the disk by itself.
const WRITE_BACK: f64 = 0.02;
/// Of the losses of power: everything is gone that was not synced.
const ALL_LOST: f64 = 0.5;

/// A database, open or not.
pub(super) struct Table {
    rows: Mutex<Rows>,
    open: AtomicBool,
}

impl Table {
    pub(super) fn new(rows: Vec<(Vec<u8>, Vec<u8>)>) -> Table {
        Table { rows: Mutex::new(Rows::of(rows)), open: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens it, unless it is open.
    pub(super) fn take(&self) -> bool {
        !self.open.swap(true, Ordering::AcqRel)
    }

    /// What a crash leaves; with random numbers it is a loss of power.
    pub(super) fn crash(&self, power: Option<&mut Rng>) {
        let mut rows = self.lock();
        let (durable, last) = (rows.durable(), rows.last());
        match power {
            None => rows.let_go(),
            Some(rng) => {
                let kept = if rng.chance(ALL_LOST) { durable } else { rng.between(durable, last) };
                rows.cut(kept);
            }
        }
        self.open.store(false, Ordering::Release);
    }
}

/// An open database.
pub(super) struct Open {
    pub(super) table: Arc<Table>,
    pub(super) disk: Disk,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.table.open.store(false, Ordering::Release);
    }
}

impl Database for Open {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        let rows = self.table.lock();
        Ok(rows.get(key, rows.last()).map(|value| value.to_vec()))
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<(), EngineError> {
        let failed = self.disk.fails();
        if failed != Some(false) {
            self.apply(batch);
        }
        if failed.is_some() {
            return Err(EngineError::new("Input/output error"));
        }
        let mut rows = self.table.lock();
        let (durable, last) = (rows.durable(), rows.last());
        match durability {
            Durability::Synced => rows.sync(last),
            Durability::Buffered if self.disk.chance(WRITE_BACK) => {
                rows.sync(self.disk.between(durable, last));
            }
            Durability::Buffered => {}
        }
        Ok(())
    }

    fn scan<'a>(&'a self, from: &[u8], to: &[u8]) -> Box<dyn Cursor + 'a> {
        // What is written meanwhile must not show, and must not be forgotten either.
        let pin = Pin::new(&self.table);
        Box::new(Walk::new(Arc::clone(&self.table), pin, from, to))
    }

    fn snapshot(self: Arc<Self>) -> Box<dyn Snapshot> {
        let pin = Pin::new(&self.table);
        Box::new(Pinned { pin: Arc::new(pin), open: self })
    }

    fn checkpoint(&self, dir: &Path) -> Result<(), EngineError> {
        std::fs::create_dir(dir).map_err(EngineError::new)?;
        std::fs::write(dir.join(CHECKPOINT), print(&self.table.lock())).map_err(EngineError::new)
    }

    fn reclaim(&self, _: &[u8], _: &[u8]) -> Result<(), EngineError> {
        Ok(())
    }
}

impl Open {
    fn apply(&self, batch: &WriteBatch<'_>) {
        let mut rows = self.table.lock();
        rows.begin();
        for change in batch.changes() {
            match change {
                Change::Put { key, value } => rows.set(key, Some(value)),
                Change::Delete { key } => rows.set(key, None),
                Change::DeleteRange { from, to } => rows.remove_range(from, to),
            }
        }
    }
}

/// Holds a state of a table.
struct Pin {
    table: Arc<Table>,
    at: u64,
}

impl Pin {
    fn new(table: &Arc<Table>) -> Pin {
        let at = table.lock().pin();
        Pin { table: Arc::clone(table), at }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.table.lock().unpin(self.at);
    }
}

/// A snapshot; it keeps the database open.
struct Pinned {
    pin: Arc<Pin>,
    open: Arc<Open>,
}

impl Snapshot for Pinned {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(self.open.table.lock().get(key, self.pin.at).map(|value| value.to_vec()))
    }

    fn scan<'a>(&'a self, from: &[u8], to: &[u8]) -> Box<dyn Cursor + 'a> {
        Box::new(Walk::new(Arc::clone(&self.open.table), Arc::clone(&self.pin), from, to))
    }
}

/// A walk over rows as of a batch, which `P` holds.
struct Walk<P> {
    table: Arc<Table>,
    pin: P,
    to: Vec<u8>,
    item: Option<(Key, Arc<[u8]>)>,
}

impl<P: std::borrow::Borrow<Pin>> Walk<P> {
    fn new(table: Arc<Table>, pin: P, from: &[u8], to: &[u8]) -> Walk<P> {
        let item = table.lock().next(from, false, to, pin.borrow().at);
        Walk { table, pin, to: to.to_vec(), item }
    }
}

impl<P: std::borrow::Borrow<Pin>> Cursor for Walk<P> {
    fn item(&self) -> Option<(&[u8], &[u8])> {
        self.item.as_ref().map(|(key, value)| (&**key, &**value))
    }

    fn advance(&mut self) {
        let Some((key, _)) = self.item.take() else { return };
        self.item = self.table.lock().next(&key, true, &self.to, self.pin.borrow().at);
    }

    fn status(&self) -> Result<(), EngineError> {
        Ok(())
    }
}

/// Rows as the file of a checkpoint has them: for each the two lengths and the two contents.
fn print(rows: &Rows) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, value) in rows.all() {
        for part in [key, &value] {
            bytes.extend((part.len() as u64).to_le_bytes());
        }
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(&value);
    }
    bytes
}

/// Reads the file of a checkpoint; `None` when it is damaged.
pub(super) fn parse(mut bytes: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut rows = Vec::new();
    while !bytes.is_empty() {
        let (key, rest) = bytes.split_first_chunk::<8>()?;
        let (value, rest) = rest.split_first_chunk::<8>()?;
        let (key, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*key)).ok()?)?;
        let (value, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*value)).ok()?)?;
        rows.push((key.to_vec(), value.to_vec()));
        bytes = rest;
    }
    Some(rows)
}
