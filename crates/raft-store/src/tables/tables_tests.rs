//! The tables on RocksDB against the ordered maps of the model.

use orloj_model::key::Single;
use orloj_model::schema::{AccessMetaTable, MetaTable};
use orloj_model::tables::{MapTables, Read, ReadExt as _, TableId, Write, WriteExt as _};

use super::*;
use crate::codec::Bincode;
use crate::engine::rocks::Rocks;
use crate::types::{LeaderId, LogId};

/// A small generator (splitmix64), so that a seed tells the whole run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// Short keys over few bytes, with 0 and 255 among them, so that keys collide and are prefixes.
    fn key(&mut self) -> Vec<u8> {
        let length = self.below(4);
        (0..length).map(|_| [0, 1, 7, 254, 255][self.below(5) as usize]).collect()
    }

    fn table(&mut self) -> TableId {
        [TableId::Meta, TableId::Due, TableId::Ready, TableId::Executor][self.below(4) as usize]
    }
}

fn seed() -> u64 {
    let seed = rand::random();
    println!("seed {seed}");
    seed
}

fn position(index: u64) -> Position {
    let mut position = Position::default();
    position.advance(LogId { leader_id: LeaderId { term: 1, node_id: 1 }, index }, index);
    position
}

fn agree(random: &mut Random, tables: &impl Read<Error = Fault>, model: &MapTables<Bincode>) {
    let (table, from, to) = (random.table(), random.key(), random.key());
    let limit = random.below(6) as usize;
    let expected = model.range_raw(table, &from, &to, limit).unwrap();
    assert_eq!(tables.range_raw(table, &from, &to, limit).unwrap(), expected, "{table:?} {from:?}..{to:?}");
    let everything = |end: &[u8]| model.range_raw(table, &[], end, usize::MAX).unwrap();
    let end = [u8::MAX; 8];
    assert_eq!(tables.range_raw(table, &[], &end, usize::MAX).unwrap(), everything(&end));
    let key = random.key();
    assert_eq!(tables.get_raw(table, &key).unwrap(), model.get_raw(table, &key).unwrap());
}

#[test]
fn random_writes_read_back_as_from_ordered_maps() {
    let mut random = Random(seed());
    let dir = tempfile::tempdir().unwrap();
    let state = StateDb::open(dir.path(), &Rocks).unwrap();
    let mut model = MapTables::<Bincode>::default();
    for round in 1..=60 {
        let mut overlay = state.overlay(&Position::default());
        // In the other rounds what was committed before is still held.
        let before = (random.below(3) == 0).then(|| (state.view().unwrap(), model.clone()));
        for _ in 0..random.below(40) {
            let (table, key) = (random.table(), random.key());
            let value = vec![round as u8; random.below(5) as usize];
            if random.below(12) == 0 {
                overlay.clear_raw(table, key.clone()).unwrap();
                model.clear_raw(table, key).unwrap();
            } else if random.below(3) == 0 {
                overlay.delete_raw(table, key.clone()).unwrap();
                model.delete_raw(table, key).unwrap();
            } else if model.get_raw(table, &key).unwrap().is_some() {
                overlay.put_raw(table, key.clone(), value.clone()).unwrap();
                model.put_raw(table, key, value).unwrap();
            } else {
                overlay.insert_raw(table, key.clone(), value.clone()).unwrap();
                model.insert_raw(table, key, value).unwrap();
            }
            agree(&mut random, &overlay, &model);
        }
        state.commit(overlay, &position(round), Changed::default()).unwrap();
        let Some(before) = before else { continue };
        let view = state.view().unwrap();
        assert_eq!(view.applied(), round);
        for _ in 0..10 {
            agree(&mut random, &view, &model);
            agree(&mut random, &before.0, &before.1);
        }
    }
}

