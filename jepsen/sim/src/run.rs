//! One run: boot, load under faults, heal, load without faults, rest, last reads, verdict.

use std::path::Path;
use std::sync::{Arc, Mutex};

use orloj_jepsen_agents::generator::{Extra, Generator, Mix, Shares};
use orloj_jepsen_agents::rng::Rng;
use orloj_jepsen_core::History;
use orloj_jepsen_core::check::{self, Report};
use orloj_jepsen_core::event::{Phase, What};
use tokio_util::sync::CancellationToken;

use crate::client::{Client, Load};
use crate::final_table;
use crate::jobs::{self, Jobs, SimJob, Wish};
use crate::knocker;
use crate::nemesis::Nemesis;
use crate::panics;
use crate::place::{CLIENTS, EXECUTORS, Place, SINK_NAME, SINK_PORT};
use crate::plan::Plan;
use crate::world::{HEARTBEAT_MS, OFFLINE_AFTER, TIMEOUT_GRACE_MS, World};

/// A cluster that has not booted by then never will, in ms.
const BOOT_MS: u64 = 20_000;
/// One leader serves within so many ms after the heal.
const HEAL_MS: u64 = 8_000;
/// Under one fault there are too few operations for percentiles, and long polls are among them.
const ANY_SLOWDOWN: f64 = 1e6;
/// Load after the heal, in ms.
const TAIL_MS: u64 = 10_000;
/// The longest wait for everything to come to rest, in ms.
const REST_MS: u64 = 60_000;
/// Everything is at rest when nothing has moved for so long, in ms.
const STILL_MS: u64 = 300;
/// Between two tries to put or to stop the jobs, in ms.
const JOBS_PAUSE_MS: u64 = 500;
/// The longest wait until the jobs are put, or stopped, in ms.
const JOBS_MS: u64 = 20_000;
/// The longest time of the last reads, in ms.
const FINAL_MS: u64 = 20_000;

/// Shares of submissions with parents, shards, broadcasts and callbacks.
const EXTRA: Extra = Extra { dependent: 0.15, sharded: 0.06, broadcast: 0.03, callback: 0.2 };

/// What came of a run.
pub struct Outcome {
    /// What was seen.
    pub history: History,
    /// The word on it.
    pub report: Report,
    /// How much time passed in the simulation, in ms.
    pub simulated_ms: u64,
}

/// Runs a plan; the replicas' folders are made under `dir`. The thread must have been seeded.
///
/// # Errors
/// The simulation itself failed.
pub fn run(plan: &Plan, dir: &Path) -> anyhow::Result<Outcome> {
    panics::watch();
    let mut run = Run::boot(plan, dir, jobs::draw(plan.seed)?)?;
    run.load(plan)?;
    run.rest()?;
    run.read_everything()?;
    run.phase("end");
    let history = History::merge(run.world.recorder.take());
    let report = check::judge(&history, &options(plan));
    Ok(Outcome { history, report, simulated_ms: run.world.now_ms })
}

struct Run {
    world: World,
    nemesis: Nemesis,
    clients: Vec<Client>,
    jobs: Vec<SimJob>,
}

impl Run {
    fn boot(plan: &Plan, dir: &Path, jobs: Vec<SimJob>) -> anyhow::Result<Run> {
        let mut world = World::new(plan, dir)?;
        for machine in &mut world.machines {
            machine.start(0)?;
        }
        let client = |number| Client::new(number, world.net.clone(), world.recorder.clone());
        let clients = (1..=CLIENTS).map(client).collect::<anyhow::Result<Vec<_>>>()?;
        let mut run = Run { nemesis: Nemesis::idle(plan), world, clients, jobs };
        let serves = |world: &World| {
            world.machines.iter().filter_map(|one| one.replica()).any(|one| one.scheduler.serving().is_some())
        };
        run.pass_until(BOOT_MS, serves)?;
        anyhow::ensure!(serves(&run.world), "the cluster did not boot");
        run.have_jobs(Wish::Fire)?;
        Ok(run)
    }

    /// Has every job put, or stopped.
    fn have_jobs(&mut self, wish: Wish) -> anyhow::Result<()> {
        let jobs = Jobs::new(self.jobs.clone(), wish, self.world.recorder.clone());
        let until = self.world.now_ms + JOBS_MS;
        while !jobs.done() && self.world.now_ms < until {
            let serves = |one: &crate::replica::Replica| one.scheduler.serving().is_some();
            for machine in &self.world.machines {
                if let Some(replica) = machine.replica().filter(serves) {
                    machine.spawn(jobs.clone().work(replica));
                }
            }
            self.pass_until(JOBS_PAUSE_MS, |_| jobs.done())?;
        }
        Ok(())
    }

