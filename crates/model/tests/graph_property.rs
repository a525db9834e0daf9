//! Random graphs against a slow oracle: whatever the order in which things happen and leaders come and go, every task
//! ends as its parents' ends say. After each command every invariant holds ([`World`] checks), a repeated one changes
//! nothing, and a second replica agrees.

mod common;

use std::collections::BTreeMap;

use common::graphs::*;
use common::jobs::definition;
use common::*;
use orloj_model::command::Command;
use orloj_model::graph::{JobFlow, OnShardFailure, Step, is_met};
use orloj_model::id::TaskId;
use orloj_model::query;
use orloj_model::tables::TableId;
use orloj_model::task::{DependsOn, Outcome, Status, TaskSpec};
use orloj_model::trigger::overlap::OverlapPolicy;
use proptest::prelude::*;

/// What becomes of a task once it may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Succeeds,
    Fails,
    /// It is cancelled as soon as it is there.
    Cancelled,
}

#[derive(Debug, Clone)]
struct Planned {
    fate: Fate,
    shards: u16,
    parents: BTreeMap<usize, DependsOn>,
}

fn on() -> impl Strategy<Value = DependsOn> {
    prop_oneof![3 => Just(DependsOn::Success), 1 => Just(DependsOn::Completed), 1 => Just(DependsOn::Failure)]
}

fn plan(most: usize) -> impl Strategy<Value = Vec<Planned>> {
    let fate = prop_oneof![5 => Just(Fate::Succeeds), 2 => Just(Fate::Fails), 1 => Just(Fate::Cancelled)];
    let one = (fate, 1..3u16, prop::collection::vec((any::<prop::sample::Index>(), on()), 0..4));
    prop::collection::vec(one, 1..most).prop_map(|tasks| {
        let place =
            |(place, (fate, shards, parents)): (usize, (Fate, u16, Vec<(prop::sample::Index, _)>))| {
                let parents = if place == 0 { Vec::new() } else { parents };
                let parents = parents.into_iter().map(|(index, on)| (index.index(place), on)).collect();
                Planned { fate, shards, parents }
            };
        tasks.into_iter().enumerate().map(place).collect()
    })
}

/// How each task must end. A cancelled one may be skipped just as well: its children see no difference.
fn oracle(plan: &[Planned]) -> Vec<Status> {
    let mut ends: Vec<Status> = Vec::new();
    for task in plan {
        let met = task.parents.iter().all(|(parent, on)| is_met(*on, ends[*parent]) == Some(true));
        ends.push(match task.fate {
            Fate::Cancelled => Status::Cancelled,
            _ if !met => Status::Skipped,
            Fate::Succeeds => Status::Success,
            Fate::Fails => Status::Failed,
        });
    }
    ends
}

fn agrees(right: Status, found: Status) -> bool {
    found == right || (right == Status::Cancelled && found == Status::Skipped)
}

/// Two replicas that are given every command, the first of them twice.
struct Twins {
    one: World,
    two: World,
    ids: u32,
}

