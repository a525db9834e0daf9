//! Probes of file systems.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::bench::{Bench, on_bench};
use crate::disk::Disk;
use crate::journal::Step;
use crate::tool::tool;

const DISK_BYTES: u64 = 32 << 20;
/// For what must happen.
const PATIENCE: Duration = Duration::from_secs(10);
/// For what must not.
const SILENCE: Duration = Duration::from_millis(100);

fn disk(bench: &Bench) -> Result<Disk> {
    Disk::create(bench.dir(), "probe", DISK_BYTES, &bench.journal)
}

pub fn power_loss() -> Result<String> {
    on_bench(|bench| {
        let disk = disk(bench)?;
        let (kept, lost) = (disk.dir().join("kept"), disk.dir().join("lost"));
        let mut file = File::create(&kept)?;
        file.write_all(b"kept")?;
        file.sync_all()?;
        File::open(disk.dir())?.sync_all()?;
        fs::write(&lost, "lost")?;
        drop(file);
        disk.cut()?;
        disk.unmount()?;
        disk.mount()?;
        ensure!(fs::read(&kept)? == b"kept", "a power loss took what had been synced");
        ensure!(fs::read(&lost).unwrap_or_default() != b"lost", "a power loss took nothing");
        Ok("synced bytes outlived a power loss, others did not".to_string())
    })
}

pub fn freeze() -> Result<String> {
    on_bench(|bench| {
        let disk = disk(bench)?;
        let path = disk.dir().join("file");
        disk.freeze()?;
        let (done, written) = mpsc::channel();
        let writer = thread::spawn(move || {
            let outcome = fs::write(path, "late");
            // Nobody listens any more when the wait below has failed.
            let _ = done.send(outcome.is_ok());
        });
        let early = written.recv_timeout(SILENCE);
        disk.thaw()?;
        ensure!(early.is_err(), "a write passes a frozen file system");
        let late = written.recv_timeout(PATIENCE);
        ensure!(late == Ok(true), "a write fails after the thaw");
        // It has sent its last.
        let _ = writer.join();
        Ok("a write waited for the thaw".to_string())
    })
}

pub fn read_only() -> Result<String> {
    on_bench(|bench| {
        let disk = disk(bench)?;
        fs::write(disk.dir().join("before"), "x")?;
        disk.read_only()?;
        match fs::write(disk.dir().join("after"), "x") {
            Ok(()) => bail!("a write passes a file system with an error"),
            Err(error) => Ok(format!("a write ended with {:?}", error.kind())),
        }
    })
}

pub fn tmpfs() -> Result<String> {
    on_bench(|bench| {
        let path = bench.dir().join("tmpfs");
        fs::create_dir(&path)?;
        bench.journal.begin(Step::Mount { path: path.clone() })?;
        tool("mount", &["-t", "tmpfs", "-o", "size=1m", "orloj", &path.to_string_lossy()])?;
        match fs::write(path.join("file"), vec![0; 2 << 20]) {
            Err(error) if error.kind() == ErrorKind::StorageFull => Ok("it is full when told".to_string()),
            Err(error) => Err(error).context("fill it"),
            Ok(()) => bail!("2 MiB fit into 1 MiB"),
        }
    })
}
