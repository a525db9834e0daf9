//! What a leader does about jobs: each instant fires once, or is skipped with its reason, whatever happens between.

mod common;

use common::graphs::step;
use common::jobs::*;
use common::*;
use orloj_model::command::{Command, JobCommand};
use orloj_model::graph::{JobFlow, Step};
use orloj_model::id::{Millis, TaskId};
use orloj_model::job::{
    Cause, Definition, Heeded, JobOutcome, Plan, computed_for_resume, plan, plan_backfill,
};
use orloj_model::query;
use orloj_model::task::{Outcome, Status};
use orloj_model::trigger::overlap::OverlapPolicy::{self, Allow, CancelOther, Queue, Skip};
use orloj_model::trigger::{CatchUp, Cron, DayRule, Dst, Kind, Limits, Misfire, SkipReason, Trigger};
use orloj_model::{Refusal, Reply};
use proptest::prelude::*;

/// A leader of one job: looks at it until there is nothing more to do.
struct Leader {
    world: World,
    drawn: u32,
}

impl Leader {
    fn of(definition: Definition) -> Leader {
        Leader { world: World::with_job("j", definition), drawn: 0 }
    }

    fn heeded(&self) -> Heeded {
        let view = self.world.job("j");
        Heeded::read(&self.world.tables, &view.key.caller, &view.job.definition)
            .expect("maps do not fail")
            .expect("the calendars are there")
    }

    fn plan(&mut self) -> Plan {
        let (view, heeded) = (self.world.job("j"), self.heeded());
        let mut draw = || draw(&mut self.drawn);
        plan(&view, &heeded.calendars, self.world.wall(), &mut draw).expect("the triggers were checked")
    }

    /// Does what there is to do; the replies, and when to look again.
    fn work(&mut self) -> (Vec<Reply>, Option<Millis>) {
        let mut replies = Vec::new();
        for _ in 0..10_000 {
            let commands = match self.plan() {
                Plan::Rest => return (replies, None),
                Plan::Later(at) => return (replies, Some(at)),
                Plan::Propose(commands) => commands,
            };
            assert!((1..=16).contains(&commands.len()));
            for job in commands {
                let reply = self.world.run(command(job));
                replies.push(reply);
            }
        }
        panic!("there is no end to it");
    }

    /// The instants that fired, oldest first.
    fn fired(&self) -> Vec<Millis> {
        let fired = |outcome| match outcome {
            JobOutcome::Fired { scheduled_at, cause: Cause::Trigger, .. } => Some(scheduled_at),
            _ => None,
        };
        self.world.history("j").into_iter().rev().filter_map(|row| fired(row.outcome)).collect()
    }

    fn open(&self) -> Vec<TaskId> {
        query::open_tasks_of(&self.world.tables, &key("j"), None, usize::MAX).expect("maps do not fail")
    }

    /// Lets an open task end.
    fn end(&mut self, task: TaskId) {
        let reply = self.world.run(Command::Cancel { task, caller: None, claim: None });
        assert!(matches!(reply, Reply::Task { status: Status::Cancelled, .. }), "{reply:?}");
    }
}

fn draw(drawn: &mut u32) -> TaskId {
    *drawn += 1;
    let mut id = [0; 16];
    id[..4].copy_from_slice(&drawn.to_be_bytes());
    TaskId(id)
}

fn every_second(misfire: Misfire, overlap: OverlapPolicy) -> Definition {
    let kind = Kind::FixedRate { every_ms: 1_000, anchor: 0 };
    let misfire = CatchUp { policy: misfire, grace_ms: 5_000 };
    Definition { triggers: vec![trigger(kind)], misfire, ..definition(overlap) }
}

/// The world begins at 1,000 s.
const T0: Millis = 1_000_000;

fn seconds(range: std::ops::RangeInclusive<i64>) -> Vec<Millis> {
    range.map(|second| T0 + second * 1_000).collect()
}

#[test]
fn an_instant_fires_when_the_wall_clock_shows_it_and_not_before() {
    let mut leader = Leader::of(every_second(Misfire::FireOnce, Allow));
    leader.world.now = T0 + 999;
    assert_eq!(leader.work(), (vec![], Some(T0 + 1_000)));
    leader.world.now = T0 + 1_000;
    let (replies, again) = leader.work();
    assert!(matches!(replies[..], [Reply::Fired { queued: false, .. }]), "{replies:?}");
    assert_eq!((again, leader.fired()), (Some(T0 + 2_000), seconds(1..=1)));
}

