//! Carries a plan out: finds out whom each step means, hurts them, takes it back, and records all of it.

mod effects;
pub(crate) mod naming;

use std::collections::BTreeMap;

use orloj_jepsen_agents::mock::Vices;
use orloj_jepsen_agents::rng::Rng;
use orloj_jepsen_core::event::{Fault as FaultEvent, What};

use crate::machine::Crash;
use crate::place::{Place, REPLICAS};
use crate::plan::{Fault, Plan, Step, Target};
use crate::world::World;
use effects::Effects;

/// A process may end by itself for so long after its disk was hurt, in ms.
const AFTERMATH_MS: u64 = 5_000;

#[derive(Debug)]
enum Act {
    Begin(Step),
    /// The next beat of a fault that has several, by the step and the number of the beat.
    Beat(u64, u32),
    End(u64),
}

/// A step that is installed.
#[derive(Debug)]
struct Installed {
    step: Step,
    /// Replicas by their place in the list of machines, or one executor by its number.
    nodes: Vec<usize>,
    on_leader: bool,
}

/// See the module.
pub struct Nemesis {
    rng: Rng,
    agenda: BTreeMap<(u64, u64), Act>,
    numbered: u64,
    installed: BTreeMap<u64, Installed>,
    effects: Effects,
    /// Until when each replica may end by itself, in ms.
    may_end_until: [u64; REPLICAS],
}

impl Nemesis {
    /// Has nothing to do yet.
    pub fn idle(plan: &Plan) -> Nemesis {
        Nemesis {
            rng: Rng::new(plan.seed).split("nemesis"),
            agenda: BTreeMap::new(),
            numbered: 0,
            installed: BTreeMap::new(),
            effects: Effects::default(),
            may_end_until: [0; REPLICAS],
        }
    }

    /// Will carry out `plan` from `now_ms` on.
    pub fn new(plan: &Plan, now_ms: u64) -> Nemesis {
        let mut nemesis = Nemesis::idle(plan);
        for step in &plan.steps {
            nemesis.put(now_ms + step.at_ms, Act::Begin(step.clone()));
        }
        nemesis
    }

    fn put(&mut self, at_ms: u64, act: Act) {
        self.numbered += 1;
        self.agenda.insert((at_ms, self.numbered), act);
    }

    /// Whether a replica may end by itself now.
    pub fn may_end(&self, machine: usize, now_ms: u64) -> bool {
        let hurt = |installed: &Installed| {
            matches!(installed.step.fault, Fault::SyncError) && installed.nodes.contains(&machine)
        };
        self.installed.values().any(hurt) || self.may_end_until[machine] > now_ms
    }

    /// Does what is due.
    ///
    /// # Errors
    /// A host cannot be made.
    pub fn act(&mut self, world: &mut World) -> anyhow::Result<()> {
        while let Some(entry) = self.agenda.first_entry()
            && entry.key().0 <= world.now_ms
        {
            match entry.remove() {
                Act::Begin(step) => self.begin(world, step)?,
                Act::Beat(number, beat) => self.beat(world, number, beat)?,
                Act::End(number) => self.end(world, number)?,
            }
        }
        Ok(())
    }

    /// Takes everything back.
    ///
    /// # Errors
    /// A host cannot be made.
    pub fn heal(&mut self, world: &mut World) -> anyhow::Result<()> {
        self.agenda.clear();
        while let Some(number) = self.installed.keys().next().copied() {
            self.end(world, number)?;
        }
        for machine in &mut world.machines {
            machine.resume(world.now_ms);
            machine.start(world.now_ms)?;
        }
        Ok(())
    }

    fn begin(&mut self, world: &mut World, step: Step) -> anyhow::Result<()> {
        let leader = world.leader();
        let nodes = self.resolve(world, &step, leader);
        let on_leader =
            !matches!(step.target, Target::Executor(_)) && leader.is_some_and(|one| nodes.contains(&one));
        let number = step.number;
        let installed = Installed { step, nodes, on_leader };
        if installed.nodes.is_empty() || !self.install(world, &installed) {
            record(world, &installed, "skipped");
            return Ok(());
        }
        record(world, &installed, "installed");
        if let Fault::Amnesiac(beat_ms) = installed.step.fault {
            for beat in 1..=3 {
                self.put(world.now_ms + u64::from(beat) * beat_ms, Act::Beat(number, beat));
            }
        }
        self.put(world.now_ms + installed.step.for_ms, Act::End(number));
        self.installed.insert(number, installed);
        Ok(())
    }

    /// Who is meant: machines by their index, or one executor. Nobody when there is no such one.
    fn resolve(&mut self, world: &World, step: &Step, leader: Option<usize>) -> Vec<usize> {
        let all: Vec<usize> = (0..world.machines.len()).collect();
        let mut followers: Vec<usize> = all.iter().copied().filter(|one| Some(*one) != leader).collect();
        if self.rng.chance(0.5) {
            followers.reverse();
        }
        match step.target {
            // One after the other: the leader, and who followed it with the vote of the second.
            Target::All if matches!(step.fault, Fault::Amnesiac(_)) => match leader {
                Some(leader) => vec![followers[0], followers[1], leader],
                None => Vec::new(),
            },
            Target::All => all,
            Target::Leader => leader.into_iter().collect(),
            Target::Follower => followers.into_iter().take(1).collect(),
            Target::Majority => leader.into_iter().chain(followers).take(2).collect(),
            Target::Replica(number) => vec![number - 1],
            Target::Executor(number) => vec![number],
        }
    }

