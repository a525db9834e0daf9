//! What a leader records of jobs while clocks change, beside what a preview said before.

#![allow(clippy::unwrap_used, reason = "a failed test")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::World;
use common::jobs::*;
use jiff::Timestamp;
use orloj_model::command::{Command, JobCommand};
use orloj_model::id::{Millis, TaskId};
use orloj_model::job::{Definition, Plan, plan};
use orloj_model::trigger::overlap::OverlapPolicy::Skip;
use orloj_model::trigger::{Cron, DayRule, Dst, Gap, Kind, Overlap, Preview, Progress, SkipReason, Trigger};
use orloj_model::{Batch, Reply, apply, check};

fn at(text: &str) -> Millis {
    text.parse::<Timestamp>().unwrap().as_millisecond()
}

fn show(at: Millis) -> String {
    Timestamp::from_millisecond(at).unwrap().to_string()
}

fn cron(expression: &str, zone: &str, dst: Dst) -> Trigger {
    let cron = Cron::new(expression, zone, dst, DayRule::Or, at("2027-01-01T00:00:00Z"));
    trigger(Kind::Cron(cron.unwrap()))
}

fn job_of(trigger: Trigger) -> Definition {
    Definition { triggers: vec![trigger], ..definition(Skip) }
}

/// One leader of many jobs: each is looked at when the wall clock shows what it asked for, and not in between.
struct Leader {
    world: World,
    drawn: u32,
    looks: BTreeSet<(Millis, String)>,
    /// The instants that fired, and when, by job.
    fired: BTreeMap<String, Vec<(Millis, Millis)>>,
    /// How many entries each job has cost.
    entries: BTreeMap<String, usize>,
}

impl Leader {
    fn at(now: Millis) -> Leader {
        let mut world = World::ready();
        world.now = now;
        let (looks, fired, entries) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        Leader { world, drawn: 0, looks, fired, entries }
    }

    /// Puts a job; answers with its first fires, and what is passed over on the way.
    fn put(&mut self, job: &str, definition: Definition, preview: usize) -> Preview {
        let schedule = self.world.schedule(&key(job), &definition);
        let preview = schedule.preview(&Progress::default(), self.world.now, preview);
        let put = self.world.put(job, Some(0), definition);
        assert!(matches!(self.run(put), Reply::Job { version: 1, .. }));
        self.fired.insert(job.to_owned(), Vec::new());
        self.entries.insert(job.to_owned(), 0);
        self.look(job);
        preview
    }

    /// One entry; the invariants are checked at the end.
    fn run(&mut self, change: Command) -> Reply {
        self.world.index += 1;
        let batch = Batch { now_ms: self.world.now, round: self.world.round, changes: vec![change] };
        let mut replies = apply(&mut self.world.tables, self.world.index, &batch, &mut Vec::new()).unwrap();
        replies.remove(0)
    }

    fn look(&mut self, job: &str) {
        for _ in 0..10 {
            let view = self.world.job(job);
            let drawn = &mut self.drawn;
            let mut draw = || {
                *drawn += 1;
                let mut id = [0; 16];
                id[..4].copy_from_slice(&drawn.to_be_bytes());
                TaskId(id)
            };
            let commands = match plan(&view, &[], self.world.now, &mut draw).unwrap() {
                Plan::Rest => return,
                Plan::Later(at) => {
                    assert!(at > self.world.now, "{job}: it would be looked at in a loop");
                    self.looks.insert((at, job.to_owned()));
                    return;
                }
                Plan::Propose(commands) => commands,
            };
            for proposed in commands {
                self.propose(job, proposed);
            }
        }
        panic!("{job}: there is no end to it");
    }

    fn propose(&mut self, job: &str, proposed: JobCommand) {
        let scheduled_at = match &proposed {
            JobCommand::Fire(fire) => fire.scheduled_at,
            other => panic!("{job}: {other:?}"),
        };
        *self.entries.get_mut(job).unwrap() += 1;
        let Reply::Fired { task, .. } = self.run(command(proposed)) else {
            panic!("{job}: {} did not fire", show(scheduled_at))
        };
        self.fired.get_mut(job).unwrap().push((scheduled_at, self.world.now));
        self.run(Command::Cancel { task, caller: None, claim: None });
    }

    /// Lets time pass.
    fn until(&mut self, end: Millis) {
        while self.looks.first().is_some_and(|(at, _)| *at <= end) {
            let (at, job) = self.looks.pop_first().unwrap();
            self.world.now = at;
            self.look(&job);
        }
        self.world.now = end;
    }

    fn instants(&self, job: &str) -> Vec<String> {
        self.fired[job].iter().map(|(scheduled_at, _)| show(*scheduled_at)).collect()
    }
}

