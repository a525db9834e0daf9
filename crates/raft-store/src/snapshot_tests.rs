//! Snapshots are whole or not there, at every step of taking, receiving and installing them.

use std::collections::BTreeMap;

use orloj_model::tables::{Read as _, TableId, Write as _};

use super::*;
use crate::engine::rocks::Rocks;
use crate::tables::Changed;
use crate::types::{LeaderId, LogId};

fn open(root: PathBuf, fresh: bool) -> Result<(Live, StateDb), Fault> {
    Live::open(root, fresh, Arc::new(Rocks))
}

fn id(index: u64) -> LogId {
    LogId { leader_id: LeaderId { term: 2, node_id: 1 }, index }
}

/// Writes a row and moves the position to `index`, and has both written to the database.
fn write(state: &StateDb, index: u64) -> SnapshotMeta {
    let mut position = state.position().unwrap();
    let mut overlay = state.overlay(&position);
    overlay.put_raw(TableId::Due, index.to_be_bytes().to_vec(), b"row".to_vec()).unwrap();
    position.advance(id(index), index);
    state.commit(overlay, &position, Changed::default()).unwrap();
    state.view().unwrap();
    SnapshotMeta { last_log_id: Some(id(index)), ..SnapshotMeta::default() }
}

fn rows(state: &StateDb) -> usize {
    let view = state.view().unwrap();
    view.range_raw(TableId::Due, &[], &[u8::MAX; 9], usize::MAX).unwrap().len()
}

/// A node's directory with an open state database and its snapshots.
struct Home {
    dir: tempfile::TempDir,
    live: Live,
    state: StateDb,
    snapshots: Snapshots,
}

impl Home {
    fn new() -> Home {
        let dir = tempfile::tempdir().unwrap();
        let (live, state) = open(dir.path().join("state"), true).unwrap();
        let snapshots = Snapshots::open(dir.path().join("snapshots")).unwrap();
        Home { dir, live, state, snapshots }
    }

    /// The process ends and another one starts on what it left.
    fn restart(self) -> Home {
        let Home { dir, live, state, snapshots } = self;
        drop((live, state, snapshots));
        let (live, state) = open(dir.path().join("state"), false).unwrap();
        let snapshots = Snapshots::open(dir.path().join("snapshots")).unwrap();
        Home { dir, live, state, snapshots }
    }

    fn snapshot(&self, index: u64) -> Handle {
        let meta = write(&self.state, index);
        self.snapshots.keep(self.snapshots.take(&self.state, meta).unwrap()).unwrap()
    }

    fn names(&self, sub: &str) -> Vec<String> {
        files::names(&self.dir.path().join(sub)).unwrap()
    }
}

/// Sends every piece of a snapshot that the receiver has not got, in pieces of `size` bytes.
fn send(from: &Handle, incoming: &mut Incoming, size: usize) {
    for (number, entry) in from.manifest().files.iter().enumerate() {
        let content = fs::read(from.file(entry)).unwrap();
        let mut offset = incoming.received()[number] as usize;
        while offset < content.len() {
            let piece = &content[offset..content.len().min(offset + size)];
            incoming.take(number, offset as u64, crc32fast::hash(piece), piece).unwrap();
            offset += piece.len();
        }
    }
}

#[test]
fn a_taken_snapshot_replaces_the_older_one_unless_that_is_held() {
    let home = Home::new();
    let first = home.snapshot(10);
    let second = home.snapshot(20);
    assert_eq!(home.snapshots.current().unwrap().index(), 20);
    assert_eq!(home.names("snapshots").len(), 2, "the older one is still held");
    assert!(first.file(&first.manifest().files[0]).exists());
    drop(first);
    assert_eq!(home.names("snapshots"), ["00000000000000000020-2"]);
    drop(second);
    let home = home.restart();
    assert_eq!(home.snapshots.current().unwrap().meta().last_log_id, Some(id(20)));
}

