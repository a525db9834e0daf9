//! The bytes of jobs: their commands, rows and keys.

use std::collections::BTreeMap;

use orloj_model::command::{
    BackfillBy, BackfillFire, Claim, Command, Computed, EditJob, Fire, Idempotency, JobCommand, PutJob,
    PutOfCaller, RunNow, SkipFire, StepBackfill,
};
use orloj_model::graph::{JobFlow, OnShardFailure};
use orloj_model::id::{CalendarName, JobId};
use orloj_model::job::{
    BackfillRow, CalendarKey, CalendarRow, Cause, Counts, Definition, Filled, GoneVersions, HistoryRow, Job,
    JobKey, JobOutcome, JobState, Pause, SpreadRow, Template,
};
use orloj_model::key::{CalendarUseKey, HistoryKey, JobTaskKey, NextKey};
use orloj_model::task::{Origin, RetryPolicy, Strategy};
use orloj_model::trigger::overlap::OverlapPolicy;
use orloj_model::trigger::{
    Calendar, CalendarParts, CatchUp, Cron, DailyWindow, DayRule, Dst, DstEffect, Gap, Kind, Limits, Misfire,
    Missed, Next, Overlap, Passed, Progress, SkipReason, Trigger,
};

use super::{Golden, caller, executor, spec, task};

/// Adds every one.
pub fn add(golden: &mut Golden) {
    commands(golden);
    rows(golden);
    keys(golden);
}

/// Those that there were when the lines were written; later ones have lines of their own.
const REASONS: [SkipReason; 7] = [
    SkipReason::DstGap,
    SkipReason::DstOverlap,
    SkipReason::Calendar,
    SkipReason::Misfire,
    SkipReason::MisfireCap,
    SkipReason::Overlap,
    SkipReason::Paused,
];

fn job() -> JobKey {
    JobKey { caller: caller(), job: JobId::new("nightly").expect("a valid id") }
}

fn calendar_key() -> CalendarKey {
    CalendarKey { caller: caller(), calendar: CalendarName::new("free.days").expect("a valid name") }
}

fn claim() -> Option<Claim> {
    Some(Claim { nonce: [3; 16], expires_at: 4 })
}

fn calendar() -> Calendar {
    let parts = CalendarParts {
        time_zone: Some("Europe/Berlin".into()),
        dates: vec!["2027-05-06".into()],
        ranges: vec![("2027-12-24".into(), "2028-01-02".into())],
        weekdays: [0, 6].into(),
        yearly: vec!["05-01".into()],
    };
    Calendar::new(&parts).expect("a valid calendar")
}

fn triggers() -> Vec<Trigger> {
    let dst = Dst { gap: Gap::Skip, overlap: Overlap::Both };
    let cron =
        Cron::new("0 30 2 * * *", "America/New_York", dst, DayRule::And, 5).expect("a valid expression");
    let window = DailyWindow::new(("09:00", "18:00"), 60_000, &[1, 5], "Europe/Berlin", Dst::default());
    let limits = Limits { start_at: Some(1), end_at: Some(2), max_fires: Some(3), jitter_ms: 4 };
    [
        (Kind::Cron(cron), limits),
        (Kind::FixedRate { every_ms: 5_000, anchor: 6 }, Limits::default()),
        (Kind::FixedDelay { delay_ms: 7_000, anchor: 8 }, Limits::default()),
        (Kind::Once { at: 9 }, Limits::default()),
        (Kind::DailyWindow(window.expect("a valid window")), Limits::default()),
    ]
    .map(|(kind, limits)| Trigger::new(kind, limits).expect("a valid trigger"))
    .to_vec()
}

pub(super) fn template() -> Template {
    Template {
        handler: "report".into(),
        params: "{}".into(),
        priority: 5,
        labels: BTreeMap::from([("k".into(), "v".into())]),
        routing_key: Some("r".into()),
        zone: Some("z".into()),
        strategy: Strategy::Pinned(executor()),
        business_key: Some("b".into()),
        retry: RetryPolicy { max_retries: 2, backoff_ms: vec![10, 20], jitter_pct: 3, max_lost: 4 },
        timeout_ms: Some(5),
        expire_after_ms: Some(6),
        shard_total: 2,
        callback_url: Some("https://h/".into()),
        estimated_duration_ms: Some(7),
    }
}

