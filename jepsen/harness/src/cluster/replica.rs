//! One replica: its process, its disk, its clock and what it may use of the machine.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::clock::WallClock;
use crate::disk::Disk;
use crate::disk::power::power_loss;
use crate::limits::Limits;
use crate::process::Proc;

/// For a killed process to be gone.
pub const DEATH: Duration = Duration::from_secs(20);

/// See the module's description.
pub struct Replica {
    /// Its host.
    pub name: String,
    /// Its process.
    pub process: Proc,
    /// Its disk.
    pub disk: Disk,
    /// Where its wall clock is, where clocks can be moved.
    clock: Option<Mutex<WallClock>>,
    /// Its cgroups, where there are any.
    pub limits: Option<Limits>,
}

impl Replica {
    /// Puts one together, from a process that has been started.
    pub fn new(
        name: &str,
        process: Proc,
        disk: Disk,
        clock: Option<WallClock>,
        limits: Option<Limits>,
    ) -> Result<Replica> {
        let replica = Replica { name: name.to_owned(), process, disk, clock: clock.map(Mutex::new), limits };
        replica.attach()?;
        Ok(replica)
    }

    /// Starts it again, when it does not run, with its disk mounted.
    ///
    /// # Errors
    /// The program does not start.
    pub fn start(&self) -> Result<()> {
        if self.process.is_running() {
            return Ok(());
        }
        self.disk.mount()?;
        // What has ended by itself leaves its traces in the journal until somebody has waited for it.
        self.process.wait(DEATH)?;
        self.process.start_again()?;
        self.attach()
    }

    fn attach(&self) -> Result<()> {
        match &self.limits {
            Some(limits) => limits.attach(self.process.pid()),
            None => Ok(()),
        }
    }

    /// Kills it, paused or not; without effect when it has ended.
    ///
    /// # Errors
    /// It does not die.
    pub fn kill(&self) -> Result<()> {
        self.disk.thaw()?;
        self.process.kill(DEATH).map(drop)
    }

    /// Takes its power away: the process is gone and what it had not synced is lost.
    ///
    /// # Errors
    /// The disk cannot be cut, unmounted or mounted.
    pub fn power_loss(&self) -> Result<()> {
        power_loss(&self.disk, &self.process, DEATH).map(drop)
    }

    /// Its wall clock.
    ///
    /// # Errors
    /// Clocks cannot be moved on this machine.
    pub fn clock(&self) -> Result<MutexGuard<'_, WallClock>> {
        let clock =
            self.clock.as_ref().context("wall clocks cannot be moved here: there is no C compiler")?;
        // Its parts change one at a time.
        Ok(clock.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How far its wall clock is ahead, in ms.
    pub fn wall_offset_ms(&self) -> i64 {
        self.clock().map_or(0, |clock| clock.offset())
    }

    /// Where its data lies.
    pub fn data(&self) -> PathBuf {
        self.disk.dir().join("data")
    }

    /// Takes its data away. The process has ended.
    ///
    /// # Errors
    /// The folder cannot be removed.
    pub fn wipe(&self) -> Result<()> {
        match fs::remove_dir_all(self.data()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context("wipe the data"),
            _ => Ok(()),
        }
    }

    /// Puts its data aside under a name, as a disk that may turn up again. The process has ended.
    ///
    /// # Errors
    /// The folder cannot be moved.
    pub fn put_aside(&self, name: &str) -> Result<()> {
        let aside = self.disk.dir().join(name);
        if aside.exists() {
            fs::remove_dir_all(&aside).context("forget what was put aside before")?;
        }
        fs::rename(self.data(), aside).context("put the data aside")
    }

    /// Brings the data back that was put aside under this name, in the place of the present data. The process has
    /// ended.
    ///
    /// # Errors
    /// Nothing was put aside.
    pub fn bring_back(&self, name: &str) -> Result<()> {
        self.wipe()?;
        fs::rename(self.disk.dir().join(name), self.data()).context("bring the data back")
    }
}
