//! Two clocks: instants that people name are held against the leader's wall clock, also where one clock that was ahead
//! has carried the cluster's time away; whatever lasts so long is counted by the cluster's time.

mod common;

use common::graphs::*;
use common::jobs::*;
use common::*;
use orloj_model::command::{Command, DueTime, GraphCommand, JobCommand, Submit, SubmitGraph};
use orloj_model::graph::{JobFlow, OnShardFailure};
use orloj_model::id::Millis;
use orloj_model::task::{DependsOn, DueClock, Outcome, Phase, Reason, Status, Strategy, TaskSpec};
use orloj_model::trigger::overlap::OverlapPolicy::{Allow, Skip};
use orloj_model::{Refusal, Reply};

const HOUR: Millis = 60 * MINUTE;

/// In a world whose time is an hour ahead of the leader's wall clock, which shows 1,000 s.
fn carried_away() -> World {
    carry_away(World::ready())
}

fn carry_away(mut world: World) -> World {
    world.now += HOUR;
    world.ahead = HOUR;
    world
}

fn refused(refusal: Refusal) -> Reply {
    Reply::Refused(refusal)
}

#[test]
fn b57_a_named_instant_waits_for_the_wall_clock_and_a_delay_does_not() {
    let mut world = carried_away();
    let due_at = world.wall() + MINUTE;
    world.run(submit(task_id(1), spec(), DueTime::At(due_at)));
    assert_eq!(world.task(task_id(1)).state.reason, Reason::Scheduled);
    assert_eq!(world.run(grant(task_id(1), 1, "a", 1)), refused(Refusal::NotDue { due_at }));
    let ready = Command::MakeReady { shard: shard(task_id(1)) };
    assert_eq!(world.run(ready), refused(Refusal::NotDue { due_at }));
    world.run(submit(task_id(2), spec(), DueTime::After(MINUTE as u64)));
    world.now += MINUTE;
    world.grant(task_id(1), 1, "a");
    world.grant(task_id(2), 1, "a");
    // Set back by another hour: what lasts so long goes on.
    world.run(submit(task_id(3), spec(), DueTime::After(MINUTE as u64)));
    world.run(submit(task_id(4), spec(), DueTime::At(world.wall())));
    (world.ahead, world.now) = (2 * HOUR, world.now + MINUTE);
    world.grant(task_id(3), 1, "a");
    let due_at = world.task(task_id(4)).state.due_at;
    assert_eq!(world.run(grant(task_id(4), 1, "a", 1)), refused(Refusal::NotDue { due_at }));
}

#[test]
fn a_deadline_is_over_when_the_wall_clock_shows_it() {
    let mut world = carried_away();
    let expire_at = Some(world.wall() + MINUTE);
    for number in 1..=2 {
        world.run(submit(task_id(number), TaskSpec { expire_at, ..spec() }, DueTime::After(0)));
    }
    world.grant(task_id(1), 1, "a");
    world.now += MINUTE;
    assert_eq!(world.run(grant(task_id(2), 1, "a", 1)), refused(Refusal::Expired));
    let reply = world.run(Command::Expire { task: task_id(2) });
    assert!(matches!(reply, Reply::Task { status: Status::Skipped, .. }), "{reply:?}");
}

#[test]
fn the_deadline_of_a_run_and_of_a_broadcast_too() {
    let mut world = World::ready();
    let mut short = definition(Allow);
    short.template.expire_after_ms = Some(10_000);
    let flow = JobFlow { steps: vec![step("one", &[])], ..JobFlow::default() };
    let put = world.put_flow("j", short, flow);
    world.run(put);
    let mut world = carry_away(world);
    assert!(matches!(world.fires("j", task_id(1)), Reply::Fired { .. }));
    let run = world.run_now("j", task_id(2), None);
    assert!(matches!(world.run(command(JobCommand::RunNow(Box::new(run)))), Reply::Fired { .. }));
    let expire_at = |world: &World, task| world.task(task_id(task)).state.expire_at;
    assert_eq!(expire_at(&world, 1), Some(FIRST + 10_000));
    assert_eq!(expire_at(&world, 2), Some(world.wall() + 10_000), "also of a run that is due now");
    world.go_on(&mut 100);
    assert_eq!(world.status(task_id(1)), Status::Running);

    let expire_at = Some(world.wall() + 10_000);
    let spec = TaskSpec { strategy: Strategy::Broadcast, expire_at, ..spec() };
    world.run(submit(task_id(3), spec, DueTime::At(world.wall() + 5_000)));
    let aim = graph(GraphCommand::Aim { task: task_id(3), targets: vec![executor("a")] });
    let due_at = world.wall() + 5_000;
    assert_eq!(world.run(aim.clone()), refused(Refusal::NotDue { due_at }));
    world.now += 5_000;
    assert!(matches!(world.run(aim), Reply::Task { .. }));
}