fn definition(overlap: OverlapPolicy, policy: Misfire) -> Definition {
    Definition {
        title: "t".into(),
        description: "d".into(),
        template: template(),
        triggers: triggers(),
        calendars: vec![calendar_key().calendar],
        misfire: CatchUp { policy, grace_ms: 8 },
        overlap,
        max_running: Some(9),
    }
}

fn next(dst: Option<DstEffect>) -> Next {
    let reasons = REASONS.into_iter();
    let passed = reasons.map(|reason| Passed { local: "2027-03-14T02:30:00".into(), at: 3, reason });
    Next { scheduled_at: 4, due_at: 5, triggers: vec![0, 2], dst, passed: passed.collect() }
}

fn missed() -> Missed {
    Missed { reason: SkipReason::Misfire, count: 2, exact: true, first: 3, last: 4 }
}

pub(super) fn filled() -> Filled {
    Filled { params: Some(b"{}".to_vec()), business_key: Some("b".into()) }
}

fn computed() -> Computed {
    Computed { revision: 2, calendars: vec![3], after: 4, next: Some(next(Some(DstEffect::GapShifted))) }
}

pub(super) fn put() -> PutJob {
    PutJob {
        job: job(),
        expected: Some(1),
        definition: definition(OverlapPolicy::Queue, Misfire::FireAll { cap: 3 }),
        computed: computed(),
        claim: claim(),
    }
}

fn commands(golden: &mut Golden) {
    let mut add =
        |name: &str, command| golden.command(&format!("job {name}"), Command::Job(Box::new(command)));
    add("put", JobCommand::Put(Box::new(put())));
    add("pause", JobCommand::Pause { job: job(), note: "n".into(), claim: claim() });
    add("pause without note", JobCommand::PauseWithoutNote { job: job(), claim: claim() });
    let missed_some = Some(missed());
    add(
        "resume",
        JobCommand::Resume { job: job(), computed: computed(), missed: missed_some, claim: claim() },
    );
    add("delete", JobCommand::Delete { job: job(), expected: Some(1), claim: claim() });
    let (calendar_name, expected) = (calendar_key(), Some(1));
    add(
        "put calendar",
        JobCommand::PutCalendar {
            calendar: calendar_name.clone(),
            expected,
            parts: calendar(),
            claim: claim(),
        },
    );
    add(
        "delete calendar",
        JobCommand::DeleteCalendar { calendar: calendar_name.clone(), expected, claim: claim() },
    );
    let fire = Fire { job: job(), revision: 2, scheduled_at: 3, task: task(), filled: filled(), next: None };
    add("fire", JobCommand::Fire(fire));
    let skip =
        SkipFire { job: job(), revision: 2, scheduled_at: 3, missed: missed(), through: 5, next: None };
    add("skip", JobCommand::Skip(skip));
    add("set next", JobCommand::SetNext { job: job(), revision: 2, next: Some(next(None)) });
    add("spread", JobCommand::SpreadCalendar { calendar: calendar_name, after: Some(job().job) });
    let run = RunNow {
        job: job(),
        version: 2,
        scheduled_at: 3,
        task: task(),
        filled: filled(),
        overlap: Some(OverlapPolicy::Allow),
        claim: claim(),
        idempotency: Some(Idempotency { key: "k".into(), fingerprint: [1; 32] }),
    };
    add("run now", JobCommand::RunNow(Box::new(run)));
    let overlap = OverlapPolicy::CancelOther;
    add("start backfill", JobCommand::StartBackfill { job: job(), from: 1, to: 2, overlap, claim: claim() });
    let fires = vec![BackfillFire { scheduled_at: 3, task: task(), filled: Filled::default() }];
    let step = StepBackfill { job: job(), version: 2, from: 1, fires, through: 4 };
    add("step backfill", JobCommand::StepBackfill(step.clone()));
    add("backfill by", JobCommand::BackfillBy(BackfillBy { step, triggers: vec![2] }));
    let flow = JobFlow { on_shard_failure: OnShardFailure::Cancel, steps: Vec::new() };
    add("edit", JobCommand::Edit(Box::new(EditJob { put: put(), flow, missed: missed() })));
    add("stop backfill", JobCommand::StopBackfill { job: job(), claim: claim() });
    let of_caller = PutOfCaller { put: put(), flow: JobFlow::default(), missed: Some(missed()) };
    add("put of caller", JobCommand::PutOfCaller(Box::new(of_caller)));
}

