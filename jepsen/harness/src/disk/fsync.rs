//! Syncs of files that are slow or fail: `strace` is attached to the process and answers them.
//!
//! It stops the process at every system call, not only at these, so that it costs time: measured at about
//! half as much latency again and twice the CPU for a busy replica. Nothing may be concluded about speed
//! while it is attached.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::Signal;

use crate::journal::{Journal, Pid, Step, Ticket};
use crate::wait::until;

/// The system calls that are hurt.
const SYNCS: &str = "fdatasync,fsync";
/// How long attaching and detaching may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A fault that is installed until it is detached, dropped, or the process ends.
#[derive(Debug)]
pub struct FsyncFault {
    target: Pid,
    tracer: Pid,
    child: Child,
    journal: Journal,
    ticket: Ticket,
}

/// The error that a sync ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errno {
    /// The disk is broken.
    Eio,
    /// The disk is full.
    Enospc,
}

impl FsyncFault {
    /// Every sync begins later by `delay`.
    ///
    /// # Errors
    /// Without `strace`, or when the process cannot be traced (it has ended, or something else traces it).
    pub fn slow(pid: u32, delay: Duration, journal: &Journal) -> Result<FsyncFault> {
        FsyncFault::attach(pid, &format!("delay_enter={}", delay.as_micros()), journal)
    }

    /// Syncs fail with `errno` without having synced, from the `nth` of each thread on (1: the next).
    ///
    /// # Errors
    /// As [`FsyncFault::slow`].
    pub fn fail(pid: u32, errno: Errno, nth: u32, journal: &Journal) -> Result<FsyncFault> {
        let name = match errno {
            Errno::Eio => "EIO",
            Errno::Enospc => "ENOSPC",
        };
        FsyncFault::attach(pid, &format!("error={name}:when={}+", nth.max(1)), journal)
    }

    fn attach(pid: u32, how: &str, journal: &Journal) -> Result<FsyncFault> {
        let target = Pid::of(pid)?;
        let mut command = Command::new("strace");
        command.args(["-qq", "-f", "-o", "/dev/null", "-e", &format!("trace={SYNCS}")]);
        command.args(["-e", &format!("inject={SYNCS}:{how}"), "-p", &pid.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().context("start strace")?;
        let known = Pid::of(child.id()).and_then(|tracer| Ok((tracer, journal.begin(Step::Tracer(tracer))?)));
        let (tracer, ticket) = match known {
            Ok(known) => known,
            Err(error) => {
                child.kill().context("end a tracer that cannot be undone")?;
                child.wait().context("end a tracer that cannot be undone")?;
                return Err(error);
            }
        };
        let mut fault = FsyncFault { target, tracer, child, journal: journal.clone(), ticket };
        until("strace is attached", PATIENCE, || fault.is_attached())?;
        Ok(fault)
    }

    /// Whether it still works: its process runs, and so does `strace`.
    pub fn is_installed(&self) -> bool {
        self.tracer.is_alive() && self.target.is_alive()
    }

    /// Lets the process go on as before, and makes sure that it does. Nothing is wrong when it has ended.
    pub fn detach(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        if self.child.try_wait().context("look at strace")?.is_none() {
            self.tracer.signal(Signal::TERM)?;
            let gone = self.tracer.wait_gone();
            // The kernel lets a process go whose tracer is killed.
            gone.or_else(|_| self.tracer.kill())?;
            self.child.wait().context("wait for strace")?;
        }
        self.journal.end(self.ticket)?;
        until("the process goes on without strace", PATIENCE, || {
            let tracers = tracers(self.target)?;
            Ok(tracers.iter().all(|tracer| *tracer != self.tracer.pid).then_some(()))
        })
    }

    fn is_attached(&mut self) -> Result<Option<()>> {
        if let Some(status) = self.child.try_wait().context("look at strace")? {
            bail!("strace cannot trace the process {}: {status}", self.target.pid);
        }
        let tracers = tracers(self.target)?;
        Ok((!tracers.is_empty() && tracers.iter().all(|tracer| *tracer == self.tracer.pid)).then_some(()))
    }
}

impl Drop for FsyncFault {
    fn drop(&mut self) {
        if self.tracer.is_alive() {
            // The journal still has what could not be ended here.
            let _ = self.end();
        }
    }
}

/// Who traces each thread of the process; 0 is nobody. Empty when it has ended.
fn tracers(process: Pid) -> Result<Vec<u32>> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", process.pid)) else { return Ok(Vec::new()) };
    if !process.is_alive() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for thread in threads.flatten() {
        // A thread that is gone has no tracer.
        let Ok(status) = std::fs::read_to_string(thread.path().join("status")) else { continue };
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        found.push(tracer.context("a status names the tracer")?.trim().parse()?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
