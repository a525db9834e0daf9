//! The world: three machines, the agents, the network between them, and the one clock that moves all of it.
//!
//! Time passes in steps of a millisecond. In each step the network hands over what has arrived, and then every
//! host runs what is due, one host after the other in an order that the seed chooses. What a host sends takes at
//! least until the next step, so that the order within a step is no message from the future.

use std::path::Path;
use std::time::Duration;

use orloj_jepsen_agents::rng::Rng;
use orloj_raft_store::config::{DiskOptions, ProposalOptions, SeedMember, SnapshotOptions};
use orloj_raft_store::{Options as StoreOptions, Role};
use orloj_scheduler::Options as SchedulerOptions;

use crate::disk::Disk;
use crate::executors::Executor;
use crate::host::{Host, HostOptions};
use crate::machine::Machine;
use crate::net::{Delivery, Net};
use crate::panics;
use crate::place::{EXECUTORS, Place, REPLICAS};
use crate::plan::{Plan, Sizes};
use crate::recorder::Recorder;
use crate::replica::Setup;
use crate::sink::Sink;
use crate::time::WALL_START_MS;

/// Between two probes of a replica, in ms.
const PROBE_MS: u64 = 100;
/// Silence after which the transfer of a snapshot is given up, in ms.
const CHUNK_TIMEOUT_MS: u64 = 2_000;
/// How often executors send heartbeats, in ms.
pub const HEARTBEAT_MS: u64 = 500;
/// An executor that has missed so many is offline.
pub const OFFLINE_AFTER: u32 = 4;
/// How long past its timeout an attempt may run before the leader acts, in ms.
pub const TIMEOUT_GRACE_MS: u64 = 1_000;

/// See the module.
pub struct World {
    /// The time, in ms.
    pub now_ms: u64,
    /// The history.
    pub recorder: Recorder,
    /// The network.
    pub net: Net,
    /// The replicas' machines.
    pub machines: Vec<Machine>,
    /// The executors.
    pub executors: Vec<Executor>,
    /// Where callbacks go.
    pub sink: Sink,
    agents: Host,
    order: Rng,
}

impl World {
    /// A world in which nothing runs yet; the replicas' folders are made under `dir`.
    ///
    /// # Errors
    /// The agents cannot be made.
    pub fn new(plan: &Plan, dir: &Path) -> anyhow::Result<World> {
        let rng = Rng::new(plan.seed).split("world");
        let recorder = Recorder::default();
        let net = Net::new(rng.split("network"));
        let machine = |(place, drift): (Place, &i64)| {
            let setup = Setup {
                place,
                store: store_options(place, dir, &plan.sizes),
                scheduler: scheduler_options(&plan.sizes),
                net: net.clone(),
                disk: Disk::new(rng.split(&format!("disk-{place}"))),
            };
            Machine::new(setup, recorder.clone(), *drift)
        };
        let machines = Place::replicas().zip(&plan.sizes.drift_ppm).map(machine).collect();
        let agents = Host::start(HostOptions {
            now_ms: 0,
            wall_ms: WALL_START_MS,
            mono: Duration::ZERO,
            drift_ppm: 0,
        })?;
        let seed = rng.split("executors").bits();
        let executor = |number| Executor::new(Place::Executor(number), seed, net.clone(), recorder.clone());
        let executors = (1..=EXECUTORS).map(executor).collect::<anyhow::Result<Vec<_>>>()?;
        let sink = Sink::new(rng.split("sink"), recorder.clone());
        Ok(World { now_ms: 0, recorder, net, machines, executors, sink, agents, order: rng.split("order") })
    }

