//! Random sequences of commands on jobs and their tasks: after each one every invariant holds ([`World`] checks),
//! two replicas agree, a repeated command changes nothing, an instant makes one task at most, and nothing starts
//! beside another task that its policy keeps apart.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::jobs::*;
use common::*;
use orloj_model::command::{BackfillFire, Claim, Command, JobCommand, StepBackfill};
use orloj_model::id::{Millis, TaskId};
use orloj_model::job::{Cause, Definition, Filled, JobOutcome};
use orloj_model::query;
use orloj_model::tables::TableId;
use orloj_model::task::{Outcome, Status};
use orloj_model::trigger::overlap::OverlapPolicy;
use orloj_model::trigger::{Kind, Missed, SkipReason};
use orloj_model::{Refusal, Reply};
use proptest::prelude::*;

/// A command with small random numbers in place of what only the state knows.
#[derive(Debug, Clone)]
enum Step {
    Put { job: u8, overlap: OverlapPolicy, triggers: u8, shards: u16, free: bool, expected: Option<u64> },
    Pause { job: u8, note: u8 },
    Resume { job: u8, stale: bool },
    Delete { job: u8 },
    Fire { job: u8, skew: u64, wrong_next: bool },
    Skip { job: u8, count: u64 },
    Answer { job: u8 },
    RunNow { job: u8, overlap: Option<OverlapPolicy>, nonce: u8 },
    PutCalendar { day: u8 },
    Spread,
    StartBackfill { job: u8, back: i64, overlap: OverlapPolicy },
    GoOn { job: u8, most: usize },
    StopBackfill { job: u8 },
    Grant { place: usize },
    Report { place: usize, outcome: Outcome },
    Cancel { place: usize },
    Expire { place: usize },
    BeginRound { follow: bool },
    Advance { ms: u64 },
}

fn overlap() -> impl Strategy<Value = OverlapPolicy> {
    use OverlapPolicy::{Allow, CancelOther, Queue, Skip};
    prop_oneof![Just(Allow), Just(Skip), Just(Queue), Just(CancelOther)]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        2 => Just(Outcome::Succeeded),
        1 => Just(FAILED),
        1 => Just(Outcome::Cancelled),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let job = 0..2u8;
    let place = 0..4usize;
    let expected = prop::option::of(0..3u64);
    prop_oneof![
        4 => (job.clone(), overlap(), 0..5u8, 1..3u16, any::<bool>(), expected).prop_map(
            |(job, overlap, triggers, shards, free, expected)| Step::Put {
                job, overlap, triggers, shards, free, expected
            }
        ),
        1 => (job.clone(), 0..3u8).prop_map(|(job, note)| Step::Pause { job, note }),
        2 => (job.clone(), prop::bool::weighted(0.2)).prop_map(|(job, stale)| Step::Resume { job, stale }),
        1 => job.clone().prop_map(|job| Step::Delete { job }),
        10 => (job.clone(), prop_oneof![6 => Just(0u64), 1 => Just(1u64)], prop::bool::weighted(0.1))
            .prop_map(|(job, skew, wrong_next)| Step::Fire { job, skew, wrong_next }),
        1 => (job.clone(), 1..4u64).prop_map(|(job, count)| Step::Skip { job, count }),
        4 => job.clone().prop_map(|job| Step::Answer { job }),
        2 => (job.clone(), prop::option::of(overlap()), 0..40u8)
            .prop_map(|(job, overlap, nonce)| Step::RunNow { job, overlap, nonce }),
        1 => (2..6u8).prop_map(|day| Step::PutCalendar { day }),
        1 => Just(Step::Spread),
        1 => (job.clone(), 0..5i64, overlap())
            .prop_map(|(job, back, overlap)| Step::StartBackfill { job, back, overlap }),
        2 => (job.clone(), 1..4usize).prop_map(|(job, most)| Step::GoOn { job, most }),
        1 => job.prop_map(|job| Step::StopBackfill { job }),
        6 => place.clone().prop_map(|place| Step::Grant { place }),
        6 => (place.clone(), outcome()).prop_map(|(place, outcome)| Step::Report { place, outcome }),
        1 => place.clone().prop_map(|place| Step::Cancel { place }),
        1 => place.prop_map(|place| Step::Expire { place }),
        1 => prop::bool::weighted(0.8).prop_map(|follow| Step::BeginRound { follow }),
        6 => (0..90_000u64).prop_map(|ms| Step::Advance { ms }),
    ]
}

