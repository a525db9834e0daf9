//! What a process may use of the machine: CPU and memory by cgroups, open files by its own limit.

mod hierarchy;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::journal::{Journal, Step};
pub use hierarchy::Hierarchy;

/// The cgroups of one node, without limits until told. They are undone by the journal.
#[derive(Debug)]
pub struct Limits {
    hierarchy: Hierarchy,
    /// One folder for both controllers, or one for each.
    folders: Vec<PathBuf>,
}

impl Limits {
    /// Makes the cgroups `orloj-<run>-<node>`.
    ///
    /// # Errors
    /// When this machine's cgroups cannot be used ([`Hierarchy::find`] told), or without root.
    pub fn create(hierarchy: &Hierarchy, run: &str, node: &str, journal: &Journal) -> Result<Limits> {
        let name = format!("orloj-{run}-{node}");
        let folders: Vec<PathBuf> = hierarchy.roots().into_iter().map(|root| root.join(&name)).collect();
        hierarchy.prepare()?;
        for path in &folders {
            journal.begin(Step::Cgroup { path: path.clone() })?;
            fs::create_dir_all(path).with_context(|| format!("create {}", path.display()))?;
        }
        // What has no room in memory shall end, not move to a swap device. A kernel without swap lacks the
        // file.
        let (file, text) = hierarchy.no_swap();
        let _ = fs::write(folders[folders.len() - 1].join(file), text);
        Ok(Limits { hierarchy: hierarchy.clone(), folders })
    }

    /// Puts a process under these limits, with all its threads: once after every start.
    pub fn attach(&self, pid: u32) -> Result<()> {
        self.folders.iter().try_for_each(|folder| write(folder.join("cgroup.procs"), &pid.to_string()))
    }

    /// Allows so many percent of one core; `None` allows everything.
    pub fn cpu(&self, percent: Option<u32>) -> Result<()> {
        let (file, text) = self.hierarchy.cpu(percent);
        write(self.cpu_folder().join(file), &text)
    }

    /// Allows so many bytes of memory; `None` allows everything. What is more is given back where that is
    /// possible; where it is not the kernel kills the process, or (cgroups v1) refuses the limit with
    /// `EBUSY`.
    pub fn memory(&self, bytes: Option<u64>) -> Result<()> {
        let (file, text) = self.hierarchy.memory(bytes);
        write(self.memory_folder().join(file), &text)
    }

    /// How many bytes of memory are in use, with the file cache.
    pub fn memory_used(&self) -> Result<u64> {
        let path = self.memory_folder().join(self.hierarchy.memory_used());
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        text.trim().parse().with_context(|| format!("{} is a number", path.display()))
    }

    fn cpu_folder(&self) -> &PathBuf {
        &self.folders[0]
    }

    fn memory_folder(&self) -> &PathBuf {
        &self.folders[self.folders.len() - 1]
    }
}

/// Lets a process have only `count` open files, and gives the limit that it had for [`files`] to restore;
/// `None` allows as many as its hard limit. Files that are open stay so.
pub fn files(pid: u32, count: Option<u64>) -> Result<Option<u64>> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("no process number")?;
    // The hard limit is the harness's own, which its children inherit: it stays, so that the soft one can go
    // back.
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit { current: count.or(maximum), maximum };
    let before = prlimit(Some(pid), Resource::Nofile, limit).context("limit the open files")?;
    Ok(before.current)
}

fn write(path: PathBuf, text: &str) -> Result<()> {
    fs::write(&path, text).with_context(|| format!("write {text} to {}", path.display()))
}

#[cfg(test)]
mod tests;
