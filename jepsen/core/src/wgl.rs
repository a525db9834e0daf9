//! Linearizability by the algorithm of Wing and Gong with Lowe's memoisation.
//!
//! The question: is there an order of the operations that keeps real time (an operation that had ended before
//! another began comes first) and that a sequential [`Model`] can take step by step, seeing what was seen? The
//! search walks the calls and returns in the order of time, takes any call that the model allows, and goes back
//! where a return is reached whose call has not been taken. A pair of (operations taken, state reached) that was
//! visited before leads nowhere new and is not visited again.
//!
//! A read that is possible now and tells nothing new is taken now, and not tried later: an order in which it comes
//! later stays possible with the read moved to here.
//!
//! An operation without a return may have happened at any time after its call, or never.

use std::collections::HashSet;
use std::hash::Hash;

/// A sequential specification. It may leave open where a step leads: what a caller cannot see (an executor's
/// move) can have gone one way or another.
pub trait Model {
    /// What the object is like between two operations.
    type State: Clone + Eq + Hash;
    /// An operation together with what it was told.
    type Op;

    /// Before the first operation.
    fn initial(&self) -> Self::State;

    /// Every state in which `op` can leave the object when it takes effect in `state`; none when what `op` was
    /// told is impossible there.
    fn step(&self, state: &Self::State, op: &Self::Op) -> Vec<Self::State>;

    /// Whether `op` only looks: leaving it out makes nothing impossible that was possible with it.
    fn is_read(&self, op: &Self::Op) -> bool;
}

/// One operation with the time in which it took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call<O> {
    /// When it began.
    pub call: u64,
    /// When it ended; none when nobody knows whether it happened.
    pub ret: Option<u64>,
    /// What was asked and told.
    pub op: O,
}

/// What the search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// There is such an order.
    Linearizable,
    /// There is none.
    Violation {
        /// The operations of the longest order that the model can take, by their place in the input.
        longest: Vec<usize>,
        /// The operation that this order could not get past, by its place in the input.
        stuck: usize,
    },
    /// The budget was used up before either was known.
    Exhausted,
}

/// Searches for an order. `budget` bounds how many steps of the model are tried.
///
/// Times that are equal do not order: a call at the instant of a return counts as concurrent with it.
pub fn check<M: Model>(model: &M, calls: &[Call<M::Op>], budget: u64) -> Outcome {
    Search::new(model, calls).run(budget)
}

/// A place in the list of calls and returns. Place 0 is the head, and ends the list.
type Place = usize;

/// The calls and returns that are not taken yet, in the order of time, as a doubly linked list: taking an
/// operation and giving it back are O(1).
struct Timeline {
    next: Vec<Place>,
    previous: Vec<Place>,
    /// Of each place: the operation, and whether it is the return.
    what: Vec<(usize, bool)>,
    call_of: Vec<Place>,
    return_of: Vec<Option<Place>>,
}

impl Timeline {
    fn new<O>(calls: &[Call<O>]) -> Timeline {
        let mut marks: Vec<(u64, bool, usize)> = Vec::with_capacity(calls.len() * 2);
        for (number, call) in calls.iter().enumerate() {
            marks.push((call.call, false, number));
            marks.extend(call.ret.map(|ret| (ret.max(call.call), true, number)));
        }
        marks.sort_unstable();
        let places = marks.len() + 1;
        let mut timeline = Timeline {
            next: (1..places).chain([0]).collect(),
            previous: [places - 1].into_iter().chain(0..places - 1).collect(),
            what: vec![(usize::MAX, true)],
            call_of: vec![0; calls.len()],
            return_of: vec![None; calls.len()],
        };
        for (place, (_, is_return, number)) in (1..).zip(marks) {
            timeline.what.push((number, is_return));
            if is_return {
                timeline.return_of[number] = Some(place);
            } else {
                timeline.call_of[number] = place;
            }
        }
        timeline
    }

    fn take(&mut self, number: usize) {
        for place in [Some(self.call_of[number]), self.return_of[number]].into_iter().flatten() {
            let (previous, next) = (self.previous[place], self.next[place]);
            self.next[previous] = next;
            self.previous[next] = previous;
        }
    }

    /// Undoes the latest [`Timeline::take`] that is not undone yet.
    fn give_back(&mut self, number: usize) {
        for place in [self.return_of[number], Some(self.call_of[number])].into_iter().flatten() {
            let (previous, next) = (self.previous[place], self.next[place]);
            self.next[previous] = place;
            self.previous[next] = place;
        }
    }
}

/// Which operations are taken. Those with a return come first, in the order of their calls, so that nearly all
/// of a long set is a run of ones that [`Taken::key`] need not keep.
#[derive(Debug, Clone)]
struct Taken {
    /// The bit of each operation.
    bit_of: Vec<usize>,
    words: Vec<u64>,
}