#[test]
fn what_is_late_within_the_grace_fires_in_order_all_of_it() {
    let mut leader = Leader::of(every_second(Misfire::Skip, Allow));
    leader.world.now = T0 + 5_500;
    let (replies, again) = leader.work();
    assert_eq!((replies.len(), again), (5, Some(T0 + 6_000)));
    assert_eq!(leader.fired(), seconds(1..=5));
}

#[test]
fn after_an_outage_each_policy_does_what_it_says() {
    // A minute without a leader: 5 to 10 of its instants are in time, since the grace is five seconds.
    let skipped = |reason, count| vec![(reason, count, T0 + 1_000, T0 + 1_000 * count as i64)];
    for (policy, fired, skips) in [
        (Misfire::Skip, seconds(55..=60), skipped(SkipReason::Misfire, 54)),
        (Misfire::FireOnce, seconds(55..=60), skipped(SkipReason::Misfire, 54)),
        (Misfire::FireAll { cap: 20 }, seconds(35..=60), skipped(SkipReason::MisfireCap, 34)),
        (Misfire::FireAll { cap: 1_000 }, seconds(1..=60), vec![]),
    ] {
        let mut leader = Leader::of(every_second(policy, Allow));
        leader.world.now = T0 + 60_000;
        let (replies, again) = leader.work();
        assert!(!replies.iter().any(|reply| matches!(reply, Reply::Refused(_))), "{policy:?} {replies:?}");
        assert_eq!((leader.fired(), again), (fired, Some(T0 + 61_000)), "{policy:?}");
        assert_eq!(leader.world.skips("j"), skips, "{policy:?}");
    }
}

#[test]
fn what_is_made_up_for_after_an_outage_is_under_the_overlap_policy_too() {
    for (overlap, fired) in [(Skip, seconds(1..=1)), (Queue, seconds(1..=2)), (Allow, seconds(1..=10))] {
        let mut leader = Leader::of(every_second(Misfire::FireAll { cap: 100 }, overlap));
        leader.world.now = T0 + 10_000;
        leader.work();
        let skips = leader.world.skips("j");
        assert!(skips.iter().all(|(reason, ..)| *reason == SkipReason::Overlap), "{skips:?}");
        let skipped: u64 = skips.iter().map(|(_, count, ..)| count).sum();
        assert_eq!(fired.len() as u64 + skipped, 10, "each instant is accounted for");
        assert_eq!(leader.fired(), fired, "{overlap:?}");
    }
}

/// B62: an outage is made up for once, not once for each tick that it swallowed.
#[test]
fn b62_an_hour_without_a_leader_makes_one_task_where_nothing_is_in_time() {
    let minutes = Definition { triggers: vec![trigger(every_minute())], ..definition(Allow) };
    let mut leader = Leader::of(minutes);
    leader.world.now = FIRST + 60 * MINUTE + 30_000;
    let (replies, again) = leader.work();
    assert_eq!(replies.len(), 2, "one skip for sixty instants, and one fire");
    assert_eq!(leader.fired(), [FIRST + 60 * MINUTE]);
    assert_eq!(
        leader.world.skips("j"),
        [(SkipReason::Misfire, 60, FIRST, FIRST + 59 * MINUTE)],
        "each of the others is accounted for"
    );
    assert_eq!(again, Some(FIRST + 61 * MINUTE));
}

/// B62: to a job a clock that is stepped forward is an outage, and one that is stepped back is a wait.
#[test]
fn b62_a_step_of_the_clock_is_a_count_and_the_job_goes_on() {
    let mut leader = Leader::of(every_second(Misfire::Skip, Allow));
    leader.world.now = T0 + 1_000;
    leader.work();
    leader.world.now += 300_000;
    let (replies, again) = leader.work();
    assert_eq!(replies.len(), 7, "one skip for what is late, and what is in time");
    let fired: Vec<Millis> = seconds(1..=1).into_iter().chain(seconds(296..=301)).collect();
    assert_eq!((leader.fired(), again), (fired, Some(T0 + 302_000)));
    let skips = [(SkipReason::Misfire, 294, T0 + 2_000, T0 + 295_000)];
    assert_eq!(leader.world.skips("j"), skips);
    // Right again, and so five minutes back: nothing is done twice, nothing more is missed, and then it goes on.
    leader.world.ahead = 300_000;
    assert_eq!(leader.work(), (vec![], Some(T0 + 302_000)));
    leader.world.now += 301_000;
    leader.work();
    assert_eq!((leader.fired().last(), leader.world.skips("j").len()), (Some(&(T0 + 302_000)), 1));
}

