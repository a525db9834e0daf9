//! The life of a job, one behaviour a test.

mod common;

use common::graphs::graph;
use common::jobs::*;
use common::*;
use orloj_model::command::{Claim, Command, DueTime, EditJob, GraphCommand, Idempotency, JobCommand, PutJob};
use orloj_model::graph::{JobFlow, WorkKind};
use orloj_model::id::{CallerId, TaskId};
use orloj_model::job::{
    Cause, Definition, Filled, HISTORY_LIMIT, Heeded, JobKey, JobOutcome, OPEN_LIMIT, REPLACED_PER_COMMAND,
    dropped_by_edit,
};
use orloj_model::key::WorkKey;
use orloj_model::query;
use orloj_model::task::{DueClock, Origin, Outcome, Phase, Reason, Status};
use orloj_model::trigger::overlap::OverlapPolicy::{Allow, CancelOther, Queue, Skip};
use orloj_model::trigger::{Kind, Limits, Missed, SkipReason, Trigger};
use orloj_model::{Event, Refusal, Reply};

fn refused(refusal: Refusal) -> Reply {
    Reply::Refused(refusal)
}

fn started(task: u8) -> Reply {
    Reply::Fired { task: task_id(task), queued: false }
}

fn queued(task: u8) -> Reply {
    Reply::Fired { task: task_id(task), queued: true }
}

const OVERLAP: Reply = Reply::FireSkipped { reason: SkipReason::Overlap };

fn succeed(world: &mut World, task: u8) {
    let fence = world.grant(task_id(task), 1, "a");
    let reply = world.run(report(task_id(task), 1, fence, "a", Outcome::Succeeded));
    assert!(matches!(reply, Reply::Task { status: Status::Success, .. }), "{reply:?}");
}

fn status(world: &World, task: u8) -> (Status, Reason) {
    let state = world.task(task_id(task)).state;
    (state.status, state.reason)
}

fn has_task(world: &World, task: u8) -> bool {
    query::task(&world.tables, task_id(task)).expect("maps do not fail").is_some()
}

fn pause(job: &str, note: &str) -> Command {
    command(JobCommand::Pause { job: key(job), note: note.into(), claim: None })
}

fn resume(world: &World, job: &str, missed: Option<Missed>) -> Command {
    let computed = world.computed(job, &world.job(job).job.definition);
    command(JobCommand::Resume { job: key(job), computed, missed, claim: None })
}

fn delete(job: &str, expected: Option<u64>) -> Command {
    command(JobCommand::Delete { job: key(job), expected, claim: None })
}