/// A set of taken operations in its shortest form: full words, then the rest without trailing empty words.
type Key = (usize, Box<[u64]>);

impl Taken {
    fn new<O>(calls: &[Call<O>]) -> Taken {
        let mut order: Vec<usize> = (0..calls.len()).collect();
        order.sort_by_key(|&number| (calls[number].ret.is_none(), calls[number].call));
        let mut bit_of = vec![0; calls.len()];
        for (bit, number) in order.into_iter().enumerate() {
            bit_of[number] = bit;
        }
        Taken { bit_of, words: vec![0; calls.len().div_ceil(64)] }
    }

    fn flip(&mut self, number: usize) {
        let bit = self.bit_of[number];
        self.words[bit / 64] ^= 1 << (bit % 64);
    }

    fn key(&self) -> Key {
        let full = self.words.iter().take_while(|word| **word == u64::MAX).count();
        let used = self.words.iter().rposition(|word| *word != 0).map_or(full, |last| (last + 1).max(full));
        (full, self.words[full..used].into())
    }
}

/// One operation taken, and how to take it otherwise.
struct Taking<S> {
    number: usize,
    before: S,
    /// Which of the model's answers was taken.
    choice: usize,
    /// It is a read that told nothing new: nothing is gained by taking it later.
    is_idle: bool,
}

struct Search<'a, M: Model> {
    model: &'a M,
    calls: &'a [Call<M::Op>],
    timeline: Timeline,
    taken: Taken,
    visited: HashSet<(Key, M::State)>,
    path: Vec<Taking<M::State>>,
    /// Operations with a return that are not taken yet.
    owed: usize,
    longest: Vec<usize>,
    stuck: usize,
}

impl<'a, M: Model> Search<'a, M> {
    fn new(model: &'a M, calls: &'a [Call<M::Op>]) -> Self {
        Search {
            model,
            calls,
            timeline: Timeline::new(calls),
            taken: Taken::new(calls),
            visited: HashSet::new(),
            path: Vec::new(),
            owed: calls.iter().filter(|call| call.ret.is_some()).count(),
            longest: Vec::new(),
            stuck: 0,
        }
    }

    fn run(mut self, budget: u64) -> Outcome {
        let mut state = self.model.initial();
        let mut place = self.timeline.next[0];
        let mut first_choice = 0;
        let mut steps = 0;
        while self.owed > 0 {
            let (number, is_return) = self.timeline.what[place];
            if !is_return {
                steps += 1;
                if steps > budget {
                    return Outcome::Exhausted;
                }
                if let Some(after) = self.take(number, &state, first_choice) {
                    state = after;
                    place = self.timeline.next[0];
                } else {
                    place = self.timeline.next[place];
                }
                first_choice = 0;
                continue;
            }
            self.note_stuck(number);
            let Some(undone) = self.go_back() else {
                return Outcome::Violation { longest: self.longest, stuck: self.stuck };
            };
            state = undone.before;
            place = self.timeline.call_of[undone.number];
            first_choice = undone.choice + 1;
        }
        Outcome::Linearizable
    }

    /// Takes the operation in the first way, from `first_choice` on, that leads somewhere new.
    fn take(&mut self, number: usize, state: &M::State, first_choice: usize) -> Option<M::State> {
        let afters = self.model.step(state, &self.calls[number].op);
        if afters.len() <= first_choice {
            return None;
        }
        self.taken.flip(number);
        let key = self.taken.key();
        let is_idle =
            self.model.is_read(&self.calls[number].op) && matches!(&afters[..], [one] if one == state);
        for (choice, after) in afters.into_iter().enumerate().skip(first_choice) {
            if self.visited.insert((key.clone(), after.clone())) {
                self.timeline.take(number);
                self.owed -= usize::from(self.calls[number].ret.is_some());
                self.path.push(Taking { number, before: state.clone(), choice, is_idle });
                return Some(after);
            }
        }
        self.taken.flip(number);
        None
    }

    /// Gives back the operations taken since the last one that can be taken otherwise or later, and that one.
    fn go_back(&mut self) -> Option<Taking<M::State>> {
        loop {
            let undone = self.path.pop()?;
            self.timeline.give_back(undone.number);
            self.taken.flip(undone.number);
            self.owed += usize::from(self.calls[undone.number].ret.is_some());
            if !undone.is_idle {
                return Some(undone);
            }
        }
    }

    /// A return that cannot be passed: remembers the longest way to one.
    fn note_stuck(&mut self, number: usize) {
        if number != usize::MAX && (self.longest.is_empty() || self.path.len() > self.longest.len()) {
            self.longest = self.path.iter().map(|taking| taking.number).collect();
            self.stuck = number;
        }
    }
}

#[cfg(test)]
#[path = "wgl_tests.rs"]
pub(crate) mod tests;
