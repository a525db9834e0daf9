use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::wgl::tests::brute_force;
use crate::wgl::{Call, Outcome, check};

/// Every single change that no caller asks for.
fn leads(from: Status, asked: bool, to: Status) -> bool {
    use Status::{Cancelled, Failed, Pending, Running, Skipped, Success};
    match (from, to) {
        (Pending, Running | Skipped) => !asked,
        (Running, Pending) => !asked,
        (Running, Success | Failed) => true,
        (Running, Cancelled) => asked,
        _ => false,
    }
}

#[test]
fn hops_are_the_shortest_ways_along_the_table() {
    for (from, asked) in Status::ALL.into_iter().flat_map(|from| [(from, false), (from, true)]) {
        if asked && from == Status::Pending {
            continue; // A cancel ends a waiting task: it never waits with one asked for.
        }
        let mut found = VecDeque::from([(from, 0)]);
        let mut seen = BTreeSet::from([from]);
        let mut shortest = std::collections::BTreeMap::from([(from, 0)]);
        while let Some((at, far)) = found.pop_front() {
            for to in Status::ALL.into_iter().filter(|to| leads(at, asked, *to)) {
                if seen.insert(to) {
                    shortest.insert(to, far + 1);
                    found.push_back((to, far + 1));
                }
            }
        }
        for to in Status::ALL {
            assert_eq!(hops(from, asked, to), shortest.get(&to).copied(), "{from:?} {asked} {to:?}");
        }
    }
}

fn told(version: u64, status: Status, attempt: u32) -> Sight {
    Sight { version, status, attempt: Some(attempt), asked: Some(false), details: None }
}

fn asked(version: u64, status: Status, attempt: u32) -> Sight {
    Sight { asked: Some(true), ..told(version, status, attempt) }
}

fn brief(version: u64, status: Status) -> Sight {
    Sight { version, status, attempt: None, asked: None, details: None }
}

fn created() -> Op {
    Op::Submit { replayed: false, sight: brief(1, Status::Pending) }
}

fn get(sight: Sight) -> Op {
    Op::Get(Some(sight))
}

/// Operations one after the other; those in `unknown` have no answer.
fn in_turn(ops: &[Op], unknown: &[Op]) -> Vec<Call<Op>> {
    let turn = |at: u64, op: &Op| Call {
        call: at * 10,
        ret: (!unknown.contains(op)).then_some(at * 10 + 5),
        op: *op,
    };
    (1..).zip(ops).map(|(at, op)| turn(at, op)).collect()
}

fn is_possible(ops: &[Op]) -> bool {
    let calls = in_turn(ops, &[Op::SubmitUnknown, Op::CancelUnknown]);
    check(&TaskModel, &calls, 100_000) == Outcome::Linearizable
}

#[test]
fn a_task_is_there_once_it_was_acknowledged_and_never_younger_than_seen() {
    use Status::{Pending, Running, Success};
    assert!(is_possible(&[Op::Get(None), created(), get(told(1, Pending, 0)), get(told(4, Success, 1))]));
    assert!(!is_possible(&[created(), Op::Get(None)]), "lost");
    assert!(!is_possible(&[created(), get(told(2, Running, 1)), get(told(1, Pending, 0))]), "stale");
    assert!(!is_possible(&[get(told(1, Pending, 0))]), "from nowhere");
    assert!(!is_possible(&[created(), created()]), "made twice");
    assert!(!is_possible(&[Op::Submit { replayed: false, sight: brief(2, Running) }]));
}

#[test]
fn one_version_has_one_value() {
    use Status::{Failed, Pending, Running, Success};
    let one = |value: Sight, other: Sight| is_possible(&[created(), get(value), get(other)]);
    assert!(one(told(2, Running, 1), told(2, Running, 1)));
    assert!(!one(told(3, Success, 1), told(3, Failed, 1)));
    assert!(!one(told(2, Running, 1), told(2, Running, 2)));
    assert!(!one(told(2, Pending, 0), told(2, Running, 1)));
    let result = |number| Sight { details: Some(number), ..told(3, Success, 1) };
    assert!(one(result(1), result(1)));
    assert!(!one(result(1), result(2)));
}