impl Twins {
    fn run(&mut self, command: Command) {
        let reply = self.one.run(command.clone());
        assert_eq!(self.two.run(command.clone()), reply);
        assert_eq!(self.one.digest(), self.two.digest(), "{command:?}");
        if matches!(command, Command::BeginRound { .. }) {
            self.one.round += 1;
            self.two.round += 1;
            return;
        }
        let rows = |world: &World| -> BTreeMap<(TableId, Vec<u8>), Vec<u8>> {
            world.tables.rows().map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        let mut again = self.one.clone();
        let reply = again.run(command.clone());
        assert_eq!(rows(&again), rows(&self.one), "{command:?} repeated: {reply:?}");
    }

    /// Goes on with one piece of work, or with one task, whichever the number says; whether there was any.
    fn act(&mut self, number: usize, tasks: &[(TaskId, Fate)]) -> bool {
        let mut commands: Vec<Command> = Vec::new();
        for work in self.one.work() {
            self.ids += 8;
            commands.extend(self.one.graph_command(work, self.ids, 1 + number % 8));
        }
        for (task, fate) in tasks {
            let Some(view) = self.one.find(*task).filter(|view| !view.state.status.is_terminal()) else {
                continue;
            };
            for (number, shard) in (0..).zip(&view.shards) {
                use orloj_model::task::Phase;
                match shard.phase {
                    Phase::Running if *fate == Fate::Fails && !view.state.cancel_requested => {
                        commands.push(self.one.report_of(*task, number, HOPELESS));
                    }
                    Phase::Running if view.state.cancel_requested => {
                        commands.push(self.one.report_of(*task, number, Outcome::Cancelled));
                    }
                    Phase::Running => commands.push(self.one.report_of(*task, number, Outcome::Succeeded)),
                    Phase::Due { .. } | Phase::Ready { .. } => commands.push(Command::Grant {
                        shard: orloj_model::command::ShardRef { task: *task, shard: number },
                        attempt: shard.next_attempt,
                        executor: executor("a"),
                        incarnation: 1,
                    }),
                    Phase::Blocked | Phase::Done => {}
                }
            }
        }
        if commands.is_empty() {
            return false;
        }
        let command = commands.swap_remove(number % commands.len());
        self.run(command);
        true
    }
}

fn twins() -> Twins {
    Twins { one: World::ready(), two: World::ready(), ids: 1_000 }
}

fn lead_anew(twins: &mut Twins) {
    twins.run(Command::BeginRound { leader: 1 });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn every_task_ends_as_its_parents_say(
        plan in plan(12),
        policy in any::<bool>(),
        numbers in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut twins = twins();
        let on_shard_failure = if policy { OnShardFailure::Cancel } else { OnShardFailure::Wait };
        let mut numbers = numbers.into_iter().cycle();
        let mut tasks: Vec<(TaskId, Fate)> = Vec::new();
        for (place, planned) in plan.iter().enumerate() {
            let task = task_id(place as u8 + 1);
            let parents: Vec<_> =
                planned.parents.iter().map(|(parent, on)| (task_id(*parent as u8 + 1), *on)).collect();
            let spec = TaskSpec { depends_on: needs(&parents), shard_total: planned.shards, ..spec() };
            twins.run(submit_graph(task, spec, on_shard_failure));
            if planned.fate == Fate::Cancelled {
                twins.run(Command::Cancel { task, caller: None, claim: None });
            }
            tasks.push((task, planned.fate));
            for _ in 0..numbers.next().unwrap_or(0) % 4 {
                let number = numbers.next().unwrap_or(0);
                if number == 0 {
                    lead_anew(&mut twins);
                }
                twins.act(number.into(), &tasks);
            }
        }
        while twins.act(numbers.next().unwrap_or(0).into(), &tasks) {}
        for ((task, _), right) in tasks.iter().zip(oracle(&plan)) {
            let found = twins.one.status(*task);
            prop_assert!(agrees(right, found), "{task} ended {found:?}, not {right:?}: {plan:?}");
        }
    }

    #[test]
    fn every_run_ends_as_its_steps_say(
        plan in plan(30),
        cancel_after in prop::option::of(0..60usize),
        numbers in prop::collection::vec(any::<u8>(), 1..200),
    ) {
        // Nobody cancels a step of a run by hand here.
        let mut plan = plan;
        for planned in &mut plan {
            if planned.fate == Fate::Cancelled {
                planned.fate = Fate::Succeeds;
            }
        }
        let steps: Vec<Step> = plan
            .iter()
            .enumerate()
            .map(|(place, planned)| {
                let needs: Vec<_> =
                    planned.parents.iter().map(|(parent, on)| (*parent as u16, *on)).collect();
                let mut step = step(&format!("s{place}"), &needs);
                step.template.shard_total = planned.shards;
                step
            })
            .collect();
        let mut twins = twins();
        let put = twins.one.put_flow("j", definition(OverlapPolicy::Skip), JobFlow { steps, ..JobFlow::default() });
        twins.run(put);
        let run = task_id(1);
        let now = twins.one.job("j").state.next.expect("it fires").due_at;
        (twins.one.now, twins.two.now) = (now, now);
        let fire = twins.one.fire("j", run).expect("it fires");
        twins.run(common::jobs::command(orloj_model::command::JobCommand::Fire(fire)));
        let mut numbers = numbers.into_iter().cycle();
        let mut acts = 0;
        loop {
            let number = numbers.next().unwrap_or(0);
            if number == 0 {
                lead_anew(&mut twins);
            }
            if cancel_after == Some(acts) {
                twins.run(Command::Cancel { task: run, caller: None, claim: None });
            }
            let made = made(&twins.one, run, &plan);
            if !twins.act(number.into(), &made) {
                break;
            }
            acts += 1;
        }
        let (made, right) = (made(&twins.one, run, &plan), oracle(&plan));
        let state = twins.one.task(run).state;
        if state.cancel_requested {
            let open = made.iter().filter(|(task, _)| !twins.one.status(*task).is_terminal());
            prop_assert_eq!(open.count(), 0);
            prop_assert!(state.status.is_terminal(), "{:?}", state);
            return Ok(());
        }
        if state.status == Status::Cancelled {
            return Ok(());
        }
        prop_assert_eq!(made.len(), plan.len());
        for ((task, _), right) in made.iter().zip(&right) {
            prop_assert_eq!(twins.one.status(*task), *right, "{:?}", plan);
        }
        let failed = right.contains(&Status::Failed);
        prop_assert_eq!(state.status, if failed { Status::Failed } else { Status::Success });
        prop_assert_eq!(twins.one.job("j").state.open, 0);
    }
}

/// The steps of a run that have been made, with what becomes of them.
fn made(world: &World, run: TaskId, plan: &[Planned]) -> Vec<(TaskId, Fate)> {
    let graph =
        query::graph(&world.tables, run, usize::MAX).expect("maps do not fail").expect("the run is there");
    graph.nodes[1..].iter().map(|node| node.task).zip(plan.iter().map(|planned| planned.fate)).collect()
}