    /// Installs a fault; `false` when there was nothing to hurt.
    fn install(&mut self, world: &mut World, installed: &Installed) -> bool {
        let Installed { step, nodes, .. } = installed;
        let now_ms = world.now_ms;
        match &step.fault {
            Fault::Kill | Fault::Power => {
                let how = if step.fault == Fault::Kill { Crash::Kill } else { Crash::Power };
                let on: Vec<usize> =
                    nodes.iter().copied().filter(|node| world.machines[*node].is_on()).collect();
                on.iter().filter(|node| world.machines[**node].crash(how)).count() > 0
            }
            Fault::Amnesiac(_) => {
                let moving = nodes.iter().all(|node| world.machines[*node].is_moving());
                moving && world.machines[nodes[0]].stop()
            }
            Fault::Pause => nodes.iter().filter(|node| world.machines[**node].stop()).count() > 0,
            Fault::ClockJump(by_ms) => {
                nodes.iter().for_each(|node| world.machines[*node].step_wall(*by_ms));
                true
            }
            Fault::Snapshot => nodes.iter().filter(|node| take_snapshot(world, **node)).count() > 0,
            Fault::Transfer => self.transfer(world, nodes[0]),
            Fault::ExecutorKill { .. } => {
                let executor = world.executors[nodes[0] - 1].clone();
                let lives = executor.is_up();
                world.inside(|| executor.with(|mock, now| mock.kill(now)));
                lives
            }
            Fault::ExecutorVice(_, vices) => {
                let executor = world.executors[nodes[0] - 1].clone();
                world.inside(|| executor.with(|mock, _| mock.set_vices((**vices).clone())));
                true
            }
            fault => {
                if matches!(fault, Fault::SyncError) {
                    nodes.iter().for_each(|node| self.may_end_until[*node] = now_ms + AFTERMATH_MS);
                }
                let links = effects::links(&mut self.rng, fault, nodes);
                self.effects.add(step.number, links, effects::temper(fault), nodes);
                self.effects.apply(world);
                true
            }
        }
    }

    fn transfer(&mut self, world: &World, leader: usize) -> bool {
        let others: Vec<usize> = (0..REPLICAS).filter(|one| *one != leader).collect();
        let to = self.rng.pick(&others).map(|one| *one as u64 + 1);
        let (Some(replica), Some(to)) = (world.machines[leader].replica(), to) else { return false };
        world.machines[leader].spawn(async move {
            // Refused while another change is under way, or when that replica is away: so be it.
            let _ = replica.store.transfer_leader(to).await;
        });
        true
    }

    fn beat(&mut self, world: &mut World, number: u64, beat: u32) -> anyhow::Result<()> {
        let Some(installed) = self.installed.get(&number) else { return Ok(()) };
        let [first, second, leader] = installed.nodes[..] else { return Ok(()) };
        match beat {
            1 => {
                world.machines[second].crash(Crash::Power);
            }
            2 => {
                world.machines[leader].stop();
            }
            _ => {
                world.machines[first].resume(world.now_ms);
                world.machines[second].start(world.now_ms)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, world: &mut World, number: u64) -> anyhow::Result<()> {
        let Some(installed) = self.installed.remove(&number) else { return Ok(()) };
        let (nodes, now_ms) = (installed.nodes.clone(), world.now_ms);
        match &installed.step.fault {
            Fault::Kill | Fault::Power => {
                nodes.iter().try_for_each(|node| world.machines[*node].start(now_ms))?;
            }
            Fault::Amnesiac(_) => {
                nodes.iter().for_each(|node| world.machines[*node].resume(now_ms));
                world.machines[nodes[1]].start(now_ms)?;
            }
            Fault::Pause => nodes.iter().for_each(|node| world.machines[*node].resume(now_ms)),
            Fault::ClockJump(by_ms) => {
                nodes.iter().for_each(|node| world.machines[*node].step_wall(-by_ms));
            }
            Fault::Snapshot | Fault::Transfer => {}
            Fault::ExecutorKill { amnesiac } => {
                let executor = world.executors[nodes[0] - 1].clone();
                world.inside(|| executor.with(|mock, now| mock.restart(now, *amnesiac)));
            }
            Fault::ExecutorVice(..) => {
                let executor = world.executors[nodes[0] - 1].clone();
                world.inside(|| executor.with(|mock, _| mock.set_vices(Vices::default())));
            }
            fault => {
                if matches!(fault, Fault::SyncError) {
                    nodes.iter().for_each(|node| self.may_end_until[*node] = now_ms + AFTERMATH_MS);
                }
                self.effects.remove(number);
                self.effects.apply(world);
            }
        }
        record(world, &installed, "undone");
        Ok(())
    }
}

fn take_snapshot(world: &World, machine: usize) -> bool {
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);
    let Some(replica) = world.machines[machine].replica() else { return false };
    world.machines[machine].spawn(async move {
        // A node that is stopping takes none.
        let _ = replica.store.snapshot_now(PATIENCE).await;
    });
    true
}

fn record(world: &World, installed: &Installed, phase: &str) {
    let Installed { step, nodes, on_leader } = installed;
    let (package, name) = naming::name(&step.fault);
    let place = |node: &usize| match step.target {
        Target::Executor(_) => Place::Executor(*node).to_string(),
        _ => Place::Replica(*node + 1).to_string(),
    };
    let event = FaultEvent {
        step: step.number,
        package: package.to_owned(),
        name: name.to_owned(),
        target: naming::target(step.target),
        nodes: if phase == "skipped" { Vec::new() } else { nodes.iter().map(place).collect() },
        on_leader: *on_leader,
        phase: phase.to_owned(),
        detail: naming::detail(&step.fault),
    };
    world.recorder.note("nemesis", None, What::Fault(event));
}