#[test]
fn a_version_needs_as_many_changes_as_the_table_does() {
    use Status::{Failed, Pending, Running, Skipped, Success};
    let after = |before: Sight, seen: Sight| is_possible(&[created(), get(before), get(seen)]);
    assert!(!is_possible(&[created(), get(told(2, Success, 1))]), "a grant and a report are two changes");
    assert!(is_possible(&[created(), get(told(3, Success, 1))]));
    assert!(after(told(2, Running, 1), told(9, Running, 1)), "progress was saved");
    assert!(after(told(2, Running, 1), told(3, Pending, 1)));
    assert!(!after(told(2, Running, 1), told(3, Skipped, 1)));
    assert!(!after(told(3, Success, 1), told(4, Failed, 1)), "it had ended");
    assert!(!after(told(3, Success, 1), told(4, Success, 1)), "also in the same status");
    assert!(!after(told(4, Running, 2), told(5, Running, 1)), "attempts count up");
    assert!(!after(told(2, Running, 1), told(3, Running, 5)), "one grant is one change");
    assert!(!is_possible(&[created(), get(told(2, Running, 0))]), "what runs is an attempt");
}

#[test]
fn a_cancel_is_seen_by_everybody_after_it() {
    use Status::{Cancelled, Pending, Running, Skipped, Success};
    let at_once = [created(), Op::Cancel(Some(brief(2, Cancelled)))];
    let then = |ops: &[Op], seen: Sight| is_possible(&[ops, &[get(seen)]].concat());
    assert!(then(&at_once, told(2, Cancelled, 0)));
    assert!(!then(&at_once, told(2, Pending, 0)));
    assert!(!then(&at_once, told(3, Running, 1)));
    let running = [created(), get(told(2, Running, 1)), Op::Cancel(Some(asked(3, Running, 1)))];
    assert!(then(&running, asked(3, Running, 1)));
    assert!(then(&running, asked(4, Cancelled, 1)));
    assert!(then(&running, asked(4, Success, 1)), "it was faster");
    assert!(!then(&running, told(4, Running, 1)), "the mark is gone");
    assert!(!then(&running, told(4, Pending, 1)), "it waits for a retry");
    assert!(!then(&running, asked(6, Success, 2)), "a retry after the cancel");
    assert!(!then(&running, told(5, Skipped, 1)));
    let again = Op::Cancel(Some(asked(3, Running, 1)));
    assert!(is_possible(&[running.as_slice(), &[again]].concat()), "asking again changes nothing");
    let twice = Op::Cancel(Some(asked(4, Running, 1)));
    assert!(is_possible(&[running.as_slice(), &[twice]].concat()), "progress was saved in between");
}

#[test]
fn nobody_cancels_but_callers() {
    use Status::{Cancelled, Failed, Pending, Running};
    assert!(!is_possible(&[created(), get(told(2, Cancelled, 0))]));
    assert!(!is_possible(&[created(), get(told(2, Running, 1)), get(asked(3, Running, 1))]));
    assert!(is_possible(&[created(), Op::CancelUnknown, get(told(2, Cancelled, 0))]));
    assert!(is_possible(&[created(), Op::CancelUnknown, get(asked(3, Running, 1))]));
    assert!(is_possible(&[created(), Op::CancelUnknown, get(told(1, Pending, 0)), get(told(2, Running, 1))]));
    assert!(!is_possible(&[created(), Op::CancelUnknown, get(asked(2, Running, 1))]), "two changes");
    let refused = [created(), get(told(2, Running, 1)), Op::CancelRefused(None)];
    assert!(is_possible(&[refused.as_slice(), &[get(told(3, Failed, 1))]].concat()));
    assert!(!is_possible(&[refused.as_slice(), &[get(told(3, Running, 1))]].concat()), "it had ended");
    assert!(!is_possible(&[created(), Op::CancelRefused(None), get(told(2, Pending, 0))]));
    assert!(!is_possible(&[created(), Op::CancelRefused(Some(brief(2, Running)))]));
}

