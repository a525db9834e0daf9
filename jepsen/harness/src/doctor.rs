//! What this machine can do to a cluster: every capability that a fault needs is tried for real, on things
//! that are made for it and removed again.

mod bench;
mod disks;
mod network;
mod processes;

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::args::DoctorArgs;

/// Something that a machine has or lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// Network namespaces, and threads that enter them.
    Namespaces,
    /// The router between TUN devices.
    Router,
    /// The bridge with packet filters, which stands in for the router.
    Bridge,
    /// Resetting other processes' TCP connections.
    Resets,
    /// File systems in loop-mounted images that lose what was not synced.
    Disks,
    /// Standing still on every write.
    Freeze,
    /// A file system that turns read-only under its processes.
    ReadOnly,
    /// Failing and slow syncs, by a tracer.
    Tracing,
    /// A share of a core.
    CpuQuota,
    /// A bound on memory.
    MemoryLimit,
    /// A bound on open files.
    FileLimit,
    /// Wall clocks of single processes that can be moved.
    WallClock,
    /// Monotonic clocks that are apart from the start.
    TimeNamespace,
    /// File systems in memory.
    Tmpfs,
}

impl Capability {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 14] = [
        Self::Namespaces,
        Self::Router,
        Self::Bridge,
        Self::Resets,
        Self::Disks,
        Self::Freeze,
        Self::ReadOnly,
        Self::Tracing,
        Self::CpuQuota,
        Self::MemoryLimit,
        Self::FileLimit,
        Self::WallClock,
        Self::TimeNamespace,
        Self::Tmpfs,
    ];

    /// What it is, in a few words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "network namespaces",
            Self::Router => "router over TUN",
            Self::Bridge => "bridge and nft",
            Self::Resets => "TCP resets (ss -K)",
            Self::Disks => "loop ext4, power loss",
            Self::Freeze => "frozen file system",
            Self::ReadOnly => "read-only file system",
            Self::Tracing => "strace on syncs",
            Self::CpuQuota => "CPU quota (cgroup)",
            Self::MemoryLimit => "memory limit (cgroup)",
            Self::FileLimit => "open file limit",
            Self::WallClock => "wall clock (preload)",
            Self::TimeNamespace => "time namespace",
            Self::Tmpfs => "tmpfs",
        }
    }

    /// The faults that cannot be exercised without it, as `package.fault`; `package.*` is every fault of a
    /// package and `*` every run.
    pub fn faults(self) -> &'static [&'static str] {
        match self {
            Self::Namespaces => &["*"],
            Self::Router => &["link.delay", "link.duplicate", "link.reorder"],
            // The router does them too, and then the bridge is not needed: see `Report::missing`.
            Self::Bridge => &["partition.*", "link.loss", "link.rate", "link.half-open"],
            Self::Resets => &["link.resets"],
            Self::Disks => &["power.*", "disk.*"],
            Self::Freeze => &["disk.stall"],
            Self::ReadOnly => &["disk.read-only"],
            Self::Tracing => &["disk.slow-sync", "disk.sync-error"],
            Self::CpuQuota => &["resource.cpu"],
            Self::MemoryLimit => &["resource.memory"],
            Self::FileLimit => &["resource.files"],
            Self::WallClock => &["clock.*"],
            // Neither makes a fault: the first makes replicas differ from the start, the second is for scratch.
            Self::TimeNamespace | Self::Tmpfs => &[],
        }
    }
}

/// What was found about one capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Which.
    pub capability: Capability,
    /// [`Capability::name`].
    pub name: String,
    /// Whether the machine has it.
    pub ok: bool,
    /// What was seen, or why it does not work.
    pub detail: String,
    /// [`Capability::faults`].
    pub faults: Vec<String>,
}

/// What was found about the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// One for each capability.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Which capabilities are missing for the fault `package.fault`; none when it can be exercised.
    pub fn missing(&self, fault: &str) -> Vec<&Finding> {
        let router = self.has(Capability::Router);
        let concerns = |finding: &&Finding| {
            let stood_in = finding.capability == Capability::Bridge && router;
            !finding.ok && !stood_in && finding.faults.iter().any(|pattern| matches(pattern, fault))
        };
        self.findings.iter().filter(concerns).collect()
    }

    /// Whether the machine has a capability.
    pub fn has(&self, capability: Capability) -> bool {
        self.findings.iter().any(|finding| finding.capability == capability && finding.ok)
    }

    /// The table for people: what, whether, the faults that need it, and what was seen.
    pub fn table(&self) -> String {
        let mut text = format!("{:<22} {:<8} {:<50} seen\n", "capability", "", "needed for");
        for finding in &self.findings {
            let word = if finding.ok { "ok" } else { "missing" };
            let faults =
                if finding.faults.is_empty() { "no fault".into() } else { finding.faults.join(", ") };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{:<22} {word:<8} {faults:<50} {}", finding.name, finding.detail);
        }
        let _ = writeln!(text, "\n{}", self.network());
        text
    }

    /// Which network faults can be exercised, in a sentence.
    fn network(&self) -> &'static str {
        if self.has(Capability::Router) {
            "Network faults: all, by the router."
        } else if self.has(Capability::Bridge) {
            "Network faults: cuts, loss and rates only, by the bridge; no delay, doubling or reordering."
        } else {
            "Network faults cannot be exercised on this machine."
        }
    }
}