fn name(job: u8) -> &'static str {
    ["a", "b"][usize::from(job)]
}

fn definition_of(overlap: OverlapPolicy, triggers: u8, shards: u16, free: bool) -> Definition {
    let mut made = definition(overlap);
    made.triggers = match triggers {
        0 => vec![trigger(every_minute())],
        1 => vec![trigger(after_each(20_000))],
        2 => vec![limited(every_minute(), 2), trigger(after_each(45_000))],
        3 => vec![trigger(Kind::Once { at: FIRST + 90_000 })],
        _ => vec![trigger(Kind::FixedRate { every_ms: 30_000, anchor: 0 }), limited(every_minute(), 1)],
    };
    made.template.shard_total = shards;
    made.template.expire_after_ms = (triggers == 0).then_some(50_000);
    if free {
        made.calendars = vec![calendar_name("free")];
    }
    made
}

/// An id that was never used in this world, and is the same in another one with the same past.
fn new_task(world: &World, number: u8) -> TaskId {
    let mut id = [number; 16];
    id[..8].copy_from_slice(&world.index.to_be_bytes());
    TaskId(id)
}

/// An open task of a caller's jobs, or of what they left behind.
fn open_task(world: &World, place: usize) -> Option<TaskId> {
    let of =
        |status| query::tasks_of(&world.tables, &caller(), Some(status), None, 8).expect("maps do not fail");
    let open: Vec<_> = of(Status::Running).into_iter().chain(of(Status::Pending)).collect();
    (!open.is_empty()).then(|| open[place % open.len()])
}

fn resolve_job(world: &World, step: &Step) -> Option<JobCommand> {
    Some(match step.clone() {
        Step::Put { job, overlap, triggers, shards, free, expected } => {
            let made = definition_of(overlap, triggers, shards, free);
            let Command::Job(put) = world.put(name(job), expected, made) else { return None };
            *put
        }
        Step::Pause { job, note: 0 } => JobCommand::PauseWithoutNote { job: key(name(job)), claim: None },
        Step::Pause { job, note } => {
            JobCommand::Pause { job: key(name(job)), note: note.to_string(), claim: None }
        }
        Step::Resume { job, stale } => {
            let view = world.find_job(name(job))?;
            let mut computed = world.computed(name(job), &view.job.definition);
            computed.revision -= u64::from(stale);
            let missed = Missed { reason: SkipReason::Paused, count: 1, exact: true, first: 0, last: 0 };
            JobCommand::Resume { job: view.key, computed, missed: Some(missed), claim: None }
        }
        Step::Delete { job } => JobCommand::Delete { job: key(name(job)), expected: None, claim: None },
        Step::Fire { job, skew, wrong_next } => {
            let mut fire = world.fire(name(job), new_task(world, 1))?;
            fire.revision -= skew;
            if wrong_next {
                fire.next = world.job(name(job)).state.next;
            }
            JobCommand::Fire(fire)
        }
        Step::Skip { job, count } => JobCommand::Skip(world.skip(name(job), SkipReason::Misfire, count)?),
        Step::Answer { job } => {
            let Command::Job(answer) = world.answer(name(job))? else { return None };
            *answer
        }
        Step::RunNow { job, overlap, nonce } => {
            let mut run = world.run_now(name(job), new_task(world, 2), overlap);
            run.claim = Some(Claim { nonce: [nonce; 16], expires_at: world.now + 20_000 });
            JobCommand::RunNow(Box::new(run))
        }
        Step::PutCalendar { day } => JobCommand::PutCalendar {
            calendar: calendar_key("free"),
            expected: None,
            parts: calendar(&[&format!("1970-01-{day:02}")]),
            claim: None,
        },
        Step::Spread => JobCommand::SpreadCalendar { calendar: calendar_key("free"), after: None },
        Step::StartBackfill { job, back, overlap } => {
            let (from, to) = (world.now - back * MINUTE, world.now);
            JobCommand::StartBackfill { job: key(name(job)), from, to, overlap, claim: None }
        }
        Step::GoOn { job, most } => JobCommand::StepBackfill(backfill_step(world, name(job), most)?),
        Step::StopBackfill { job } => JobCommand::StopBackfill { job: key(name(job)), claim: None },
        _ => return None,
    })
}

