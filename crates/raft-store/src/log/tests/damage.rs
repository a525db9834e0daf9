//! Damage of every kind: the log opens whole or not at all.

use std::fs;
use std::path::PathBuf;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::engine::rocks;

/// Copies a log as `kill -9` would leave it: all that was written is in the files.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for item in fs::read_dir(from).unwrap() {
        let item = item.unwrap();
        let target = to.join(item.file_name());
        match item.file_type().unwrap().is_dir() {
            true => copy(&item.path(), &target),
            false => drop(fs::copy(item.path(), target).unwrap()),
        }
    }
}

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(dir.join(DATABASE)).unwrap().map(|item| item.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    files.sort();
    files
}

/// The WAL that is being written.
fn wal(dir: &Path) -> PathBuf {
    files(dir, "log").pop().unwrap()
}

fn try_open(dir: &Path) -> Result<LogStore, Fault> {
    LogStore::open(dir, TAIL_BYTES, &environment())
}

fn flip(path: &Path, offset: usize, bit: u8) {
    let mut bytes = fs::read(path).unwrap();
    bytes[offset] ^= 1 << (bit % 8);
    fs::write(path, bytes).unwrap();
}

/// A log with some history, still open, and all its entries. An `aged` one writes over an old WAL.
async fn history(dir: &Path, aged: bool) -> (LogStore, Vec<Entry>) {
    fs::create_dir(dir).unwrap();
    let mut log = open(dir);
    for _ in 0..if aged { 3 } else { 0 } {
        append(&mut log, (0..1000).map(|index| entry(1, index))).await;
        log.truncate_after(None).await.unwrap();
        rocks::inner(log.disk.database()).flush().unwrap();
    }
    log.save_vote(&Vote::new_committed(1, 1)).await.unwrap();
    for start in (0..200).step_by(10) {
        append(&mut log, (start..start + 10).map(|index| entry(1, index))).await;
    }
    log.save_vote(&Vote::new_committed(2, 3)).await.unwrap();
    append(&mut log, [entry(2, 200)]).await;
    let entries = all(&log).await;
    (log, entries)
}

/// Whatever was done to the log: either it is refused, or nothing of it is missing.
async fn refused_or_whole(dir: &Path, entries: &[Entry], what: &str) -> bool {
    match try_open(dir) {
        Err(_) => true,
        Ok(log) => {
            assert_eq!(all(&log).await, entries, "{what}");
            let vote = log.reader().read_vote().await.unwrap();
            assert_eq!(vote, Some(Vote::new_committed(2, 3)), "{what}");
            false
        }
    }
}

#[tokio::test]
async fn a_wal_cut_anywhere_after_the_synced_claim_opens_with_all_that_was_claimed() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let live = dir.path().join("live");
    fs::create_dir(&live).unwrap();
    let mut log = open(&live);
    // After each append: how long the WAL is, and what the guard claims.
    let mut steps = Vec::new();
    for index in 0..40 {
        append(&mut log, [entry(1, index)]).await;
        steps.push((fs::metadata(wal(&live)).unwrap().len(), fs::read(live.join(GUARD)).unwrap()));
    }
    let end = steps[steps.len() - 1].0;
    for round in 0..25 {
        let broken = dir.path().join(format!("broken-{round}"));
        copy(&live, &broken);
        let claimed = random.random_range(0..steps.len());
        fs::write(broken.join(GUARD), &steps[claimed].1).unwrap();
        let cut = random.random_range(0..=end);
        fs::OpenOptions::new().write(true).open(wal(&broken)).unwrap().set_len(cut).unwrap();
        let what = format!("guard of entry {claimed}, WAL cut at {cut} of {end}");
        if cut < steps[claimed].0 {
            assert!(try_open(&broken).is_err(), "lost a claimed entry without a word: {what}");
            continue;
        }
        let log = try_open(&broken).unwrap_or_else(|fault| panic!("{what}: {fault}"));
        let left = all(&log).await;
        let whole = steps.iter().filter(|(length, _)| *length <= cut).count();
        let expected: Vec<Entry> = (0..whole as u64).map(|index| entry(1, index)).collect();
        assert_eq!(left, expected, "{what}");
    }
}

