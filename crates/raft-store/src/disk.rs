//! Space on the disk: below a watermark nothing new is proposed but what administrators need to help themselves, below a
//! quarter of it nothing at all, and a ballast file stands ready to be deleted
//! when it is all but full. RocksDB cannot go on after a write that found no space, and may not even open on
//! a full disk, so the node stops taking work well before.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::config::DiskOptions;
use crate::error::Fault;
use crate::failure::OpenError;
use crate::files;

const BALLAST: &str = "ballast";
/// Without this much free space a node does not open its databases, in bytes.
const START_BYTES: u64 = 64 << 20;
/// Below this share of the watermark the ballast goes.
const BALLAST_SHARE: u64 = 4;
/// Bytes written at once to make the ballast; written and not just reserved, because some file systems
/// reserve nothing.
const WRITE_BYTES: usize = 1 << 20;

/// The space of a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Free for this process.
    pub free: u64,
    /// In all.
    pub total: u64,
}

/// Asks the file system of a directory for its space.
pub type Probe = Arc<dyn Fn(&Path) -> io::Result<Space> + Send + Sync>;

/// The probe of the product: statvfs.
pub fn statvfs() -> Probe {
    Arc::new(|dir| {
        let found = rustix::fs::statvfs(dir)?;
        Ok(Space {
            free: found.f_bavail.saturating_mul(found.f_frsize),
            total: found.f_blocks.saturating_mul(found.f_frsize),
        })
    })
}

/// Watches the disk of a data directory.
pub struct Disk {
    dir: PathBuf,
    options: DiskOptions,
    probe: Probe,
    free: AtomicU64,
    low: AtomicBool,
    full: AtomicBool,
}

impl Disk {
    /// Looks at the disk, before any database is opened.
    ///
    /// # Errors
    /// Too little space to start, even after deleting the ballast.
    pub fn open(dir: PathBuf, options: DiskOptions, probe: Probe) -> Result<Disk, OpenError> {
        let (free, low, full) = (AtomicU64::new(0), AtomicBool::new(false), AtomicBool::new(false));
        let disk = Disk { dir, options, probe, free, low, full };
        let mut space = disk.look()?;
        if space.free < START_BYTES && disk.drop_ballast()? {
            space = disk.look()?;
        }
        if space.free < START_BYTES {
            let dir = disk.dir.display().to_string();
            return Err(OpenError::DiskFull { dir, free: space.free, needed: START_BYTES });
        }
        Ok(disk)
    }

    /// Free bytes, at the last look.
    pub fn free(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    /// Whether less than the watermark was free, at the last look.
    pub fn is_low(&self) -> bool {
        self.low.load(Ordering::Relaxed)
    }

    /// Whether it was all but full at the last look: below the share of the watermark at which the ballast goes.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Looks again: drops the ballast when the disk is all but full, makes it when there is plenty.
    ///
    /// # Errors
    /// IO; too little space for the ballast is none.
    pub fn check(&self) -> Result<(), Fault> {
        let space = self.look()?;
        let mark = self.watermark(space.total);
        if space.free < mark / BALLAST_SHARE {
            if self.drop_ballast()? {
                tracing::error!(free = space.free, "the disk is all but full: the ballast is gone");
                self.look()?;
            }
        } else if space.free > mark.saturating_add(2 * self.options.ballast_bytes) {
            self.make_ballast()?;
        }
        Ok(())
    }

    fn look(&self) -> Result<Space, Fault> {
        let space = (self.probe)(&self.dir).map_err(Fault::io("look at the disk of", &self.dir))?;
        let mark = self.watermark(space.total);
        let low = space.free < mark;
        self.full.store(space.free < mark / BALLAST_SHARE, Ordering::Relaxed);
        self.free.store(space.free, Ordering::Relaxed);
        if self.low.swap(low, Ordering::Relaxed) != low {
            match low {
                true => tracing::error!(free = space.free, "the disk is nearly full: proposals are refused"),
                false => tracing::info!(free = space.free, "the disk has space again"),
            }
        }
        Ok(space)
    }

    fn watermark(&self, total: u64) -> u64 {
        let share = total / 100 * u64::from(self.options.low_percent);
        self.options.low_bytes.min(share)
    }

    fn drop_ballast(&self) -> Result<bool, Fault> {
        let path = self.dir.join(BALLAST);
        match std::fs::remove_file(&path) {
            Ok(()) => files::sync_dir(&self.dir).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Fault::io("delete", &path)(error)),
        }
    }