#[test]
fn an_accepted_report_shows_in_every_later_read() {
    use Status::{Failed, Pending, Running, Success};
    let report = |attempt, ending| Op::Report { attempt, ending };
    let after = |op: Op, seen: Sight| is_possible(&[created(), get(told(2, Running, 1)), op, get(seen)]);
    assert!(after(report(1, Ending::Succeeded), told(3, Success, 1)));
    assert!(!after(report(1, Ending::Succeeded), told(2, Running, 1)), "stale");
    assert!(!after(report(1, Ending::Succeeded), told(3, Pending, 1)), "success is the end");
    assert!(after(report(1, Ending::Unsuccessful), told(3, Pending, 1)));
    assert!(after(report(1, Ending::Unsuccessful), told(3, Failed, 1)));
    assert!(after(report(1, Ending::Unsuccessful), told(4, Running, 2)));
    assert!(!after(report(1, Ending::Unsuccessful), told(3, Running, 1)), "its lease is over");
    assert!(after(report(1, Ending::Returned), told(3, Pending, 1)));
    assert!(!after(report(1, Ending::Returned), told(3, Failed, 1)));
    let second = [created(), get(told(4, Running, 2))];
    let late = |attempt| is_possible(&[second.as_slice(), &[report(attempt, Ending::Succeeded)]].concat());
    assert!(late(2));
    assert!(!late(1), "a late report was accepted");
}

#[test]
fn a_submission_that_nobody_answered_may_have_happened() {
    use Status::{Pending, Running};
    let replay = |version, status| Op::Submit { replayed: true, sight: brief(version, status) };
    assert!(is_possible(&[Op::SubmitUnknown, Op::Get(None), get(told(2, Running, 1))]));
    assert!(!is_possible(&[Op::SubmitUnknown, get(told(1, Pending, 0)), Op::Get(None)]));
    assert!(is_possible(&[Op::SubmitUnknown, replay(2, Running)]));
    assert!(is_possible(&[replay(1, Pending)]), "the replica itself had asked twice");
    assert!(!is_possible(&[created(), get(told(2, Running, 1)), replay(1, Pending)]), "a stale repeat");
}

/// A task that really goes through its life, for histories that must be possible.
#[derive(Debug, Clone, Default)]
struct Actual {
    version: u64,
    status: Option<Status>,
    asked: bool,
    attempt: u32,
}

impl Actual {
    fn sight(&self) -> Option<Sight> {
        let (version, attempt) = (self.version, Some(self.attempt));
        let details = Some(self.version as u32 % 2);
        self.status.map(|status| Sight { version, status, attempt, asked: Some(self.asked), details })
    }

    fn change(&mut self, to: Status) {
        self.version += 1;
        self.status = Some(to);
    }

    /// Something that no caller sees.
    fn move_on(&mut self, choice: u8) {
        use Status::{Cancelled, Failed, Pending, Running, Skipped, Success};
        match (self.status, choice % 4) {
            (Some(Pending), 3) if self.attempt == 0 => self.change(Skipped),
            (Some(Pending), 0 | 1) => {
                self.attempt += 1;
                self.change(Running);
            }
            (Some(Pending), _) => self.change(Pending),
            (Some(Running), 0) => self.change(Success),
            (Some(Running), 1) => self.change(if self.asked { Cancelled } else { Pending }),
            (Some(Running), 2) if !self.asked => self.change(Failed),
            (Some(Running), _) => self.change(Running),
            _ => {}
        }
    }

