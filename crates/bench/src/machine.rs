//! Facts about the machine, without which its figures mean nothing.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// The machine and the build.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// Cores that this process may use.
    pub cores: usize,
    /// What they call themselves.
    pub cpu: String,
    /// Memory, in MiB.
    pub memory_mib: u64,
    /// Name and release of the kernel.
    pub kernel: String,
    /// Kind of the file system that the data lies on.
    pub file_system: String,
    /// Load average of the last minute before the first run: more than a little disturbs.
    pub load: f64,
    /// Whether the program was built with optimisation.
    pub optimised: bool,
}

impl Machine {
    /// The facts, for data in this folder.
    pub fn look(data: &Path) -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let data = data.canonicalize().unwrap_or_else(|_| data.to_path_buf());
        Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            memory_mib: field(&read("/proc/meminfo"), "MemTotal")
                .and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok())
                .map_or(0, |kib| kib / 1024),
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
            file_system: kind_of(&read("/proc/mounts"), &data).unwrap_or_default(),
            load: read("/proc/loadavg").split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0.0),
            optimised: !cfg!(debug_assertions),
        }
    }
}

/// The value of the first line `name: value`.
fn field(text: &str, name: &str) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

/// The kind of the file system that holds `path`: that of the deepest mount above it, the last of several there.
fn kind_of(mounts: &str, path: &Path) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind) = (fields.next()?, fields.next()?);
        path.starts_with(point).then_some((point.len(), kind))
    });
    mounts.max_by_key(|(depth, _)| *depth).map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_decides() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/x xfs rw 0 0\n";
        assert_eq!(kind_of(mounts, Path::new("/tmp/x/y")).as_deref(), Some("xfs"));
        assert_eq!(kind_of(mounts, Path::new("/tmp/xy")).as_deref(), Some("tmpfs"));
        assert_eq!(kind_of(mounts, Path::new("/var")).as_deref(), Some("ext4"));
        assert_eq!(kind_of("", Path::new("/")), None);
    }

    #[test]
    fn fields_are_found_whatever_is_around_them() {
        let text = "processor\t: 0\nmodel name\t: Some CPU: 3 GHz\nmodel name\t: other\n";
        assert_eq!(field(text, "model name").as_deref(), Some("Some CPU: 3 GHz"));
        assert_eq!(field(text, "name"), None);
    }

    #[test]
    fn this_machine_has_cores_and_memory() {
        let machine = Machine::look(&std::env::temp_dir());
        assert!(
            machine.cores > 0 && machine.memory_mib > 64 && !machine.file_system.is_empty(),
            "{machine:?}"
        );
    }
}
