//! The machine of one replica: its host, its disk, its process, and the supervisor that starts it again.

use std::sync::Arc;
use std::time::Duration;

use orloj_jepsen_core::event::{Probe, Process as ProcessEvent, What};
use orloj_model::time::Clock;
use orloj_raft_store::{NodeState, Role};

use crate::host::{Host, HostOptions};
use crate::net::{Delivery, Net};
use crate::panics;
use crate::place::Place;
use crate::recorder::Recorder;
use crate::replica::{Process, Replica, Setup, State};
use crate::time::WALL_START_MS;

/// After a process has ended by itself, the supervisor waits so long before it starts it again, in ms.
const RESTART_MS: u64 = 700;

/// How a process is made to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// SIGKILL: every write stays, and the kernel closes the connections.
    Kill,
    /// The power fails: what was not synced may be lost, and nobody is told.
    Power,
}

/// The machine of a replica.
pub struct Machine {
    setup: Setup,
    recorder: Recorder,
    net: Net,
    running: Option<(Host, Process)>,
    life: u64,
    stopped: bool,
    /// How far its wall clock is ahead of the world's while no life goes on, in ms.
    offset_ms: i64,
    drift_ppm: i64,
    restart_at: Option<u64>,
    /// Somebody holds it down: the supervisor leaves it alone.
    held: bool,
}

impl Machine {
    /// A machine that is switched off.
    pub fn new(setup: Setup, recorder: Recorder, drift_ppm: i64) -> Machine {
        let net = setup.net.clone();
        Machine {
            setup,
            recorder,
            net,
            running: None,
            life: 0,
            stopped: false,
            offset_ms: 0,
            drift_ppm,
            restart_at: None,
            held: false,
        }
    }

    /// Which one it is.
    pub fn place(&self) -> Place {
        self.setup.place
    }

    /// Its disk.
    pub fn disk(&self) -> &crate::disk::Disk {
        &self.setup.disk
    }

    /// Whether its process is there.
    pub fn is_on(&self) -> bool {
        self.running.is_some()
    }

    /// Whether its process is there and was not stopped.
    pub fn is_moving(&self) -> bool {
        self.is_on() && !self.stopped
    }

    /// The replica, when it runs.
    pub fn replica(&self) -> Option<Replica> {
        self.running.as_ref().and_then(|(_, process)| process.up())
    }

    /// Starts the process, unless it is there. The supervisor looks after it from now on.
    ///
    /// # Errors
    /// The host cannot be made.
    pub fn start(&mut self, now_ms: u64) -> anyhow::Result<()> {
        self.held = false;
        self.restart_at = None;
        if self.is_on() {
            return Ok(());
        }
        self.life += 1;
        let options = HostOptions {
            now_ms,
            wall_ms: WALL_START_MS + now_ms as i64 + self.offset_ms,
            mono: Duration::from_secs(1_000 * self.life),
            drift_ppm: self.drift_ppm,
        };
        let host = Host::start(options)?;
        let clock: Arc<dyn Clock> = Arc::clone(host.clock()) as Arc<dyn Clock>;
        let process = host.enter(|| Process::start(self.setup.clone(), clock));
        self.running = Some((host, process));
        self.note("started", None, None, true);
        Ok(())
    }

    /// Ends the process where it stands, and holds it down. `false` when it is not there.
    pub fn crash(&mut self, how: Crash) -> bool {
        self.held = true;
        self.restart_at = None;
        self.end(how, true, None)
    }

    fn end(&mut self, how: Crash, expected: bool, line: Option<String>) -> bool {
        let Some((host, process)) = self.running.take() else { return false };
        let (place, now_ms) = (self.place(), self.recorder.now_ms());
        self.offset_ms = offset_ms(&host, now_ms);
        if how == Crash::Power {
            // Nobody hears a word of it: what the host would still send is forgotten first.
            self.net.gone(place, false);
        }
        drop(process);
        drop(host);
        // A process that is killed runs no destructor: that of a task has nothing to say.
        drop(panics::take());
        self.net.gone(place, how == Crash::Kill);
        self.setup.disk.crash(how == Crash::Power);
        self.stopped = false;
        let (code, signal) = if line.is_some() { (Some(1), None) } else { (None, Some(9)) };
        self.note_end(code, signal, expected, line);
        true
    }

    /// Stops the process: it stands still until [`resume`](Machine::resume).
    pub fn stop(&mut self) -> bool {
        let moving = self.is_moving();
        self.stopped |= moving;
        moving
    }

    /// Lets a stopped process go on.
    pub fn resume(&mut self, now_ms: u64) {
        if std::mem::take(&mut self.stopped)
            && let Some((host, _)) = &mut self.running
        {
            host.jump_to(now_ms);
            self.note_panics();
        }
    }

