//! What is held in memory is found by everybody who asks, is bounded, and goes with its position.

use std::sync::atomic::{AtomicBool, Ordering};

use orloj_model::tables::{Read as _, TableId, Write as _};

use super::*;
use crate::engine::rocks::Rocks;
use crate::engine::{Cursor, Engine, EngineError, Purpose, Snapshot, WriteBatch};
use crate::faults::Faults;
use crate::published::Published;
use crate::tables::{Changed, StateDb};
use crate::types::{LeaderId, LogId};

fn at(index: u64) -> Position {
    let mut position = Position::default();
    position.advance(LogId { leader_id: LeaderId { term: 1, node_id: 1 }, index }, index);
    position
}

/// Applies an entry that puts a row of its own, of `bytes` bytes.
fn apply(state: &StateDb, index: u64, bytes: usize) -> Result<(), Fault> {
    let mut overlay = state.overlay(&at(index));
    overlay.insert_raw(TableId::Due, index.to_be_bytes().to_vec(), vec![7; bytes])?;
    state.commit(overlay, &at(index), Changed::default())
}

/// The rows that a database holds by itself, without what is in front of it.
fn stored(database: &dyn Database) -> usize {
    let (mut cursor, mut rows) = (database.scan(&[0, 0, 0, 0, 1], &[0, 0, 0, 1]), 0);
    while cursor.item().is_some() {
        cursor.advance();
        rows += 1;
    }
    rows
}

#[test]
fn what_is_held_is_lost_with_the_process_and_so_is_its_position() {
    let dir = tempfile::tempdir().unwrap();
    {
        let state = StateDb::open(dir.path(), &Rocks).unwrap();
        apply(&state, 1, 10).unwrap();
        state.view().unwrap();
        apply(&state, 2, 10).unwrap();
    }
    let state = StateDb::open(dir.path(), &Rocks).unwrap();
    assert_eq!((state.position().unwrap().index(), stored(state.raw())), (1, 1));
    apply(&state, 2, 10).unwrap();
    assert_eq!((state.view().unwrap().applied(), stored(state.raw())), (2, 2));
}

#[test]
fn many_rows_are_written_though_nobody_asks() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDb::open(dir.path(), &Rocks).unwrap();
    let mut index = 0;
    while stored(state.raw()) == 0 {
        index += 1;
        assert!(index <= 11, "a megabyte is held");
        apply(&state, index, Rocks.worth_a_write() / 10).unwrap();
    }
    assert!(index > 1, "the first row was written at once");
}

#[test]
fn one_row_that_changes_for_ever_is_written_now_and_then() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDb::open(dir.path(), &Rocks).unwrap();
    let mut index = 0;
    while stored(state.raw()) == 0 {
        index += 1;
        assert!(index <= 17, "eight megabytes are to be applied again");
        let mut overlay = state.overlay(&at(index));
        overlay.put_raw(TableId::Shard, vec![1], vec![7; Rocks.worth_a_write() / 2]).unwrap();
        state.commit(overlay, &at(index), Changed::default()).unwrap();
    }
    assert!(index > 8, "it was written at once");
}

#[test]
fn a_change_of_keys_is_written_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDb::open(dir.path(), &Rocks).unwrap();
    let changed = Position { access_revision: 1, ..at(1) };
    let mut overlay = state.overlay(&changed);
    overlay.put_raw(TableId::AccessKey, vec![1], vec![7]).unwrap();
    state.commit(overlay, &changed, Changed::default()).unwrap();
    assert_eq!(stored(state.raw()), 1);
}

#[test]
fn a_checkpoint_has_what_is_held() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDb::open(&dir.path().join("live"), &Rocks).unwrap();
    apply(&state, 1, 10).unwrap();
    state.checkpoint(&dir.path().join("copy")).unwrap();
    let copy = StateDb::open(&dir.path().join("copy"), &Rocks).unwrap();
    assert_eq!((copy.position().unwrap().index(), stored(copy.raw())), (1, 1));
}

#[test]
fn a_database_that_was_replaced_closes_with_its_last_reader() {
    let dir = tempfile::tempdir().unwrap();
    let [before, after] = ["before", "after"].map(|name| dir.path().join(name));
    let old = StateDb::open(&before, &Rocks).unwrap();
    let published = Published::new(&old, &at(0), Faults::new());
    assert_eq!(published.view().applied(), 0);
    let new = StateDb::open(&after, &Rocks).unwrap();
    apply(&new, 5, 10).unwrap();
    published.replace(&new);
    published.advance(&at(5), true);
    drop(old);
    StateDb::open(&before, &Rocks).expect("nobody reads the old database any more");
    assert_eq!(published.view().applied(), 5);
}

/// A database whose disk is full from some moment on.
struct Full {
    database: Arc<dyn Database>,
    full: Arc<AtomicBool>,
}

impl Database for Full {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        self.database.get(key)
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<(), EngineError> {
        match self.full.load(Ordering::SeqCst) {
            true => Err(EngineError::new("no space is left")),
            false => self.database.write(batch, durability),
        }
    }

    fn scan<'a>(&'a self, from: &[u8], to: &[u8]) -> Box<dyn Cursor + 'a> {
        self.database.scan(from, to)
    }

    fn snapshot(self: Arc<Self>) -> Box<dyn Snapshot> {
        Arc::clone(&self.database).snapshot()
    }

    fn checkpoint(&self, dir: &Path) -> Result<(), EngineError> {
        self.database.checkpoint(dir)
    }

    fn reclaim(&self, from: &[u8], to: &[u8]) -> Result<(), EngineError> {
        self.database.reclaim(from, to)
    }
}

/// Opens such databases.
#[derive(Default)]
struct FullEngine(Arc<AtomicBool>);

impl Engine for FullEngine {
    fn exists(&self, dir: &Path) -> Result<bool, EngineError> {
        Rocks.exists(dir)
    }

    fn open(&self, dir: &Path, purpose: Purpose) -> Result<Arc<dyn Database>, EngineError> {
        Ok(Arc::new(Full { database: Rocks.open(dir, purpose)?, full: Arc::clone(&self.0) }))
    }

    fn is_immutable(&self, file: &str) -> bool {
        Rocks.is_immutable(file)
    }
}

#[test]
fn where_the_disk_takes_nothing_more_nothing_is_said_to_be_missing() {
    let dir = tempfile::tempdir().unwrap();
    let engine = FullEngine::default();
    let state = StateDb::open(dir.path(), &engine).unwrap();
    let earlier = state.view().unwrap();
    let faults = Faults::new();
    let published = Published::new(&state, &at(0), faults.clone());
    apply(&state, 1, 10).unwrap();
    engine.0.store(true, Ordering::SeqCst);
    published.advance(&at(1), false);
    for room in [false, true] {
        // A database that has failed once is not asked again.
        engine.0.store(!room, Ordering::SeqCst);
        let broken = published.view();
        let error = broken.get_raw(TableId::Due, &1_u64.to_be_bytes()).unwrap_err().to_string();
        assert_eq!(error.matches("no space is left").count(), 1, "{error}");
        assert_eq!(error.matches("have stopped").count(), 1, "{error}");
        assert!(broken.range_raw(TableId::Due, &[], &[u8::MAX], 1).is_err());
        let error = apply(&state, 2, 10).unwrap_err().to_string();
        assert!(error.contains("no space is left"), "{error}");
    }
    assert!(faults.raised(), "the node stops");
    assert_eq!(earlier.range_raw(TableId::Due, &[], &[u8::MAX], 1).unwrap(), Vec::new());
}
