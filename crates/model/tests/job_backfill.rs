//! Backfills, one behaviour a test.

mod common;

use common::jobs::*;
use common::*;
use orloj_model::command::{BackfillFire, Command, JobCommand, StepBackfill};
use orloj_model::id::{Millis, TaskId};
use orloj_model::job::{BACKFILL_STEP, Filled, JobOutcome};
use orloj_model::query;
use orloj_model::task::{Origin, Outcome, Reason, Status};
use orloj_model::trigger::SkipReason;
use orloj_model::trigger::overlap::OverlapPolicy::{self, Allow, CancelOther, Queue, Skip};
use orloj_model::{Event, Refusal, Reply};

fn refused(refusal: Refusal) -> Reply {
    Reply::Refused(refusal)
}

fn start(from: Millis, to: Millis, overlap: OverlapPolicy) -> Command {
    command(JobCommand::StartBackfill { job: key("j"), from, to, overlap, claim: None })
}

/// In a world where an hour has passed without a fire.
fn with_past() -> World {
    let mut world = World::with_job("j", definition(Skip));
    world.now = FIRST + 60 * MINUTE;
    world
}

fn id(number: u64) -> TaskId {
    TaskId([[9; 8], number.to_be_bytes()].concat().try_into().expect("16 bytes"))
}

/// The step that a leader takes next: up to `most` instants.
fn step(world: &World, most: usize) -> StepBackfill {
    let row = query::backfill(&world.tables, &key("j")).expect("maps do not fail").expect("it is under way");
    let view = world.job("j");
    let found = world.schedule(&view.key, &view.job.definition).range(row.through + 1, row.to, most);
    let through = if found.len() < most { row.to } else { found[found.len() - 1].scheduled_at };
    let fires = found.into_iter().map(|next| BackfillFire {
        scheduled_at: next.scheduled_at,
        task: id(next.scheduled_at as u64),
        filled: Filled::default(),
    });
    StepBackfill {
        job: view.key,
        version: view.job.version,
        from: row.through,
        fires: fires.collect(),
        through,
    }
}

fn take(world: &mut World, most: usize) -> Reply {
    let step = step(world, most);
    world.run(command(JobCommand::StepBackfill(step)))
}

#[test]
fn a_backfill_makes_up_for_each_instant_once_whatever_leaders_take_the_steps() {
    let mut world = with_past();
    let to = FIRST + 19 * MINUTE;
    assert!(matches!(world.run(start(FIRST, to, Allow)), Reply::Backfill { fired: 0, ended: false, .. }));
    assert!(world.events.contains(&Event::BackfillWaits { job: key("j") }));
    assert_eq!(world.run(start(FIRST, to, Allow)), refused(Refusal::BackfillRunning));
    let first = command(JobCommand::StepBackfill(step(&world, BACKFILL_STEP)));
    let through = FIRST + 15 * MINUTE;
    let right = Reply::Backfill { through, fired: 16, skipped: 0, ended: false };
    assert_eq!(world.run(first.clone()), right);
    assert_eq!(world.run(first), refused(Refusal::BackfillNotFound), "it stands elsewhere by now");
    // The next leader finds it in the table.
    world.run(Command::BeginRound { leader: 2 });
    world.round = 2;
    let rows = query::backfills(&world.tables, None, 9).expect("maps do not fail");
    assert_eq!(rows.iter().map(|(key, row)| (key, row.through)).collect::<Vec<_>>(), [(&key("j"), through)]);
    let right = Reply::Backfill { through: to, fired: 20, skipped: 0, ended: true };
    assert_eq!(take(&mut world, BACKFILL_STEP), right);
    assert!(query::backfill(&world.tables, &key("j")).expect("maps do not fail").is_none());
    let outcome = JobOutcome::Backfilled { from: FIRST, to, through: to, fired: 20, skipped: 0 };
    assert_eq!(world.history("j")[0].outcome, outcome);
    let origin = world.task(id(FIRST as u64)).spec.origin;
    assert_eq!(origin, Origin::Backfill { job: "j".into(), scheduled_at: FIRST });
    let state = world.job("j").state;
    assert_eq!((state.open, state.progress.fired.len()), (20, 0), "it counts for no trigger");
    assert_eq!(world.next_at("j"), Some(FIRST), "and moves no next fire");
}

#[test]
fn a_queued_backfill_goes_one_by_one_and_skips_nothing() {
    let mut world = with_past();
    world.run(start(FIRST, FIRST + 3 * MINUTE, Queue));
    let right = Reply::Backfill { through: FIRST + MINUTE, fired: 2, skipped: 0, ended: false };
    assert_eq!(take(&mut world, 16), right, "one runs and one waits");
    assert_eq!(take(&mut world, 16), right, "there is no room for more");
    for (minute, next) in [(0, Some(2)), (1, Some(3)), (2, None)] {
        let task = id((FIRST + minute * MINUTE) as u64);
        let fence = world.grant(task, 1, "a");
        world.run(report(task, 1, fence, "a", Outcome::Succeeded));
        let Some(next) = next else { break };
        assert!(world.events.contains(&Event::BackfillWaits { job: key("j") }), "{:?}", world.events);
        let ended = next == 3;
        let through = FIRST + next * MINUTE;
        let right = Reply::Backfill { through, fired: next as u64 + 1, skipped: 0, ended };
        assert_eq!(take(&mut world, 16), right);
    }
}

