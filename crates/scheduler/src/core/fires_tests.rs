//! Fires and the grants of what they make: how often they go through the log, who gets the slots, and what is left of a
//! fire that makes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use orloj_model::command::{Fire, JobCommand};
use orloj_model::id::{CallerId, ExecutorId, Fence, JobId, Millis, TaskId};
use orloj_model::job::{Filled, JobKey};
use orloj_model::key::NextKey;
use orloj_model::task::{DueClock, Origin, Outcome, TaskSpec};
use orloj_model::{Event, Refusal, Reply};
use orloj_wire::protocol::RunVerdict;

use super::*;
use crate::core::{After, Duty, Lease};
use crate::options::Options;
use crate::testing;

const START: Now = Now { mono_ms: 1_000, wall_ms: 1_000_000, cluster_ms: 1_000_000 };
/// Changes of one entry, as the proposer packs them.
const ENTRY_CHANGES: usize = 512;

fn at(ms: u64) -> Now {
    let ahead = ms as i64;
    Now { mono_ms: START.mono_ms + ms, wall_ms: START.wall_ms + ahead, cluster_ms: START.cluster_ms + ahead }
}

fn key(number: u16) -> JobKey {
    let job = JobId::new(format!("j{number}")).expect("a valid id");
    JobKey { caller: CallerId::new("c").expect("a valid name"), job }
}

fn number(job: &JobKey) -> u16 {
    job.job.as_str()[1..].parse().expect("as the key was made")
}

fn shard(number: u16) -> ShardKey {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    ShardKey { task: TaskId(bytes), shard: 0 }
}

/// The task of the job of this number, as a look knows it beforehand.
fn task(number: u16, priority: u8, since: Millis) -> Candidate {
    let origin = Origin::Fire { job: key(number).job.to_string(), scheduled_at: since };
    let spec = TaskSpec { caller: key(number).caller, origin, priority, ..testing::spec() };
    let (shard, spec) = (shard(number), Arc::new(spec));
    Candidate { shard, attempt: 1, since, ready: false, spec, last: None, broadcast: false }
}

fn planned(duty: usize, number: u16) -> Planned {
    let (job, scheduled_at) = (key(number), START.wall_ms);
    let (task_id, filled) = (shard(number).task, Filled::default());
    let fire = Fire { job, revision: 1, scheduled_at, task: task_id, filled, next: None };
    let command = Command::Job(Box::new(JobCommand::Fire(fire)));
    Planned { duty, command, task: Some(task(number, 5, scheduled_at)) }
}

fn leader(executors: usize, slots: u32) -> Core {
    let mut core = Core::new(Options::default(), 7, START);
    for number in 0..executors {
        let name = format!("e{number}");
        core.executor_row(testing::executor_row(&name, 1, slots), START);
        core.heartbeat(testing::heartbeat(&name, 1, slots), START);
    }
    let (_, until) = core.window(START).expect("nothing is loaded yet");
    core.load_window(until, &[], &[], START);
    core.take_steps();
    core
}

/// A leader beside a log that answers everything that was proposed meanwhile in one round.
struct World {
    core: Core,
    now: Now,
    /// Proposed and not answered: duties that wait for it, and commands.
    proposed: Vec<(Vec<Duty>, Vec<Command>)>,
    /// Tasks that there are.
    made: BTreeSet<TaskId>,
    /// What was pushed, in order.
    pushed: Vec<(ExecutorId, Lease)>,
    rounds: usize,
    entries: usize,
}

impl World {
    fn new(executors: usize, slots: u32) -> World {
        World {
            core: leader(executors, slots),
            now: START,
            proposed: Vec::new(),
            made: BTreeSet::new(),
            pushed: Vec::new(),
            rounds: 0,
            entries: 0,
        }
    }

    /// So many jobs are due at one instant.
    fn jobs(&mut self, count: u16) {
        let next = |number| NextKey { due_at: START.wall_ms, job: key(number) };
        self.core.load_jobs((0..count).map(next).collect(), self.now);
    }