#[tokio::test]
async fn a_flipped_bit_in_the_wal_is_refused() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let (live, aged) = (dir.path().join("live"), dir.path().join("aged"));
    let (_log, entries) = history(&live, false).await;
    let (_aged_log, _) = history(&aged, true).await;
    // Records in a WAL that is written over are never shorter, so this length holds only records in both.
    let length = fs::metadata(wal(&live)).unwrap().len() as usize;
    assert!(fs::metadata(wal(&aged)).unwrap().len() as usize > 2 * length, "an old WAL was written over");
    for round in 0..40 {
        let broken = dir.path().join(format!("broken-{round}"));
        copy(if round % 2 == 0 { &live } else { &aged }, &broken);
        let (offset, bit) = (random.random_range(0..length), random.random_range(0..8));
        flip(&wal(&broken), offset, bit);
        let what = format!("round {round}: bit {bit} of byte {offset} of {length}");
        assert!(refused_or_whole(&broken, &entries, &what).await, "unnoticed: {what}");
        fs::remove_dir_all(&broken).unwrap();
    }
}

#[tokio::test]
async fn an_aged_log_opens_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (live, killed) = (dir.path().join("live"), dir.path().join("killed"));
    let (_log, entries) = history(&live, true).await;
    copy(&live, &killed);
    assert!(!refused_or_whole(&killed, &entries, "nothing was done to it").await);
}

#[tokio::test]
async fn a_flipped_bit_in_a_table_never_loses_an_entry_or_a_vote() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let live = dir.path().join("live");
    let (log, entries) = history(&live, false).await;
    rocks::inner(log.disk.database()).flush().unwrap();
    let table = files(&live, "sst").pop().unwrap();
    let length = fs::metadata(&table).unwrap().len() as usize;
    let mut refused = 0;
    for round in 0..30 {
        let broken = dir.path().join(format!("broken-{round}"));
        copy(&live, &broken);
        // The first half of the rounds hits the entries, which lie at the front of the file.
        let offset = random.random_range(0..if round < 15 { length / 2 } else { length });
        let bit = random.random_range(0..8);
        flip(&files(&broken, "sst").pop().unwrap(), offset, bit);
        let what = format!("bit {bit} of byte {offset} of {length}");
        let refusal = refused_or_whole(&broken, &entries, &what).await;
        assert!(refusal || round >= 15, "damage in an entry went unnoticed: {what}");
        refused += u32::from(refusal);
        fs::remove_dir_all(&broken).unwrap();
    }
    println!("{refused} of 30 refused");
}

#[tokio::test]
async fn lost_parts_of_the_directory_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let live = dir.path().join("live");
    let (log, _) = history(&live, false).await;
    rocks::inner(log.disk.database()).flush().unwrap();
    drop(log);

    let no_guard = dir.path().join("no-guard");
    copy(&live, &no_guard);
    fs::remove_file(no_guard.join(GUARD)).unwrap();
    assert!(matches!(try_open(&no_guard), Err(Fault::NoGuard { state: "missing", .. })));

    let no_database = dir.path().join("no-database");
    copy(&live, &no_database);
    fs::remove_dir_all(no_database.join(DATABASE)).unwrap();
    let fault = try_open(&no_database).err().unwrap();
    assert!(matches!(fault, Fault::BelowGuard { .. }));
    assert!(fault.to_string().contains("join as a new member"), "{fault}");
    assert!(!no_database.join(DATABASE).exists(), "a refused start leaves nothing behind");

    let no_table = dir.path().join("no-table");
    copy(&live, &no_table);
    fs::remove_file(files(&no_table, "sst").pop().unwrap()).unwrap();
    assert!(try_open(&no_table).is_err());
}

#[tokio::test]
async fn a_log_restored_from_an_older_copy_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let live = dir.path().join("live");
    let (mut log, _) = history(&live, false).await;
    let older = dir.path().join("older");
    copy(&live, &older);
    log.save_vote(&Vote::new(7, 2)).await.unwrap();
    fs::copy(live.join(GUARD), older.join(GUARD)).unwrap();
    let fault = try_open(&older).err().unwrap();
    assert!(matches!(fault, Fault::BelowGuard { what: "the vote", .. }), "{fault}");
}

#[tokio::test]
async fn a_hole_or_a_misplaced_entry_is_refused() {
    for (name, broken, expected) in [
        ("hole", vec![(3, entry(1, 4))], "entry 4 lies at the place of log entry 3"),
        ("gap", vec![(6, entry(1, 6))], "log entry 5 is missing before entry 6"),
        ("order", vec![(5, entry(0, 5))], "older leader"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut log = open(dir.path());
        append(&mut log, (0..5).map(|index| entry(1, index))).await;
        let rows = broken.iter().map(|(index, entry)| (*index, encode_entry(entry).unwrap())).collect();
        let item = Item::Append { ticket: 1, start: None, rows, flushed: Flushed::noop() };
        log.disk.commit(&disk::batch(&[item]).unwrap()).unwrap();
        drop(log);
        let fault = try_open(dir.path()).err().unwrap_or_else(|| panic!("{name} was accepted"));
        assert!(fault.to_string().contains(expected), "{name}: {fault}");
    }
}