#[test]
fn a_leader_that_dies_between_two_commands_leaves_nothing_out_and_doubles_nothing() {
    for died_after in 0..14 {
        let mut leader = Leader::of(every_second(Misfire::FireAll { cap: 7 }, Allow));
        leader.world.now = T0 + 20_000;
        let Plan::Propose(commands) = leader.plan() else { panic!("there is nothing to do") };
        assert!(commands.len() > died_after || died_after > 12, "{}", commands.len());
        for job in commands.iter().take(died_after) {
            leader.world.run(command(job.clone()));
        }
        leader.work();
        // What the dead leader proposed arrives late.
        for job in commands {
            let reply = leader.world.run(command(job));
            let stale = matches!(reply, Reply::Refused(Refusal::StaleJob { .. } | Refusal::NotNext));
            assert!(stale, "{reply:?}");
        }
        let skipped: u64 = leader.world.skips("j").iter().map(|skip| skip.1).sum();
        assert_eq!(leader.fired().len() as u64 + skipped, 20, "died after {died_after}");
        assert_eq!(leader.fired(), seconds(8..=20), "died after {died_after}");
    }
}

#[test]
fn fires_that_overlap_are_skipped_and_the_limit_counts_tasks_only() {
    let kind = Kind::FixedRate { every_ms: 1_000, anchor: 0 };
    let limited = Definition { triggers: vec![limited(kind, 2)], ..every_second(Misfire::FireOnce, Skip) };
    let mut leader = Leader::of(limited);
    leader.world.now = T0 + 3_000;
    leader.work();
    assert_eq!(leader.fired(), seconds(1..=1));
    assert_eq!(leader.world.skips("j").len(), 2, "the first task is still open");
    let task = leader.open()[0];
    leader.end(task);
    leader.world.now = T0 + 4_000;
    assert_eq!(leader.work().1, None, "two tasks were made: it has no fires left");
    assert_eq!(leader.fired(), [T0 + 1_000, T0 + 4_000]);
}

#[test]
fn a_fixed_delay_counts_from_the_end_of_the_last_task() {
    let kind = Kind::FixedDelay { delay_ms: 10_000, anchor: T0 };
    let mut leader = Leader::of(Definition { triggers: vec![trigger(kind)], ..definition(Skip) });
    leader.world.now = T0 + 10_000;
    assert_eq!(leader.work().1, None, "nothing is due while the task is open");
    leader.world.now = T0 + 27_500;
    let task = leader.open()[0];
    leader.end(task);
    assert!(leader.world.needs_next("j"));
    assert_eq!(leader.work().1, Some(T0 + 37_500));
    leader.world.now = T0 + 60_000;
    assert_eq!(leader.work().1, None);
    assert_eq!(leader.fired().len(), 2, "an outage makes up for nothing that never was");
}

#[test]
fn parameters_that_cannot_be_filled_in_skip_their_instant_and_stop_nothing() {
    let mut definition = every_second(Misfire::FireOnce, Allow);
    definition.template.params = r#"{"x":"${nonsense}"}"#.into();
    let mut leader = Leader::of(definition);
    leader.world.now = T0 + 2_000;
    assert_eq!(leader.work().1, Some(T0 + 3_000));
    let reasons: Vec<_> = leader.world.skips("j").into_iter().map(|skip| (skip.0, skip.2)).collect();
    let parameters = SkipReason::Parameters;
    assert_eq!(reasons, [(parameters, T0 + 1_000), (parameters, T0 + 2_000)]);
}

