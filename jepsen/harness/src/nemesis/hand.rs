//! The hand of the nemesis on a real cluster.

mod actors;
mod clocks;
mod disks;
mod members;
mod network;
mod power;
mod processes;
mod resources;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use orloj_jepsen_core::event::Fault;

pub use actors::Actors;

use super::links::Links;
use super::resolve::Sighting;
use super::{Installed, World};
use crate::action::Action;
use crate::cluster::Cluster;
use crate::dice::Dice;
use crate::disk::fsync::FsyncFault;
use crate::fabric::Fabric;
use crate::plan::Step;
use crate::wait::monotonic;

/// What the hand needs to know while faults are installed.
#[derive(Default)]
struct Memory {
    links: Links,
    /// Links that a swizzle cuts one by one, in this order.
    swizzle: Vec<String>,
    /// Whom an amnesiac quorum is about: leader, the follower that is stopped, the one that loses power.
    amnesiac: Option<[String; 3]>,
    tracers: BTreeMap<String, FsyncFault>,
    /// The limit of open files that each process had, by host and process.
    files: BTreeMap<String, (u32, Option<u64>)>,
    /// Replicas whose bytes were damaged: they may end at any time, and are replaced when they do not start.
    damaged: BTreeSet<String>,
}

/// See the module's description.
pub struct Hand<'a> {
    /// The network.
    pub fabric: &'a Fabric,
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Mock executors, sink, and what was seen of the replicas.
    pub actors: &'a dyn Actors,
    /// Every host.
    pub hosts: Vec<String>,
    /// Writes a line of the history.
    pub record: &'a (dyn Fn(u64, Fault) + Sync),
    /// When the load began, on the monotonic clock.
    pub load_began: Duration,
    /// Set when the run shall end early.
    pub stop: Arc<AtomicBool>,
    /// For what is chosen at the moment of a fault.
    pub dice: Dice,
    /// Faults that this machine cannot make (`package.fault`), each with the reason.
    pub lacking: BTreeMap<String, String>,
    memory: Memory,
}

impl<'a> Hand<'a> {
    /// A hand on this cluster.
    #[allow(clippy::too_many_arguments, reason = "each is another thing that the hand touches")]
    pub fn new(
        fabric: &'a Fabric,
        cluster: &'a Cluster,
        actors: &'a dyn Actors,
        hosts: Vec<String>,
        record: &'a (dyn Fn(u64, Fault) + Sync),
        load_began: Duration,
        stop: Arc<AtomicBool>,
        seed: u64,
    ) -> Self {
        let (dice, lacking, memory) = (Dice::new(seed), BTreeMap::new(), Memory::default());
        Hand { fabric, cluster, actors, hosts, record, load_began, stop, dice, lacking, memory }
    }

    /// After the last undo: every link plain, every vice off, every clock right, every process up, and every replica
    /// that cannot start on its damaged bytes replaced.
    ///
    /// # Errors
    /// The first thing that could not be brought back; the others have been tried.
    pub fn heal(&mut self) -> Result<()> {
        let mut outcome = self.fabric.heal();
        outcome = outcome.and(self.actors.relent());
        outcome = outcome.and(clocks::restore_all(self));
        outcome = outcome.and(resources::lift_all(self));
        outcome = outcome.and(disks::detach_all(self));
        outcome = outcome.and(self.cluster.restore());
        outcome.and(disks::replace_damaged(self))
    }
}

/// Does the same to several hosts at once, so that they are hit together.
fn each(hit: &[String], act: impl Fn(&str) -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let act = &act;
        let threads: Vec<_> = hit.iter().map(|host| scope.spawn(move || act(host))).collect();
        // All are waited for; the first error counts.
        let mut first = Ok(());
        for thread in threads {
            let outcome = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            first = first.and(outcome);
        }
        first
    })
}

fn done() -> Result<Installed> {
    Ok(Installed::Yes(String::new()))
}

impl World for Hand<'_> {
    fn sighting(&self) -> Sighting {
        self.actors.sighting()
    }

    fn install(&mut self, step: &Step, hit: &[String]) -> Result<Installed> {
        if let Some(reason) = self.lacking.get(&step.action.full_name()) {
            return Ok(Installed::Skipped(format!("this machine cannot: {reason}")));
        }
        match step.action.name().0.as_str() {
            "process" => processes::install(self, &step.action, hit),
            "partition" | "link" => network::install(self, step, hit),
            "power" => power::install(self, &step.action, hit),
            "disk" => disks::install(self, &step.action, hit),
            "clock" => clocks::install(self, &step.action, hit),
            "resource" => resources::install(self, &step.action, hit),
            "membership" => members::install(self, &step.action, hit),
            _ => actors::install(self, &step.action, hit),
        }
    }

    fn beat(&mut self, step: &Step, hit: &[String], beat: u64) -> Result<()> {
        match &step.action {
            Action::CrashLoop { .. } | Action::Rolling { .. } => {
                processes::beat(self, &step.action, hit, beat)
            }
            Action::Swizzle { .. } | Action::Resets { .. } => network::beat(self, step, hit, beat),
            Action::Amnesiac { .. } => power::beat(self, beat),
            Action::ClockStrobe { .. } => clocks::beat(self, &step.action, hit, beat),
            Action::OldIdentity { .. } => members::beat(self, hit, beat),
            _ => Ok(()),
        }
    }

    fn undo(&mut self, step: &Step, hit: &[String]) -> Result<()> {
        match step.action.name().0.as_str() {
            "process" => processes::undo(self, hit),
            "partition" | "link" => network::undo(self, step, hit),
            "power" => power::undo(self, hit),
            "disk" => disks::undo(self, &step.action, hit),
            "clock" => clocks::undo(self, hit),
            "resource" => resources::undo(self, hit),
            "membership" => members::undo(self, &step.action, hit),
            _ => actors::undo(self, &step.action, hit),
        }
    }

    fn record(&mut self, at_ns: u64, fault: Fault) {
        (self.record)(at_ns, fault);
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(monotonic().as_nanos()).unwrap_or(u64::MAX)
    }

    fn now_ms(&self) -> u64 {
        let since = monotonic().saturating_sub(self.load_began);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn sleep(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