#[test]
fn what_was_not_finished_is_gone_after_a_restart() {
    let home = Home::new();
    home.snapshot(10);
    let meta = write(&home.state, 20);
    let taken = home.snapshots.take(&home.state, meta).unwrap();
    let incoming = Incoming::begin(&home.snapshots, home.snapshots.current().unwrap().manifest().clone());
    // As a crash would: neither is cleaned up by its owner.
    std::mem::forget((taken, incoming));
    // Half removed: the list is gone already.
    fs::create_dir(home.dir.path().join("snapshots/gone-00000000000000000005-2")).unwrap();
    assert_eq!(home.names("snapshots").len(), 4);
    let home = home.restart();
    assert_eq!(home.names("snapshots"), ["00000000000000000010-2"]);
    assert_eq!(home.snapshots.current().unwrap().index(), 10);
}

#[test]
fn a_broken_transfer_goes_on_where_it_stopped() {
    let (from, to) = (Home::new(), Home::new());
    let sent = from.snapshot(10);
    let mut incoming = Incoming::begin(&to.snapshots, sent.manifest().clone()).unwrap();
    let content = fs::read(sent.file(&sent.manifest().files[0])).unwrap();
    let half = content.len() / 2;
    let piece = &content[..half];
    incoming.take(0, 0, crc32fast::hash(piece), piece).unwrap();
    assert_eq!(incoming.received()[0], half as u64);
    // The same again, and a piece that overlaps, change nothing.
    incoming.take(0, 0, crc32fast::hash(piece), piece).unwrap();
    assert_eq!(incoming.received()[0], half as u64);
    send(&sent, &mut incoming, 100);
    let received = incoming.finish().unwrap();
    assert_eq!(received.manifest(), sent.manifest());
}

#[test]
fn a_piece_that_is_damaged_or_out_of_place_is_refused() {
    let (from, to) = (Home::new(), Home::new());
    let sent = from.snapshot(10);
    let mut incoming = Incoming::begin(&to.snapshots, sent.manifest().clone()).unwrap();
    let size = sent.manifest().files[0].size;
    let refused = |taken: Result<(), ReceiveError>| matches!(taken, Err(ReceiveError::Refused(_)));
    assert!(refused(incoming.take(0, 0, 0, b"x")), "checksum");
    assert!(refused(incoming.take(0, 1, crc32fast::hash(b"x"), b"x")), "gap");
    assert!(refused(incoming.take(0, size, crc32fast::hash(b"x"), b"x")), "behind the end");
    assert!(refused(incoming.take(0, u64::MAX, crc32fast::hash(b"x"), b"x")), "overflow");
    assert!(refused(incoming.take(999, 0, crc32fast::hash(b"x"), b"x")), "no such file");
    assert!(matches!(incoming.finish(), Err(ReceiveError::Refused(_))), "it is not whole");
    assert!(to.names("snapshots").is_empty());
}

#[test]
fn a_file_that_differs_from_the_list_is_found_at_the_end() {
    let (from, to) = (Home::new(), Home::new());
    let sent = from.snapshot(10);
    let mut manifest = sent.manifest().clone();
    manifest.files[0].crc ^= 1;
    let mut incoming = Incoming::begin(&to.snapshots, manifest).unwrap();
    send(&sent, &mut incoming, 1 << 20);
    assert!(matches!(incoming.finish(), Err(ReceiveError::Refused(_))));
}

#[test]
fn names_that_leave_the_directory_are_refused() {
    let home = Home::new();
    let list = |names: &[&str]| Manifest {
        meta: (&SnapshotMeta::default()).into(),
        files: names.iter().map(|name| FileEntry { name: (*name).into(), size: 0, crc: 0 }).collect(),
    };
    for bad in [&["../x"][..], &["/etc/x"], &["a/b"], &[".."], &[""], &["snapshot"], &["a", "a"], &["a\0"]] {
        let begun = Incoming::begin(&home.snapshots, list(bad));
        assert!(matches!(begun, Err(ReceiveError::Refused(_))), "{bad:?}");
    }
    assert!(Incoming::begin(&home.snapshots, list(&["000012.sst", "MANIFEST-000005"])).is_ok());
}

/// Brings a snapshot of another node with two rows to a node with one row.
fn received() -> (Home, Handle) {
    let (from, to) = (Home::new(), Home::new());
    write(&to.state, 5);
    write(&from.state, 9);
    let sent = from.snapshot(10);
    let mut incoming = Incoming::begin(&to.snapshots, sent.manifest().clone()).unwrap();
    send(&sent, &mut incoming, 1 << 20);
    let received = incoming.finish().unwrap();
    (to, received)
}

