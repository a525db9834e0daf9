//! A process, named so that another one which got the same number later is not mistaken for it.

use std::io;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::process::{Pid as RawPid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::wait;

/// How long a killed process may take to be gone. The kernel cannot end one that waits for a disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// A process number and when that process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pid {
    /// The number.
    pub pid: u32,
    /// The start, in clock ticks since the machine's own start; field 22 of `/proc/<pid>/stat`.
    pub start_ticks: u64,
}

impl Pid {
    /// The running process of this number.
    ///
    /// # Errors
    /// When there is none.
    pub fn of(pid: u32) -> Result<Self> {
        let (start_ticks, _) = stat(pid).with_context(|| format!("looking at the process {pid}"))?;
        Ok(Self { pid, start_ticks })
    }

    /// Whether the process runs. One that has ended but was not waited for (a zombie) does not.
    pub fn is_alive(&self) -> bool {
        stat(self.pid).is_ok_and(|(start, state)| start == self.start_ticks && !matches!(state, 'Z' | 'X'))
    }

    /// Sends a signal; without effect when the process is gone.
    ///
    /// # Errors
    /// When the caller may not.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let raw = i32::try_from(self.pid).ok().and_then(RawPid::from_raw).context("no process number")?;
        // The descriptor pins the process that has the number now; only then is it compared.
        let pinned = match pidfd_open(raw, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Ok(()),
            pinned => pinned.context("opening a process")?,
        };
        if !self.is_alive() {
            return Ok(());
        }
        match pidfd_send_signal(&pinned, signal) {
            Err(Errno::SRCH) => Ok(()),
            outcome => outcome.with_context(|| format!("signalling the process {}", self.pid)),
        }
    }

    /// Kills the process and waits until it is gone; without effect when it is.
    ///
    /// # Errors
    /// When the caller may not, or the process does not end within ten seconds.
    pub fn kill(&self) -> Result<()> {
        self.signal(Signal::KILL)?;
        self.wait_gone()
    }

    /// Waits until the process is gone.
    ///
    /// # Errors
    /// When it does not end within ten seconds.
    pub fn wait_gone(&self) -> Result<()> {
        let what = format!("the end of the process {}", self.pid);
        wait::until(&what, PATIENCE, || Ok((!self.is_alive()).then_some(())))
    }
}

/// The start time and the state letter of a process.
fn stat(pid: u32) -> io::Result<(u64, char)> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/stat"))?)
        .ok_or_else(|| io::Error::other("/proc/<pid>/stat is not understood"))
}

fn parse(stat: &str) -> Option<(u64, char)> {
    // The second field is the program's name in brackets, and may itself contain blanks and brackets.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((fields.nth(18)?.parse().ok()?, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_confuse() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 4711 10 20\n";
        assert_eq!(parse(stat), Some((4711, 'S')));
        assert_eq!(parse("7 (a) S 1"), None);
    }

    #[test]
    fn only_the_process_that_was_meant_is_killed() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let real = Pid::of(child.id()).unwrap();
        let reused = Pid { start_ticks: real.start_ticks + 1, ..real };
        reused.kill().unwrap();
        assert!(real.is_alive());
        real.kill().unwrap();
        assert!(!real.is_alive());
        child.wait().unwrap();
        real.kill().unwrap();
    }
}
