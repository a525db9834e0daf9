use proptest::prelude::*;

use super::*;

/// A register that a value can be put into: the smallest object that can be read stale.
struct Register;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    Write(u8),
    Read(u8),
    /// Leaves 1 or 2 behind, and tells nobody which.
    Toss,
}

impl Model for Register {
    type State = u8;
    type Op = Act;

    fn initial(&self) -> u8 {
        0
    }

    fn step(&self, state: &u8, op: &Act) -> Vec<u8> {
        match op {
            Act::Write(value) => vec![*value],
            Act::Read(value) if value == state => vec![*state],
            Act::Read(_) => Vec::new(),
            Act::Toss => vec![1, 2],
        }
    }

    fn is_read(&self, op: &Act) -> bool {
        matches!(op, Act::Read(_))
    }
}

/// Tries every order: slow, short, and with nothing in common with the search.
pub(crate) fn brute_force<M: Model>(model: &M, calls: &[Call<M::Op>]) -> bool {
    fn from<M: Model>(model: &M, state: &M::State, calls: &[Call<M::Op>], left: &[usize]) -> bool {
        if left.iter().all(|number| calls[*number].ret.is_none()) {
            return true;
        }
        left.iter().any(|&number| {
            let begins = calls[number].call;
            let is_next = left.iter().all(|other| calls[*other].ret.is_none_or(|ret| ret >= begins));
            let rest: Vec<usize> = left.iter().copied().filter(|other| *other != number).collect();
            is_next
                && model.step(state, &calls[number].op).iter().any(|after| from(model, after, calls, &rest))
        })
    }
    from(model, &model.initial(), calls, &(0..calls.len()).collect::<Vec<_>>())
}

fn call(call: u64, ret: impl Into<Option<u64>>, op: Act) -> Call<Act> {
    Call { call, ret: ret.into(), op }
}

#[test]
fn a_stale_read_is_found_and_named() {
    let calls = [
        call(0, 1, Act::Write(7)),
        call(2, 3, Act::Read(7)),
        call(4, 9, Act::Write(8)),
        call(5, 6, Act::Read(8)),
        call(7, 8, Act::Read(7)),
    ];
    assert_eq!(check(&Register, &calls[..4], 100), Outcome::Linearizable);
    assert_eq!(
        check(&Register, &calls, 100),
        Outcome::Violation { longest: vec![0, 1, 2, 3], stuck: 4 },
        "the write had been seen"
    );
}

#[test]
fn an_operation_without_a_return_happens_late_or_never() {
    let lost = [call(0, None, Act::Write(7)), call(1, 2, Act::Read(0)), call(3, 4, Act::Read(0))];
    assert_eq!(check(&Register, &lost, 100), Outcome::Linearizable);
    let late = [lost[0].clone(), lost[1].clone(), call(3, 4, Act::Read(7)), call(5, 6, Act::Read(0))];
    assert_eq!(check(&Register, &late[..3], 100), Outcome::Linearizable);
    assert!(matches!(check(&Register, &late, 100), Outcome::Violation { .. }), "it cannot be undone");
}

#[test]
fn equal_times_do_not_order() {
    let calls = [call(0, 5, Act::Write(7)), call(5, 6, Act::Read(0))];
    assert_eq!(check(&Register, &calls, 100), Outcome::Linearizable);
    let apart = [calls[0].clone(), call(6, 7, Act::Read(0))];
    assert!(matches!(check(&Register, &apart, 100), Outcome::Violation { .. }));
}

#[test]
fn the_model_may_leave_open_where_a_step_leads() {
    let toss = |seen| [call(0, 1, Act::Toss), call(2, 3, Act::Read(seen))];
    for (seen, possible) in [(1, true), (2, true), (3, false)] {
        let outcome = check(&Register, &toss(seen), 100);
        assert_eq!(outcome == Outcome::Linearizable, possible, "{seen}: {outcome:?}");
    }
}

#[test]
fn a_budget_that_is_used_up_is_no_verdict() {
    // Sixteen concurrent writes and a read of none of them: every subset must be tried.
    let mut calls: Vec<_> = (0..16).map(|value| call(0, 100, Act::Write(value + 1))).collect();
    calls.push(call(50, 60, Act::Read(99)));
    assert_eq!(check(&Register, &calls, 1_000), Outcome::Exhausted);
    assert!(matches!(check(&Register, &calls[10..], 100_000), Outcome::Violation { .. }));
    assert_eq!(check(&Register, &[], 0), Outcome::Linearizable);
}

#[test]
fn reads_are_not_tried_in_every_order() {
    let mut calls: Vec<_> = (0..40).map(|at| call(at, 100, Act::Read(0))).collect();
    calls.push(call(50, 60, Act::Read(9)));
    assert!(matches!(check(&Register, &calls, 2_000), Outcome::Violation { stuck: 40, .. }));
}

#[test]
fn a_write_that_changes_nothing_now_may_come_later() {
    let calls = [call(2, None, Act::Write(0)), call(2, 2, Act::Write(1)), call(6, 6, Act::Read(0))];
    assert_eq!(check(&Register, &calls, 100), Outcome::Linearizable);
}

#[test]
fn a_long_history_takes_steps_in_proportion() {
    let mut calls = Vec::new();
    for turn in 0..20_000_u64 {
        let value = (turn % 7) as u8;
        calls.push(call(turn * 10, turn * 10 + 4, Act::Write(value)));
        calls.push(call(turn * 10 + 5, turn * 10 + 12, Act::Read(value)));
    }
    calls.push(call(3, None, Act::Write(200)));
    assert_eq!(check(&Register, &calls, 400_000), Outcome::Linearizable);
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (0..3_u8).prop_map(Act::Write),
        4 => (0..3_u8).prop_map(Act::Read),
        1 => Just(Act::Toss),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn agrees_with_every_order_tried(
        calls in prop::collection::vec((0..12_u64, 0..6_u64, 0..5_u8, acts()), 1..8)
    ) {
        let calls: Vec<_> = calls
            .into_iter()
            .map(|(begin, long, answered, op)| call(begin, (answered > 0).then_some(begin + long), op))
            .collect();
        let outcome = check(&Register, &calls, 1_000_000);
        prop_assert_eq!(outcome == Outcome::Linearizable, brute_force(&Register, &calls), "{:?}", outcome);
        if let Outcome::Violation { longest, stuck } = outcome {
            prop_assert!(!longest.contains(&stuck));
            prop_assert!(calls[stuck].ret.is_some());
        }
    }
}
