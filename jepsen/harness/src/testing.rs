//! What tests of real faults share: what this machine allows, and a journal that must undo everything.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use orloj_jepsen_core::event;
use tempfile::TempDir;

use crate::journal::Journal;
use crate::process::Record;
use crate::tool::installed;

pub const PATIENCE: Duration = Duration::from_secs(30);

/// `CAP_SYS_ADMIN`.
const ADMIN: u32 = 21;

/// Whether everything is there; tells what is not.
pub fn able(needs: &[(&str, bool)]) -> bool {
    let missing: Vec<&str> = needs.iter().filter(|(_, has)| !has).map(|(what, _)| *what).collect();
    if !missing.is_empty() {
        eprintln!("skipped: this machine lacks {}", missing.join(", "));
    }
    missing.is_empty()
}

/// Whether this process may mount and make namespaces.
pub fn is_admin() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    u64::from_str_radix(set, 16).unwrap() >> ADMIN & 1 == 1
}

/// Needs of a test with disks.
pub fn disks() -> [(&'static str, bool); 3] {
    [
        ("CAP_SYS_ADMIN", is_admin()),
        ("loop devices", Path::new("/dev/loop-control").exists()),
        ("mkfs.ext4", installed("mkfs.ext4")),
    ]
}

/// A folder with a journal, which undoes everything at the end and must succeed.
pub struct Bench {
    pub dir: TempDir,
    pub journal: Journal,
    pub run: String,
}

impl Bench {
    pub fn new() -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let (run, journal) = Journal::fresh(&dir.path().join("journals")).unwrap();
        Bench { dir, journal, run: run.to_string() }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let problems = self.journal.undo_all();
        assert!(problems.is_empty() || std::thread::panicking(), "{problems:?}");
    }
}

/// Keeps what is recorded of a process.
#[derive(Clone, Default)]
pub struct Told(Arc<Mutex<Vec<event::Process>>>);

impl Told {
    pub fn record(&self) -> Record {
        let told = Arc::clone(&self.0);
        Arc::new(move |event| told.lock().unwrap().push(event))
    }

    pub fn all(&self) -> Vec<event::Process> {
        self.0.lock().unwrap().clone()
    }

    pub fn words(&self) -> Vec<String> {
        self.all().into_iter().map(|event| event.state).collect()
    }
}