fn backfill_step(world: &World, job: &str, most: usize) -> Option<StepBackfill> {
    let view = world.find_job(job)?;
    let row = query::backfill(&world.tables, &view.key).expect("maps do not fail")?;
    let found = world.schedule(&view.key, &view.job.definition).range(row.through + 1, row.to, most);
    let through = found.last().filter(|_| found.len() == most).map_or(row.to, |last| last.scheduled_at);
    let fires = found.iter().zip(10..).map(|(next, number)| BackfillFire {
        scheduled_at: next.scheduled_at,
        task: new_task(world, number),
        filled: Filled::default(),
    });
    let (from, version) = (row.through, view.job.version);
    Some(StepBackfill { job: view.key, version, from, fires: fires.collect(), through })
}

fn resolve(world: &World, step: &Step) -> Option<Command> {
    if let Some(job) = resolve_job(world, step) {
        return Some(command(job));
    }
    let last = |task: TaskId| world.task(task).shards[0].attempts.last().cloned();
    Some(match step {
        Step::Grant { place } => {
            let task = open_task(world, *place)?;
            grant(task, world.task(task).shards[0].next_attempt, "a", 1)
        }
        Step::Report { place, outcome } => {
            let task = open_task(world, *place)?;
            let attempt = last(task)?;
            report(task, attempt.number, attempt.fence, "a", outcome.clone())
        }
        Step::Cancel { place } => {
            Command::Cancel { task: open_task(world, *place)?, caller: Some(caller()), claim: None }
        }
        Step::Expire { place } => Command::Expire { task: open_task(world, *place)? },
        Step::BeginRound { .. } => Command::BeginRound { leader: 1 },
        _ => return None,
    })
}

/// Applies a step; answers with the command that it became.
fn take(world: &mut World, step: &Step) -> Option<(Command, Reply)> {
    if let Step::Advance { ms } = step {
        world.now += *ms as i64;
    }
    let command = resolve(world, step)?;
    let reply = world.run(command.clone());
    if let (Step::BeginRound { follow: true }, Reply::Round(round)) = (step, &reply) {
        world.round = *round;
    }
    Some((command, reply))
}

