//! The disk of one replica: a file system of its own in an image file, that can lose its power, fill up, turn
//! read-only and stand still without harm to the machine's own disks.
//!
//! Every operation first makes sure that it is about this image: a freeze of the wrong file system would stop
//! the machine.

pub mod damage;
pub mod fsync;
mod ioctl;
pub mod power;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::fs::{FallocateFlags, fallocate, fstat, fstatvfs, major, minor};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::journal::{Journal, Step, Ticket};
use crate::tool::tool;
use crate::wait::until;

/// The size of an image. The file is sparse: it takes what is written.
pub const DEFAULT_BYTES: u64 = 512 << 20;
/// How long a file system may be busy after its last process has been killed.
const UNMOUNT: Duration = Duration::from_secs(20);
/// What an allocation gives way by when the file system needs more for itself than it said.
const GIVE_WAY: u64 = 16 << 10;

/// The disk of one replica. What it leaves on the machine is undone by the journal: first the end of every
/// process on it, then `Journal::undo_all`.
#[derive(Debug)]
pub struct Disk {
    journal: Journal,
    image: PathBuf,
    dir: PathBuf,
    /// Frozen by [`Disk::freeze`].
    frozen: Mutex<Option<Ticket>>,
    /// The kernel noted an error in the file system: it is repaired before the next mount.
    ailing: AtomicBool,
}

impl Disk {
    /// Makes an image of `bytes` at `<run>/disk/<node>.img` with an empty file system, and mounts it at
    /// `<run>/mnt/<node>`. `run` is an absolute path.
    ///
    /// # Errors
    /// Without root, loop devices or `mkfs.ext4`.
    pub fn create(run: &Path, node: &str, bytes: u64, journal: &Journal) -> Result<Disk> {
        let (images, mounts) = (run.join("disk"), run.join("mnt"));
        let (image, dir) = (images.join(format!("{node}.img")), mounts.join(node));
        journal.begin(Step::Folder { path: dir.clone() })?;
        for folder in [&images, &dir] {
            fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        }
        journal.begin(Step::File { path: image.clone() })?;
        File::create(&image).and_then(|file| file.set_len(bytes)).context("make the image")?;
        // Nothing is kept back for root: the processes are root's.
        tool("mkfs.ext4", &["-q", "-m", "0", &text(&image)?])?;
        let image = image.canonicalize().context("find the image")?;
        // The device goes with the mount; its own step is for a death between the two.
        journal.begin(Step::Loop { image: image.clone() })?;
        journal.begin(Step::Mount { path: dir.clone() })?;
        let (frozen, ailing) = (Mutex::new(None), AtomicBool::new(false));
        let disk = Disk { journal: journal.clone(), image, dir, frozen, ailing };
        disk.mount()?;
        Ok(disk)
    }

    /// Where it is mounted: the root of its file system.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Mounts it, with a repair before that if the kernel has noted an error in it. After a power loss this
    /// replays its journal. Nothing is done when it is mounted.
    pub fn mount(&self) -> Result<()> {
        if self.root().is_ok() {
            return Ok(());
        }
        let image = text(&self.image)?;
        if self.ailing.swap(false, Ordering::Relaxed) {
            repair(&image)?;
        }
        tool("mount", &["-t", "ext4", "-o", "loop,noatime,errors=remount-ro", &image, &text(&self.dir)?])?;
        self.root().map(drop)
    }

    /// Unmounts it; waits a while for processes that are just ending. It must not be frozen. Nothing is done
    /// when it is not mounted.
    pub fn unmount(&self) -> Result<()> {
        let what = format!("unmount {}", self.dir.display());
        until(&what, UNMOUNT, || match unmount(&self.dir, UnmountFlags::empty()) {
            Err(Errno::BUSY) => Ok(None),
            Ok(()) | Err(Errno::INVAL) => Ok(Some(())),
            Err(error) => Err(error).context(what.clone()),
        })
    }

    /// Cuts the power: what has not been synced is lost, and every later call fails with `EIO` until the disk
    /// has been unmounted and mounted. [`power::power_loss`] does all of it for a replica.
    pub fn cut(&self) -> Result<()> {
        ioctl::shutdown(self.root()?).context("shut the file system down")
    }

