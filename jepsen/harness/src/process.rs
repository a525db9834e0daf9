//! A process of the cluster: started inside its host, watched until it ends, paused, killed, started again.

mod panics;
mod watch;

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use orloj_jepsen_core::event;
use rustix::process::Signal;

use crate::inside::Host;
use crate::journal::{Journal, Pid, Step, Ticket};
use crate::wait::until;
use panics::Panics;
use watch::Watch;

/// How long a process takes at most until it stands still. Those that wait for a disk are not waited for.
const STOP: Duration = Duration::from_secs(5);
/// How long a killed process may take to be gone when its [`Proc`] is dropped.
const END: Duration = Duration::from_secs(10);

/// What is told of a process, at the moment when it is seen: its start, its end and every panic. The caller
/// adds the host and the time.
pub type Record = Arc<dyn Fn(event::Process) + Send + Sync>;

/// How a process is started, each time.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its environment, to which only `PATH` is added.
    pub env: Vec<(OsString, OsString)>,
    /// Where it runs; `None` is the harness's own network.
    pub host: Option<Host>,
    /// How far its monotonic clock (and the time since boot) is ahead of the machine's, by a time namespace.
    pub monotonic_ahead: Duration,
    /// Where its standard output and error go, appended. Not on a disk that is going to fail.
    pub log: PathBuf,
}