#[test]
fn a_child_is_let_go_by_the_clock_that_its_time_was_named_by() {
    let mut world = carried_away();
    world.run(submit(task_id(1), spec(), DueTime::After(0)));
    let at = world.wall() + 10 * MINUTE;
    for (task, due) in [(2, DueTime::At(at)), (3, DueTime::After(MINUTE as u64)), (4, DueTime::At(at - HOUR))]
    {
        let spec = TaskSpec { depends_on: needs(&[(task_id(1), DependsOn::Success)]), ..spec() };
        let submit = Submit { task: task_id(task), spec, due, claim: None, idempotency: None };
        let on_shard_failure = OnShardFailure::Wait;
        let submit = SubmitGraph { submit, on_shard_failure, siblings: Vec::new() };
        world.run(graph(GraphCommand::Submit(Box::new(submit))));
    }
    world.now += 2 * MINUTE;
    world.run_to(task_id(1), &Outcome::Succeeded);
    world.go_on(&mut 100);
    let phase = |world: &World, task| world.task(task_id(task)).shards[0].phase;
    let now = world.now;
    assert_eq!(phase(&world, 2), Phase::Due { at, clock: DueClock::Wall }, "its time has not come");
    assert_eq!(phase(&world, 3), Phase::Due { at: now, clock: DueClock::Cluster });
    assert_eq!(phase(&world, 4), Phase::Due { at: now, clock: DueClock::Cluster });
    assert_eq!(world.task(task_id(2)).state.reason, Reason::Scheduled);
}

#[test]
fn a_fixed_delay_counts_from_the_end_by_the_wall_clock() {
    let mut delayed = definition(Skip);
    delayed.triggers = vec![trigger(after_each(MINUTE as u64))];
    let mut world = carry_away(World::with_job("j", delayed));
    assert!(matches!(world.fires("j", task_id(1)), Reply::Fired { .. }));
    world.now += MINUTE;
    world.run_to(task_id(1), &Outcome::Succeeded);
    let answer = world.answer("j").expect("the job is there");
    world.run(answer);
    assert_eq!(world.next_at("j"), Some(world.wall() + MINUTE));
}

#[test]
fn an_edit_and_a_changed_calendar_pass_over_nothing_that_is_still_to_come() {
    let mut world = World::ready();
    let put = |dates: &[&str]| {
        command(JobCommand::PutCalendar {
            calendar: calendar_key("free"),
            expected: None,
            parts: calendar(dates),
            claim: None,
        })
    };
    world.run(put(&["2000-01-01"]));
    let with_calendar = definition(Skip);
    let with_calendar =
        orloj_model::job::Definition { calendars: vec![calendar_name("free")], ..with_calendar };
    let job = world.put("j", Some(0), with_calendar.clone());
    world.run(job);
    let mut world = carry_away(world);
    world.run(put(&["2001-01-01"]));
    let answer = world.answer("j").expect("the job is there");
    world.run(answer);
    assert_eq!(world.next_at("j"), Some(FIRST), "the next minute by the wall clock");
    let mut edited = with_calendar;
    edited.triggers = vec![trigger(orloj_model::trigger::Kind::FixedRate { every_ms: 30_000, anchor: 0 })];
    let edit = world.put("j", Some(1), edited);
    world.run(edit);
    assert_eq!(world.next_at("j"), Some(1_020_000));
}

#[test]
fn only_what_the_wall_clock_has_shown_fires_is_skipped_or_made_up_for() {
    let mut world = carry_away(World::with_job("j", definition(Skip)));
    let fire = command(JobCommand::Fire(world.fire("j", task_id(1)).expect("it has a next fire")));
    assert_eq!(world.run(fire.clone()), refused(Refusal::NotDue { due_at: FIRST }));
    let skip = world.skip("j", orloj_model::trigger::SkipReason::Misfire, 1).expect("it has a next fire");
    assert_eq!(world.run(command(JobCommand::Skip(skip))), refused(Refusal::NotDue { due_at: FIRST }));
    let to = world.wall();
    let backfill =
        |to| command(JobCommand::StartBackfill { job: key("j"), from: 0, to, overlap: Allow, claim: None });
    assert_eq!(world.run(backfill(to + 1)), refused(Refusal::Invalid));
    assert!(matches!(world.run(backfill(to)), Reply::Backfill { .. }));
    world.now = FIRST + HOUR;
    assert!(matches!(world.run(fire), Reply::Fired { .. }));
}

#[test]
fn an_entry_without_a_word_on_the_wall_clock_means_the_time_that_it_carries() {
    let mut world = carried_away();
    world.ahead = 0;
    world.run(submit(task_id(1), spec(), DueTime::At(world.now)));
    world.grant(task_id(1), 1, "a");
    // Anywhere but at the beginning of an entry it says nothing, and it is never answered.
    let due_at = world.now + MINUTE;
    world.run(submit(task_id(2), spec(), DueTime::At(due_at)));
    let replies =
        world.run_all(vec![grant(task_id(2), 1, "a", 1), Command::WallClock { wall_ms: Millis::MAX }]);
    assert_eq!(replies, [refused(Refusal::NotDue { due_at })]);
}
