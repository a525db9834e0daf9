//! The nemesis on a world of paper.

use super::*;
use crate::action::Action;
use crate::target::Target;

#[derive(Default)]
struct Paper {
    leader: Option<String>,
    leader_from_ms: u64,
    now: u64,
    done: Vec<String>,
    lines: Vec<Fault>,
    refuse: bool,
    stop_at: Option<u64>,
}

impl World for Paper {
    fn sighting(&self) -> Sighting {
        let leader = self.leader.clone().filter(|_| self.now >= self.leader_from_ms);
        Sighting { leader, ..Sighting::default() }
    }

    fn install(&mut self, step: &Step, hit: &[String]) -> anyhow::Result<Installed> {
        self.done.push(format!("{} {} on {}", self.now, step.action.full_name(), hit.join("+")));
        anyhow::ensure!(!self.refuse, "no such tool");
        Ok(Installed::Yes("found".into()))
    }

    fn beat(&mut self, _: &Step, _: &[String], beat: u64) -> anyhow::Result<()> {
        self.done.push(format!("{} beat {beat}", self.now));
        Ok(())
    }

    fn undo(&mut self, step: &Step, _: &[String]) -> anyhow::Result<()> {
        self.done.push(format!("{} undo {}", self.now, step.number));
        Ok(())
    }

    fn record(&mut self, _: u64, fault: Fault) {
        self.lines.push(fault);
    }

    fn now_ns(&self) -> u64 {
        self.now * 1_000_000
    }

    fn now_ms(&self) -> u64 {
        self.now
    }

    fn sleep(&mut self, time: Duration) {
        self.now += u64::try_from(time.as_millis()).unwrap();
    }

    fn stopped(&self) -> bool {
        self.stop_at.is_some_and(|at| self.now >= at)
    }
}

fn step(number: u64, at_ms: u64, for_ms: u64, action: Action) -> Step {
    Step { number, at_ms, for_ms, target: Target::Leader, action }
}

fn phases(world: &Paper) -> Vec<(u64, &str)> {
    world.lines.iter().map(|line| (line.step, line.phase.as_str())).collect()
}

#[test]
fn each_step_is_installed_beaten_undone_and_written_down() {
    let mut world = Paper { leader: Some("n2".into()), ..Paper::default() };
    let steps = [step(1, 100, 300, Action::CrashLoop { beat_ms: 200 }), step(2, 250, 500, Action::Pause)];
    assert_eq!(Nemesis::new(&mut world, &steps, 1, 1).run(1_000), 0);
    let expected =
        ["100 process.crash-loop on n2", "250 process.pause on n2", "300 beat 1", "400 undo 1", "750 undo 2"];
    assert_eq!(world.done, expected);
    assert_eq!(phases(&world), [(1, "installed"), (2, "installed"), (1, "undone"), (2, "undone")]);
    assert!(world.lines[0].on_leader);
    assert_eq!(world.lines[0].detail, "beat-ms=200; found");
}

#[test]
fn a_step_waits_for_its_target_and_is_skipped_when_there_is_none() {
    let steps = [step(1, 100, 50, Action::Kill)];
    let mut late = Paper { leader: Some("n1".into()), leader_from_ms: 2_000, ..Paper::default() };
    Nemesis::new(&mut late, &steps, 1, 1).run(9_000);
    assert_eq!(phases(&late), [(1, "installed"), (1, "undone")]);
    let mut never = Paper::default();
    assert_eq!(Nemesis::new(&mut never, &steps, 1, 1).run(9_000), 0);
    assert_eq!((phases(&never), never.lines[0].detail.as_str()), (vec![(1, "skipped")], "no replica leads"));
}

#[test]
fn whatever_is_left_is_taken_back_the_youngest_first() {
    let mut world = Paper { leader: Some("n1".into()), stop_at: Some(300), ..Paper::default() };
    let steps = [step(1, 100, 9_000, Action::Kill), step(2, 200, 9_000, Action::Pause)];
    Nemesis::new(&mut world, &steps, 1, 1).run(20_000);
    assert_eq!(world.done[2..], ["300 undo 2", "300 undo 1"]);
}

#[test]
fn a_failure_of_the_harness_is_counted_and_still_undone() {
    let mut world = Paper { leader: Some("n1".into()), refuse: true, ..Paper::default() };
    let steps = [step(1, 100, 50, Action::Kill)];
    assert_eq!(Nemesis::new(&mut world, &steps, 1, 1).run(1_000), 1);
    assert_eq!(phases(&world), [(1, "failed"), (1, "undone")]);
    assert!(world.lines[0].detail.contains("no such tool"));
}