    /// Steps its wall clock, which shows in probes before and after.
    pub fn step_wall(&mut self, by_ms: i64) {
        let now_ms = self.recorder.now_ms();
        self.probe(now_ms);
        match &self.running {
            Some((host, _)) => host.clock().step_wall(by_ms),
            None => self.offset_ms += by_ms,
        }
        self.probe(now_ms);
    }

    /// Starts an asynchronous piece of work on its host.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some((host, _)) = &self.running {
            host.spawn(work);
        }
    }

    /// Takes a request that has arrived.
    pub fn take(&self, delivery: Delivery) {
        let Delivery { call, request, .. } = delivery;
        let Some((host, replica)) =
            self.running.as_ref().and_then(|(host, process)| Some((host, process.up()?)))
        else {
            call.into_iter().for_each(|call| self.net.refuse(call));
            return;
        };
        let net = self.net.clone();
        let task = host.spawn(async move {
            let reply = replica.answer(request).await;
            if let Some(call) = call {
                net.reply(call, reply);
            }
        });
        if let Some(call) = call {
            self.net.serving(call, self.place(), task);
        }
    }

    /// Lets it run until `now_ms`, and looks after its process. `may_end` tells whether something is going on
    /// that may make a process end by itself.
    ///
    /// # Errors
    /// The host cannot be made.
    pub fn run_until(&mut self, now_ms: u64, may_end: bool) -> anyhow::Result<()> {
        if self.restart_at.is_some_and(|at| at <= now_ms) && !self.held {
            self.start(now_ms)?;
        }
        if self.stopped {
            return Ok(());
        }
        let Some((host, process)) = &mut self.running else { return Ok(()) };
        host.run_until(now_ms);
        let state = process.state();
        self.note_panics();
        if let State::Ended(reason) = state {
            // The folder has another name in every run.
            let dir = self.setup.dir().display().to_string();
            self.end(Crash::Kill, may_end, Some(reason.replace(&dir, "data")));
            self.restart_at = (!self.held).then_some(now_ms + RESTART_MS);
        }
        Ok(())
    }

    /// What it says of itself now, unless it stands still.
    pub fn probe(&self, now_ms: u64) {
        let Some((host, process)) = self.running.as_ref().filter(|_| !self.stopped) else { return };
        let Some(Replica { store, scheduler, .. }) = process.up() else { return };
        let (status, history) = (store.status(), store.history());
        let figures = scheduler.probe();
        let hex = |digest: u64| format!("{digest:016x}");
        let probe = Probe {
            id: status.id.unwrap_or(0),
            birth: history.birth,
            life: self.life,
            term: status.term,
            vote: history.vote.filter(|(term, _)| *term == status.term).map(|(_, node)| node),
            role: role(status.role).to_owned(),
            leader: status.leader,
            round: status.round,
            serving: scheduler.serving(),
            last_log: status.last_log,
            committed: status.committed,
            applied: status.applied,
            purged: status.purged,
            snapshot: status.snapshot,
            snapshots_installed: history.snapshots_installed,
            digests: history.checkpoints.iter().map(|point| (point.index, hex(point.digest))).collect(),
            log_terms: history.terms.into_iter().collect(),
            wheel: figures.wheel_size as u64,
            waiting: figures.waiting as u64,
            running: figures.running as u64,
            wall_offset_ms: offset_ms(host, now_ms),
            rss: 0,
            fds: 0,
            state: state(status.state).to_owned(),
        };
        let place = self.place();
        self.recorder.note(&format!("probe-{place}"), Some(place.to_string()), What::Probe(probe));
    }

    fn note(&self, state: &str, code: Option<i32>, signal: Option<i32>, expected: bool) {
        let event = ProcessEvent { state: state.into(), life: self.life, code, signal, expected, line: None };
        self.recorder.note("supervisor", Some(self.place().to_string()), What::Process(event));
    }

    /// Its tasks that panicked; its process goes on, as the product's does.
    fn note_panics(&self) {
        for line in panics::take() {
            let (state, line) = ("panicked".to_owned(), Some(line));
            let event = ProcessEvent { state, life: self.life, line, ..ProcessEvent::default() };
            self.recorder.note("supervisor", Some(self.place().to_string()), What::Process(event));
        }
    }

    fn note_end(&self, code: Option<i32>, signal: Option<i32>, expected: bool, line: Option<String>) {
        let state = "exited".to_owned();
        let event = ProcessEvent { state, life: self.life, code, signal, expected, line };
        self.recorder.note("supervisor", Some(self.place().to_string()), What::Process(event));
    }
}

fn offset_ms(host: &Host, now_ms: u64) -> i64 {
    host.wall_ms(now_ms) - (WALL_START_MS + now_ms as i64)
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Joining => "joining",
        Role::Learner => "learner",
        Role::Follower => "follower",
        Role::Candidate => "candidate",
        Role::Leader => "leader",
        Role::Stopped => "stopped",
    }
}

fn state(state: NodeState) -> &'static str {
    match state {
        NodeState::Ok => "ok",
        NodeState::DiskLow => "disk_low",
        NodeState::Failed => "failed",
    }
}