    /// Fills it until `leave` bytes are free, and tells how many are. Files that are there keep the room that
    /// they have.
    pub fn fill(&self, leave: u64) -> Result<u64> {
        let root = self.root()?;
        let filler =
            File::options().append(true).create(true).open(self.filler()).context("open the filler")?;
        let mut margin = 0;
        loop {
            let want = free(&root)?.saturating_sub(leave.saturating_add(margin));
            if want == 0 {
                return free(&root);
            }
            match fallocate(&filler, FallocateFlags::empty(), filler.metadata()?.len(), want) {
                Ok(()) => {}
                Err(Errno::NOSPC) => margin += GIVE_WAY,
                Err(error) => return Err(error).context("fill the disk"),
            }
        }
    }

    /// Gives the room back that [`Disk::fill`] took.
    pub fn free(&self) -> Result<()> {
        self.root()?;
        match fs::remove_file(self.filler()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).context("remove the filler")
            }
            _ => Ok(()),
        }
    }

    /// How many bytes are free.
    pub fn space(&self) -> Result<u64> {
        free(&self.root()?)
    }

    /// Turns it read-only in the way that a real disk does: the kernel finds an error in it, and lets nobody
    /// write any more, not even through files that are open. It stays so until it is unmounted and mounted,
    /// which needs the end of its processes.
    pub fn read_only(&self) -> Result<()> {
        let device = self.device(&self.root()?)?;
        let trigger = Path::new("/sys/fs/ext4").join(device).join("trigger_fs_error");
        self.ailing.store(true, Ordering::Relaxed);
        fs::write(&trigger, "1").with_context(|| format!("write {}", trigger.display()))
    }

    /// Lets every write to it wait until [`Disk::thaw`]. **Thaw before a kill**: a process that waits in a
    /// write cannot end. Nothing is done when it is frozen.
    pub fn freeze(&self) -> Result<()> {
        let root = self.root()?;
        let mut frozen = self.frozen();
        if frozen.is_none() {
            *frozen = Some(self.journal.begin(Step::Frozen { mount: self.dir.clone() })?);
            ioctl::freeze(root).context("freeze the file system")?;
        }
        Ok(())
    }

    /// Lets the writes go on. Nothing is done when it is not frozen.
    pub fn thaw(&self) -> Result<()> {
        let mut frozen = self.frozen();
        if let Some(ticket) = *frozen {
            match ioctl::thaw(self.root()?) {
                Ok(()) | Err(Errno::INVAL) => {}
                Err(error) => return Err(error).context("thaw the file system"),
            }
            self.journal.end(ticket)?;
            *frozen = None;
        }
        Ok(())
    }

    fn frozen(&self) -> MutexGuard<'_, Option<Ticket>> {
        // Every change is one assignment.
        self.frozen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The root of the mounted file system. An error when something else is there.
    fn root(&self) -> Result<File> {
        let root = File::open(&self.dir).with_context(|| format!("open {}", self.dir.display()))?;
        self.device(&root)?;
        Ok(root)
    }

    /// The name of the loop device below `root`, which must be one on this image.
    fn device(&self, root: &File) -> Result<String> {
        let number = fstat(root)?.st_dev;
        let block = PathBuf::from(format!("/sys/dev/block/{}:{}", major(number), minor(number)));
        let backing = fs::read_to_string(block.join("loop/backing_file")).unwrap_or_default();
        if Path::new(backing.trim_end()) != self.image {
            bail!("{} is not mounted", self.dir.display());
        }
        let device = fs::canonicalize(&block)?;
        let name = device.file_name().context("a device has a name")?;
        Ok(name.to_string_lossy().into_owned())
    }

    fn filler(&self) -> PathBuf {
        self.dir.join("filler")
    }
}

/// Bytes that a process may still write to the file system of `root`.
fn free(root: &File) -> Result<u64> {
    let space = fstatvfs(root)?;
    Ok(space.f_bavail * space.f_frsize)
}

/// Lets `e2fsck` repair what it can without questions.
fn repair(image: &str) -> Result<()> {
    let output = Command::new("e2fsck").args(["-p", image]).stdin(Stdio::null()).output();
    let output = output.context("run e2fsck")?;
    // 1: there were errors, and they are repaired.
    match output.status.code() {
        Some(0 | 1) => Ok(()),
        _ => bail!("e2fsck {image}: {}: {}", output.status, String::from_utf8_lossy(&output.stdout).trim()),
    }
}

fn text(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests;