#[test]
fn a_job_fires_at_its_instants_and_not_before() {
    let mut world = World::with_job("j", definition(Skip));
    assert_eq!(world.next_at("j"), Some(FIRST));
    let fire = command(JobCommand::Fire(world.fire("j", task_id(1)).expect("it has a next fire")));
    world.now = FIRST - 1;
    assert_eq!(world.run(fire.clone()), refused(Refusal::NotDue { due_at: FIRST }));
    world.now = FIRST;
    assert_eq!(world.run(fire), started(1));
    let view = world.task(task_id(1));
    assert_eq!(view.spec.origin, Origin::Fire { job: "j".into(), scheduled_at: FIRST });
    assert_eq!((view.spec.handler.as_str(), view.spec.access_key.as_str()), ("report", ""));
    assert_eq!(view.spec.params, br#"{"day":"${date:%d}"}"#);
    assert_eq!(view.shards[0].phase, Phase::Due { at: FIRST, clock: DueClock::Wall });
    let state = world.job("j").state;
    assert_eq!((state.decided, world.next_at("j")), (FIRST, Some(FIRST + MINUTE)));
    let next = Event::JobNext { job: key("j"), revision: state.revision, due_at: FIRST + MINUTE };
    assert!(world.events.contains(&next), "{:?}", world.events);
    let fired =
        JobOutcome::Fired { scheduled_at: FIRST, task: task_id(1), cause: Cause::Trigger, queued: false };
    assert_eq!(world.history("j")[0].outcome, fired);
    assert_eq!(state.counts.fired, 1);
}

#[test]
fn what_the_leader_filled_in_reaches_the_task() {
    let mut world = World::with_job("j", definition(Skip));
    let mut fire = world.fire("j", task_id(1)).expect("it has a next fire");
    fire.filled =
        Filled { params: Some(b"{\"day\":\"01\"}".to_vec()), business_key: Some("report-01".into()) };
    world.now = FIRST;
    assert_eq!(world.run(command(JobCommand::Fire(fire))), started(1));
    let spec = world.task(task_id(1)).spec;
    assert_eq!(
        (spec.params.as_slice(), spec.business_key.as_deref()),
        (b"{\"day\":\"01\"}".as_slice(), Some("report-01"))
    );
}

#[test]
fn b06_two_leaders_fire_one_instant_once() {
    let mut world = World::with_job("j", definition(Allow));
    world.now = FIRST;
    let one = command(JobCommand::Fire(world.fire("j", task_id(1)).expect("it has a next fire")));
    let two = command(JobCommand::Fire(world.fire("j", task_id(2)).expect("it has a next fire")));
    let replies = world.run_all(vec![one.clone(), two.clone()]);
    let stale = refused(Refusal::StaleJob { revision: world.job("j").state.revision });
    assert_eq!(replies, [started(1), stale.clone()]);
    assert!(!has_task(&world, 2));
    // Also a minute later, and also the same command once more.
    world.now += MINUTE;
    assert_eq!(world.run_all(vec![two.clone(), one]), [stale.clone(), stale]);
    // And a leader that is none any more.
    world.run(Command::BeginRound { leader: 2 });
    let late = command(JobCommand::Fire(world.fire("j", task_id(2)).expect("it has a next fire")));
    assert_eq!(world.run(late), refused(Refusal::StaleRound { current: 2 }));
    assert!(!has_task(&world, 2));
    assert_eq!(world.job("j").state.counts.fired, 1);
}

#[test]
fn an_instant_that_is_not_the_next_one_does_not_fire() {
    let mut world = World::with_job("j", definition(Allow));
    world.now = FIRST + 5 * MINUTE;
    let mut fire = world.fire("j", task_id(1)).expect("it has a next fire");
    fire.scheduled_at += MINUTE;
    assert_eq!(world.run(command(JobCommand::Fire(fire))), refused(Refusal::NotNext));
    // A next fire that goes back is not taken: another one is wanted.
    let mut fire = world.fire("j", task_id(1)).expect("it has a next fire");
    fire.next = world.job("j").state.next;
    assert_eq!(world.run(command(JobCommand::Fire(fire))), started(1));
    assert!(world.needs_next("j") && world.job("j").state.wanted);
    let answer = world.answer("j").expect("the job is there");
    assert!(matches!(world.run(answer), Reply::Job { .. }));
    assert_eq!(world.next_at("j"), Some(FIRST + MINUTE));
}

#[test]
fn a_chain_of_fires_catches_up_in_one_entry() {
    let mut world = World::with_job("j", definition(Allow));
    world.now = FIRST + 2 * MINUTE;
    let first = world.fire("j", task_id(1)).expect("it has a next fire");
    let mut chain = vec![first];
    let mut copy = world.clone();
    for task in 2..4 {
        copy.run(command(JobCommand::Fire(chain[chain.len() - 1].clone())));
        chain.push(copy.fire("j", task_id(task)).expect("it has a next fire"));
    }
    let replies = world.run_all(chain.into_iter().map(|fire| command(JobCommand::Fire(fire))).collect());
    assert_eq!(replies, [started(1), started(2), started(3)]);
    assert_eq!(world.next_at("j"), Some(FIRST + 3 * MINUTE));
}

#[test]
fn what_nobody_was_there_for_is_counted_and_not_fired() {
    let mut world = World::with_job("j", definition(Skip));
    let early = world.skip("j", SkipReason::Misfire, 300).expect("it has a next fire");
    let due_at = FIRST + 299 * MINUTE;
    assert_eq!(world.run(command(JobCommand::Skip(early))), refused(Refusal::NotDue { due_at }));
    world.now = FIRST + 300 * MINUTE;
    let skip = command(JobCommand::Skip(world.skip("j", SkipReason::Misfire, 300).expect("a next fire")));
    assert_eq!(world.run(skip.clone()), Reply::FireSkipped { reason: SkipReason::Misfire });
    assert_eq!(world.skips("j"), [(SkipReason::Misfire, 300, FIRST, FIRST + 299 * MINUTE)]);
    let state = world.job("j").state;
    assert_eq!((state.counts.missed(), state.counts.fired), (300, 0));
    assert_eq!(world.run(skip), refused(Refusal::StaleJob { revision: state.revision }));
    assert_eq!(world.fires("j", task_id(1)), started(1));
    assert_eq!(world.task(task_id(1)).state.due_at, FIRST + 300 * MINUTE);
}

#[test]
fn skip_makes_no_task_while_one_is_open_and_says_so() {
    let mut world = World::with_job("j", definition(Skip));
    assert_eq!(world.fires("j", task_id(1)), started(1));
    assert_eq!(world.fires("j", task_id(2)), OVERLAP, "while it waits for a slot");
    let fence = world.grant(task_id(1), 1, "a");
    assert_eq!(world.fires("j", task_id(2)), OVERLAP, "while it runs");
    assert!(!has_task(&world, 2));
    world.run(Command::Cancel { task: task_id(1), caller: None, claim: None });
    assert_eq!(world.fires("j", task_id(2)), OVERLAP, "while its cancel is not confirmed");
    world.run(report(task_id(1), 1, fence, "a", Outcome::Cancelled));
    assert_eq!(world.fires("j", task_id(2)), started(2));
    let at = |minute| (SkipReason::Overlap, 1, FIRST + minute * MINUTE, FIRST + minute * MINUTE);
    assert_eq!(world.skips("j"), [at(1), at(2), at(3)]);
    assert_eq!(world.job("j").state.counts.skipped[&SkipReason::Overlap], 3);
}

#[test]
fn a_task_that_waits_for_its_retry_is_open() {
    let mut twice = definition(Skip);
    twice.template.retry.max_retries = 1;
    let mut world = World::with_job("j", twice);
    assert_eq!(world.fires("j", task_id(1)), started(1));
    let fence = world.grant(task_id(1), 1, "a");
    world.run(report(task_id(1), 1, fence, "a", FAILED));
    assert_eq!(status(&world, 1), (Status::Pending, Reason::Retry));
    assert_eq!(world.fires("j", task_id(2)), OVERLAP);
    let fence = world.grant(task_id(1), 2, "a");
    world.run(report(task_id(1), 2, fence, "a", FAILED));
    assert_eq!(status(&world, 1).0, Status::Failed);
    assert_eq!(world.fires("j", task_id(2)), started(2));
}

#[test]
fn allow_lets_tasks_run_beside_each_other_up_to_a_limit() {
    let mut world = World::with_job("j", definition(Allow));
    for task in 1..4 {
        assert_eq!(world.fires("j", task_id(task)), started(task));
    }
    assert_eq!(world.job("j").state.open, 3);
    let open = query::open_tasks_of(&world.tables, &key("j"), Some(task_id(1)), 9).expect("maps do not fail");
    assert_eq!(open, [task_id(2), task_id(3)]);
    succeed(&mut world, 2);
    assert_eq!(world.job("j").state.open, 2);
}

#[test]
fn whatever_the_policy_the_number_of_open_tasks_is_bounded() {
    // Without the invariants, which read everything: a thousand tasks are many to read a thousand times.
    let mut world = World::with_job("j", definition(Allow));
    let id = |number: u32| {
        let mut id = [7; 16];
        id[..4].copy_from_slice(&number.to_be_bytes());
        TaskId(id)
    };
    for number in 0..=OPEN_LIMIT {
        let run = command(JobCommand::RunNow(Box::new(world.run_now("j", id(number), None))));
        world.index += 1;
        let batch = orloj_model::Batch { now_ms: world.now, round: world.round, changes: vec![run] };
        let mut events = Vec::new();
        let replies = orloj_model::apply(&mut world.tables, world.index, &batch, &mut events);
        let right = match number < OPEN_LIMIT {
            true => Reply::Fired { task: id(number), queued: false },
            false => OVERLAP,
        };
        assert_eq!(replies.expect("maps do not fail"), [right]);
    }
    // A job with a thousand open tasks can be deleted in one command, and leaves nothing behind.
    assert_eq!(world.run(delete("j", None)), Reply::Done);
}

#[test]
fn queue_keeps_one_task_that_starts_with_the_end_of_the_last_open_one() {
    let mut world = World::with_job("j", definition(Queue));
    assert_eq!(world.fires("j", task_id(1)), started(1));
    let beside = world.run_now("j", task_id(9), Some(Allow));
    assert_eq!(world.run(command(JobCommand::RunNow(Box::new(beside)))), started(9));
    assert_eq!(world.fires("j", task_id(2)), queued(2));
    assert_eq!(status(&world, 2), (Status::Pending, Reason::Dependencies));
    assert_eq!(world.run(grant(task_id(2), 1, "a", 1)), refused(Refusal::NotWaiting));
    assert_eq!(world.fires("j", task_id(3)), OVERLAP, "one waits already");
    succeed(&mut world, 1);
    assert_eq!(status(&world, 2), (Status::Pending, Reason::Dependencies), "another one is open");
    let fence = world.grant(task_id(9), 1, "a");
    world.run(report(task_id(9), 1, fence, "a", FAILED));
    assert_eq!(status(&world, 2), (Status::Pending, Reason::Ready), "in the apply that ended the last one");
    let waiting = |event: &Event| matches!(event, Event::Waiting { shard, .. } if shard.task == task_id(2));
    assert!(world.events.iter().any(waiting), "{:?}", world.events);
    assert_eq!(world.fires("j", task_id(4)), queued(4), "it is open, and waits no more");
    succeed(&mut world, 2);
    succeed(&mut world, 4);
    assert_eq!(world.job("j").state.open, 0);
}

#[test]
fn a_queued_task_with_many_shards_starts_whole() {
    let mut wide = definition(Queue);
    wide.template.shard_total = 3;
    let mut world = World::with_job("j", wide);
    assert_eq!(world.fires("j", task_id(1)), started(1));
    assert_eq!(world.fires("j", task_id(2)), queued(2));
    world.run(Command::Cancel { task: task_id(1), caller: None, claim: None });
    let phases: Vec<_> = world.task(task_id(2)).shards.into_iter().map(|shard| shard.phase).collect();
    assert_eq!(phases, [Phase::Due { at: FIRST + MINUTE, clock: DueClock::Cluster }; 3]);
}

#[test]
fn a_queued_task_can_be_cancelled_and_can_expire() {
    let mut short = definition(Queue);
    short.template.expire_after_ms = Some(10);
    let mut world = World::with_job("j", short);
    assert_eq!(world.fires("j", task_id(1)), started(1));
    world.grant(task_id(1), 1, "a");
    assert_eq!(world.fires("j", task_id(2)), queued(2));
    let reply = world.run(Command::Cancel { task: task_id(2), caller: Some(caller()), claim: None });
    assert!(matches!(reply, Reply::Task { status: Status::Cancelled, .. }), "{reply:?}");
    assert_eq!(world.fires("j", task_id(3)), queued(3), "there is room again");
    world.now += 10;
    world.run(Command::Expire { task: task_id(3) });
    assert_eq!(status(&world, 3), (Status::Skipped, Reason::Expired));
    assert_eq!((world.job("j").state.open, world.job("j").state.queued), (1, None));
}

#[test]
fn cancel_other_waits_until_the_running_task_has_ended() {
    let mut world = World::with_job("j", definition(CancelOther));
    assert_eq!(world.fires("j", task_id(1)), started(1));
    let fence = world.grant(task_id(1), 1, "a");
    assert_eq!(world.fires("j", task_id(2)), queued(2));
    let asked =
        |event: &Event| matches!(event, Event::CancelRequested { fence: found, .. } if *found == fence);
    assert!(world.events.iter().any(asked), "{:?}", world.events);
    assert!(world.task(task_id(1)).state.cancel_requested);
    assert_eq!(status(&world, 2), (Status::Pending, Reason::Dependencies));
    // The next fire replaces the one that waits.
    assert_eq!(world.fires("j", task_id(3)), queued(3));
    assert_eq!(status(&world, 2).0, Status::Cancelled);
    world.run(report(task_id(1), 1, fence, "a", Outcome::Cancelled));
    assert_eq!(status(&world, 3), (Status::Pending, Reason::Ready));
    succeed(&mut world, 3);
}

#[test]
fn cancel_other_starts_at_once_where_nothing_has_started() {
    let mut world = World::with_job("j", definition(CancelOther));
    assert_eq!(world.fires("j", task_id(1)), started(1));
    assert_eq!(world.fires("j", task_id(2)), queued(2));
    assert_eq!(status(&world, 1).0, Status::Cancelled);
    assert_eq!(status(&world, 2), (Status::Pending, Reason::Ready), "in the same apply");
    succeed(&mut world, 2);
}

#[test]
fn cancel_other_works_through_many_open_tasks_in_bounded_commands() {
    let mut world = World::with_job("j", definition(Allow));
    let open = 6 * REPLACED_PER_COMMAND as u8;
    let mut fences = Vec::new();
    for task in 1..=open {
        assert_eq!(world.fires("j", task_id(task)), started(task));
        let id = ["a", "b"][usize::from(task % 2)];
        fences.push((task, id, world.grant(task_id(task), 1, id)));
    }
    let put = world.put("j", Some(1), definition(CancelOther));
    world.run(put);
    assert_eq!(world.fires("j", task_id(99)), queued(99));
    let asked =
        |world: &World| (1..=open).filter(|task| world.task(task_id(*task)).state.cancel_requested).count();
    assert_eq!(asked(&world), REPLACED_PER_COMMAND);
    // The next fire takes the place of the one that waits, however many there are before it.
    assert_eq!(world.fires("j", task_id(98)), queued(98));
    assert_eq!(status(&world, 99).0, Status::Cancelled);
    // Once it is gone, nothing more is cancelled for its sake.
    world.run(Command::Cancel { task: task_id(98), caller: None, claim: None });
    let before = asked(&world);
    assert_eq!((world.go_on(&mut 0), asked(&world)), (0, before));
    assert_eq!(world.fires("j", task_id(97)), queued(97));
    let commands = world.go_on(&mut 0);
    assert_eq!(asked(&world), usize::from(open), "a leader goes on whether or not one of them ends");
    assert!(commands >= 5, "{commands} for {open} tasks");
    for (task, id, fence) in fences {
        assert_eq!(status(&world, 97).1, Reason::Dependencies);
        world.run(report(task_id(task), 1, fence, id, Outcome::Cancelled));
    }
    assert_eq!(status(&world, 97), (Status::Pending, Reason::Ready));
}

#[test]
fn cancel_other_leaves_none_of_many_waiting_tasks_behind() {
    let mut world = World::with_job("j", definition(Allow));
    let open = 5 * REPLACED_PER_COMMAND as u8 + 1;
    for task in 1..=open {
        assert_eq!(world.fires("j", task_id(task)), started(task));
    }
    let put = world.put("j", Some(1), definition(CancelOther));
    world.run(put);
    assert_eq!(world.fires("j", task_id(99)), queued(99));
    // Another leader goes on from the tables.
    world.run(Command::BeginRound { leader: 2 });
    world.round = 2;
    assert_eq!(world.go_on(&mut 0), 5, "so many in each command");
    assert!((1..=open).all(|task| status(&world, task).0 == Status::Cancelled));
    assert_eq!(status(&world, 99), (Status::Pending, Reason::Ready));
    assert_eq!(world.job("j").state.open, 1);
    let gone = world.graph_command(WorkKey { kind: WorkKind::Replace, task: task_id(99) }, 0, 1);
    assert_eq!(gone, None);
    let late = graph(GraphCommand::ReplaceMore { queued: task_id(99), from: task_id(1) });
    assert_eq!(world.run(late), refused(Refusal::StaleGraph));
}

#[test]
fn a_job_that_goes_while_it_replaces_leaves_nothing_to_do() {
    let mut world = World::with_job("j", definition(Allow));
    for task in 1..=20 {
        assert_eq!(world.fires("j", task_id(task)), started(task));
    }
    let put = world.put("j", Some(1), definition(CancelOther));
    world.run(put);
    assert_eq!(world.fires("j", task_id(99)), queued(99));
    assert_eq!(world.work().len(), 1);
    assert_eq!(world.run(delete("j", None)), Reply::Done);
    assert_eq!(world.work(), []);
}

#[test]
fn b108_a_paused_job_does_not_fire_and_resumes_with_a_record() {
    let mut world = World::with_job("j", definition(Skip));
    world.now = FIRST;
    let fire = command(JobCommand::Fire(world.fire("j", task_id(1)).expect("it has a next fire")));
    assert!(matches!(world.run(pause("j", "table is locked")), Reply::Job { version: 1, .. }));
    let state = world.job("j").state;
    assert_eq!(world.run(fire), refused(Refusal::StaleJob { revision: state.revision }));
    assert_eq!(state.paused.map(|pause| (pause.note, pause.at)), Some(("table is locked".into(), FIRST)));
    let due = query::due_jobs(&world.tables, None, i64::MAX, 9).expect("maps do not fail");
    assert!(due.is_empty() && state.next.is_none());
    // The same pause again changes nothing.
    assert_eq!(world.run(pause("j", "table is locked")), Reply::Job { version: 1, revision: state.revision });
    world.now = FIRST + 2 * MINUTE + 1;
    let (first, last) = (FIRST, FIRST + 2 * MINUTE);
    let missed = Missed { reason: SkipReason::Paused, count: 3, exact: true, first, last };
    let resume = resume(&world, "j", Some(missed));
    assert!(matches!(world.run(resume.clone()), Reply::Job { .. }));
    assert_eq!(world.skips("j"), [(SkipReason::Paused, 3, first, last)]);
    assert_eq!(world.next_at("j"), Some(FIRST + 3 * MINUTE), "nothing is made up for");
    assert_eq!(world.job("j").state.decided, world.now, "also by whoever computes it anew");
    let revision = world.job("j").state.revision;
    assert_eq!(world.run(resume), Reply::Job { version: 1, revision }, "once");
    assert_eq!(world.skips("j").len(), 1);
    assert_eq!(world.fires("j", task_id(1)), started(1));
}

#[test]
fn a_second_pause_keeps_the_note_unless_it_brings_another() {
    let mut world = World::with_job("j", definition(Skip));
    let silent = || command(JobCommand::PauseWithoutNote { job: key("j"), claim: None });
    let said = |world: &World| world.job("j").state.paused.map(|pause| (pause.note, pause.at));
    let since = world.now;
    world.run(pause("j", "table is locked"));
    let revision = world.job("j").state.revision;
    world.now += MINUTE;
    assert_eq!(world.run(silent()), Reply::Job { version: 1, revision }, "nothing has changed");
    assert_eq!(said(&world), Some(("table is locked".into(), since)));
    world.run(pause("j", "table is gone"));
    assert_eq!(said(&world), Some(("table is gone".into(), since)));
    world.run(pause("j", ""));
    assert_eq!(said(&world), Some((String::new(), since)), "an empty note is one, too");
    let resume = resume(&world, "j", None);
    world.run(resume);
    world.run(silent());
    assert_eq!(said(&world), Some((String::new(), world.now)));
}

#[test]
fn a_paused_job_holds_what_is_queued_until_it_is_resumed() {
    let mut world = World::with_job("j", definition(Queue));
    assert_eq!(world.fires("j", task_id(1)), started(1));
    assert_eq!(world.fires("j", task_id(2)), queued(2));
    world.run(pause("j", ""));
    succeed(&mut world, 1);
    assert_eq!(status(&world, 2), (Status::Pending, Reason::Paused));
    let resume = resume(&world, "j", None);
    world.run(resume);
    assert_eq!(status(&world, 2), (Status::Pending, Reason::Ready));
    succeed(&mut world, 2);
}

#[test]
fn a_resume_that_was_computed_from_another_state_is_refused() {
    let mut world = World::with_job("j", definition(Skip));
    world.run(pause("j", ""));
    let resume = resume(&world, "j", None);
    let mut other = definition(Skip);
    other.triggers = vec![trigger(Kind::Once { at: FIRST + 7 * MINUTE })];
    let put = world.put("j", None, other);
    world.run(put);
    assert_eq!(world.job("j").state.next, None, "an edit does not resume");
    let revision = world.job("j").state.revision;
    assert_eq!(world.run(resume), refused(Refusal::StaleJob { revision }));
}

#[test]
fn an_edit_is_guarded_by_its_version() {
    let mut world = World::with_job("j", definition(Skip));
    let exists = world.put("j", Some(0), definition(Allow));
    assert_eq!(world.run(exists), refused(Refusal::VersionMismatch { current: 1 }));
    let (one, two) = (world.put("j", Some(1), definition(Allow)), world.put("j", Some(1), definition(Queue)));
    let replies = world.run_all(vec![one, two.clone()]);
    assert!(matches!(replies[0], Reply::Job { version: 2, .. }), "{replies:?}");
    assert_eq!(replies[1], refused(Refusal::VersionMismatch { current: 2 }));
    assert_eq!(world.job("j").job.definition.overlap, Allow);
    // What it is already is no edit.
    let revision = world.job("j").state.revision;
    let same = world.put("j", Some(2), definition(Allow));
    assert_eq!(world.run(same), Reply::Job { version: 2, revision });
    let gone = world.put("k", Some(3), definition(Allow));
    assert_eq!(world.run(gone), refused(Refusal::VersionMismatch { current: 0 }));
    assert!(world.find_job("k").is_none());
}

#[test]
fn an_edit_of_other_fields_keeps_the_next_fire_and_outdates_what_was_filled_in() {
    let mut world = World::with_job("j", definition(Skip));
    world.now = FIRST;
    let fire = command(JobCommand::Fire(world.fire("j", task_id(1)).expect("it has a next fire")));
    world.now = FIRST + 10;
    let mut other = definition(Skip);
    other.template.params = "{}".into();
    let put = world.put("j", Some(1), other);
    world.run(put);
    assert_eq!(world.next_at("j"), Some(FIRST), "it is due, and still is");
    let revision = world.job("j").state.revision;
    let next = Event::JobNext { job: key("j"), revision, due_at: FIRST };
    assert!(world.events.contains(&next), "{:?}", world.events);
    assert_eq!(world.run(fire), refused(Refusal::StaleJob { revision }));
    assert_eq!(world.fires("j", task_id(1)), started(1));
    assert_eq!(world.task(task_id(1)).spec.params, b"{}");
}

#[test]
fn b65_an_edit_of_the_triggers_fires_nothing_that_is_over() {
    let mut world = World::with_job("j", definition(Skip));
    world.now = FIRST + 30_000;
    let mut other = definition(Skip);
    other.triggers = vec![trigger(Kind::FixedRate { every_ms: 10_000, anchor: 0 })];
    let put = world.put("j", Some(1), other.clone());
    world.run(put);
    assert_eq!(world.next_at("j"), Some(FIRST + 40_000));
    assert_eq!(world.job("j").state.decided, world.now, "also by whoever computes it anew");
    assert_eq!(world.fires("j", task_id(1)), started(1));
    // Back again, with a clock that went back too: what has fired does not fire again.
    world.now = FIRST;
    let put = world.put("j", None, definition(Skip));
    world.run(put);
    assert_eq!(world.next_at("j"), Some(FIRST + MINUTE));
}

/// Every minute, each up to so late.
fn with_jitter(jitter_ms: u64) -> Definition {
    let limits = Limits { jitter_ms, ..Limits::default() };
    let every = Trigger::new(every_minute(), limits).expect("a valid trigger");
    Definition { triggers: vec![every], ..definition(Allow) }
}

fn dropped(world: &World, after: i64) -> Option<Missed> {
    dropped_by_edit(&world.job("j"), &Heeded::default(), after).expect("checked triggers")
}

#[test]
fn b65_what_an_edit_keeps_from_firing_is_recorded() {
    let mut world = World::with_job("j", with_jitter(10 * MINUTE as u64));
    assert_eq!(dropped(&world, FIRST - 1), None, "nothing was due: an edit drops nothing");
    // Several instants wait for the end of their jitter, and the edit is for another time of day.
    world.now = FIRST + 2 * MINUTE + 1;
    let missed = dropped(&world, world.now).expect("they wait");
    let first =
        Missed { reason: SkipReason::Edited, count: 3, exact: true, first: FIRST, last: FIRST + 2 * MINUTE };
    assert_eq!(missed, first);
    let put = |world: &World, definition| {
        let computed = world.computed("j", &definition);
        PutJob { job: key("j"), expected: None, definition, computed, claim: None }
    };
    let daily =
        Definition { triggers: vec![trigger(Kind::Once { at: FIRST + 60 * MINUTE })], ..with_jitter(0) };
    let edit = EditJob { put: put(&world, daily), flow: JobFlow::default(), missed };
    let mut stale = edit.clone();
    stale.put.computed.revision += 1;
    let revision = world.job("j").state.revision;
    assert_eq!(
        world.run(command(JobCommand::Edit(Box::new(stale)))),
        refused(Refusal::StaleJob { revision })
    );
    assert!(matches!(world.run(command(JobCommand::Edit(Box::new(edit)))), Reply::Job { version: 2, .. }));
    assert_eq!(world.skips("j"), [(SkipReason::Edited, 3, FIRST, FIRST + 2 * MINUTE)]);
    assert_eq!(world.next_at("j"), Some(FIRST + 60 * MINUTE), "and nothing fires before its time");
}

#[test]
fn an_edit_that_did_not_know_of_a_waiting_instant_records_that_all_the_same() {
    let mut world = World::with_job("j", with_jitter(10 * MINUTE as u64));
    world.now = FIRST + 1;
    let put = world.put("j", Some(1), definition(Allow));
    assert!(matches!(world.run(put), Reply::Job { version: 2, .. }));
    assert_eq!(world.skips("j"), [(SkipReason::Edited, 1, FIRST, FIRST)]);
}

#[test]
fn what_a_pause_had_held_up_before_an_edit_counts_as_paused() {
    let mut world = World::with_job("j", definition(Allow));
    world.run(pause("j", ""));
    world.now = FIRST + 9 * MINUTE;
    let missed = dropped(&world, world.now).expect("they were held up");
    assert_eq!((missed.reason, missed.count), (SkipReason::Paused, 10));
}

#[test]
fn an_edit_that_was_overtaken_by_a_fire_asks_the_leader() {
    let mut world = World::with_job("j", definition(Allow));
    let mut other = definition(Allow);
    other.triggers = vec![trigger(Kind::FixedRate { every_ms: 10_000, anchor: 0 })];
    world.now = FIRST;
    let put = world.put("j", Some(1), other);
    assert_eq!(world.fires("j", task_id(1)), started(1));
    assert!(matches!(world.run(put), Reply::Job { version: 2, .. }), "a person's edit wins");
    assert!(world.needs_next("j"));
    assert_eq!(query::wanted_jobs(&world.tables, None, 9).expect("maps do not fail"), [key("j")]);
    let answer = world.answer("j").expect("the job is there");
    assert!(matches!(world.run(answer.clone()), Reply::Job { version: 2, .. }));
    assert_eq!(world.next_at("j"), Some(FIRST + 10_000));
    let revision = world.job("j").state.revision;
    assert_eq!(world.run(answer), refused(Refusal::StaleJob { revision }));
}

#[test]
fn counts_of_fires_follow_their_triggers_through_an_edit() {
    let (rate, once) = (limited(every_minute(), 2), trigger(Kind::Once { at: FIRST + 90_000 }));
    let mut first = definition(Allow);
    first.triggers = vec![rate.clone()];
    let mut world = World::with_job("j", first);
    assert_eq!(world.fires("j", task_id(1)), started(1));
    let mut second = definition(Allow);
    second.triggers = vec![once, rate];
    let put = world.put("j", Some(1), second);
    world.run(put);
    assert_eq!(world.job("j").state.progress.fired, [0, 1]);
    assert_eq!(world.fires("j", task_id(2)), started(2), "the second and last of the rate");
    assert_eq!(world.fires("j", task_id(3)), started(3), "the single one");
    assert_eq!(world.job("j").state.progress.fired, [1, 2]);
    assert_eq!(world.next_at("j"), None);
    assert!(!world.job("j").state.wanted);
}

#[test]
fn a_skipped_instant_does_not_count_for_max_fires() {
    let mut once = definition(Skip);
    once.triggers = vec![limited(every_minute(), 2)];
    let mut world = World::with_job("j", once);
    assert_eq!(world.fires("j", task_id(1)), started(1));
    // The leader takes the next one for the last and says that none follows.
    let last = world.fire("j", task_id(2)).expect("it has a next fire");
    assert_eq!(last.next, None);
    assert_eq!(world.fires("j", task_id(2)), OVERLAP);
    assert!(world.needs_next("j"), "it did not count");
    let answer = world.answer("j").expect("the job is there");
    world.run(answer);
    succeed(&mut world, 1);
    assert_eq!(world.fires("j", task_id(2)), started(2));
    assert_eq!(world.next_at("j"), None);
}

#[test]
fn b16_a_fixed_delay_counts_from_the_end_of_the_last_task() {
    let mut delayed = definition(Skip);
    delayed.triggers = vec![trigger(after_each(5_000))];
    let mut world = World::with_job("j", delayed);
    assert_eq!(world.next_at("j"), Some(1_005_000));
    assert_eq!(world.fires("j", task_id(1)), started(1));
    assert_eq!((world.next_at("j"), world.job("j").state.wanted), (None, false));
    world.now += 100_000;
    let fence = world.grant(task_id(1), 1, "a");
    world.run(report(task_id(1), 1, fence, "a", FAILED));
    let ended = world.now;
    assert!(world.needs_next("j"), "{:?}", world.events);
    assert_eq!(world.job("j").state.progress.last_ended, Some(ended));
    // The leader falls here; the next one finds what is wanted in the table.
    world.run(Command::BeginRound { leader: 2 });
    world.round = 2;
    assert_eq!(query::wanted_jobs(&world.tables, None, 9).expect("maps do not fail"), [key("j")]);
    let answer = world.answer("j").expect("the job is there");
    world.run(answer);
    assert_eq!(world.next_at("j"), Some(ended + 5_000));
    assert_eq!(world.fires("j", task_id(2)), started(2));
}

#[test]
fn a_fixed_delay_counts_from_the_end_of_a_run_by_hand() {
    for policy in [Allow, Skip, Queue, CancelOther] {
        let mut delayed = definition(policy);
        delayed.triggers = vec![trigger(after_each(5_000))];
        let mut world = World::with_job("j", delayed);
        let stale = command(JobCommand::Fire(world.fire("j", task_id(9)).expect("it has a next fire")));
        world.now += 2_000;
        let run = world.run_now("j", task_id(1), None);
        assert_eq!(world.run(command(JobCommand::RunNow(Box::new(run)))), started(1));
        assert_eq!(world.next_at("j"), None, "{policy:?}: nothing fires while it is open");
        assert!(world.needs_next("j"));
        let answer = world.answer("j").expect("the job is there");
        world.run(answer);
        assert_eq!((world.next_at("j"), world.job("j").state.wanted), (None, false), "{policy:?}");
        world.now += 10_000;
        let revision = world.job("j").state.revision;
        assert_eq!(world.run(stale), refused(Refusal::StaleJob { revision }), "{policy:?}");
        succeed(&mut world, 1);
        let answer = world.answer("j").expect("the job is there");
        world.run(answer);
        assert_eq!(world.next_at("j"), Some(world.now + 5_000), "{policy:?}");
        assert_eq!(world.skips("j"), [], "{policy:?}");
    }
}

#[test]
fn a_fixed_delay_of_a_paused_job_is_looked_for_anew_after_a_run_by_hand() {
    let mut delayed = definition(Skip);
    delayed.triggers = vec![trigger(after_each(5_000))];
    let mut world = World::with_job("j", delayed);
    world.run(pause("j", ""));
    let early = resume(&world, "j", None);
    let run = world.run_now("j", task_id(1), None);
    assert_eq!(world.run(command(JobCommand::RunNow(Box::new(run)))), started(1));
    assert!(!world.needs_next("j"));
    let revision = world.job("j").state.revision;
    assert_eq!(world.run(early), refused(Refusal::StaleJob { revision }), "it knew of no open task");
    let resume = resume(&world, "j", None);
    world.run(resume);
    assert_eq!(world.next_at("j"), None);
}

#[test]
fn a_fixed_delay_survives_a_pause_in_which_its_task_ends() {
    let mut delayed = definition(Skip);
    delayed.triggers = vec![trigger(after_each(5_000))];
    let mut world = World::with_job("j", delayed);
    assert_eq!(world.fires("j", task_id(1)), started(1));
    world.run(pause("j", ""));
    let early = resume(&world, "j", None);
    succeed(&mut world, 1);
    assert!(!world.needs_next("j"));
    let revision = world.job("j").state.revision;
    assert_eq!(world.run(early), refused(Refusal::StaleJob { revision }), "it knew of no next fire");
    let resume = resume(&world, "j", None);
    world.run(resume);
    assert_eq!(world.next_at("j"), Some(world.now + 5_000));
}

#[test]
fn a_fixed_delay_that_an_edit_brings_is_looked_for_although_the_last_task_ends_meanwhile() {
    let mut world = World::with_job("j", definition(Skip));
    assert_eq!(world.fires("j", task_id(1)), started(1));
    let mut delayed = definition(Skip);
    delayed.triggers = vec![trigger(after_each(5_000))];
    let edit = world.put("j", None, delayed);
    succeed(&mut world, 1);
    world.run(edit);
    assert!(world.needs_next("j"), "the edit was computed while a task was open");
    let answer = world.answer("j").expect("the job is there");
    world.run(answer);
    assert_eq!(world.next_at("j"), Some(world.now + 5_000));
}

#[test]
fn b109_a_deleted_job_leaves_its_running_tasks_alone() {
    let mut world = World::with_job("j", definition(Queue));
    assert_eq!(world.fires("j", task_id(1)), started(1));
    let fence = world.grant(task_id(1), 1, "a");
    assert_eq!(world.fires("j", task_id(2)), queued(2));
    world.now += MINUTE;
    let fire = command(JobCommand::Fire(world.fire("j", task_id(3)).expect("it has a next fire")));
    assert_eq!(world.run(delete("j", Some(7))), refused(Refusal::VersionMismatch { current: 1 }));
    assert_eq!(world.run(delete("j", Some(1))), Reply::Done);
    assert_eq!(world.run(delete("j", None)), refused(Refusal::JobNotFound));
    assert_eq!(world.run(fire.clone()), refused(Refusal::JobNotFound));
    assert_eq!(status(&world, 1).0, Status::Running);
    assert_eq!(status(&world, 2).0, Status::Cancelled, "nothing starts after its job is gone");
    assert!(world.history("j").is_empty());
    // A new job under the old id is not held up by the task of the old one, and takes none of its commands.
    let put = world.put("j", Some(0), definition(Skip));
    world.run(put);
    let revision = world.job("j").state.revision;
    assert_eq!(world.run(fire), refused(Refusal::StaleJob { revision }));
    assert_eq!(world.fires("j", task_id(3)), started(3));
    let reply = world.run(report(task_id(1), 1, fence, "a", Outcome::Succeeded));
    assert!(matches!(reply, Reply::Task { status: Status::Success, .. }), "{reply:?}");
    assert_eq!(world.job("j").state.open, 1);
    assert_eq!(world.history("j").len(), 1);
}

/// Whoever has seen the old job holds a version of it, and must not change the new one by that.
#[test]
fn b66_a_version_of_a_deleted_job_is_none_of_the_one_that_follows_it() {
    let mut world = World::with_job("j", definition(Skip));
    let edit = world.put("j", Some(1), definition(Queue));
    assert!(matches!(world.run(edit), Reply::Job { version: 2, .. }));
    assert_eq!(world.run(delete("j", Some(2))), Reply::Done);
    let put = world.put("j", Some(0), definition(Skip));
    let reply = world.run(put);
    assert!(matches!(reply, Reply::Job { version: 3, .. }), "{reply:?}");
    for seen in 1..=2 {
        let stale = refused(Refusal::VersionMismatch { current: 3 });
        let edit = world.put("j", Some(seen), definition(Allow));
        assert_eq!(world.run(edit), stale);
        assert_eq!(world.run(delete("j", Some(seen))), stale);
    }
    // So it stays however often it goes and comes, and a name that is new begins there, too.
    assert_eq!(world.run(delete("j", Some(3))), Reply::Done);
    for job in ["j", "k"] {
        let put = world.put(job, Some(0), definition(Skip));
        assert!(matches!(world.run(put), Reply::Job { version: 4, .. }), "{job}");
    }
}

#[test]
fn a_run_by_hand_follows_the_policy_and_says_what_it_came_to() {
    let mut world = World::with_job("j", definition(Skip));
    let run =
        |world: &World, task| command(JobCommand::RunNow(Box::new(world.run_now("j", task_id(task), None))));
    let batch = (1..6).map(|task| run(&world, task)).collect();
    assert_eq!(world.run_all(batch), [started(1), OVERLAP, OVERLAP, OVERLAP, OVERLAP]);
    let origin = world.task(task_id(1)).spec.origin;
    assert_eq!(origin, Origin::Run { job: "j".into(), scheduled_at: world.now });
    assert_eq!((world.skips("j").len(), world.next_at("j")), (4, Some(FIRST)));
    assert_eq!(world.fires("j", task_id(7)), OVERLAP, "a trigger finds it open too");
    succeed(&mut world, 1);
    // Also while the job is paused, and without moving what fires next.
    world.run(pause("j", ""));
    let by_hand = run(&world, 8);
    assert_eq!(world.run(by_hand), started(8));
    assert!(world.job("j").state.progress.fired.iter().sum::<u64>() == 0);
    let mut old = world.run_now("j", task_id(9), Some(Allow));
    old.version = 2;
    assert_eq!(
        world.run(command(JobCommand::RunNow(Box::new(old)))),
        refused(Refusal::VersionMismatch { current: 1 })
    );
}

#[test]
fn a_run_by_hand_that_is_asked_for_twice_runs_once() {
    let mut world = World::with_job("j", definition(Allow));
    let mut run = world.run_now("j", task_id(1), None);
    run.idempotency = Some(Idempotency { key: "k".into(), fingerprint: [1; 32] });
    run.claim = Some(Claim { nonce: [1; 16], expires_at: world.now + 1_000 });
    assert_eq!(world.run(command(JobCommand::RunNow(Box::new(run.clone())))), started(1));
    assert_eq!(
        world.run(command(JobCommand::RunNow(Box::new(run.clone())))),
        refused(Refusal::NonceReplayed)
    );
    run.claim = Some(Claim { nonce: [2; 16], expires_at: world.now + 1_000 });
    run.task = task_id(2);
    let reply = world.run(command(JobCommand::RunNow(Box::new(run))));
    let right =
        |reply: &Reply| matches!(reply, Reply::Submitted { task, replayed: true, .. } if *task == task_id(1));
    assert!(right(&reply), "{reply:?}");
    assert!(!has_task(&world, 2));
}

#[test]
fn history_keeps_the_newest_rows() {
    let mut world = World::with_job("j", definition(Skip));
    world.now = FIRST + (HISTORY_LIMIT as i64 + 10) * MINUTE;
    let mut commands = Vec::new();
    let mut copy = world.clone();
    for _ in 0..HISTORY_LIMIT + 5 {
        let skip = copy.skip("j", SkipReason::Misfire, 1).expect("it has a next fire");
        copy.index += 1;
        let changes = vec![command(JobCommand::Skip(skip.clone()))];
        let batch = orloj_model::Batch { now_ms: copy.now, round: copy.round, changes };
        orloj_model::apply(&mut copy.tables, copy.index, &batch, &mut Vec::new()).expect("maps do not fail");
        commands.push(command(JobCommand::Skip(skip)));
    }
    world.run_all(commands);
    let page =
        |before, limit| query::history(&world.tables, &key("j"), before, limit).expect("maps do not fail");
    let all = page(None, usize::MAX);
    assert_eq!(all.len() as u64, HISTORY_LIMIT);
    assert_eq!((all[0].0, all[all.len() - 1].0), (HISTORY_LIMIT + 5, 6));
    let second = page(Some(all[9].0), 10);
    assert_eq!(second, all[10..20]);
    assert_eq!(world.job("j").state.counts.missed(), HISTORY_LIMIT + 5, "counts forget nothing");
}

#[test]
fn what_a_trigger_passes_over_is_recorded_with_the_fire() {
    let mut world = World::ready();
    let put = JobCommand::PutCalendar {
        calendar: calendar_key("free"),
        expected: Some(0),
        parts: calendar(&["1970-01-02", "1970-01-03"]),
        claim: None,
    };
    assert_eq!(world.run(command(put)), Reply::Calendar { version: 1 });
    let day = 24 * 60 * MINUTE;
    let mut daily = definition(Skip);
    daily.triggers = vec![trigger(Kind::FixedRate { every_ms: day as u64, anchor: 0 })];
    daily.calendars = vec![calendar_name("free")];
    let put = world.put("j", Some(0), daily);
    world.run(put);
    assert_eq!(world.next_at("j"), Some(3 * day));
    assert_eq!(world.fires("j", task_id(1)), started(1));
    assert_eq!(world.skips("j"), [(SkipReason::Calendar, 2, day, 2 * day)]);
    assert_eq!(world.job("j").state.counts.missed(), 0);
}

#[test]
fn another_callers_job_is_one_that_does_not_exist() {
    let mut world = World::with_job("j", definition(Skip));
    let other = JobKey { caller: CallerId::new("other").expect("a valid name"), job: key("j").job };
    let delete = JobCommand::Delete { job: other.clone(), expected: None, claim: None };
    assert_eq!(world.run(command(delete)), refused(Refusal::JobNotFound));
    // And its name is free for everybody else.
    let definition = definition(Skip);
    let computed = world.computed("j", &definition);
    let put = PutJob { job: other.clone(), expected: Some(0), definition, computed, claim: None };
    assert!(matches!(world.run(command(JobCommand::Put(Box::new(put)))), Reply::Job { version: 1, .. }));
    let all = query::jobs(&world.tables, None, 9).expect("maps do not fail");
    assert_eq!(all, [key("j"), other.clone()]);
    assert_eq!(query::jobs(&world.tables, Some(&key("j")), 9).expect("maps do not fail"), [other]);
    assert_eq!(query::jobs_of(&world.tables, &caller(), None, 9).expect("maps do not fail"), [key("j")]);
}

#[test]
fn a_definition_outside_its_bounds_is_refused() {
    let mut world = World::ready();
    let mut wrong = Vec::new();
    let changes: [fn(&mut Definition); 9] = [
        |d| d.title = "x".repeat(513),
        |d| d.template.params = "x".repeat(64 * 1024 + 1),
        |d| d.template.handler = "a b".into(),
        |d| d.template.shard_total = 0,
        |d| d.template.priority = 10,
        |d| d.template.retry.max_retries = 11,
        |d| d.max_running = Some(0),
        |d| d.calendars = vec![calendar_name("c"), calendar_name("c")],
        |d| d.triggers = vec![trigger(every_minute()); 33],
    ];
    for change in changes {
        let mut definition = definition(Skip);
        change(&mut definition);
        wrong.push(definition);
    }
    for definition in wrong {
        let put =
            PutJob { job: key("j"), expected: None, definition, computed: Default::default(), claim: None };
        assert_eq!(world.run(command(JobCommand::Put(Box::new(put)))), refused(Refusal::Invalid));
    }
    let mut unknown = definition(Skip);
    unknown.calendars = vec![calendar_name("none")];
    let put = world.put("j", None, unknown);
    assert_eq!(world.run(put), refused(Refusal::CalendarNotFound { calendar: calendar_name("none") }));
    assert!(world.find_job("j").is_none());
}

#[test]
fn a_submission_is_no_task_of_a_job() {
    let mut world = World::with_job("j", definition(Skip));
    world.run(submit(task_id(5), spec(), DueTime::After(0)));
    assert_eq!(world.fires("j", task_id(1)), started(1));
    assert_eq!(world.job("j").state.open, 1);
}

#[test]
fn jitter_moves_when_a_fire_is_due_and_not_what_it_stands_for() {
    let limits = Limits { jitter_ms: 30_000, ..Limits::default() };
    let mut spread = definition(Skip);
    spread.triggers = vec![Trigger::new(every_minute(), limits).expect("a valid trigger")];
    let mut world = World::with_job("j", spread);
    let next = world.job("j").state.next.expect("it has a next fire");
    assert!(next.due_at > FIRST && next.due_at <= FIRST + 30_000, "{next:?}");
    let fire = command(JobCommand::Fire(world.fire("j", task_id(1)).expect("it has a next fire")));
    world.now = next.due_at - 1;
    assert_eq!(world.run(fire.clone()), refused(Refusal::NotDue { due_at: next.due_at }));
    world.now = next.due_at;
    assert_eq!(world.run(fire), started(1));
    let view = world.task(task_id(1));
    assert_eq!((view.state.due_at, view.spec.origin.job()), (next.due_at, Some(("j", FIRST))));
}