    /// The loop turns until it waits for the log.
    fn turn(&mut self) {
        loop {
            self.core.advance(self.now);
            for shard in self.core.next_due(self.now) {
                match self.made.contains(&shard.task) {
                    true => {
                        let number = u16::from_be_bytes([shard.task.0[0], shard.task.0[1]]);
                        self.core.ready(task(number, 5, START.wall_ms), self.now);
                    }
                    false => self.core.not_waiting(shard),
                }
            }
            self.core.plan_jobs();
            self.core.plan(self.now);
            self.core.send(self.now);
            let steps = self.core.take_steps();
            if steps.is_empty() {
                return;
            }
            steps.into_iter().for_each(|step| self.step(step));
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Jobs(duties) => {
                let job = |duty: &Duty| match duty {
                    Duty::Look(job) => number(job),
                    other => panic!("{other:?}"),
                };
                let found =
                    duties.iter().enumerate().map(|(place, duty)| planned(place, job(duty))).collect();
                self.core.looked(Vec::new(), true, self.now);
                let commands = self.core.with_grants(found, self.now);
                self.proposed.push((duties, commands.into_iter().map(|(_, command)| command).collect()));
            }
            Step::Propose(commands) => self.proposed.push((Vec::new(), commands)),
            Step::Push { executor, leases } => {
                self.core.pushed(
                    &executor,
                    &leases,
                    &vec![RunVerdict::Accepted; leases.len()],
                    None,
                    self.now,
                );
                self.pushed.extend(leases.into_iter().map(|lease| (executor.clone(), lease)));
            }
            other => panic!("{other:?}"),
        }
    }

    /// The log takes and answers what was proposed.
    fn round(&mut self) {
        let proposed = std::mem::take(&mut self.proposed);
        let changes: usize = proposed.iter().map(|(_, commands)| commands.len()).sum();
        self.rounds += 1;
        self.entries += changes.div_ceil(ENTRY_CHANGES);
        let mut waiting = Vec::new();
        for (duties, commands) in proposed {
            for command in commands {
                match &command {
                    Command::Job(job) => {
                        let JobCommand::Fire(fire) = &**job else { panic!("{job:?}") };
                        assert!(self.made.insert(fire.task), "fired twice");
                        waiting.push(ShardKey { task: fire.task, shard: 0 });
                    }
                    Command::Grant { shard, .. } => {
                        assert!(self.made.contains(&shard.task), "granted before it was made");
                        let reply = Reply::Granted { fence: self.rounds as Fence };
                        assert!(self.core.applied(&command, &reply, self.now));
                    }
                    other => panic!("{other:?}"),
                }
            }
            if !duties.is_empty() {
                let done = duties.into_iter().map(|duty| (duty, After::Rest)).collect();
                self.core.jobs_done(done, self.now);
            }
        }
        for shard in waiting {
            self.core.event(&waits(shard), self.now);
        }
        // Longer than a tick: no more becomes due in one than is read of the tables.
        self.now = at(20 * self.rounds as u64);
    }

    fn end(&mut self, (executor, lease): (ExecutorId, Lease)) {
        let (shard, fence, outcome) = (lease.shard, lease.fence, Outcome::Succeeded);
        self.core.event(&Event::AttemptEnded { shard, executor, fence, outcome }, self.now);
    }
}

fn waits(shard: ShardKey) -> Event {
    Event::Waiting { shard, due_at: START.wall_ms, clock: DueClock::Wall }
}

#[test]
fn b100_a_thousand_jobs_of_one_instant_start_after_three_rounds_through_the_log() {
    let mut world = World::new(10, 120);
    world.jobs(1_000);
    world.turn();
    while world.pushed.len() < 1_000 {
        assert!(world.rounds < 3, "{} of 1,000 after three rounds", world.pushed.len());
        world.round();
        world.turn();
    }
    // Each is a fire and a grant: 2,000 changes.
    assert!(world.entries <= 5, "{} entries", world.entries);
    let shards: BTreeSet<ShardKey> = world.pushed.iter().map(|(_, lease)| lease.shard).collect();
    assert_eq!(shards.len(), 1_000, "each once");
    assert_eq!((world.core.counts().held, world.core.counts().jobs_waiting), (1_000, 0));
}

#[test]
fn of_a_thousand_those_without_a_slot_wait_and_go_out_once_as_slots_are_freed() {
    let mut world = World::new(3, 100);
    world.jobs(1_000);
    world.turn();
    for _ in 0..3 {
        world.round();
        world.turn();
    }
    let counts = world.core.counts();
    assert_eq!((counts.held, counts.granting, counts.waiting), (300, 0, 700));
    let mut ended = 0;
    while world.pushed.len() < 1_000 {
        assert!(world.rounds < 8, "{} of 1,000", world.pushed.len());
        for number in ended..world.pushed.len() {
            world.end(world.pushed[number].clone());
        }
        ended = world.pushed.len();
        world.turn();
        world.round();
        world.turn();
    }
    let shards: BTreeSet<ShardKey> = world.pushed.iter().map(|(_, lease)| lease.shard).collect();
    assert_eq!(shards.len(), 1_000, "each once");
}