fn rows(world: &World) -> BTreeMap<(TableId, Vec<u8>), Vec<u8>> {
    world.tables.rows().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// What became of each life of a job: one that is created anew has its instants once more.
#[derive(Default)]
struct Lives {
    deleted: BTreeMap<String, u32>,
    fired: BTreeSet<(String, u32, Millis)>,
    decided: BTreeMap<(String, u32), Millis>,
}

impl Lives {
    /// An instant fires once in a life, and what is decided only grows.
    fn check(&mut self, world: &World, command: &Command, reply: &Reply) {
        let Command::Job(command) = command else { return };
        if let (JobCommand::Delete { job, .. }, Reply::Done) = (command.as_ref(), reply) {
            *self.deleted.entry(job.job.to_string()).or_default() += 1;
        }
        if let (JobCommand::Fire(fire), Reply::Fired { task, .. }) = (command.as_ref(), reply) {
            let name = fire.job.job.to_string();
            let life = self.deleted.get(&name).copied().unwrap_or_default();
            assert!(self.fired.insert((name.clone(), life, fire.scheduled_at)), "{fire:?} fired twice");
            assert!(fire.scheduled_at <= world.now, "{fire:?} fired early");
            assert_eq!(
                world.task(*task).spec.origin,
                Cause::Trigger.origin(&fire.job.job, fire.scheduled_at)
            );
        }
        for name in ["a", "b"] {
            let Some(view) = world.find_job(name) else { continue };
            let life = self.deleted.get(name).copied().unwrap_or_default();
            let before = self.decided.insert((name.to_owned(), life), view.state.decided);
            assert!(
                before.is_none_or(|before| before <= view.state.decided),
                "what was decided is open again"
            );
        }
    }
}

/// Whether a task of the job may start now: it is no more blocked, and not over.
fn may_start(world: &World, job: &str) -> usize {
    let Some(view) = world.find_job(job) else { return 0 };
    let open = query::open_tasks_of(&world.tables, &view.key, None, usize::MAX).expect("maps do not fail");
    open.len() - usize::from(view.state.queued.is_some())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_and_replicas_agree(steps in prop::collection::vec(step(), 1..150)) {
        let (mut one, mut two) = (World::ready(), World::ready());
        let mut lives = Lives::default();
        for step in &steps {
            let first = take(&mut one, step);
            let second = take(&mut two, step);
            prop_assert_eq!(&first, &second);
            prop_assert_eq!(one.digest(), two.digest());
            if let Some((command, reply)) = first {
                lives.check(&one, &command, &reply);
            }
        }
        prop_assert!(one.tables.rows().eq(two.tables.rows()));
    }

    #[test]
    fn a_repeated_command_changes_nothing(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::ready();
        for step in &steps {
            let Some((command, _)) = take(&mut world, step) else { continue };
            if matches!(command, Command::BeginRound { .. }) {
                continue;
            }
            let before = rows(&world);
            let reply = world.run(command.clone());
            prop_assert_eq!(before, rows(&world), "{:?} repeated: {:?}", command, reply);
        }
    }

    #[test]
    fn a_refusal_leaves_no_trace(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::ready();
        for step in &steps {
            if let Step::Advance { .. } = step {
                // So that the cluster's time is the only thing that an entry changes.
                take(&mut world, step);
                world.run_all(Vec::new());
                continue;
            }
            let before = rows(&world);
            let Some((command, reply)) = take(&mut world, step) else { continue };
            let spends = matches!(&command, Command::Job(command) if command.claim().is_some());
            // A report that comes too late is written down on its attempt.
            if matches!(reply, Reply::Refused(_)) && !spends && !matches!(command, Command::Report(_)) {
                prop_assert_eq!(before, rows(&world), "{:?}: {:?}", command, reply);
            }
        }
    }

    #[test]
    fn what_a_policy_keeps_apart_does_not_run_beside_each_other(
        overlap in prop_oneof![
            Just(OverlapPolicy::Skip), Just(OverlapPolicy::Queue), Just(OverlapPolicy::CancelOther)
        ],
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut world = World::ready();
        for step in &steps {
            let mut step = step.clone();
            match &mut step {
                Step::Put { overlap: policy, .. } | Step::StartBackfill { overlap: policy, .. } => {
                    *policy = overlap;
                }
                Step::RunNow { overlap: policy, .. } => *policy = None,
                // The tasks of a deleted job are nobody's.
                Step::Delete { .. } => continue,
                _ => {}
            }
            take(&mut world, &step);
            for job in ["a", "b"] {
                prop_assert!(may_start(&world, job) <= 1, "{:?} of {}", step, job);
            }
        }
    }

    #[test]
    fn commands_of_another_round_change_nothing(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World::ready();
        for step in &steps {
            take(&mut world, step);
            let mut old = world.clone();
            old.run_all(Vec::new());
            old.round = u64::MAX;
            let Some(command) = resolve_job(&old, step).filter(JobCommand::is_of_the_round) else { continue };
            let before = rows(&old);
            let reply = old.run(Command::Job(Box::new(command)));
            let stale = matches!(reply, Reply::Refused(Refusal::StaleRound { .. }));
            prop_assert!(stale, "{:?}", reply);
            prop_assert_eq!(before, rows(&old));
        }
    }
}

/// The steps reach what they are for: without this the properties could hold of nothing.
#[test]
fn random_steps_reach_every_kind_of_end() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeMap::<&str, u32>::new();
    for _ in 0..60 {
        let steps = prop::collection::vec(step(), 150).new_tree(&mut runner).expect("no filter").current();
        let mut world = World::ready();
        for step in &steps {
            let Some((_, reply)) = take(&mut world, step) else { continue };
            let kind = match reply {
                Reply::Fired { queued: false, .. } => "started",
                Reply::Fired { queued: true, .. } => "queued",
                Reply::FireSkipped { .. } => "skipped",
                Reply::Backfill { ended: true, .. } => "backfilled",
                Reply::Refused(Refusal::StaleJob { .. }) => "stale",
                Reply::Refused(Refusal::NotDue { .. }) => "not due",
                _ => continue,
            };
            *seen.entry(kind).or_default() += 1;
            if world
                .history("a")
                .iter()
                .any(|row| matches!(row.outcome, JobOutcome::Fired { queued: true, .. }))
            {
                *seen.entry("in history").or_default() += 1;
            }
        }
    }
    for kind in ["started", "queued", "skipped", "backfilled", "stale", "not due", "in history"] {
        assert!(seen.get(kind).copied().unwrap_or_default() >= 10, "{kind}: {seen:?}");
    }
}