    /// What a caller or an executor does, and is told.
    fn act(&mut self, choice: u8) -> Op {
        use Status::{Cancelled, Failed, Pending, Running, Success};
        let replayed = self.status.is_some();
        match (choice % 8, self.status) {
            (0, _) => {
                if !replayed {
                    self.change(Pending);
                }
                let sight = self.sight().expect("it has just been made where it was not there");
                Op::Submit { replayed, sight: Sight { attempt: None, asked: None, details: None, ..sight } }
            }
            (1 | 2, Some(Pending)) => {
                self.change(Cancelled);
                Op::Cancel(Some(brief(self.version, Cancelled)))
            }
            (1 | 2, Some(Running)) => {
                if !self.asked {
                    self.asked = true;
                    self.change(Running);
                }
                Op::Cancel(Some(Sight { asked: Some(true), ..brief(self.version, Running) }))
            }
            (1 | 2, Some(Cancelled)) => Op::Cancel(Some(brief(self.version, Cancelled))),
            (1 | 2, Some(_)) => Op::CancelRefused(None),
            (3, Some(Running)) => {
                let attempt = self.attempt;
                let (to, ending) = match (choice / 8 % 3, self.asked) {
                    (0, _) => (Success, Ending::Succeeded),
                    (1, false) => (Failed, Ending::Unsuccessful),
                    (_, false) => (Pending, Ending::Unsuccessful),
                    (_, true) => (Cancelled, Ending::Unsuccessful),
                };
                self.change(to);
                Op::Report { attempt, ending }
            }
            _ => Op::Get(self.sight()),
        }
    }
}

/// What happens at one instant: a hidden change or an operation, how long it takes, and whether it is answered.
type Turn = (bool, u8, u64, u64, u8);

fn turns(most: usize) -> impl Strategy<Value = Vec<Turn>> {
    prop::collection::vec((any::<bool>(), any::<u8>(), 0..25_u64, 0..25_u64, 0..6_u8), 1..most)
}

fn lived(turns: &[Turn]) -> Vec<Call<Op>> {
    let mut actual = Actual::default();
    let mut calls = Vec::new();
    for (at, &(hidden, choice, before, after, answered)) in (3..).zip(turns) {
        if hidden {
            actual.move_on(choice);
            continue;
        }
        let op = actual.act(choice);
        let (call, ret) = (at * 10 - before, at * 10 + after);
        calls.push(match (op, answered) {
            (Op::Submit { .. }, 0) => Call { call, ret: None, op: Op::SubmitUnknown },
            (Op::Cancel(_) | Op::CancelRefused(_), 0) => Call { call, ret: None, op: Op::CancelUnknown },
            _ => Call { call, ret: Some(ret), op },
        });
    }
    calls
}

/// Tells something else than what was.
fn spoil(op: &mut Op, how: u8) {
    let sight = match op {
        Op::Submit { sight, .. }
        | Op::Get(Some(sight))
        | Op::Cancel(Some(sight))
        | Op::CancelRefused(Some(sight)) => sight,
        Op::Report { attempt, .. } => return *attempt = attempt.saturating_sub(1),
        _ => return,
    };
    match how % 6 {
        0 => sight.version += 1,
        1 => sight.version = sight.version.saturating_sub(1),
        2 => sight.status = Status::ALL[usize::from(how / 6) % 6],
        3 => sight.asked = sight.asked.map(|asked| !asked),
        4 => sight.attempt = sight.attempt.map(|attempt| attempt + 1),
        _ => *op = Op::Get(None),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn what_has_happened_is_possible(turns in turns(60)) {
        let calls = lived(&turns);
        let outcome = check(&TaskModel, &calls, 1_000_000);
        prop_assert_eq!(outcome, Outcome::Linearizable, "{:#?}", calls);
    }

    #[test]
    fn agrees_with_every_order_tried(
        turns in turns(16), spoiled in any::<prop::sample::Index>(), how in any::<u8>()
    ) {
        let mut calls = lived(&turns);
        calls.truncate(7);
        if !calls.is_empty() {
            let at = spoiled.index(calls.len());
            spoil(&mut calls[at].op, how);
        }
        let outcome = check(&TaskModel, &calls, 1_000_000);
        let possible = brute_force(&TaskModel, &calls);
        prop_assert_eq!(outcome == Outcome::Linearizable, possible, "{:#?}\n{:?}", calls, outcome);
    }
}