#[test]
fn what_waits_already_and_is_more_urgent_goes_before_what_a_fire_makes() {
    let mut core = leader(1, 1);
    core.ready(task(1, 9, START.wall_ms), START);
    let commands = core.with_grants(vec![planned(0, 2)], START);
    assert!(matches!(&commands[..], [(Some(0), Command::Job(_))]), "{commands:?}");
    let Some(Step::Propose(others)) = core.take_steps().pop() else { panic!("the other one has its grant") };
    assert!(matches!(&others[..], [Command::Grant { shard: of, .. }] if ShardKey::from(*of) == shard(1)));
    assert_eq!((core.counts().granting, core.counts().waiting), (1, 0), "it is not there yet");
    // It is, and has its turn.
    core.event(&waits(shard(2)), at(1));
    assert_eq!(core.next_due(at(1)), [shard(2)]);
    // Less urgent, and in the way of nobody.
    let mut core = leader(1, 1);
    core.ready(task(1, 1, START.wall_ms), START);
    let commands = core.with_grants(vec![planned(0, 2)], START);
    assert!(matches!(&commands[..], [(Some(0), Command::Job(_)), (None, Command::Grant { .. })]));
    assert_eq!((core.counts().granting, core.counts().waiting), (1, 1));
}

#[test]
fn what_is_due_and_has_not_been_read_yet_goes_before_what_a_fire_makes() {
    let mut core = leader(1, 1);
    core.event(&waits(shard(1)), START);
    assert_eq!(core.with_grants(vec![planned(0, 2)], START).len(), 1);
    assert_eq!(core.next_due(START), [shard(1)]);
    core.not_waiting(shard(1));
    assert_eq!(core.with_grants(vec![planned(0, 3)], START).len(), 2);
}

#[test]
fn a_fire_that_makes_no_task_gives_the_place_back() {
    for refusal in [Refusal::TaskNotFound, Refusal::NotWaiting] {
        let mut core = leader(1, 1);
        let mut commands = core.with_grants(vec![planned(0, 1)], START);
        let Some((None, grant)) = commands.pop() else { panic!("no grant: {commands:?}") };
        // One that waited for others may go on before the answer to the grant has got here.
        core.event(&waits(shard(1)), at(1));
        assert_eq!(core.next_due(at(1)), []);
        assert!(core.applied(&grant, &Reply::Refused(refusal), at(1)));
        assert_eq!((core.counts().granting, core.counts().held), (0, 0));
        assert_eq!(core.next_due(at(1)), [shard(1)], "its rows are read");
        core.not_waiting(shard(1));
        assert_eq!(core.with_grants(vec![planned(0, 2)], at(2)).len(), 2, "the slot is free");
    }
}

#[test]
fn a_task_is_waiting_for_its_grant_however_late_its_creation_is_heard_of() {
    let mut core = leader(1, 1);
    let mut commands = core.with_grants(vec![planned(0, 1)], START);
    let (_, grant) = commands.pop().expect("a grant");
    assert_eq!(core.granting(shard(1)), Some(START.wall_ms));
    assert!(!core.is_wanted(shard(1).task, START.wall_ms), "it has been placed");
    assert!(core.is_wanted(shard(2).task, START.wall_ms));
    assert!(core.applied(&grant, &Reply::Granted { fence: 9 }, at(1)));
    core.event(&waits(shard(1)), at(1));
    assert_eq!(core.next_due(at(20)), [], "it is leased");
    core.send(at(20));
    let pushed = core.take_steps();
    let lease = Lease { shard: shard(1), attempt: 1, fence: 9 };
    assert!(matches!(&pushed[..], [Step::Push { leases, .. }] if *leases == [lease]), "{pushed:?}");
}

#[test]
fn what_a_fire_makes_keeps_to_the_limit_of_its_job() {
    let mut core = leader(1, 10);
    core.limit_job(&key(1), Some(1));
    assert_eq!(core.with_grants(vec![planned(0, 1)], START).len(), 2);
    let mut second = planned(0, 1);
    second.task = second.task.map(|task| Candidate { shard: shard(2), ..task });
    assert_eq!(core.with_grants(vec![second], START).len(), 1, "one of its tasks is about to run");
    assert_eq!((core.counts().granting, core.counts().waiting), (1, 0), "and it is parked when it is there");
}

#[test]
fn fires_that_found_no_room_in_the_log_leave_nothing_behind() {
    let mut core = leader(1, 1);
    let mut commands = core.with_grants(vec![planned(0, 1)], START);
    let (_, grant) = commands.pop().expect("a grant");
    core.not_fired(&[grant], START);
    assert_eq!((core.counts().granting, core.counts().waiting), (0, 0));
    assert_eq!(core.with_grants(vec![planned(0, 1)], at(1)).len(), 1, "a full log is not asked for more");
    core.not_fired(&[], at(150));
    assert_eq!(core.with_grants(vec![planned(0, 1)], at(200)).len(), 2);
}
