//! What applied entries changed, on its way to those who follow it: in parts of bounded size, so many of which are kept
//! for a reader that is slow. How much that can come to follows from the two, whatever the entries hold.

use orloj_model::Event;

/// Parts that a slow reader may lag behind; then it is told that it missed some.
pub(crate) const PARTS_KEPT: usize = 4_096;
/// The most that a part takes in memory, in bytes, unless it is a single event.
const PART_BYTES: usize = 16 << 10;
const _: () = assert!(PARTS_KEPT * PART_BYTES <= 64 << 20, "what a slow reader may cost");

/// What an applied entry changed. Of a long one it is told in several parts, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedEvents {
    /// The index of the entry.
    pub index: u64,
    /// What changed, in order. Empty: anything may have, see [`read_again`](AppliedEvents::read_again).
    pub events: Vec<Event>,
}

impl AppliedEvents {
    /// Whether a snapshot took the place of the tables, so that a reader must look at all that it knows again.
    /// An entry that changes nothing is not told of.
    pub fn read_again(&self) -> bool {
        self.events.is_empty()
    }

    /// The same in parts.
    pub(crate) fn parts(self) -> Vec<AppliedEvents> {
        if self.events.iter().map(Event::bytes).sum::<usize>() <= PART_BYTES {
            return vec![self];
        }
        let index = self.index;
        let (mut parts, mut part, mut bytes) = (Vec::new(), Vec::new(), 0);
        for event in self.events {
            let more = event.bytes();
            if bytes + more > PART_BYTES && !part.is_empty() {
                parts.push(AppliedEvents { index, events: std::mem::take(&mut part) });
                bytes = 0;
            }
            bytes += more;
            part.push(event);
        }
        parts.push(AppliedEvents { index, events: part });
        parts
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use orloj_model::id::TaskId;
    use orloj_model::task::{Status, TaskSpec};

    use super::*;
    use crate::tests::spec;

    fn submitted(number: u8, params: usize) -> Event {
        let spec = Arc::new(TaskSpec { params: vec![0; params], ..spec() });
        Event::Submitted { task: TaskId([number; 16]), due_at: 0, spec }
    }

    fn changed(version: u64) -> Event {
        Event::TaskChanged { task: TaskId([1; 16]), version, status: Status::Pending }
    }

    #[test]
    fn a_long_entry_is_told_in_parts_that_are_small_and_in_order() {
        let events: Vec<Event> = (0..1_024).flat_map(|n| [submitted(n as u8, 4_096), changed(n)]).collect();
        let parts = AppliedEvents { index: 7, events: events.clone() }.parts();
        assert!(parts.len() > 100);
        for part in &parts {
            assert_eq!((part.index, part.read_again()), (7, false));
            assert!(part.events.iter().map(Event::bytes).sum::<usize>() <= PART_BYTES);
        }
        assert_eq!(parts.into_iter().flat_map(|part| part.events).collect::<Vec<_>>(), events);
    }

    #[test]
    fn a_short_entry_is_told_whole_and_so_is_one_long_event() {
        let short = AppliedEvents { index: 7, events: (0..50).map(changed).collect() };
        assert_eq!(short.clone().parts(), [short]);
        let events = vec![changed(1), submitted(1, PART_BYTES), changed(2)];
        let parts = AppliedEvents { index: 7, events }.parts();
        assert_eq!(parts.iter().map(|part| part.events.len()).collect::<Vec<_>>(), [1, 1, 1]);
        let again = AppliedEvents { index: 7, events: Vec::new() };
        assert_eq!(again.clone().parts(), [again], "there is nothing to look at, but everything");
    }
}
