//! What `docs/jobs.md` says of a run that is still going when its job fires again, line by line: each row is played with a
//! job, its tasks and a leader.

#![allow(clippy::unwrap_used, reason = "a failed test")]

mod common;

use common::jobs::{command, definition, trigger};
use common::*;
use orloj_model::Reply;
use orloj_model::command::JobCommand;
use orloj_model::id::{Millis, TaskId};
use orloj_model::job::Definition;
use orloj_model::task::{Outcome, Reason};
use orloj_model::trigger::overlap::OverlapPolicy;
use orloj_model::trigger::{Cron, DailyWindow, DayRule, Dst, Kind};
use serde_json::Value;

const GUIDE: &str = include_str!("../../../docs/jobs.md");
const HEAD: &str = "| trigger | overlap | created | each run takes |";

fn at(text: &str) -> Millis {
    text.parse::<jiff::Timestamp>().unwrap_or_else(|error| panic!("{text}: {error}")).as_millisecond()
}

fn instants(cell: &str) -> Vec<Millis> {
    if cell == "–" { Vec::new() } else { cell.split(", ").map(at).collect() }
}

fn duration(cell: &str) -> i64 {
    let (number, unit) = cell.split_once(' ').unwrap();
    let unit_ms = match unit {
        "s" => 1_000,
        "min" => 60_000,
        other => panic!("{other}"),
    };
    number.parse::<i64>().unwrap() * unit_ms
}

fn kind(spec: &Value, created: Millis) -> Kind {
    let text = |field: &str| spec[field].as_str().unwrap();
    let number = |field: &str| spec[field].as_u64().unwrap();
    match text("kind") {
        "cron" => {
            let cron = Cron::new(text("expression"), "UTC", Dst::default(), DayRule::Or, created);
            Kind::Cron(cron.unwrap())
        }
        "fixedRate" => Kind::FixedRate { every_ms: number("everyMs"), anchor: at(text("anchor")) },
        "fixedDelay" => Kind::FixedDelay { delay_ms: number("delayMs"), anchor: created },
        "once" => Kind::Once { at: at(text("at")) },
        "dailyWindow" => {
            let (days, dst) = ([0, 1, 2, 3, 4, 5, 6], Dst::default());
            let ends = (text("from"), text("to"));
            Kind::DailyWindow(DailyWindow::new(ends, number("everyMs"), &days, "UTC", dst).unwrap())
        }
        other => panic!("{other}"),
    }
}

/// A job whose tasks take a while, and a leader that is always there.
struct Play {
    world: World,
    takes: i64,
    /// Tasks that run, and when each ends.
    running: Vec<(Millis, TaskId)>,
    /// One that waits for the others.
    queued: Option<TaskId>,
    made: u8,
}

impl Play {
    fn new(definition: Definition, created: Millis, takes: i64) -> Play {
        let mut world = World::ready();
        world.now = created;
        let put = world.put("j", Some(0), definition);
        world.run(put);
        Play { world, takes, running: Vec::new(), queued: None, made: 0 }
    }

    fn next_id(&mut self) -> TaskId {
        self.made += 1;
        task_id(self.made)
    }

    /// A task was made, or none.
    fn became(&mut self, reply: &Reply) -> bool {
        match reply {
            Reply::Fired { task, queued: true } => {
                self.queued = Some(*task);
                self.stop_cancelled();
            }
            Reply::Fired { task, queued: false } => self.start(*task),
            Reply::FireSkipped { .. } => return false,
            other => panic!("{other:?}"),
        }
        true
    }

    fn start(&mut self, task: TaskId) {
        self.world.grant(task, 1, "a");
        self.running.push((self.world.now + self.takes, task));
        self.running.sort_unstable();
    }

    fn run_by_hand(&mut self, at: Millis) {
        self.world.now = at;
        let task = self.next_id();
        let run = self.world.run_now("j", task, None);
        let reply = self.world.run(command(JobCommand::RunNow(Box::new(run))));
        assert!(self.became(&reply), "{reply:?}");
    }

