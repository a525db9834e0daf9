use super::*;
use orloj_raft_store::engine::{Durability, WriteBatch};

fn put(database: &dyn Database, key: &str, value: &str, durability: Durability) {
    let mut batch = WriteBatch::with_capacity(1);
    batch.put(key.as_bytes(), value.as_bytes());
    database.write(&batch, durability).unwrap();
}

fn rows(database: &dyn Database) -> Vec<(String, String)> {
    walk(database.scan(b"", b"\xff"))
}

fn walk(mut cursor: Box<dyn orloj_raft_store::engine::Cursor + '_>) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut rows = Vec::new();
    while let Some((key, value)) = cursor.item() {
        rows.push((text(key), text(value)));
        cursor.advance();
    }
    rows
}

fn pairs(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_crash_of_the_process_keeps_every_write_and_a_loss_of_power_what_was_synced() {
    let mut lost = 0;
    for seed in 0..50 {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new(Rng::new(seed));
        let path = dir.path().join("db");
        let open = || disk.open(&path, Purpose::Log).unwrap();
        let database = open();
        assert!(disk.open(&path, Purpose::Log).is_err(), "one process at a time");
        put(&*database, "a", "1", Durability::Synced);
        put(&*database, "b", "2", Durability::Buffered);
        put(&*database, "c", "3", Durability::Buffered);
        drop(database);
        disk.crash(false);
        let database = open();
        assert_eq!(rows(&*database), pairs(&[("a", "1"), ("b", "2"), ("c", "3")]));
        put(&*database, "d", "4", Durability::Synced);
        put(&*database, "e", "5", Durability::Buffered);
        put(&*database, "a", "6", Durability::Buffered);
        drop(database);
        disk.crash(true);
        let found = rows(&*open());
        assert_eq!(found[3], ("d".into(), "4".into()));
        match found.get(4) {
            None => assert_eq!(found[0].1, "1", "what came later went as well"),
            Some(_) => assert!(found[0].1 == "1" || found[0].1 == "6"),
        }
        lost += u32::from(found.len() == 4);
    }
    assert!((10..50).contains(&lost), "{lost}");
}

#[test]
fn a_loss_of_power_may_take_what_a_killed_process_had_not_synced() {
    let mut lost = 0;
    for seed in 0..50 {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new(Rng::new(seed));
        let open = || disk.open(&dir.path().join("db"), Purpose::State).unwrap();
        let database = open();
        put(&*database, "a", "1", Durability::Synced);
        put(&*database, "b", "2", Durability::Buffered);
        drop(database);
        disk.crash(false);
        assert_eq!(rows(&*open()), pairs(&[("a", "1"), ("b", "2")]));
        disk.crash(true);
        let found = rows(&*open());
        assert_eq!(found[0], ("a".into(), "1".into()));
        lost += u32::from(found.len() == 1);
    }
    assert!((10..50).contains(&lost), "{lost}");
}

#[test]
fn a_snapshot_stays_as_it_was_and_old_versions_go() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new(Rng::new(1));
    let database = disk.open(&dir.path().join("db"), Purpose::State).unwrap();
    for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
        put(&*database, key, value, Durability::Synced);
    }
    let snapshot = Arc::clone(&database).snapshot();
    let mut batch = WriteBatch::with_capacity(2);
    batch.delete_range(b"a".as_slice(), b"c".as_slice());
    batch.put(b"d".as_slice(), b"4".as_slice());
    database.write(&batch, Durability::Synced).unwrap();
    assert_eq!(rows(&*database), pairs(&[("c", "3"), ("d", "4")]));
    assert_eq!(walk(snapshot.scan(b"", b"c")), pairs(&[("a", "1"), ("b", "2")]));
    assert_eq!(snapshot.get(b"d").unwrap(), None);
    assert_eq!(walk(snapshot.scan(b"c", b"b")), pairs(&[]), "an empty range");
}

#[test]
fn a_checkpoint_is_a_database() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new(Rng::new(1));
    let database = disk.open(&dir.path().join("db"), Purpose::State).unwrap();
    put(&*database, "a", "1", Durability::Buffered);
    let copy = dir.path().join("copy");
    assert!(!disk.exists(&copy).unwrap());
    database.checkpoint(&copy).unwrap();
    put(&*database, "a", "2", Durability::Buffered);
    assert!(disk.exists(&copy).unwrap());
    assert_eq!(rows(&*disk.open(&copy, Purpose::State).unwrap()), pairs(&[("a", "1")]));
}

#[test]
fn a_disk_that_fails_takes_no_write_for_certain() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new(Rng::new(1));
    let database = disk.open(&dir.path().join("db"), Purpose::Log).unwrap();
    disk.set(Temper { fails: true, ..Temper::default() });
    let mut batch = WriteBatch::with_capacity(1);
    batch.put(b"a".as_slice(), b"1".as_slice());
    assert!(database.write(&batch, Durability::Synced).is_err());
}
