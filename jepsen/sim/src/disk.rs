//! The simulated disk of a replica: databases that survive a crash as far as they had been synced.
//!
//! A database lives in memory, apart from the host, and its directory holds a file that names it. A crash of the
//! process keeps every write; a loss of power keeps what was synced and, of what came after, a beginning that the
//! seed chooses. How long the disk takes, how much space it has and whether it fails is set from outside.

mod rows;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orloj_jepsen_agents::rng::Rng;
use orloj_raft_store::disk::{Probe, Space};
use orloj_raft_store::engine::{Database, Engine, EngineError, Purpose};

use table::{Open, Table};

/// The file that names the database of its directory.
const MARKER: &str = "DATABASE";
/// The file of a checkpoint.
const CHECKPOINT: &str = "rows.table";

/// Bytes of applied rows that a replica writes to its state database by themselves: each entry, now and then, or next to
/// never.
const WORTH_A_WRITE: [usize; 4] = [0, 4 << 10, 64 << 10, 1 << 20];
/// What a disk takes for a sync, in ms, shortest and longest.
const SYNC_MS: (u64, u64) = (0, 3);
/// A large disk with plenty of room, in bytes.
const ROOM: Space = Space { free: 60 << 30, total: 100 << 30 };

/// What a disk does to what is asked of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Temper {
    /// A sync takes so long, in ms, shortest and longest.
    pub sync_ms: (u64, u64),
    /// Every write fails.
    pub fails: bool,
    /// The space that it says it has.
    pub space: Space,
}

impl Default for Temper {
    fn default() -> Self {
        Temper { sync_ms: SYNC_MS, fails: false, space: ROOM }
    }
}

struct Core {
    rng: Rng,
    tables: BTreeMap<u64, Arc<Table>>,
    temper: Temper,
    next: u64,
    worth_a_write: usize,
}

/// The disk. Clones stand for the same.
#[derive(Clone)]
pub struct Disk {
    core: Arc<Mutex<Core>>,
}

impl Disk {
    /// An empty disk.
    pub fn new(rng: Rng) -> Disk {
        let worth_a_write = rng.split("worth").pick(&WORTH_A_WRITE).copied().unwrap_or_default();
        let core = Core { rng, tables: BTreeMap::new(), temper: Temper::default(), next: 1, worth_a_write };
        Disk { core: Arc::new(Mutex::new(core)) }
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what the disk does.
    pub fn set(&self, temper: Temper) {
        self.lock().temper = temper;
    }

    /// How long the next sync takes, before or after the bytes are safe: the seed says when.
    pub fn sync_time(&self) -> (Duration, Duration) {
        let mut core = self.lock();
        let (low, high) = core.temper.sync_ms;
        let all = core.rng.between(low, high);
        let before = core.rng.between(0, all);
        (Duration::from_millis(before), Duration::from_millis(all - before))
    }

    /// The space that the disk says it has.
    pub fn probe(&self) -> Probe {
        let disk = self.clone();
        Arc::new(move |_| Ok(disk.lock().temper.space))
    }

    /// What is there after the process has ended; after a loss of `power` whatever was not synced may be gone.
    /// Everybody who had a database open is gone.
    pub fn crash(&self, power: bool) {
        let mut core = self.lock();
        let tables: Vec<Arc<Table>> = core.tables.values().cloned().collect();
        for table in tables {
            table.crash(power.then_some(&mut core.rng));
        }
    }

    /// Whether writes fail, and a choice: what was in a write that failed may still be found later.
    fn fails(&self) -> Option<bool> {
        let mut core = self.lock();
        core.temper.fails.then(|| core.rng.chance(0.5))
    }

    fn chance(&self, probability: f64) -> bool {
        self.lock().rng.chance(probability)
    }

    fn between(&self, low: u64, high: u64) -> u64 {
        self.lock().rng.between(low, high)
    }

    fn table(&self, number: u64) -> Result<Arc<Table>, EngineError> {
        let table = self.lock().tables.get(&number).cloned();
        table.ok_or_else(|| EngineError::new(format!("there is no database {number}")))
    }

    fn create(&self, dir: &Path) -> Result<Arc<Table>, EngineError> {
        let checkpoint = dir.join(CHECKPOINT);
        let rows = match fs::read(&checkpoint) {
            Ok(bytes) => table::parse(&bytes)
                .ok_or_else(|| EngineError::new(format!("{} is damaged", checkpoint.display())))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(EngineError::new(error)),
        };
        let mut core = self.lock();
        let number = core.next;
        core.next += 1;
        let table = Arc::new(Table::new(rows));
        core.tables.insert(number, Arc::clone(&table));
        drop(core);
        fs::create_dir_all(dir).map_err(EngineError::new)?;
        fs::write(dir.join(MARKER), number.to_string()).map_err(EngineError::new)?;
        Ok(table)
    }
}

impl Engine for Disk {
    fn exists(&self, dir: &Path) -> Result<bool, EngineError> {
        let there = |name| dir.join(name).try_exists().map_err(EngineError::new);
        Ok(there(MARKER)? || there(CHECKPOINT)?)
    }

    fn open(&self, dir: &Path, _: Purpose) -> Result<Arc<dyn Database>, EngineError> {
        let table = match fs::read_to_string(dir.join(MARKER)) {
            Ok(number) => self.table(number.parse().map_err(EngineError::new)?)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(dir)?,
            Err(error) => return Err(EngineError::new(error)),
        };
        if !table.take() {
            return Err(EngineError::new(format!("{} is open already", dir.display())));
        }
        Ok(Arc::new(Open { table, disk: self.clone() }))
    }

    fn is_immutable(&self, file: &str) -> bool {
        file == CHECKPOINT
    }

    fn worth_a_write(&self) -> usize {
        self.lock().worth_a_write
    }
}

#[cfg(test)]
mod tests;