    fn make_ballast(&self) -> Result<(), Fault> {
        let path = self.dir.join(BALLAST);
        let size = self.options.ballast_bytes;
        if size == 0 || std::fs::metadata(&path).is_ok_and(|found| found.len() == size) {
            return Ok(());
        }
        let write = || -> io::Result<()> {
            let mut file = File::create(&path)?;
            // Not zeroes: a file system that compresses would give them no space.
            let block: Vec<u8> =
                (0..WRITE_BYTES).map(|at| (at.wrapping_mul(0x9e37_79b1) >> 13) as u8).collect();
            let mut left = size;
            while left > 0 {
                let count = left.min(WRITE_BYTES as u64);
                io::Write::write_all(&mut file, &block[..count as usize])?;
                left -= count;
            }
            file.sync_all()
        };
        match write() {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => self.drop_ballast().map(|_| ()),
            written => written.map_err(Fault::io("write", &path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: DiskOptions =
        DiskOptions { low_bytes: 1 << 30, low_percent: 10, ballast_bytes: 4096, check_ms: 10 };

    /// A disk of 100 GB whose free space the test sets.
    fn fake(dir: &Path, free: u64) -> (Arc<AtomicU64>, Result<Disk, OpenError>) {
        let level = Arc::new(AtomicU64::new(free));
        let seen = Arc::clone(&level);
        let probe: Probe =
            Arc::new(move |_| Ok(Space { free: seen.load(Ordering::Relaxed), total: 100_000_000_000 }));
        (level, Disk::open(dir.to_path_buf(), OPTIONS, probe))
    }

    #[test]
    fn below_the_watermark_the_disk_is_low_and_above_it_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (level, disk) = fake(dir.path(), 50_000_000_000);
        let disk = disk.unwrap();
        assert!(!disk.is_low());
        level.store((1 << 30) - 1, Ordering::Relaxed);
        disk.check().unwrap();
        assert!(disk.is_low());
        assert_eq!(disk.free(), (1 << 30) - 1);
        for (free, full) in [(1 << 28, false), ((1 << 28) - 1, true), (1 << 28, false)] {
            level.store(free, Ordering::Relaxed);
            disk.check().unwrap();
            assert_eq!((disk.is_low(), disk.is_full()), (true, full), "{free}");
        }
        level.store(1 << 30, Ordering::Relaxed);
        disk.check().unwrap();
        assert!(!disk.is_low());
    }

    #[test]
    fn the_ballast_is_made_in_plenty_and_goes_in_need() {
        let dir = tempfile::tempdir().unwrap();
        let (level, disk) = fake(dir.path(), 50_000_000_000);
        let disk = disk.unwrap();
        let ballast = dir.path().join(BALLAST);
        disk.check().unwrap();
        assert_eq!(std::fs::metadata(&ballast).unwrap().len(), OPTIONS.ballast_bytes);
        level.store(100_000_000, Ordering::Relaxed);
        disk.check().unwrap();
        assert!(!ballast.exists());
    }

    #[test]
    fn a_node_does_not_start_on_a_full_disk() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(BALLAST), b"x").unwrap();
        let (_, disk) = fake(dir.path(), START_BYTES - 1);
        assert!(matches!(disk, Err(OpenError::DiskFull { free, .. }) if free == START_BYTES - 1));
        assert!(!dir.path().join(BALLAST).exists(), "the ballast was given up first");
    }

    #[test]
    fn the_real_probe_finds_space() {
        let space = statvfs()(Path::new("/")).unwrap();
        assert!(space.total > 0 && space.free <= space.total);
    }
}
