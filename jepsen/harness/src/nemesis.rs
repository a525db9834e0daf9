//! The nemesis: carries a plan out, writes down what came of each step, and takes everything back.

pub mod agenda;
pub mod hand;
pub mod links;
pub mod resolve;

use std::time::Duration;

use orloj_jepsen_core::event::Fault;

use crate::dice::Dice;
use crate::plan::Step;
use agenda::{Agenda, Turn};
use resolve::{Sighting, resolve};

/// How long a step waits for somebody who fits its target, such as a leader, before it is left out, in ms.
const PATIENCE_MS: u64 = 5_000;
/// Between two looks for one.
const LOOK_AGAIN_MS: u64 = 50;
/// The longest that the loop sleeps without looking whether it shall stop.
const NAP: Duration = Duration::from_millis(50);

/// What came of an installation that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Installed {
    /// The fault is there; what was chosen at the moment (a file, a bit, a member).
    Yes(String),
    /// It was left out, for a reason that is nobody's fault.
    Skipped(String),
    /// Nobody knows whether it is there.
    Indeterminate(String),
}

/// The hand that touches the cluster. Each call blocks until it has happened.
pub trait World {
    /// What was seen of the cluster last.
    fn sighting(&self) -> Sighting;
    /// Installs the fault of `step` on `hit`.
    ///
    /// # Errors
    /// The harness could not do it.
    fn install(&mut self, step: &Step, hit: &[String]) -> anyhow::Result<Installed>;
    /// Lets it act again; `beat` counts from 1.
    ///
    /// # Errors
    /// The harness could not do it.
    fn beat(&mut self, step: &Step, hit: &[String], beat: u64) -> anyhow::Result<()>;
    /// Takes it away, whatever its installation came to.
    ///
    /// # Errors
    /// The harness could not do it.
    fn undo(&mut self, step: &Step, hit: &[String]) -> anyhow::Result<()>;
    /// Writes a line of the history, as of this instant in ns.
    fn record(&mut self, at_ns: u64, fault: Fault);
    /// The clock of the history, in ns.
    fn now_ns(&self) -> u64;
    /// Since the beginning of the load, in ms.
    fn now_ms(&self) -> u64;
    /// Lets time pass.
    fn sleep(&mut self, time: Duration);
    /// Whether the run shall end early.
    fn stopped(&self) -> bool;
}

/// A fault that is installed.
struct Active {
    hit: Vec<String>,
    line: Fault,
    end_ms: u64,
}

/// Carries out a plan.
pub struct Nemesis<'a, W> {
    world: &'a mut W,
    steps: &'a [Step],
    agenda: Agenda,
    active: Vec<(usize, Active)>,
    dice: Dice,
    clients: u32,
    failures: u64,
}

impl<'a, W: World> Nemesis<'a, W> {
    /// Gets ready. `seed` decides what is chosen at the moment of a fault.
    pub fn new(world: &'a mut W, steps: &'a [Step], clients: u32, seed: u64) -> Self {
        let (agenda, dice) = (Agenda::of(steps), Dice::new(seed));
        Nemesis { world, steps, agenda, active: Vec::new(), dice, clients, failures: 0 }
    }

    /// Works until `end_ms`, then takes back what is still there. Returns how many calls of the harness failed: a
    /// run with failures proves nothing.
    pub fn run(mut self, end_ms: u64) -> u64 {
        while self.world.now_ms() < end_ms && !self.world.stopped() {
            let now = self.world.now_ms();
            match self.agenda.due(now) {
                Some(Turn::Install { step }) => self.install(step),
                Some(Turn::Beat { step, beat }) => self.beat(step, beat),
                Some(Turn::Undo { step }) => self.undo(step),
                None => {
                    let next = self.agenda.next_ms().unwrap_or(end_ms).min(end_ms);
                    self.world.sleep(Duration::from_millis(next.saturating_sub(now).max(1)).min(NAP));
                }
            }
        }
        // The youngest first: it may stand on what an older one did.
        while let Some((step, _)) = self.active.last() {
            self.undo(*step);
        }
        self.failures
    }

    fn install(&mut self, at: usize) {
        let step = &self.steps[at];
        let seen = self.world.sighting();
        let now = self.world.now_ms();
        let hit = match resolve(&step.target, &seen, self.clients, &mut self.dice) {
            Ok(hit) => hit,
            Err(_) if now < step.at_ms + PATIENCE_MS => {
                return self.agenda.add(now + LOOK_AGAIN_MS, Turn::Install { step: at });
            }
            Err(reason) => {
                let at_ns = self.world.now_ns();
                return self.world.record(at_ns, Fault { detail: reason, ..line(step, "skipped") });
            }
        };
        // A fault shows before its installation has come to its end.
        let at_ns = self.world.now_ns();
        let on_leader = seen.leader.as_ref().is_some_and(|leader| hit.contains(leader));
        let mut line = Fault { nodes: hit.clone(), on_leader, ..line(step, "installed") };
        match self.world.install(step, &hit) {
            Ok(Installed::Yes(detail)) => line.detail = join(&step.action.parameters(), &detail),
            Ok(Installed::Skipped(reason)) => {
                let skipped = Fault { phase: "skipped".into(), detail: reason, ..line };
                return self.world.record(at_ns, skipped);
            }
            Ok(Installed::Indeterminate(reason)) => {
                line = Fault { phase: "indeterminate".into(), detail: reason, ..line };
            }
            Err(error) => {
                self.failures += 1;
                line = Fault { phase: "failed".into(), detail: format!("{error:#}"), ..line };
            }
        }
        self.world.record(at_ns, line.clone());
        let now = self.world.now_ms();
        self.agenda.installed(at, step, now);
        self.active.push((at, Active { hit, line, end_ms: now + step.for_ms }));
    }

    fn beat(&mut self, at: usize, beat: u64) {
        let Some((_, active)) = self.active.iter().find(|(step, _)| *step == at) else { return };
        let step = &self.steps[at];
        if let Err(error) = self.world.beat(step, &active.hit, beat) {
            self.failures += 1;
            let detail = format!("beat {beat}: {error:#}");
            let failed = Fault { phase: "failed".into(), detail, ..active.line.clone() };
            let at_ns = self.world.now_ns();
            self.world.record(at_ns, failed);
        }
        self.agenda.beaten(at, step, self.world.now_ms(), beat, active.end_ms);
    }

    fn undo(&mut self, at: usize) {
        let Some(place) = self.active.iter().position(|(step, _)| *step == at) else { return };
        let (_, active) = self.active.remove(place);
        let outcome = self.world.undo(&self.steps[at], &active.hit);
        let (phase, detail) = match outcome {
            Ok(()) => ("undone", String::new()),
            Err(error) => ("failed", format!("undo: {error:#}")),
        };
        self.failures += u64::from(phase == "failed");
        let at_ns = self.world.now_ns();
        self.world.record(at_ns, Fault { phase: phase.into(), detail, ..active.line });
    }
}

fn line(step: &Step, phase: &str) -> Fault {
    let (package, name) = step.action.name();
    Fault {
        step: step.number,
        package,
        name,
        target: step.target.to_string(),
        nodes: Vec::new(),
        on_leader: false,
        phase: phase.to_owned(),
        detail: step.action.parameters(),
    }
}

fn join(one: &str, two: &str) -> String {
    [one, two].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
#[path = "nemesis_tests.rs"]
mod tests;
