//! What the nemesis has to do, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::plan::Step;

/// One thing to do with a step of the plan, which stands at `step` in the plan's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    /// Take the fault away.
    Undo {
        /// Place in the list.
        step: usize,
    },
    /// Let a fault that goes on acting act again.
    Beat {
        /// Place in the list.
        step: usize,
        /// How often it has acted, the installation counted.
        beat: u64,
    },
    /// Install the fault.
    Install {
        /// Place in the list.
        step: usize,
    },
}

/// Everything that is still to be done, earliest first.
#[derive(Debug)]
pub struct Agenda {
    turns: BinaryHeap<Reverse<(u64, Turn)>>,
}

impl Agenda {
    /// The installations of a plan.
    pub fn of(steps: &[Step]) -> Agenda {
        let install = |(step, of): (usize, &Step)| Reverse((of.at_ms, Turn::Install { step }));
        Agenda { turns: steps.iter().enumerate().map(install).collect() }
    }

    /// When the next turn is due, in ms from the beginning of the load.
    pub fn next_ms(&self) -> Option<u64> {
        self.turns.peek().map(|Reverse((at, _))| *at)
    }

    /// The next turn, once it is due at `now_ms`.
    pub fn due(&mut self, now_ms: u64) -> Option<Turn> {
        let Reverse((_, turn)) = self.turns.peek().filter(|Reverse((at, _))| *at <= now_ms)?;
        let turn = *turn;
        self.turns.pop();
        Some(turn)
    }

    /// Adds a turn.
    pub fn add(&mut self, at_ms: u64, turn: Turn) {
        self.turns.push(Reverse((at_ms, turn)));
    }

    /// Plans what follows the installation of `of` at `now_ms`: its first beat and its undo. The time that it stays
    /// counts from the installation, which may have been late.
    pub fn installed(&mut self, step: usize, of: &Step, now_ms: u64) {
        self.add(now_ms + of.for_ms, Turn::Undo { step });
        self.beaten(step, of, now_ms, 0, now_ms + of.for_ms);
    }

    /// Plans the beat after `beat`, unless the fault ends before it at `end_ms`.
    pub fn beaten(&mut self, step: usize, of: &Step, now_ms: u64, beat: u64, end_ms: u64) {
        if let Some(beat_ms) = of.action.beat_ms() {
            let at = now_ms + beat_ms;
            if at < end_ms {
                self.add(at, Turn::Beat { step, beat: beat + 1 });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;
    use crate::target::Target;

    fn step(number: u64, at_ms: u64, for_ms: u64, action: Action) -> Step {
        Step { number, at_ms, for_ms, target: Target::Leader, action }
    }

    #[test]
    fn turns_come_in_order_and_never_early() {
        let steps = [step(1, 50, 10, Action::Kill), step(2, 20, 10, Action::Kill)];
        let mut agenda = Agenda::of(&steps);
        assert_eq!((agenda.next_ms(), agenda.due(19)), (Some(20), None));
        assert_eq!(agenda.due(20), Some(Turn::Install { step: 1 }));
        agenda.installed(1, &steps[1], 25);
        assert_eq!(agenda.next_ms(), Some(35));
        assert_eq!(agenda.due(100), Some(Turn::Undo { step: 1 }));
        assert_eq!(agenda.due(100), Some(Turn::Install { step: 0 }));
        assert_eq!((agenda.due(100), agenda.next_ms()), (None, None));
    }

    #[test]
    fn a_fault_that_goes_on_acting_beats_until_its_undo() {
        let steps = [step(1, 0, 35, Action::CrashLoop { beat_ms: 10 })];
        let mut agenda = Agenda::of(&steps);
        assert_eq!(agenda.due(0), Some(Turn::Install { step: 0 }));
        agenda.installed(0, &steps[0], 0);
        let mut beats = Vec::new();
        for now in (0..=40).step_by(10) {
            while let Some(turn) = agenda.due(now) {
                if let Turn::Beat { beat, .. } = turn {
                    agenda.beaten(0, &steps[0], now, beat, 35);
                }
                beats.push(turn);
            }
        }
        let beat = |beat| Turn::Beat { step: 0, beat };
        assert_eq!(beats, [beat(1), beat(2), beat(3), Turn::Undo { step: 0 }]);
    }
}