#[test]
fn a_task_carries_the_instant_of_its_fire_in_its_parameters() {
    let mut definition = every_second(Misfire::FireOnce, Allow);
    definition.template.params = r#"{"at":"${scheduledAt}","id":"${taskId}","try":"${attempt}"}"#.into();
    definition.template.business_key = Some("${jobId}/${date:%H:%M:%S}".into());
    let mut leader = Leader::of(definition);
    leader.world.now = T0 + 1_000;
    leader.work();
    let task = leader.open()[0];
    let spec = leader.world.task(task).spec;
    let params = String::from_utf8(spec.params).expect("text");
    assert_eq!(params, format!(r#"{{"at":"1970-01-01T00:16:41.000Z","id":"{task}","try":"${{attempt}}"}}"#));
    assert_eq!(spec.business_key.as_deref(), Some("j/00:16:41"));
}

#[test]
fn a_resume_counts_what_the_pause_passed_over() {
    let mut leader = Leader::of(every_second(Misfire::FireOnce, Allow));
    let pause = JobCommand::Pause { job: key("j"), note: "stop".into(), claim: None };
    leader.world.run(command(pause));
    leader.world.now = T0 + 30_000;
    assert_eq!(leader.work(), (vec![], None), "a paused job rests");
    let view = leader.world.job("j");
    let (computed, missed) =
        computed_for_resume(&view, &leader.heeded(), leader.world.now).expect("the triggers were checked");
    let resume = JobCommand::Resume { job: key("j"), computed, missed, claim: None };
    assert!(matches!(leader.world.run(command(resume)), Reply::Job { .. }));
    assert_eq!(leader.world.skips("j"), [(SkipReason::Paused, 30, T0 + 1_000, T0 + 30_000)]);
    assert_eq!(leader.work(), (vec![], Some(T0 + 31_000)));
}

#[test]
fn a_backfill_makes_up_for_each_instant_once_in_bounded_steps() {
    for (overlap, fired) in [(Allow, 100), (Skip, 1)] {
        let mut leader = Leader::of(every_second(Misfire::FireOnce, Allow));
        let (from, to) = (T0 - 100_000, T0 - 1_000);
        let start = JobCommand::StartBackfill { job: key("j"), from, to, overlap, claim: None };
        leader.world.run(command(start));
        let mut steps = 0;
        let last = loop {
            let row = query::backfill(&leader.world.tables, &key("j")).expect("maps do not fail");
            let Some(row) = row else { panic!("it went without an end") };
            let (view, mut drawn) = (leader.world.job("j"), leader.drawn);
            let step = plan_backfill(&view, &[], &row, &mut || draw(&mut drawn)).expect("checked triggers");
            leader.drawn = drawn;
            assert!(step.step.fires.len() <= 16);
            steps += 1;
            match leader.world.run(command(JobCommand::BackfillBy(step))) {
                Reply::Backfill { ended: true, fired, skipped, .. } => break (fired, skipped),
                Reply::Backfill { .. } => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(last, (fired, 100 - fired), "{overlap:?}");
        assert_eq!(steps, 7);
    }
}

#[test]
fn b01_a_new_leader_starts_nothing_between_two_instants() {
    let mut leader = Leader::of(definition(Skip));
    leader.world.now = FIRST;
    assert!(matches!(leader.work().0[..], [Reply::Fired { .. }]));
    for round in 2..5 {
        leader.world.run(Command::BeginRound { leader: round });
        leader.world.round = round;
        leader.world.now += 10_000;
        assert_eq!(leader.work(), (vec![], Some(FIRST + MINUTE)));
    }
    leader.world.now = FIRST + MINUTE;
    assert_eq!(leader.work().0, [Reply::FireSkipped { reason: SkipReason::Overlap }]);
    let task = leader.open()[0];
    leader.end(task);
    leader.world.now = FIRST + 2 * MINUTE;
    leader.work();
    assert_eq!(leader.fired(), [FIRST, FIRST + 2 * MINUTE]);
}

/// One in New York and one in Tokyo.
fn in_two_zones() -> Vec<Trigger> {
    let at = |hour, zone| {
        let cron = Cron::new(&format!("0 {hour} * * *"), zone, Dst::default(), DayRule::Or, 0);
        trigger(Kind::Cron(cron.expect("a valid expression")))
    };
    vec![at(8, "America/New_York"), at(9, "Asia/Tokyo")]
}

#[test]
fn a_backfill_says_by_which_trigger_each_instant_is() {
    let mut leader = Leader::of(Definition { triggers: in_two_zones(), ..definition(Allow) });
    // 1970-01-08T00:00:00Z is nine in Tokyo, and thirteen hours later it is eight in New York.
    let from = 7 * 86_400_000;
    leader.world.now = from + 86_400_000;
    let to = leader.world.now - 1;
    let start = JobCommand::StartBackfill { job: key("j"), from, to, overlap: Allow, claim: None };
    let flow = JobFlow { steps: vec![step("only", &[])], ..JobFlow::default() };
    let definition = leader.world.job("j").job.definition;
    let put = leader.world.put_flow("j", definition, flow);
    leader.world.run(put);
    leader.world.run(command(start));
    let row = query::backfill(&leader.world.tables, &key("j")).expect("maps do not fail").expect("it began");
    let view = leader.world.job("j");
    let by = plan_backfill(&view, &[], &row, &mut || draw(&mut leader.drawn)).expect("checked triggers");
    let instants: Vec<_> = by.step.fires.iter().map(|fire| fire.scheduled_at - from).collect();
    assert_eq!((instants, &by.triggers), (vec![0, 13 * 3_600_000], &vec![1, 0]));
    let runs: Vec<TaskId> = by.step.fires.iter().map(|fire| fire.task).collect();
    leader.world.run(command(JobCommand::BackfillBy(by)));
    let zone = |run| {
        query::run(&leader.world.tables, run).expect("maps do not fail").expect("it is there").flow.time_zone
    };
    assert_eq!((zone(runs[0]), zone(runs[1])), ("Asia/Tokyo".into(), "America/New_York".into()));
}

#[test]
fn what_one_look_makes_is_bounded_by_shards_and_by_texts() {
    let fires = |leader: &mut Leader| match leader.plan() {
        Plan::Propose(commands) => commands.len(),
        other => panic!("{other:?}"),
    };
    let all = Misfire::FireAll { cap: 500 };
    let mut narrow = Leader::of(every_second(all, Allow));
    narrow.world.now += 60_000;
    assert_eq!(fires(&mut narrow), 16);
    let mut wide = every_second(all, Allow);
    wide.template.shard_total = 400;
    let mut wide = Leader::of(wide);
    wide.world.now += 6_000;
    assert_eq!(fires(&mut wide), 3, "with the third it has 1,024 shards");
    wide.work();
    assert_eq!(wide.fired(), seconds(1..=6), "the rest follows");
    let mut long = every_second(all, Allow);
    long.template.params = format!("\"{}\"", "x".repeat(50_000));
    let mut long = Leader::of(long);
    long.world.now += 60_000;
    assert_eq!(fires(&mut long), 3, "with the third it has 128 KiB");
    let mut flow = Leader::of(every_second(all, Allow));
    let mut one = step("one", &[]);
    one.template.params = format!("\"{}\"", "x".repeat(60_000));
    let steps = (0..3).map(|number| Step { name: format!("s{number}"), ..one.clone() });
    let flow_of = JobFlow { steps: steps.collect(), ..JobFlow::default() };
    let put = flow.world.put_flow("j", every_second(all, Allow), flow_of);
    flow.world.run(put);
    flow.world.now += 60_000;
    assert_eq!(fires(&mut flow), 1, "a run is as long as its steps");
}

fn trigger_of(kind: u8, every_s: u64, jitter: bool) -> Trigger {
    let kind = match kind {
        0 => Kind::FixedRate { every_ms: every_s * 1_000, anchor: 0 },
        _ => Kind::FixedRate { every_ms: every_s * 1_700, anchor: 300 },
    };
    let limits = Limits { jitter_ms: if jitter { 900 } else { 0 }, ..Limits::default() };
    Trigger::new(kind, limits).expect("a valid trigger")
}

proptest! {
    /// T1, T3: whatever the policies, however long nobody is there, and whenever tasks end, each instant of a job
    /// fires once or is skipped once, and no fire is early.
    #[test]
    fn each_instant_is_accounted_for_once(
        (policy, overlap) in (0..4u8, 0..4u8),
        triggers in proptest::collection::vec((0..2u8, 1..4u64, any::<bool>()), 1..3),
        outages in proptest::collection::vec((1..40_000i64, any::<bool>()), 1..12),
    ) {
        let policy = [
            Misfire::Skip,
            Misfire::FireOnce,
            Misfire::FireAll { cap: 3 },
            Misfire::FireAll { cap: 500 },
        ][usize::from(policy)];
        let overlap = [Allow, Skip, Queue, CancelOther][usize::from(overlap)];
        let triggers = triggers.into_iter().map(|(kind, every, jitter)| trigger_of(kind, every, jitter));
        let mut leader = Leader::of(Definition {
            triggers: triggers.collect(),
            ..every_second(policy, overlap)
        });
        for (outage, end) in outages {
            leader.world.now += outage;
            let now = leader.world.now;
            let (replies, again) = leader.work();
            prop_assert!(!replies.iter().any(|reply| matches!(reply, Reply::Refused(_))), "{replies:?}");
            prop_assert!(again.is_some_and(|at| at > now));
            if let Some(task) = leader.open().first().copied().filter(|_| end) {
                leader.end(task);
            }
            leader.work();
        }
        let view = leader.world.job("j");
        let schedule = leader.world.schedule(&key("j"), &view.job.definition);
        let until = view.state.next.as_ref().map_or(view.state.decided, |next| next.scheduled_at - 1);
        let right: Vec<Millis> =
            schedule.range(T0 + 1, until, usize::MAX).into_iter().map(|next| next.scheduled_at).collect();
        let fired = leader.fired();
        let mut once = fired.clone();
        once.dedup();
        prop_assert_eq!(&once, &fired, "no instant fires twice");
        prop_assert!(fired.iter().all(|at| right.contains(at)));
        let skipped: u64 = view.state.counts.skipped.values().sum();
        prop_assert_eq!(fired.len() as u64 + skipped, right.len() as u64);
    }
}

#[test]
fn a_task_that_was_fired_runs() {
    let mut leader = Leader::of(every_second(Misfire::FireOnce, Allow));
    leader.world.now = T0 + 1_000;
    leader.work();
    let task = leader.open()[0];
    let fence = leader.world.grant(task, 1, "a");
    let reply = leader.world.run(report(task, 1, fence, "a", Outcome::Succeeded));
    assert!(matches!(reply, Reply::Task { status: Status::Success, .. }), "{reply:?}");
    assert_eq!(leader.world.job("j").state.open, 0);
}

/// What a leader proposes for every job at one look.
fn look(world: &World, jobs: &[String], drawn: &mut u32) -> Vec<Vec<Command>> {
    let of = |job: &String| match plan(&world.job(job), &[], world.now, &mut || draw(drawn)) {
        Ok(Plan::Propose(commands)) => commands.into_iter().map(command).collect(),
        Ok(_) => Vec::new(),
        Err(problem) => panic!("{job}: {problem}"),
    };
    jobs.iter().map(of).collect()
}

/// Two thousand jobs that fire every second, two leaders that both look at all of them each time, and a stretch without any
/// leader: each instant makes one task or is counted as missed.
#[test]
fn b06_two_thousand_jobs_and_two_leaders_make_no_instant_twice() {
    let misfire = CatchUp { policy: Misfire::FireOnce, grace_ms: 0 };
    let definition = Definition { misfire, ..every_second(Misfire::FireOnce, Allow) };
    let (mut world, mut drawn) = (World::ready(), 0);
    let jobs: Vec<String> = (0..2_000).map(|number| format!("j{number}")).collect();
    world.run_all(jobs.iter().map(|job| world.put(job, Some(0), definition.clone())).collect());
    let mut fired = 0;
    for nobody_ms in [0, 0, 3_000, 0] {
        world.now += 1_000 + nobody_ms;
        let (one, two) = (look(&world, &jobs, &mut drawn), look(&world, &jobs, &mut drawn));
        // Their commands meet in the log, now the one's first, now the other's.
        let turns = one.into_iter().zip(two).enumerate().flat_map(|(turn, (one, two))| {
            let (first, second) = if turn % 2 == 0 { (one, two) } else { (two, one) };
            first.into_iter().chain(second)
        });
        let replies = world.run_all(turns.collect());
        fired += replies.iter().filter(|reply| matches!(reply, Reply::Fired { .. })).count();
    }
    assert_eq!(fired, 4 * jobs.len());
    for job in &jobs {
        let counts = world.job(job).state.counts;
        assert_eq!((counts.fired, counts.missed()), (4, 3), "{job}: {counts:?}");
        let at = |row: orloj_model::job::HistoryRow| match row.outcome {
            JobOutcome::Fired { scheduled_at, .. } => Some(scheduled_at),
            _ => None,
        };
        let instants: Vec<Millis> = world.history(job).into_iter().rev().filter_map(at).collect();
        assert_eq!(instants, [1, 2, 6, 7].map(|second| T0 + second * 1_000), "{job}");
    }
}
