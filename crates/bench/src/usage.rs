//! What processes use, read from `/proc`.

use std::fs;

/// Ticks a second of the CPU times in `/proc/<pid>/stat`: fixed in the interface of Linux.
const TICKS_PER_S: f64 = 100.0;

/// What a process has used since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// CPU time, user and system, in s.
    pub cpu_s: f64,
    /// Memory that is resident now, in MiB.
    pub now_mib: f64,
    /// The most that was, in MiB.
    pub peak_mib: f64,
}

impl Usage {
    /// What two processes have used together that ran one after the other: `next` is the later one.
    pub fn then(self, next: Usage) -> Usage {
        Usage {
            cpu_s: self.cpu_s + next.cpu_s,
            now_mib: next.now_mib,
            peak_mib: self.peak_mib.max(next.peak_mib),
        }
    }
}

/// What the process has used; zeros when it is gone.
pub fn of(pid: u32) -> Usage {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let status = read("status");
    let mib = |name: &str| kib(&status, name).map_or(0.0, |kib| kib as f64 / 1024.0);
    Usage { cpu_s: cpu_s(&read("stat")).unwrap_or(0.0), now_mib: mib("VmRSS:"), peak_mib: mib("VmHWM:") }
}

/// User and system time of `/proc/<pid>/stat`, in s.
fn cpu_s(stat: &str) -> Option<f64> {
    // The name is in parentheses and may hold anything. The state, field 3, is the first after it.
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |place: usize| fields.get(place)?.parse::<u64>().ok();
    Some((ticks(11)? + ticks(12)?) as f64 / TICKS_PER_S)
}

fn kib(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// CPU time of this process and of those of its children that have ended and were waited for, in s.
pub fn own_cpu_s() -> f64 {
    own(&fs::read_to_string("/proc/self/stat").unwrap_or_default()).unwrap_or(0.0)
}

fn own(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    // User and system time of the process, and the same of its children: four fields in a row.
    let ticks = rest.split_whitespace().skip(11).take(4).map(str::parse::<u64>);
    let ticks: Vec<u64> = ticks.collect::<Result<_, _>>().ok()?;
    (ticks.len() == 4).then(|| ticks.iter().sum::<u64>() as f64 / TICKS_PER_S)
}

/// CPU time that the whole machine has spent on anything but idling, in s.
pub fn machine_cpu_s() -> f64 {
    busy_s(&fs::read_to_string("/proc/stat").unwrap_or_default()).unwrap_or(0.0)
}

fn busy_s(stat: &str) -> Option<f64> {
    let fields = stat.lines().next()?.split_whitespace().skip(1).take(8);
    let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    // Idle and waiting for the disk are the fourth and the fifth.
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some((ticks.iter().sum::<u64>() - idle) as f64 / TICKS_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "12 (a) b (c) S 1 1 1 0 -1 4194560 10 0 0 0 150 50 7 7 20 0 4 0 100 0 0";
        assert_eq!(cpu_s(stat), Some(2.0));
        assert_eq!(cpu_s(""), None);
        assert_eq!(own(stat), Some(2.14), "with the children");
        assert_eq!(own("12 (a) S 1"), None);
    }

    #[test]
    fn memory_is_found_by_its_name() {
        let status = "Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t 1024 kB\n";
        assert_eq!(
            (kib(status, "VmRSS:"), kib(status, "VmHWM:"), kib(status, "VmSwap:")),
            (Some(1024), Some(2048), None)
        );
    }

    #[test]
    fn a_process_that_ended_is_not_forgotten() {
        let first = Usage { cpu_s: 2.0, now_mib: 90.0, peak_mib: 300.0 };
        let second = Usage { cpu_s: 1.0, now_mib: 80.0, peak_mib: 100.0 };
        assert_eq!(first.then(second), Usage { cpu_s: 3.0, now_mib: 80.0, peak_mib: 300.0 });
        assert_eq!(first.then(Usage::default()), Usage { now_mib: 0.0, ..first });
    }

    #[test]
    fn idle_time_is_not_busy() {
        assert_eq!(busy_s("cpu  100 0 100 5000 300 0 50 50 7 7\ncpu0 1\n"), Some(3.0));
    }

    #[test]
    fn this_process_uses_something() {
        let usage = of(std::process::id());
        assert!(usage.now_mib > 0.1 && usage.peak_mib >= usage.now_mib, "{usage:?}");
        assert_eq!(of(u32::MAX / 2), Usage::default());
    }
}