#[test]
fn a_row_of_nothing_takes_no_bytes_and_a_missing_value_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDb::open(dir.path(), &Rocks).unwrap();
    let mut overlay = state.overlay(&Position::default());
    overlay.put_raw(TableId::Due, b"k".to_vec(), Vec::new()).unwrap();
    let bytes = overlay.get_raw(TableId::Due, b"k").unwrap().unwrap();
    assert!(bytes.is_empty() && overlay.decode::<()>(&bytes).is_ok());
    assert!(overlay.decode::<u64>(&bytes).is_err());
    overlay.put_raw(TableId::Meta, vec![0], b"junk".to_vec()).unwrap();
    assert!(overlay.get::<MetaTable>(&Single).is_err());
}

#[test]
fn the_digest_of_an_overlay_is_that_of_the_maps() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDb::open(dir.path(), &Rocks).unwrap();
    let mut overlay = state.overlay(&Position { digest: 7, ..Position::default() });
    let mut model = MapTables::<Bincode>::default();
    model.set_digest(7);
    let meta = orloj_model::apply::Meta { now_ms: 1, round: 2, leader: 3 };
    overlay.put::<MetaTable>(&Single, &meta).unwrap();
    model.put::<MetaTable>(&Single, &meta).unwrap();
    assert_eq!(overlay.digest(), model.digest());
    assert_ne!(overlay.digest(), 7);
    let before = overlay.digest();
    overlay.clear::<MetaTable>(vec![9]).unwrap();
    model.clear::<MetaTable>(vec![9]).unwrap();
    assert_eq!(overlay.digest(), model.digest());
    assert_ne!(overlay.digest(), before);
}

#[test]
fn what_was_cleared_stays_gone_when_the_tables_are_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDb::open(dir.path(), &Rocks).unwrap();
    let rows = [vec![1], vec![2], vec![3]];
    let found = |state: &StateDb| {
        let view = state.view().unwrap();
        let scanned = view.range_raw(TableId::Due, &[], &[9], 9).unwrap();
        let found: Vec<_> = scanned.into_iter().map(|(key, _)| key).collect();
        let by_key = rows.iter().filter(|key| view.get_raw(TableId::Due, key).unwrap().is_some());
        assert_eq!(by_key.cloned().collect::<Vec<_>>(), found);
        found
    };
    let mut overlay = state.overlay(&Position::default());
    for key in &rows {
        overlay.put_raw(TableId::Due, key.clone(), vec![1]).unwrap();
    }
    state.commit(overlay, &position(1), Changed::default()).unwrap();
    assert_eq!(found(&state), rows);
    // One of them is held, and one among the rows used last.
    let mut overlay = state.overlay(&position(1));
    overlay.put_raw(TableId::Due, vec![2], vec![2]).unwrap();
    assert!(overlay.get_raw(TableId::Due, &[1]).unwrap().is_some());
    state.commit(overlay, &position(2), Changed::default()).unwrap();
    let gone = |overlay: &Overlay| {
        [vec![1], vec![2]].iter().all(|key| overlay.get_raw(TableId::Due, key).unwrap().is_none())
    };
    let mut overlay = state.overlay(&position(2));
    overlay.clear_raw(TableId::Due, vec![3]).unwrap();
    assert!(gone(&overlay), "in the apply that clears");
    state.commit(overlay, &position(3), Changed::default()).unwrap();
    assert!(gone(&state.overlay(&position(3))), "while that is held");
    assert_eq!(found(&state), [vec![3]]);
    assert!(gone(&state.overlay(&position(3))), "when it has been written");
    drop(state);
    assert_eq!(found(&StateDb::open(dir.path(), &Rocks).unwrap()), [vec![3]]);
}