    /// Lets one millisecond pass.
    fn step(&mut self) -> anyhow::Result<()> {
        self.world.begin_step();
        self.nemesis.act(&mut self.world)?;
        let nemesis = &self.nemesis;
        self.world.end_step(|machine, now_ms| nemesis.may_end(machine, now_ms))
    }

    /// Lets time pass until something holds, at most so long.
    fn pass_until(&mut self, at_most_ms: u64, holds: impl Fn(&World) -> bool) -> anyhow::Result<()> {
        let until = self.world.now_ms + at_most_ms;
        while self.world.now_ms < until && !holds(&self.world) {
            self.step()?;
        }
        Ok(())
    }

    fn phase(&self, name: &str) {
        self.world.recorder.note("run", None, What::Phase(Phase { name: name.to_owned() }));
    }

    /// Load under faults, and for a while after they are gone.
    fn load(&mut self, plan: &Plan) -> anyhow::Result<()> {
        let seed = Rng::new(plan.seed).split("clients").bits();
        let load: Load = Arc::new(Mutex::new(Generator::new(seed, "s", mix(plan))));
        let stop = CancellationToken::new();
        for client in std::mem::take(&mut self.clients) {
            self.world.spawn(client.run(Arc::clone(&load), stop.clone()));
        }
        knocker::start(&self.world, &stop)?;
        self.phase("load");
        self.nemesis = Nemesis::new(plan, self.world.now_ms);
        self.pass_until(plan.load_ms, |_| false)?;
        self.nemesis.heal(&mut self.world)?;
        self.world.sink.relent();
        self.phase("heal");
        self.pass_until(TAIL_MS, |_| false)?;
        stop.cancel();
        self.phase("quiesce");
        self.have_jobs(Wish::Stop)
    }

    /// Waits until nothing is left to do.
    fn rest(&mut self) -> anyhow::Result<()> {
        let until = self.world.now_ms + REST_MS;
        let mut still = 0;
        while self.world.now_ms < until && still < STILL_MS {
            self.step()?;
            still = if self.world.is_at_rest() { still + 1 } else { 0 };
        }
        Ok(())
    }

    /// Reads every task through the API, and every replica's own table.
    fn read_everything(&mut self) -> anyhow::Result<()> {
        self.phase("final");
        let tables: Arc<Mutex<usize>> = Arc::default();
        let mut expected = 0;
        for machine in &self.world.machines {
            let (place, recorder, tables) =
                (machine.place(), self.world.recorder.clone(), Arc::clone(&tables));
            let Some(replica) = machine.replica() else { continue };
            expected += 1;
            machine.spawn(async move {
                jobs::read(&replica, place, &recorder);
                final_table::read(replica, place, &recorder).await;
                *tables.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += 1;
            });
        }
        self.pass_until(FINAL_MS, |_| {
            *tables.lock().unwrap_or_else(std::sync::PoisonError::into_inner) == expected
        })?;
        self.last_reads()
    }

    /// Every task that any table has, read by one client each.
    fn last_reads(&mut self) -> anyhow::Result<()> {
        let tasks = self.world.recorder.tasks();
        let stop = CancellationToken::new();
        let left: Arc<()> = Arc::default();
        for number in 1..=CLIENTS {
            let mut client = Client::at_last(number, self.world.net.clone(), self.world.recorder.clone())?;
            let own: Vec<String> = tasks.iter().skip(number - 1).step_by(CLIENTS).cloned().collect();
            let (stop, left) = (stop.clone(), Arc::clone(&left));
            self.world.spawn(async move {
                for task in own {
                    client.read_at_last(&task, &stop).await;
                }
                drop(left);
            });
        }
        self.pass_until(FINAL_MS, |_| Arc::strong_count(&left) == 1)?;
        stop.cancel();
        Ok(())
    }
}

fn mix(plan: &Plan) -> Mix {
    Mix {
        ops_per_s: plan.ops_per_s,
        executors: (1..=EXECUTORS).map(|number| Place::Executor(number).to_string()).collect(),
        longest_delay_ms: 5_000,
        longest_backoff_ms: 1_000,
        big_bytes: 8 << 10,
        callback_url: Some(format!("http://{SINK_NAME}:{SINK_PORT}/hook")),
        shares: Shares { extra: EXTRA, ..Shares::default() },
        ..Mix::default()
    }
}

fn options(plan: &Plan) -> check::Options {
    check::Options {
        heartbeat_ms: HEARTBEAT_MS,
        missed_heartbeats: OFFLINE_AFTER,
        window_ms: plan.sizes.window_ms,
        due_per_tick: plan.sizes.due_per_tick as u64,
        timeout_grace_ms: TIMEOUT_GRACE_MS,
        heal_ms: HEAL_MS,
        one_bad_slowdown: ANY_SLOWDOWN,
        ..check::Options::default()
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