    fn end_first(&mut self) {
        let (at, task) = self.running.remove(0);
        self.world.now = at;
        self.end(task, Outcome::Succeeded);
    }

    /// What is told to stop stops at once.
    fn stop_cancelled(&mut self) {
        let is_told = |(_, task): &(Millis, TaskId)| self.world.task(*task).state.cancel_requested;
        let (told, others): (Vec<_>, Vec<_>) = self.running.iter().copied().partition(is_told);
        self.running = others;
        for (_, task) in told {
            self.end(task, Outcome::Cancelled);
        }
    }

    fn end(&mut self, task: TaskId, outcome: Outcome) {
        let fence = self.world.task(task).shards[0].open_attempt().unwrap().fence;
        self.world.run(report(task, 1, fence, "a", outcome));
        if let Some(next) = self.queued
            && self.world.task(next).state.reason == Reason::Ready
        {
            self.queued = None;
            self.start(next);
        }
    }

    /// Goes on up to an instant; what fired, and what was skipped.
    fn until(&mut self, end: Millis, mut by_hand: Vec<Millis>) -> (Vec<Millis>, Vec<Millis>) {
        let (mut fired, mut skipped) = (Vec::new(), Vec::new());
        loop {
            if self.world.job("j").state.wanted {
                let answer = self.world.answer("j").unwrap();
                self.world.run(answer);
            }
            let ends = self.running.first().map(|(at, _)| *at);
            let (fires, hand) = (self.world.next_at("j"), by_hand.first().copied());
            let Some(now) = [ends, fires, hand].into_iter().flatten().min().filter(|now| *now <= end) else {
                return (fired, skipped);
            };
            if ends == Some(now) {
                self.end_first();
            } else if hand == Some(now) {
                self.run_by_hand(by_hand.remove(0));
            } else {
                let task = self.next_id();
                let reply = self.world.fires("j", task);
                if self.became(&reply) { fired.push(now) } else { skipped.push(now) }
            }
        }
    }
}

#[test]
fn a_fire_while_the_last_run_is_still_going_becomes_what_the_guide_says() {
    let rows: Vec<&str> = GUIDE
        .lines()
        .skip_while(|line| !line.starts_with(HEAD))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .collect();
    for kind in ["cron", "fixedRate", "fixedDelay", "once", "dailyWindow"] {
        assert!(rows.iter().any(|row| row.contains(&format!("\"{kind}\""))), "{kind} is not in the table");
    }
    for overlap in ["skip", "allow", "queue", "cancelOther"] {
        let named = format!("`{overlap}`");
        assert!(rows.iter().any(|row| row.contains(&named)), "{overlap} is not in the table");
    }
    for row in rows {
        let cell = |cell: &str| cell.trim().trim_matches('`').to_owned();
        let cells: Vec<String> = row.trim_matches('|').split('|').map(cell).collect();
        let [spec, overlap, created, takes, by_hand, fires, skipped] = &cells[..] else {
            panic!("seven cells: {row}")
        };
        let overlap = match overlap.as_str() {
            "skip" => OverlapPolicy::Skip,
            "allow" => OverlapPolicy::Allow,
            "queue" => OverlapPolicy::Queue,
            "cancelOther" => OverlapPolicy::CancelOther,
            other => panic!("{other}"),
        };
        let spec = serde_json::from_str(spec).unwrap();
        let triggers = vec![trigger(kind(&spec, at(created)))];
        let job = Definition { triggers, ..definition(overlap) };
        let right = (instants(fires), instants(skipped));
        let end = *right.0.iter().chain(&right.1).max().unwrap();
        let found = Play::new(job, at(created), duration(takes)).until(end, instants(by_hand));
        assert_eq!(found, right, "{row}");
    }
}