#[test]
fn keys_of_any_length_are_looked_up_as_they_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDb::open(dir.path(), &Rocks).unwrap();
    let lengths = [0, 1, SHORT - PREFIX - 1, SHORT - PREFIX, SHORT - PREFIX + 1, 300];
    let mut overlay = state.overlay(&Position::default());
    for (number, length) in lengths.into_iter().enumerate() {
        overlay.put_raw(TableId::Due, vec![7; length], vec![number as u8]).unwrap();
    }
    let find = |tables: &dyn Fn(&[u8]) -> Option<Vec<u8>>| {
        lengths.map(|length| tables(&vec![7; length]).map(|value| usize::from(value[0])))
    };
    let all = [0, 1, 2, 3, 4, 5].map(Some);
    assert_eq!(find(&|key| overlay.get_raw(TableId::Due, key).unwrap()), all);
    assert_eq!(find(&|key| overlay.get_raw(TableId::Ready, key).unwrap()), [None; 6]);
    state.commit(overlay, &position(1), Changed::default()).unwrap();
    let view = state.view().unwrap();
    assert_eq!(find(&|key| view.get_raw(TableId::Due, key).unwrap()), all);
}

#[test]
fn a_view_says_the_time_and_the_revision_that_its_rows_have() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDb::open(dir.path(), &Rocks).unwrap();
    let mut position = state.position().unwrap();
    let said = |view: &View| (view.stamp().now_ms, view.stamp().access_revision);
    let before = state.view().unwrap();
    for (now_ms, revision) in [(5, Some(1)), (6, None), (7, Some(2))] {
        let mut overlay = state.overlay(&position);
        let meta =
            orloj_model::apply::Meta { now_ms, round: revision.unwrap_or_default(), ..Default::default() };
        overlay.put::<MetaTable>(&Single, &meta).unwrap();
        if let Some(revision) = revision {
            let access = orloj_model::access::AccessMeta { revision, ..Default::default() };
            overlay.put::<AccessMetaTable>(&Single, &access).unwrap();
        }
        position.take_note(&overlay).unwrap();
        state.commit(overlay, &position, Changed::default()).unwrap();
        let view = state.view().unwrap();
        let rows = (
            orloj_model::query::meta(&view).unwrap().now_ms,
            orloj_model::query::access_meta(&view).unwrap().revision,
        );
        assert_eq!(said(&view), rows);
        let found = state.position().unwrap();
        assert_eq!((found.now_ms, found.access_revision), rows, "as after a start");
        assert_eq!(
            (found.round, view.stamp().round),
            (revision.unwrap_or_default(), revision.unwrap_or_default())
        );
    }
    assert_eq!(said(&before), (0, 0));
}

#[test]
fn keys_and_the_position_are_golden() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDb::open(dir.path(), &Rocks).unwrap();
    let mut overlay = state.overlay(&Position::default());
    overlay.put_raw(TableId::Due, b"k".to_vec(), b"v".to_vec()).unwrap();
    state.commit(overlay, &position(9), Changed::default()).unwrap();
    drop(state.view());
    assert_eq!(state.raw().get(&[0, 0, 0, 0, 5, b'k']).unwrap().as_deref(), Some(&b"v"[..]));
    let frame = state.raw().get(b"\0\0\0\0\0position").unwrap().unwrap();
    let log_id = [[1_u64, 1, 9].map(u64::to_le_bytes).concat(), 9_u64.to_le_bytes().to_vec()].concat();
    assert_eq!(frame[9..frame.len() - 4], [&[1][..], &log_id].concat());
}

#[test]
fn the_position_is_written_with_the_rows_and_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut position = Position::default();
    {
        let state = StateDb::open(dir.path(), &Rocks).unwrap();
        assert_eq!(state.position().unwrap(), Position::default());
        for index in 1..=(256 * 70) {
            let id = LogId { leader_id: LeaderId { term: 3, node_id: 2 }, index };
            position.advance(id, index * 10);
        }
        let changed = Changed { membership: true, checkpoints: true };
        state.commit(state.overlay(&position), &position, changed).unwrap();
        state.view().unwrap();
    }
    let found = StateDb::open(dir.path(), &Rocks).unwrap().position().unwrap();
    assert_eq!(found, position);
    assert_eq!(found.checkpoints.len(), 64);
    assert_eq!(found.checkpoints[63], crate::Checkpoint { index: 256 * 70, digest: 256 * 700 });
    assert_eq!(found.checkpoints[0].index, 256 * 7);
}