fn rows(golden: &mut Golden) {
    let origin_job = || "j".to_owned();
    golden.row("spec run", &spec(Origin::Run { job: origin_job(), scheduled_at: 4 }, Strategy::Ring));
    golden
        .row("spec backfill", &spec(Origin::Backfill { job: origin_job(), scheduled_at: 4 }, Strategy::Ring));
    for (overlap, misfire) in [
        (OverlapPolicy::Allow, Misfire::Skip),
        (OverlapPolicy::Skip, Misfire::FireOnce),
        (OverlapPolicy::Queue, Misfire::FireAll { cap: 3 }),
        (OverlapPolicy::CancelOther, Misfire::FireOnce),
    ] {
        let definition = definition(overlap, misfire);
        let row = Job { definition, version: 1, created_at: 2, updated_at: 3 };
        golden.row(&format!("job {overlap:?}"), &row);
    }
    let effects = [DstEffect::GapShifted, DstEffect::OverlapFirst, DstEffect::OverlapSecond];
    for dst in effects.into_iter().map(Some).chain([None]) {
        let state = JobState {
            revision: 1,
            paused: Some(Pause { note: "n".into(), at: 2 }),
            next: Some(next(dst)),
            wanted: true,
            decided: 3,
            progress: Progress { fired: vec![1, 2], last_ended: Some(4), open: true },
            has_delays: true,
            open: 2,
            queued: Some(task()),
            replace_from: Some(task()),
            backfilling: true,
            history: 5,
            counts: Counts { fired: 6, skipped: REASONS.into_iter().zip(7..).collect() },
        };
        golden.row(&format!("job state {dst:?}"), &state);
    }
    let mut outcomes = vec![
        JobOutcome::Skipped { missed: missed(), cause: Cause::Trigger },
        JobOutcome::Backfilled { from: 1, to: 2, through: 3, fired: 4, skipped: 5 },
    ];
    for cause in [Cause::Trigger, Cause::Run, Cause::Backfill] {
        outcomes.push(JobOutcome::Fired { scheduled_at: 1, task: task(), cause, queued: true });
    }
    for (number, outcome) in outcomes.into_iter().enumerate() {
        golden.row(&format!("job history {number}"), &HistoryRow { at: 7, outcome });
    }
    let outcome = JobOutcome::Skipped {
        missed: Missed { reason: SkipReason::Parameters, ..missed() },
        cause: Cause::Trigger,
    };
    golden.row("job history parameters", &HistoryRow { at: 7, outcome });
    for reason in [SkipReason::CallerDisabled, SkipReason::HandlerDenied, SkipReason::Edited] {
        let missed = Missed { reason, ..missed() };
        let outcome = JobOutcome::Skipped { missed, cause: Cause::Trigger };
        golden.row(&format!("job history {reason:?}"), &HistoryRow { at: 7, outcome });
    }
    golden.row("calendar", &CalendarRow { calendar: calendar(), version: 1, created_at: 2, updated_at: 3 });
    golden.row("calendar spread", &SpreadRow { after: Some(job().job) });
    let backfill = BackfillRow {
        from: 1,
        to: 2,
        overlap: OverlapPolicy::Queue,
        through: 3,
        fired: 4,
        skipped: 5,
        created_at: 6,
    };
    golden.row("backfill", &backfill);
    golden.row("job of a task", &job());
    golden.row("gone versions", &GoneVersions { highest: 7 });
}

fn keys(golden: &mut Golden) {
    golden.key("job", &job());
    golden.key("calendar", &calendar_key());
    golden.key("job next", &NextKey { due_at: 1_800_000_000_000, job: job() });
    golden.key("job history", &HistoryKey { job: job(), number: 258 });
    golden.key("job task", &JobTaskKey { job: job(), task: task() });
    golden.key("calendar use", &CalendarUseKey { calendar: calendar_key(), job: job().job });
}
