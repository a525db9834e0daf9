use super::damage::{Damage, Part, damage};
use super::power::power_loss;
use super::*;
use crate::process::{Proc, Spec};
use crate::testing::{Bench, PATIENCE, Told, able, disks};
use std::io::{ErrorKind, Write as _};

const SMALL: u64 = 64 << 20;

fn disk() -> Option<(Bench, Disk)> {
    if !able(&disks()) {
        return None;
    }
    let bench = Bench::new();
    let disk = Disk::create(bench.dir.path(), "n1", SMALL, &bench.journal).unwrap();
    Some((bench, disk))
}

/// A shell that works in the root of the disk.
fn shell(bench: &Bench, disk: &Disk, script: &str) -> Proc {
    let mut spec = Spec::new("sh", bench.dir.path().join("log"));
    spec.args = vec!["-c".into(), format!("cd {}; {script}", disk.dir().display()).into()];
    Proc::start(spec, &bench.journal, Told::default().record()).unwrap()
}

fn appears(disk: &Disk, name: &str) {
    until(name, PATIENCE, || Ok(disk.dir().join(name).exists().then_some(()))).unwrap();
}

/// What a file has that may have been lost.
fn content(disk: &Disk, name: &str) -> String {
    fs::read_to_string(disk.dir().join(name)).unwrap_or_default()
}

#[test]
fn a_power_loss_takes_what_was_not_synced_and_nothing_else() {
    let Some((bench, disk)) = disk() else { return };
    let script = "echo safe > kept; sync kept .; echo in memory > lost; echo > written; exec sleep 1000";
    let process = shell(&bench, &disk, script);
    appears(&disk, "written");
    let ended = power_loss(&disk, &process, PATIENCE).unwrap();
    assert_eq!((ended.signal, ended.expected), (Some(9), true));
    assert_eq!(content(&disk, "kept"), "safe\n");
    assert_eq!(content(&disk, "lost"), "");
    // It works again, for its process too.
    process.start_again().unwrap();
    appears(&disk, "written");
    process.kill(PATIENCE).unwrap();
}

#[test]
fn a_disk_without_power_fails_every_call() {
    let Some((_bench, disk)) = disk() else { return };
    let mut open = File::create(disk.dir().join("open")).unwrap();
    disk.cut().unwrap();
    let error = open.write_all(b"x").and_then(|()| open.sync_all()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    drop(open);
    disk.unmount().unwrap();
    disk.mount().unwrap();
    fs::write(disk.dir().join("new"), "x").unwrap();
}

#[test]
fn a_full_disk_takes_nothing_until_it_is_freed() {
    let Some((_bench, disk)) = disk() else { return };
    let before = disk.space().unwrap();
    let left = disk.fill(1 << 20).unwrap();
    assert!((1 << 19..1 << 20 | 1 << 16).contains(&left), "{left} bytes are left");
    assert!(disk.fill(0).unwrap() < 1 << 16);
    let error = fs::write(disk.dir().join("big"), vec![1; 1 << 20]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    fs::remove_file(disk.dir().join("big")).unwrap();
    disk.free().unwrap();
    disk.free().unwrap();
    assert!(disk.space().unwrap() > before - (1 << 20));
    fs::write(disk.dir().join("big"), vec![1; 1 << 20]).unwrap();
}

#[test]
fn a_read_only_disk_refuses_open_files_too_until_it_is_mounted_again() {
    let Some((_bench, disk)) = disk() else { return };
    fs::write(disk.dir().join("kept"), "safe").unwrap();
    File::open(disk.dir().join("kept")).unwrap().sync_all().unwrap();
    let mut open = File::create(disk.dir().join("open")).unwrap();
    disk.read_only().unwrap();
    let error = fs::write(disk.dir().join("new"), "x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem);
    assert!(open.write_all(b"x").and_then(|()| open.sync_all()).is_err());
    assert_eq!(content(&disk, "kept"), "safe");
    drop(open);
    disk.unmount().unwrap();
    disk.mount().unwrap();
    fs::write(disk.dir().join("new"), "x").unwrap();
    assert_eq!(content(&disk, "kept"), "safe");
}

#[test]
fn writes_to_a_frozen_disk_wait_until_it_is_thawed() {
    let Some((bench, disk)) = disk() else { return };
    disk.thaw().unwrap();
    disk.freeze().unwrap();
    disk.freeze().unwrap();
    let process = shell(&bench, &disk, "echo x > file; echo y");
    let state = || fs::read_to_string(format!("/proc/{}/stat", process.pid())).unwrap_or_default();
    until("the write waits", PATIENCE, || Ok(state().contains(") D ").then_some(()))).unwrap();
    disk.thaw().unwrap();
    assert_eq!(process.wait(PATIENCE).unwrap().unwrap().code, Some(0));
    assert_eq!(content(&disk, "file"), "x\n");
}

#[test]
fn power_is_lost_on_a_frozen_disk_too() {
    let Some((bench, disk)) = disk() else { return };
    disk.freeze().unwrap();
    let process = shell(&bench, &disk, "echo x > file; exec sleep 1000");
    assert_eq!(power_loss(&disk, &process, PATIENCE).unwrap().signal, Some(9));
    assert_eq!(content(&disk, "file"), "");
}

#[test]
fn nothing_is_done_to_another_file_system() {
    let Some((_bench, disk)) = disk() else { return };
    disk.unmount().unwrap();
    disk.unmount().unwrap();
    let refused = [
        disk.freeze().unwrap_err(),
        disk.cut().unwrap_err(),
        disk.fill(0).unwrap_err(),
        disk.free().unwrap_err(),
        disk.read_only().unwrap_err(),
    ];
    for error in refused {
        assert!(error.to_string().contains("is not mounted"), "{error:#}");
    }
    disk.mount().unwrap();
    disk.mount().unwrap();
    disk.fill(1 << 20).unwrap();
}

#[test]
fn damage_lasts() {
    let Some((_bench, disk)) = disk() else { return };
    fs::write(disk.dir().join("000001.log"), vec![0; 100]).unwrap();
    damage(disk.dir(), Part::Wal, Damage::Flip { place: 0 }).unwrap().unwrap();
    disk.cut().unwrap();
    disk.unmount().unwrap();
    disk.mount().unwrap();
    assert_eq!(fs::read(disk.dir().join("000001.log")).unwrap()[0], 1);
}

#[test]
fn a_later_process_undoes_what_a_dead_one_left() {
    if !able(&disks()) {
        return;
    }
    let run = tempfile::tempdir().unwrap();
    let folder = run.path().join("journals");
    let (_, journal) = Journal::fresh(&folder).unwrap();
    let disk = Disk::create(run.path(), "n1", SMALL, &journal).unwrap();
    disk.freeze().unwrap();
    let (image, dir) = (disk.image.clone(), disk.dir.clone());
    // The harness dies: nothing is undone, and the lock on its journal is gone.
    drop((disk, journal));
    let leftovers = Journal::undo_leftovers(&folder).unwrap();
    assert_eq!(leftovers.len(), 1);
    assert_eq!(leftovers[0].problems, Vec::<String>::new());
    assert!(!image.exists() && !dir.exists());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(dir.to_str().unwrap()));
}
