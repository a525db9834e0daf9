//! What the store relies on.

use rocksdb::statistics::Ticker;

use super::*;

fn put(database: &dyn Database, key: &[u8], value: &[u8]) {
    let mut batch = WriteBatch::default();
    batch.put(key, value);
    database.write(&batch, Durability::Buffered).unwrap();
}

fn keys(mut cursor: Box<dyn Cursor + '_>) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    while let Some((key, _)) = cursor.item() {
        keys.push(key.to_vec());
        cursor.advance();
    }
    cursor.status().unwrap();
    keys
}

#[test]
fn a_synced_write_syncs_the_wal_itself_and_a_buffered_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options::log();
    options.enable_statistics();
    let database = Open::new(dir.path(), &options).unwrap();
    let synced = || options.get_ticker_count(Ticker::WalFileSynced);
    for round in 1..=5_u8 {
        let before = synced();
        put(&database, &[round], b"buffered");
        assert_eq!(synced(), before, "write {round}");
        let mut batch = WriteBatch::default();
        batch.put(vec![round], b"synced".as_slice());
        database.write(&batch, Durability::Synced).unwrap();
        assert!(synced() > before, "write {round}");
    }
}

#[test]
fn a_batch_counts_in_its_order() {
    let dir = tempfile::tempdir().unwrap();
    let database = Rocks.open(dir.path(), Purpose::State).unwrap();
    let mut batch = WriteBatch::with_capacity(4);
    for key in [b"a", b"b", b"c", b"d"] {
        batch.put(key.as_slice(), b"1".as_slice());
    }
    batch.delete_range(b"a".as_slice(), b"c".as_slice());
    batch.put(b"b".as_slice(), b"2".as_slice());
    batch.delete(b"d".as_slice());
    database.write(&batch, Durability::Buffered).unwrap();
    assert_eq!(keys(database.scan(b"", b"z")), [b"b", b"c"]);
    assert_eq!(database.get(b"b").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(keys(database.scan(b"c", b"c")), Vec::<Vec<u8>>::new());
}

#[test]
fn a_snapshot_shows_what_was_and_keeps_the_database_open() {
    let dir = tempfile::tempdir().unwrap();
    let database = Rocks.open(dir.path(), Purpose::State).unwrap();
    put(&*database, b"a", b"1");
    let snapshot = Arc::clone(&database).snapshot();
    put(&*database, b"a", b"2");
    put(&*database, b"b", b"2");
    drop(database);
    assert!(Rocks.open(dir.path(), Purpose::State).is_err(), "the snapshot holds it");
    assert_eq!(snapshot.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(keys(snapshot.scan(b"", b"z")), [b"a"]);
    drop(snapshot);
    Rocks.open(dir.path(), Purpose::State).unwrap();
}

#[test]
fn a_checkpoint_is_a_database_whose_immutable_files_may_be_linked() {
    let dir = tempfile::tempdir().unwrap();
    let (live, taken, copy) = (dir.path().join("live"), dir.path().join("taken"), dir.path().join("copy"));
    let database = Rocks.open(&live, Purpose::State).unwrap();
    put(&*database, b"a", b"1");
    assert!(!Rocks.exists(&taken).unwrap());
    database.checkpoint(&taken).unwrap();
    assert!(Rocks.exists(&taken).unwrap());
    std::fs::create_dir(&copy).unwrap();
    let mut linked = 0;
    for item in std::fs::read_dir(&taken).unwrap() {
        let name = item.unwrap().file_name().into_string().unwrap();
        let (from, to) = (taken.join(&name), copy.join(&name));
        match Rocks.is_immutable(&name) {
            true => std::fs::hard_link(from, to).unwrap(),
            false => drop(std::fs::copy(from, to).unwrap()),
        }
        linked += usize::from(Rocks.is_immutable(&name));
    }
    assert!(linked > 0, "the tables are linked");
    put(&*Rocks.open(&copy, Purpose::State).unwrap(), b"b", b"2");
    let taken = Rocks.open(&taken, Purpose::State).unwrap();
    assert_eq!(keys(taken.scan(b"", b"z")), [b"a"], "what was done to the copy does not show");
}

#[test]
fn what_is_merged_lies_in_files_of_one_table_each() {
    let dir = tempfile::tempdir().unwrap();
    let database = Rocks.open(dir.path(), Purpose::State).unwrap();
    let db = inner(&*database);
    let tables = [1, 2, 9];
    for round in 0..4_u8 {
        for table in tables {
            put(&*database, &[0, 0, 0, 0, table, round], b"row");
        }
        db.flush().unwrap();
    }
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    let ends = |file: rocksdb::LiveFile| (file.start_key.unwrap(), file.end_key.unwrap());
    let mut files: Vec<_> = db.live_files().unwrap().into_iter().map(ends).collect();
    files.sort();
    assert_eq!(files, tables.map(|table| (vec![0, 0, 0, 0, table, 0], vec![0, 0, 0, 0, table, 3])));
}