    /// Does something within the runtime of the agents.
    pub fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        self.agents.enter(work)
    }

    /// Starts a task of the agents.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.agents.spawn(task);
    }

    /// Moves to the next millisecond. What is done at its beginning, before anything runs, has been done.
    pub fn begin_step(&mut self) {
        self.now_ms += 1;
        self.recorder.set_ms(self.now_ms);
    }

    /// Lets the millisecond pass. `may_end` tells of which replicas it is expected that they end by themselves.
    ///
    /// # Errors
    /// A host cannot be made, or an agent panicked.
    pub fn end_step(&mut self, may_end: impl Fn(usize, u64) -> bool) -> anyhow::Result<()> {
        let now_ms = self.now_ms;
        for delivery in self.net.arrived(now_ms) {
            match delivery.to {
                Place::Replica(number) => self.machines[number - 1].take(delivery),
                Place::Executor(number) => self.deliver(number, delivery),
                Place::Sink => self.announce(delivery),
                Place::Client(_) => {}
            }
        }
        let first = self.order.below(REPLICAS as u64) as usize;
        for turn in 0..REPLICAS {
            let number = (first + turn) % REPLICAS;
            self.machines[number].run_until(now_ms, may_end(number, now_ms))?;
        }
        self.inside(|| self.executors.iter().for_each(Executor::settle));
        self.agents.run_until(now_ms);
        // Those of the replicas are in the history.
        let panicked = panics::take();
        anyhow::ensure!(panicked.is_empty(), "an agent panicked: {}", panicked.join("; "));
        if now_ms.is_multiple_of(PROBE_MS) {
            self.machines.iter().for_each(|machine| machine.probe(now_ms));
        }
        Ok(())
    }

    /// A callback arrives at the sink.
    fn announce(&self, delivery: Delivery) {
        let (sink, net, Delivery { call, request, .. }) = (self.sink.clone(), self.net.clone(), delivery);
        let task = self.agents.spawn(async move {
            let reply = sink.answer(request).await;
            if let Some(call) = call {
                net.reply(call, reply);
            }
        });
        if let Some(call) = call {
            self.net.serving(call, Place::Sink, task);
        }
    }

    fn deliver(&self, number: usize, delivery: Delivery) {
        let Delivery { call, from, request, .. } = delivery;
        let (executor, net) = (self.executors[number - 1].clone(), self.net.clone());
        if !executor.is_up() {
            call.into_iter().for_each(|call| net.refuse(call));
            return;
        }
        let task = self.agents.spawn(async move {
            let reply = executor.answer(from, request).await;
            if let Some(call) = call {
                net.reply(call, reply);
            }
        });
        if let Some(call) = call {
            self.net.serving(call, Place::Executor(number), task);
        }
    }

    /// The replica that leads, by its place in `machines`: of several that say so the one of the highest term.
    pub fn leader(&self) -> Option<usize> {
        let leads = |machine: &Machine| {
            let status = machine.replica()?.store.status();
            (status.role == Role::Leader).then_some(status.term)
        };
        let leaders = self.machines.iter().enumerate().filter_map(|(at, one)| Some((leads(one)?, at)));
        leaders.max().map(|(_, at)| at)
    }

    /// Whether everything is at rest: one leader that schedules, no task that is not over, everybody has applied
    /// the same, and no executor works.
    pub fn is_at_rest(&self) -> bool {
        let up: Vec<_> = self.machines.iter().filter_map(Machine::replica).collect();
        let serving: Vec<_> = up.iter().filter(|one| one.scheduler.serving().is_some()).collect();
        let [leader] = serving[..] else { return false };
        let applied = leader.store.status().applied;
        up.len() == REPLICAS
            && up.iter().all(|one| one.store.status().applied == applied)
            && !self.executors.iter().any(Executor::is_busy)
            && leader.has_finished()
    }
}

fn store_options(place: Place, dir: &Path, sizes: &Sizes) -> StoreOptions {
    let members = (1..).zip(Place::replicas()).map(|(id, place)| SeedMember {
        id,
        internal: place.address(),
        api: place.api(),
    });
    let members: Vec<SeedMember> = members.collect();
    let own = members.iter().find(|member| member.internal == place.address());
    StoreOptions {
        node_id: own.map_or(1, |member| member.id),
        cluster: "sim".to_owned(),
        dir: dir.join(place.to_string()),
        internal: place.address(),
        api: place.api(),
        members,
        snapshot: SnapshotOptions {
            log_bytes: sizes.snapshot_bytes,
            every_s: sizes.snapshot_s,
            keep_log_entries: sizes.keep_entries,
            // A link that loses what it is given keeps no connection that would send it again.
            chunk_timeout_ms: CHUNK_TIMEOUT_MS,
        },
        disk: DiskOptions { ballast_bytes: 0, check_ms: 300, ..DiskOptions::default() },
        proposals: ProposalOptions {
            entry_changes: sizes.entry_changes,
            in_flight: sizes.in_flight,
            ..ProposalOptions::default()
        },
        ..StoreOptions::default()
    }
}

fn scheduler_options(sizes: &Sizes) -> SchedulerOptions {
    SchedulerOptions {
        window_ms: sizes.window_ms,
        due_per_tick: sizes.due_per_tick,
        heartbeat_ms: HEARTBEAT_MS,
        suspect_after: 2,
        offline_after: OFFLINE_AFTER,
        timeout_grace_ms: TIMEOUT_GRACE_MS,
        ..SchedulerOptions::default()
    }
}