#[test]
fn b50_b51_a_clock_change_makes_no_burst_and_moves_no_job_in_utc() {
    let both = Dst { overlap: Overlap::Both, ..Dst::default() };
    let (spring, autumn) = ("2027-03-14T07:00:00Z", "2027-11-07T06:00:00Z");
    // What falls into the four minutes around the change.
    for (change, dst, zone_jobs) in [
        (spring, Dst::default(), [("0 2 * * *", 1), ("30 2 * * *", 1), ("59 1 * * *", 1), ("30 3 * * *", 0)]),
        (autumn, Dst::default(), [("0 1 * * *", 0), ("30 1 * * *", 0), ("59 0 * * *", 0), ("0 2 * * *", 0)]),
        (autumn, both, [("0 1 * * *", 1), ("30 1 * * *", 0), ("59 0 * * *", 0), ("59 1 * * *", 1)]),
    ] {
        let change = at(change);
        let mut leader = Leader::at(change - 120_500);
        for number in 0..20 {
            leader.put(&format!("utc{number}"), job_of(cron("* * * * * *", "UTC", Dst::default())), 0);
        }
        for number in 0..100 {
            let (expression, _) = zone_jobs[number % 4];
            leader.put(&format!("zone{number}"), job_of(cron(expression, "America/New_York", dst)), 0);
        }
        leader.until(change + 120_000);
        let seconds: Vec<_> = (-120..=120).map(|second| change + second * 1_000).map(|at| (at, at)).collect();
        for number in 0..20 {
            assert_eq!(leader.fired[&format!("utc{number}")], seconds, "each second, in its second");
        }
        for number in 0..100 {
            let (job, (expression, fires)) = (format!("zone{number}"), zone_jobs[number % 4]);
            assert_eq!(leader.fired[&job].len(), fires, "{expression}: {:?}", leader.instants(&job));
            assert_eq!(leader.entries[&job], fires, "{expression}: the log grows by what fires");
        }
        assert_eq!(check::check(&leader.world.tables).unwrap(), Vec::<String>::new());
    }
}

#[test]
fn b49_frequent_jobs_fire_at_their_cadence_through_both_changes() {
    for (expression, zone, from, times) in [
        (
            "*/30 * * * *",
            "America/New_York",
            "2027-11-07",
            &["04:00", "04:30", "05:00", "05:30", "06:00", "06:30", "07:00", "07:30"][..],
        ),
        (
            "*/10 * * * *",
            "Europe/Berlin",
            "2027-10-31",
            &["00:30", "00:40", "00:50", "01:00", "01:10", "01:20", "01:30", "01:40", "01:50", "02:00"],
        ),
        (
            "*/30 * * * *",
            "America/New_York",
            "2027-03-14",
            &["05:00", "05:30", "06:00", "06:30", "07:00", "07:30", "08:00"],
        ),
    ] {
        let times: Vec<_> = times.iter().map(|time| format!("{from}T{time}:00Z")).collect();
        let mut leader = Leader::at(at(&times[0]) - 1);
        leader.put("j", job_of(cron(expression, zone, Dst::default())), 0);
        leader.until(at(&times[times.len() - 1]));
        assert_eq!(leader.instants("j"), times, "{expression} {zone}");
        assert!(leader.fired["j"].iter().all(|(scheduled_at, fired_at)| scheduled_at == fired_at));
    }
}

#[test]
fn b47_what_fires_over_forty_days_is_what_the_preview_said_before() {
    let expressions = [
        "30 2 * * *",
        "0,30 1-3 * * *",
        "*/20 1-3 * * *",
        "15 */6 * * *",
        "0 0 L * *",
        "0 12 15W * ?",
        "0 9 * * MON-FRI",
        "0 0 * * FRI#2",
        "59 23 28-31 * *",
        "@hourly",
        "@weekly",
        "@every 7h",
        "0 0 0 1 * ?",
        "0 0 22-2 * * *",
        "30 1,2 * * 0",
    ];
    let zones = ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "UTC"];
    let policies = [
        Dst::default(),
        Dst { gap: Gap::Skip, overlap: Overlap::Second },
        Dst { gap: Gap::Shift, overlap: Overlap::Both },
        Dst::default(),
    ];
    for from in ["2027-03-10T00:00:00.500Z", "2027-10-01T00:00:00.500Z"] {
        let end = at(from) + 40 * 86_400_000;
        let mut leader = Leader::at(at(from));
        let mut previews = BTreeMap::new();
        for (place, expression) in expressions.iter().enumerate() {
            for (zone, dst) in zones.iter().zip(policies) {
                let job = format!("j{}", previews.len());
                // Only some thousand steps of a preview are taken; these jobs fire at most a thousand times.
                let preview = leader.put(&job, job_of(cron(expression, zone, dst)), 1_000);
                previews.insert(job, (place, *zone, preview));
            }
        }
        leader.until(end);
        let mut gaps = 0;
        for (job, (place, zone, preview)) in previews {
            let name = format!("{} {zone}", expressions[place]);
            let said: Vec<_> =
                preview.fires.iter().map(|fire| fire.scheduled_at).filter(|at| *at <= end).collect();
            assert!(!preview.truncated && said.len() < preview.fires.len(), "{name}: it reaches beyond");
            let fired: Vec<_> = leader.fired[&job].iter().map(|(scheduled_at, _)| *scheduled_at).collect();
            assert_eq!(fired, said, "{name}");
            let last = fired.last().copied().unwrap_or_default();
            let passed: Vec<_> = preview.skipped.iter().filter(|passed| passed.at < last).collect();
            let recorded: u64 = leader.world.skips(&job).iter().map(|(_, count, ..)| count).sum();
            assert_eq!(recorded, passed.len() as u64, "{name}: what was passed over is recorded");
            gaps += passed.iter().filter(|passed| passed.reason == SkipReason::DstGap).count();
        }
        assert_eq!(gaps > 0, from < "2027-06", "hours were missing in spring");
        assert_eq!(check::check(&leader.world.tables).unwrap(), Vec::<String>::new());
    }
}