#[test]
fn an_installed_snapshot_takes_the_place_of_the_tables() {
    let (mut home, received) = received();
    let old = home.state.view().unwrap();
    let state = home.live.replace(&home.state, &received).unwrap();
    home.snapshots.adopt(&received).unwrap();
    drop(received);
    assert_eq!(state.position().unwrap().applied, Some(id(10)));
    assert_eq!(rows(&state), 2);
    let seen = old.range_raw(TableId::Due, &[], &[u8::MAX; 9], usize::MAX).unwrap();
    assert_eq!(seen.len(), 1, "a view from before shows what it showed");
    assert_eq!(home.names("state").len(), 3, "the old directory stays while it is read");
    home.state = state;
    drop(old);
    assert_eq!(home.names("state"), ["0002", "current"]);
    // The installed database goes on without touching the snapshot.
    write(&home.state, 11);
    let home = home.restart();
    assert_eq!(rows(&home.state), 3);
    let kept = home.snapshots.current().unwrap();
    assert_eq!(kept.index(), 10);
    for entry in &kept.manifest().files {
        assert_eq!(files::checksum(&kept.file(entry)).unwrap(), (entry.size, entry.crc), "{}", entry.name);
    }
}

/// What an install has done when the process dies.
type Done = fn(&mut Home, &Handle);

#[test]
fn a_crash_at_any_step_of_an_install_leaves_the_old_tables_or_the_new() {
    // What has been done when the process dies, and how many rows the next one finds.
    let steps: BTreeMap<&str, (Done, usize)> = BTreeMap::from([
        ("1 received", ((|_, _| ()) as Done, 1)),
        (
            "2 half laid out",
            (
                |home, received| {
                    let next = home.live.stage(received).unwrap();
                    let dir = home.dir.path().join("state").join(format!("{next:04}"));
                    fs::remove_file(dir.join("CURRENT")).unwrap();
                },
                1,
            ),
        ),
        (
            "3 laid out",
            (
                |home, received| {
                    home.live.stage(received).unwrap();
                },
                1,
            ),
        ),
        (
            "4 half a pointer",
            (
                |home, received| {
                    home.live.stage(received).unwrap();
                    fs::write(home.dir.path().join("state/current.new"), b"half").unwrap();
                },
                1,
            ),
        ),
        (
            "5 pointed at",
            (
                |home, received| {
                    let next = home.live.stage(received).unwrap();
                    home.live.point_at(next).unwrap();
                },
                2,
            ),
        ),
        (
            "6 opened",
            (
                |home, received| {
                    drop(home.live.replace(&home.state, received).unwrap());
                },
                2,
            ),
        ),
    ]);
    for (step, (run, expected)) in steps {
        let (mut home, received) = received();
        run(&mut home, &received);
        // Nothing is cleaned up by its owner.
        std::mem::forget(received);
        let home = home.restart();
        assert_eq!(rows(&home.state), expected, "{step}");
        let directories = home.names("state").iter().filter(|name| name.starts_with('0')).count();
        assert_eq!(directories, 1, "{step}: what the pointer does not name is gone");
        assert!(home.names("snapshots").is_empty(), "{step}: what was not adopted is gone");
    }
}

#[test]
fn a_lost_pointer_or_directory_is_damage() {
    let home = Home::new();
    let root = home.dir.path().join("state");
    drop((home.live, home.state));
    let pointer = fs::read(root.join("current")).unwrap();
    fs::remove_file(root.join("current")).unwrap();
    assert!(matches!(open(root.clone(), false), Err(Fault::Damaged(_))));
    fs::write(root.join("current"), &pointer[..pointer.len() - 1]).unwrap();
    assert!(matches!(open(root.clone(), true), Err(Fault::Codec { .. })));
    fs::write(root.join("current"), pointer).unwrap();
    assert!(open(root.clone(), false).is_ok());
    fs::remove_dir_all(root.join("0001")).unwrap();
    assert!(matches!(open(root, false), Err(Fault::Damaged(_))));
}