impl Spec {
    /// A program without arguments and environment in the harness's own network.
    pub fn new(program: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Spec {
        Spec {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            host: None,
            monotonic_ahead: Duration::ZERO,
            log: log.into(),
        }
    }

    fn command(&self) -> Result<Command> {
        let log = File::options().append(true).create(true).open(&self.log);
        let log = log.with_context(|| format!("open {}", self.log.display()))?;
        let mut command = if self.monotonic_ahead.is_zero() {
            Command::new(&self.program)
        } else {
            // It becomes the program, with the same process number.
            let ahead = self.monotonic_ahead.as_secs().to_string();
            let mut command = Command::new("unshare");
            command.args(["--time", "--monotonic", &ahead, "--boottime", &ahead, "--"]).arg(&self.program);
            command
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.args(&self.args).env_clear().env("PATH", path).envs(self.env.iter().cloned());
        command.stdin(Stdio::null()).stdout(log.try_clone().context("share the log")?).stderr(log);
        Ok(command)
    }

    fn spawn(&self) -> Result<Child> {
        use std::os::unix::process::CommandExt as _;
        let mut command = self.command()?;
        // A group of its own: what interrupts the harness at a terminal leaves the undoing to the harness.
        command.process_group(0);
        match &self.host {
            Some(host) => host.spawn_process_inside(&mut command),
            None => command.spawn().with_context(|| format!("start {command:?}")),
        }
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code, where it exited by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The harness ended it, or meant it to end.
    pub expected: bool,
}

/// A process that can end and be started again; one life at a time. Dropping it kills the process.
pub struct Proc {
    spec: Spec,
    journal: Journal,
    record: Record,
    state: Mutex<State>,
}

struct State {
    /// Counts the starts.
    life: u64,
    /// The newest.
    current: Life,
}

#[derive(Clone)]
struct Life {
    pid: Pid,
    tickets: Tickets,
    watch: Arc<Watch>,
}

#[derive(Clone, Default)]
struct Tickets {
    process: Option<Ticket>,
    stopped: Option<Ticket>,
}

impl Proc {
    /// Starts its first life.
    ///
    /// # Errors When the program does not start or the journal cannot be written. That it ends at once is no
    /// error here: it is recorded.
    pub fn start(spec: Spec, journal: &Journal, record: Record) -> Result<Proc> {
        let current = begin(&spec, journal, &record, 1)?;
        Ok(Proc { spec, journal: journal.clone(), record, state: Mutex::new(State { life: 1, current }) })
    }

    /// Starts its next life. An error when the last one has not ended.
    pub fn start_again(&self) -> Result<()> {
        let mut state = self.state();
        if state.current.watch.ended().is_none() {
            bail!("{} runs already", self.spec.program.display());
        }
        self.forget(&mut state)?;
        state.current = begin(&self.spec, &self.journal, &self.record, state.life + 1)?;
        state.life += 1;
        Ok(())
    }

    /// The number of the process; that of its last life when it has ended.
    pub fn pid(&self) -> u32 {
        self.state().current.pid.pid
    }

    /// Which life it is, from 1.
    pub fn life(&self) -> u64 {
        self.state().life
    }

    /// Whether it has not ended. A paused process runs.
    pub fn is_running(&self) -> bool {
        self.state().current.watch.ended().is_none()
    }

    /// From now on the end of this life is meant: its disk is full, its syncs fail.
    pub fn expect_end(&self) {
        self.state().current.watch.expect(true);
    }

    /// From now on it has no reason to end any more: what was wrong with its disk has been undone.
    pub fn expect_life(&self) {
        self.state().current.watch.expect(false);
    }

    /// Stops it (SIGSTOP) and waits until it stands still. Nothing is done when it has ended.
    pub fn pause(&self) -> Result<()> {
        let pid = {
            let mut state = self.state();
            let pid = state.current.pid;
            if state.current.watch.ended().is_some() {
                return Ok(());
            }
            if state.current.tickets.stopped.is_none() {
                state.current.tickets.stopped = Some(self.journal.begin(Step::Stopped(pid))?);
            }
            pid
        };
        pid.signal(Signal::STOP)?;
        let what = format!("the process {} stands still", pid.pid);
        until(&what, STOP, || Ok((!pid.is_alive() || stands_still(pid.pid)).then_some(())))
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&self) -> Result<()> {
        let mut state = self.state();
        state.current.pid.signal(Signal::CONT)?;
        match state.current.tickets.stopped.take() {
            Some(ticket) => self.journal.end(ticket),
            None => Ok(()),
        }
    }

    /// Kills it (SIGKILL) and waits for its end; an error after `patience`, as when it waits for a frozen
    /// disk. Gives how the life ended, also when it had ended by itself before.
    pub fn kill(&self, patience: Duration) -> Result<Ended> {
        self.end_by(Signal::KILL, patience)
    }

    /// Asks it to end (SIGTERM) and waits for that; an error after `patience`. A paused process goes on for
    /// it.
    pub fn terminate(&self, patience: Duration) -> Result<Ended> {
        self.end_by(Signal::TERM, patience)
    }

    fn end_by(&self, signal: Signal, patience: Duration) -> Result<Ended> {
        self.expect_end();
        self.state().current.pid.signal(signal)?;
        self.resume()?;
        self.wait(patience)?.with_context(|| format!("{signal:?} did not end {} in {patience:?}", self.pid()))
    }

    /// Waits for the end of this life; `None` when it has not ended after `patience`.
    pub fn wait(&self, patience: Duration) -> Result<Option<Ended>> {
        let watch = Arc::clone(&self.state().current.watch);
        let ended = watch.wait(patience);
        if ended.is_some() {
            self.forget(&mut self.state())?;
        }
        Ok(ended)
    }

    /// What has ended needs no undoing.
    fn forget(&self, state: &mut State) -> Result<()> {
        if state.current.watch.ended().is_none() {
            return Ok(());
        }
        let tickets = std::mem::take(&mut state.current.tickets);
        [tickets.stopped, tickets.process]
            .into_iter()
            .flatten()
            .try_for_each(|ticket| self.journal.end(ticket))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Its fields change one at a time, and none depends on another.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Proc {
    fn drop(&mut self) {
        // The journal still has what could not be ended here.
        let _ = self.kill(END);
    }
}

fn begin(spec: &Spec, journal: &Journal, record: &Record, life: u64) -> Result<Life> {
    let panics = Panics::after(&spec.log);
    let mut child = spec.spawn()?;
    let known = Pid::of(child.id()).and_then(|pid| Ok((pid, journal.begin(Step::Process(pid))?)));
    let (pid, ticket) = match known {
        Ok(known) => known,
        Err(error) => {
            child.kill().context("end a process that cannot be undone")?;
            child.wait().context("end a process that cannot be undone")?;
            return Err(error);
        }
    };
    let started =
        event::Process { state: "started".to_owned(), life, expected: true, ..event::Process::default() };
    record(started);
    let watch = Watch::start(child, life, panics, Arc::clone(record))?;
    Ok(Life { pid, tickets: Tickets { process: Some(ticket), stopped: None }, watch })
}

/// Whether every thread of the process is stopped, or waits for a disk and will be before it does anything
/// more.
fn stands_still(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    let moves = |stat: &str| {
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        !matches!(state, Some('T' | 't' | 'D' | 'Z' | 'X'))
    };
    threads.flatten().all(|thread| {
        // A thread that is gone does not move.
        std::fs::read_to_string(thread.path().join("stat")).map_or(true, |stat| !moves(&stat))
    })
}

#[cfg(test)]
mod tests;