#[test]
fn a_backfill_has_its_own_policy() {
    for (overlap, fired, skipped) in [(Skip, 1, 2), (Allow, 3, 0), (CancelOther, 3, 0)] {
        let mut world = with_past();
        world.run(start(FIRST, FIRST + 2 * MINUTE, overlap));
        let right = Reply::Backfill { through: FIRST + 2 * MINUTE, fired, skipped, ended: true };
        assert_eq!(take(&mut world, 16), right, "{overlap:?}");
        let reasons: Vec<_> = world.skips("j").into_iter().map(|skip| skip.0).collect();
        assert_eq!(reasons, vec![SkipReason::Overlap; skipped as usize]);
        if overlap == CancelOther {
            let last = world.task(id((FIRST + 2 * MINUTE) as u64)).state.status;
            assert_eq!((last, world.job("j").state.open), (Status::Pending, 1));
        }
    }
}

#[test]
fn a_step_of_a_backfill_makes_a_bounded_number_of_shards() {
    let mut wide = definition(Skip);
    wide.template.shard_total = 600;
    let mut world = World::with_job("j", wide);
    world.now = FIRST + 60 * MINUTE;
    world.run(start(FIRST, FIRST + 9 * MINUTE, Allow));
    let right = Reply::Backfill { through: FIRST + MINUTE, fired: 2, skipped: 0, ended: false };
    assert_eq!(take(&mut world, 16), right);
}

#[test]
fn a_backfill_can_be_stopped_and_goes_with_its_job() {
    let mut world = with_past();
    let stop = command(JobCommand::StopBackfill { job: key("j"), claim: None });
    assert_eq!(world.run(stop.clone()), refused(Refusal::BackfillNotFound));
    world.run(start(FIRST, FIRST + 9 * MINUTE, Allow));
    take(&mut world, 2);
    begin(&mut world, 0);
    begin(&mut world, 1);
    let late = step(&world, 2);
    assert!(matches!(world.run(stop), Reply::Backfill { fired: 2, ended: true, .. }));
    assert_eq!(world.run(command(JobCommand::StepBackfill(late))), refused(Refusal::BackfillNotFound));
    assert_eq!(world.job("j").state.open, 2, "what has begun goes on");
    world.run(start(FIRST, FIRST + 9 * MINUTE, Allow));
    world.run(command(JobCommand::Delete { job: key("j"), expected: None, claim: None }));
    assert!(query::backfills(&world.tables, None, 9).expect("maps do not fail").is_empty());
}

/// Lets an executor take the task of the instant so many minutes after the first.
fn begin(world: &mut World, minute: i64) {
    world.grant(id((FIRST + minute * MINUTE) as u64), 1, "a");
}

/// What has become of the task of that instant.
fn stands(world: &World, minute: i64) -> (Status, Reason) {
    let state = world.task(id((FIRST + minute * MINUTE) as u64)).state;
    (state.status, state.reason)
}

fn succeed(world: &mut World, task: TaskId) {
    let fence = world.grant(task, 1, "a");
    world.run(report(task, 1, fence, "a", Outcome::Succeeded));
}

fn pause() -> Command {
    command(JobCommand::Pause { job: key("j"), note: String::new(), claim: None })
}

#[test]
fn a_queued_backfill_of_a_paused_job_comes_to_its_end() {
    let mut world = with_past();
    world.run(pause());
    world.run(start(FIRST, FIRST + 3 * MINUTE, Queue));
    for minute in 0..4 {
        if world.job("j").state.backfilling {
            take(&mut world, 16);
        }
        assert_eq!(stands(&world, minute), (Status::Pending, Reason::Ready), "a person has asked for it");
        succeed(&mut world, id((FIRST + minute * MINUTE) as u64));
    }
    let outcome = &world.history("j")[0].outcome;
    assert!(matches!(outcome, JobOutcome::Backfilled { fired: 4, skipped: 0, .. }), "{outcome:?}");
    // Also where it is queued first: the pause comes while one runs and one waits.
    let mut world = with_past();
    world.run(start(FIRST, FIRST + 3 * MINUTE, Queue));
    take(&mut world, 16);
    world.run(pause());
    succeed(&mut world, id(FIRST as u64));
    assert_eq!(stands(&world, 1), (Status::Pending, Reason::Ready));
}