fn matches(pattern: &str, fault: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => fault.starts_with(beginning),
        None => pattern == fault,
    }
}

/// Tries one capability: what was seen when it works.
///
/// # Errors
/// Why it does not work.
pub fn probe(capability: Capability) -> Result<String> {
    match capability {
        Capability::Namespaces => network::namespaces(),
        Capability::Router => network::router(),
        Capability::Bridge => network::bridge(),
        Capability::Resets => network::resets(),
        Capability::Disks => disks::power_loss(),
        Capability::Freeze => disks::freeze(),
        Capability::ReadOnly => disks::read_only(),
        Capability::Tracing => processes::tracing(),
        Capability::CpuQuota => processes::cpu_quota(),
        Capability::MemoryLimit => processes::memory_limit(),
        Capability::FileLimit => processes::file_limit(),
        Capability::WallClock => processes::wall_clock(),
        Capability::TimeNamespace => processes::time_namespace(),
        Capability::Tmpfs => disks::tmpfs(),
    }
}

/// Tries every capability; takes a few seconds.
pub fn examine() -> Report {
    let find = |capability: Capability| {
        let outcome = probe(capability);
        Finding {
            capability,
            name: capability.name().to_string(),
            ok: outcome.is_ok(),
            detail: outcome.unwrap_or_else(|error| format!("{error:#}").replace('\n', " ")),
            faults: capability.faults().iter().map(ToString::to_string).collect(),
        }
    };
    Report { findings: Capability::ALL.into_iter().map(find).collect() }
}

/// `orloj-jepsen doctor`: prints what was found. Success, unless `--strict` is asked for and something is
/// missing.
///
/// # Errors
/// When the report cannot be written as JSON, which does not happen.
pub fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let report = examine();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report.table());
    }
    let complete = report.findings.iter().all(|finding| finding.ok);
    Ok(if args.strict && !complete { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(missing: &[Capability]) -> Report {
        let find = |capability: Capability| Finding {
            capability,
            name: capability.name().to_string(),
            ok: !missing.contains(&capability),
            detail: "tried".to_string(),
            faults: capability.faults().iter().map(ToString::to_string).collect(),
        };
        Report { findings: Capability::ALL.into_iter().map(find).collect() }
    }

    #[test]
    fn a_fault_knows_what_it_lacks() {
        let whole = report(&[]);
        let poor = report(&[Capability::Disks, Capability::Bridge, Capability::WallClock]);
        for fault in ["process.kill", "partition.isolate", "link.delay"] {
            assert_eq!(whole.missing(fault), Vec::<&Finding>::new());
            assert_eq!(
                poor.missing(fault),
                Vec::<&Finding>::new(),
                "{fault}: the router stands for the bridge"
            );
        }
        assert_eq!(poor.missing("power.fail")[0].capability, Capability::Disks);
        assert_eq!(poor.missing("clock.jump")[0].capability, Capability::WallClock);
        let bridged = report(&[Capability::Router]);
        assert!(bridged.missing("partition.isolate").is_empty());
        assert_eq!(bridged.missing("link.delay")[0].capability, Capability::Router);
        let alone = report(&[Capability::Router, Capability::Bridge]);
        assert_eq!(alone.missing("partition.isolate")[0].capability, Capability::Bridge);
        assert!(alone.table().contains("Network faults cannot be exercised"));
        assert_eq!(report(&[Capability::Namespaces]).missing("sink.down").len(), 1);
    }

    #[test]
    fn every_capability_is_probed_without_a_panic_and_leaves_the_machine_as_it_was() {
        let report = examine();
        assert_eq!(report.findings.len(), Capability::ALL.len());
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
        for finding in report.findings.iter().filter(|finding| !finding.ok) {
            eprintln!("{} is missing: {}", finding.name, finding.detail);
        }
    }
}
