//! Probes of what is done to single processes.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::bench::{Bench, on_bench};
use crate::clock::WallShim;
use crate::disk::fsync::{Errno, FsyncFault};
use crate::journal::{Pid, Step};
use crate::limits::{self, Hierarchy, Limits};
use crate::tool::{run, tool};
use crate::wait::until;

const PATIENCE: Duration = Duration::from_secs(10);
/// How far clocks are moved: further than any probe takes.
const AHEAD_S: u64 = 86_400;

/// A shell that waits for a line on its standard input before it does what it was told.
struct Shell {
    child: Child,
}

impl Shell {
    fn start(bench: &Bench, script: &str) -> Result<Self> {
        let child = Command::new("sh")
            .args(["-c", &format!("read go; {script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start sh")?;
        let shell = Self { child };
        bench.journal.begin(Step::Process(Pid::of(shell.pid())?))?;
        Ok(shell)
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn go(&mut self) {
        // The closed input is an empty line, as good as a full one.
        drop(self.child.stdin.take());
    }

    /// Waits for the end.
    fn ended(&mut self) -> Result<ExitStatus> {
        self.go();
        until("the end of sh", PATIENCE, || Ok(self.child.try_wait()?))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // It has ended already, or ends now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn tracing() -> Result<String> {
    on_bench(|bench| {
        let file = bench.dir().join("file");
        let script = format!("exec dd if=/dev/zero of={} bs=1 count=1 conv=fsync", file.display());
        let clean = Shell::start(bench, &script)?.ended()?;
        ensure!(clean.success(), "dd cannot sync a file: {clean}");
        let mut hurt = Shell::start(bench, &script)?;
        let fault = FsyncFault::fail(hurt.pid(), Errno::Eio, 1, &bench.journal)?;
        let status = hurt.ended()?;
        fault.detach()?;
        ensure!(!status.success(), "a sync that was to fail did not");
        Ok("a sync failed when told".to_string())
    })
}

pub fn cpu_quota() -> Result<String> {
    on_bench(|bench| {
        let hierarchy = Hierarchy::find()?;
        let limits = Limits::create(&hierarchy, bench.run.as_str(), "probe", &bench.journal)?;
        let mut busy = Shell::start(bench, "while :; do :; done")?;
        limits.attach(busy.pid())?;
        limits.cpu(Some(5))?;
        busy.go();
        let began = crate::wait::monotonic();
        std::thread::sleep(Duration::from_millis(400));
        let took = crate::wait::monotonic() - began;
        let used = cpu_time(busy.pid())?;
        limits.cpu(None)?;
        ensure!(used < took / 2, "a process with 5% of a core used {used:?} in {took:?}");
        Ok(format!(
            "{}: used {} ms of {} ms with 5% of a core",
            version(&hierarchy),
            used.as_millis(),
            took.as_millis()
        ))
    })
}

pub fn memory_limit() -> Result<String> {
    on_bench(|bench| {
        let hierarchy = Hierarchy::find()?;
        let limits = Limits::create(&hierarchy, bench.run.as_str(), "probe", &bench.journal)?;
        // `tail` keeps the last 64 MiB in memory.
        let script = "head -c 67108864 /dev/zero | tail -c 67108864 >/dev/null";
        let mut greedy = Shell::start(bench, script)?;
        limits.attach(greedy.pid())?;
        limits.memory(Some(16 << 20))?;
        let status = greedy.ended()?;
        ensure!(!status.success(), "64 MiB fit into 16 MiB");
        Ok(format!("{}: a greedy process was killed", version(&hierarchy)))
    })
}

pub fn file_limit() -> Result<String> {
    on_bench(|bench| {
        let mut shell = Shell::start(bench, "exec cat /dev/null")?;
        let before = limits::files(shell.pid(), Some(3))?;
        let status = shell.ended()?;
        ensure!(!status.success(), "a process with room for 3 files opened the fourth");
        Ok(format!("was {}", before.map_or_else(|| "unlimited".to_string(), |count| count.to_string())))
    })
}

pub fn wall_clock() -> Result<String> {
    on_bench(|bench| {
        let clock = WallShim::compile(bench.dir())?.clock("probe")?;
        let read = || -> Result<u64> {
            let text = run(Command::new("date").arg("+%s").envs(clock.env()))?;
            text.trim().parse().context("date prints a number")
        };
        let before = read()?;
        clock.jump(i64::try_from(AHEAD_S * 1_000)?);
        let ahead = read()?.saturating_sub(before);
        ensure!((AHEAD_S..AHEAD_S + 60).contains(&ahead), "a jump of {AHEAD_S} s moved it by {ahead} s");
        Ok("the clock of one process jumped a day".to_string())
    })
}

pub fn time_namespace() -> Result<String> {
    let uptime = |text: String| -> Result<f64> {
        text.split_whitespace().next().unwrap_or_default().parse().context("read the time since boot")
    };
    let here = uptime(tool("cat", &["/proc/uptime"])?)?;
    let ahead = AHEAD_S.to_string();
    let there = ["--time", "--monotonic", &ahead, "--boottime", &ahead, "--", "cat", "/proc/uptime"];
    let moved = uptime(tool("unshare", &there)?)? - here;
    let day = AHEAD_S as f64;
    ensure!((day - 1.0..day + 60.0).contains(&moved), "{AHEAD_S} s ahead are {moved} s");
    Ok("a process began a day ahead".to_string())
}

fn version(hierarchy: &Hierarchy) -> &'static str {
    match hierarchy {
        Hierarchy::V1 { .. } => "cgroup v1",
        Hierarchy::V2 { .. } => "cgroup v2",
    }
}

/// How much of a core a process has used.
fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).context("look at a process")?;
    // After the name in brackets: the fields from the third on; the fourteenth and fifteenth are in ticks.
    let fields = stat.rsplit_once(") ").context("read the state of a process")?.1;
    let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second()))
}