#[test]
fn what_waits_for_the_end_of_a_pause_is_in_the_way_of_no_backfill() {
    let mut world = World::with_job("j", definition(Queue));
    world.fires("j", task_id(1));
    world.fires("j", task_id(2));
    world.run(pause());
    succeed(&mut world, task_id(1));
    assert_eq!(world.task(task_id(2)).state.reason, Reason::Paused);
    world.run(start(FIRST - 4 * MINUTE, FIRST - 2 * MINUTE, Queue));
    for minute in [-4, -3, -2] {
        take(&mut world, 1);
        assert_eq!(stands(&world, minute), (Status::Pending, Reason::Ready));
        succeed(&mut world, id((FIRST + minute * MINUTE) as u64));
        assert_eq!(world.task(task_id(2)).state.reason, Reason::Paused, "it waits on");
    }
    assert!(!world.job("j").state.backfilling, "it has come to its end");
}

#[test]
fn a_stopped_backfill_takes_back_what_has_not_begun_and_says_how_far_it_came() {
    let mut world = with_past();
    let to = FIRST + 9 * MINUTE;
    world.run(start(FIRST, to, Queue));
    take(&mut world, 16);
    succeed(&mut world, id(FIRST as u64));
    take(&mut world, 16);
    begin(&mut world, 1);
    let stop = command(JobCommand::StopBackfill { job: key("j"), claim: None });
    let through = FIRST + MINUTE;
    assert_eq!(world.run(stop), Reply::Backfill { through, fired: 2, skipped: 0, ended: true });
    assert_eq!(stands(&world, 1).0, Status::Running, "what has begun goes on");
    assert_eq!(stands(&world, 2), (Status::Cancelled, Reason::BackfillStopped));
    let state = world.job("j").state;
    assert_eq!((state.open, state.queued, state.backfilling), (1, None, false));
    let outcome = JobOutcome::Backfilled { from: FIRST, to, through, fired: 2, skipped: 0 };
    assert_eq!(world.history("j")[0].outcome, outcome);
}

#[test]
fn a_stop_takes_a_bounded_number_of_shards_back_at_once_and_a_leader_the_others() {
    let mut wide = definition(Allow);
    wide.template.shard_total = 600;
    let mut world = World::with_job("j", wide);
    world.now = FIRST + 60 * MINUTE;
    world.run(start(FIRST, FIRST + 9 * MINUTE, Allow));
    take(&mut world, 2);
    take(&mut world, 1);
    let stop = command(JobCommand::StopBackfill { job: key("j"), claim: None });
    let right = Reply::Backfill { through: FIRST - 1, fired: 0, skipped: 0, ended: true };
    assert_eq!(world.run(stop.clone()), right);
    assert!(world.events.contains(&Event::BackfillWaits { job: key("j") }));
    let cancelled = |world: &World| (0..3).filter(|at| stands(world, *at).0 == Status::Cancelled).count();
    assert_eq!((cancelled(&world), world.job("j").state.backfilling), (2, true));
    assert!(matches!(world.run(stop), Reply::Backfill { ended: true, .. }), "asked again, nothing changes");
    assert_eq!(cancelled(&world), 2);
    assert!(matches!(take(&mut world, 16), Reply::Backfill { ended: true, .. }));
    assert_eq!((cancelled(&world), world.job("j").state.backfilling), (3, false));
    let ends =
        world.history("j").into_iter().filter(|row| matches!(row.outcome, JobOutcome::Backfilled { .. }));
    assert_eq!(ends.count(), 1, "it is written down once");
}

#[test]
fn a_backfill_is_of_the_past_and_its_steps_stay_within_it() {
    let mut world = with_past();
    let (now, right) = (world.now, refused(Refusal::Invalid));
    assert_eq!(world.run(start(FIRST, now + 1, Allow)), right);
    assert_eq!(world.run(start(FIRST + 1, FIRST, Allow)), right);
    assert_eq!(world.run(start(i64::MIN, FIRST, Allow)), right);
    world.run(start(FIRST, FIRST + 5 * MINUTE, Allow));
    let good = step(&world, 4);
    let wrong: [fn(&mut StepBackfill); 6] = [
        |step| step.through += 24 * 60 * MINUTE,
        |step| step.through = step.from - 1,
        |step| step.fires.reverse(),
        |step| step.fires[1].task = step.fires[0].task,
        |step| step.fires[0].scheduled_at = step.from,
        |step| step.fires = vec![step.fires[0].clone(); BACKFILL_STEP + 1],
    ];
    for change in wrong {
        let mut step = good.clone();
        change(&mut step);
        assert_eq!(world.run(command(JobCommand::StepBackfill(step.clone()))), right, "{step:?}");
    }
    let mut old = good.clone();
    old.version = 9;
    let stale = refused(Refusal::VersionMismatch { current: 1 });
    assert_eq!(world.run(command(JobCommand::StepBackfill(old))), stale);
    assert!(matches!(world.run(command(JobCommand::StepBackfill(good))), Reply::Backfill { fired: 4, .. }));
}
