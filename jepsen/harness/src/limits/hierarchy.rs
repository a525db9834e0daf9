//! Where this machine's cgroups are, and how each version of them is spoken to.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// A CPU quota counts per period of so many µs.
const PERIOD_US: u64 = 100_000;

/// The cgroups of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hierarchy {
    /// Version 1: a tree for each controller.
    V1 {
        /// Where the tree of `cpu` is mounted.
        cpu: PathBuf,
        /// Where the tree of `memory` is mounted.
        memory: PathBuf,
    },
    /// Version 2: one tree.
    V2 {
        /// Where it is mounted.
        root: PathBuf,
    },
}

impl Hierarchy {
    /// What is mounted here: version 1 where `cpu` and `memory` have trees of their own, else version 2.
    ///
    /// # Errors
    /// When there is neither, with the reason.
    pub fn find() -> Result<Hierarchy> {
        let mounts = fs::read_to_string("/proc/self/mounts").context("read the mounts")?;
        let has = |root: &Path| {
            let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
            ["cpu", "memory"].iter().all(|name| controllers.split_whitespace().any(|has| has == *name))
        };
        match parse(&mounts) {
            (Some(cpu), Some(memory), _) => Ok(Hierarchy::V1 { cpu, memory }),
            (_, _, Some(root)) if has(&root) => Ok(Hierarchy::V2 { root }),
            _ => bail!("no cgroups with the controllers cpu and memory are mounted"),
        }
    }

    /// The trees: that of `cpu` first, that of `memory` last.
    pub(super) fn roots(&self) -> Vec<PathBuf> {
        match self {
            Hierarchy::V1 { cpu, memory } if cpu == memory => vec![cpu.clone()],
            Hierarchy::V1 { cpu, memory } => vec![cpu.clone(), memory.clone()],
            Hierarchy::V2 { root } => vec![root.clone()],
        }
    }

    /// Lets groups below the root have limits.
    pub(super) fn prepare(&self) -> Result<()> {
        let Hierarchy::V2 { root } = self else { return Ok(()) };
        let path = root.join("cgroup.subtree_control");
        fs::write(&path, "+cpu +memory").with_context(|| format!("write {}", path.display()))
    }

    /// The file of the CPU quota and what is written to it.
    pub(super) fn cpu(&self, percent: Option<u32>) -> (&'static str, String) {
        let quota = percent.map(|percent| u64::from(percent) * PERIOD_US / 100);
        match (self, quota) {
            (Hierarchy::V1 { .. }, None) => ("cpu.cfs_quota_us", "-1".to_owned()),
            (Hierarchy::V1 { .. }, Some(quota)) => ("cpu.cfs_quota_us", quota.to_string()),
            (Hierarchy::V2 { .. }, None) => ("cpu.max", format!("max {PERIOD_US}")),
            (Hierarchy::V2 { .. }, Some(quota)) => ("cpu.max", format!("{quota} {PERIOD_US}")),
        }
    }

    /// The file of the memory limit and what is written to it.
    pub(super) fn memory(&self, bytes: Option<u64>) -> (&'static str, String) {
        let (file, all) = match self {
            Hierarchy::V1 { .. } => ("memory.limit_in_bytes", "-1"),
            Hierarchy::V2 { .. } => ("memory.max", "max"),
        };
        (file, bytes.map_or_else(|| all.to_owned(), |bytes| bytes.to_string()))
    }

    /// The file that keeps memory off the swap devices and what is written to it.
    pub(super) fn no_swap(&self) -> (&'static str, &'static str) {
        match self {
            Hierarchy::V1 { .. } => ("memory.swappiness", "0"),
            Hierarchy::V2 { .. } => ("memory.swap.max", "0"),
        }
    }

    /// The file that tells the memory in use.
    pub(super) fn memory_used(&self) -> &'static str {
        match self {
            Hierarchy::V1 { .. } => "memory.usage_in_bytes",
            Hierarchy::V2 { .. } => "memory.current",
        }
    }
}

/// Where the trees of `cpu`, of `memory` and of version 2 are mounted.
fn parse(mounts: &str) -> (Option<PathBuf>, Option<PathBuf>, Option<PathBuf>) {
    let (mut cpu, mut memory, mut root) = (None, None, None);
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        let (Some(at), Some(kind), Some(options)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let has = |name| options.split(',').any(|option| option == name);
        match kind {
            "cgroup" if has("cpu") || has("memory") => {
                let at = PathBuf::from(at);
                cpu = cpu.or_else(|| has("cpu").then(|| at.clone()));
                memory = memory.or_else(|| has("memory").then(|| at.clone()));
            }
            "cgroup2" => root = root.or_else(|| Some(PathBuf::from(at))),
            _ => {}
        }
    }
    (cpu, memory, root)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
        cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0\n\
        cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
        cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";

    #[test]
    fn the_trees_are_found() {
        let (cpu, memory, root) = parse(V1);
        assert_eq!(cpu.unwrap(), Path::new("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(memory.unwrap(), Path::new("/sys/fs/cgroup/memory"));
        assert_eq!(root.unwrap(), Path::new("/sys/fs/cgroup/unified"));
        let (cpu, memory, root) = parse("cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n");
        assert_eq!((cpu, memory, root), (None, None, Some(PathBuf::from("/sys/fs/cgroup"))));
    }

    #[test]
    fn each_version_is_spoken_to_in_its_words() {
        let v1 = Hierarchy::V1 { cpu: "/c".into(), memory: "/m".into() };
        let v2 = Hierarchy::V2 { root: "/g".into() };
        assert_eq!(v1.cpu(Some(5)), ("cpu.cfs_quota_us", "5000".to_owned()));
        assert_eq!(v1.cpu(None), ("cpu.cfs_quota_us", "-1".to_owned()));
        assert_eq!(v2.cpu(Some(150)), ("cpu.max", "150000 100000".to_owned()));
        assert_eq!(v2.cpu(None), ("cpu.max", "max 100000".to_owned()));
        assert_eq!(v1.memory(Some(1 << 20)), ("memory.limit_in_bytes", "1048576".to_owned()));
        assert_eq!(v2.memory(None), ("memory.max", "max".to_owned()));
    }
}
