//! What had been acknowledged by when: the log indexes that answers carried.

use std::collections::BTreeMap;

use crate::event::{Event, What};
use crate::history::{History, Operation};

/// The highest log index that any answer had carried, by time.
#[derive(Debug, Clone, Default)]
pub struct Acks {
    /// Ends of answers with ever higher indexes, in the order of time: when, the index, the event.
    rising: Vec<(u64, u64, u64)>,
}

impl Acks {
    /// Of the answers to `operations` that `counts` lets through.
    pub fn of(operations: &[Operation<'_>], counts: impl Fn(&Event) -> bool) -> Acks {
        let told = |operation: &Operation<'_>| {
            let end = operation.ok().filter(|end| counts(end))?;
            Some((end.mono_ns, end.meta.applied?, end.i))
        };
        let mut ends: Vec<_> = operations.iter().filter_map(told).collect();
        ends.sort_unstable();
        let mut acks = Acks::default();
        for end in ends {
            if acks.rising.last().is_none_or(|last| last.1 < end.1) {
                acks.rising.push(end);
            }
        }
        acks
    }

    /// The highest index of an answer that had arrived before `mono_ns`, and the event of that answer.
    pub fn before(&self, mono_ns: u64) -> Option<(u64, u64)> {
        let count = self.rising.partition_point(|(end, ..)| *end < mono_ns);
        self.rising[..count].last().map(|(_, index, event)| (*index, *event))
    }

    /// The highest index of all, and the event of its answer.
    pub fn highest(&self) -> Option<(u64, u64)> {
        self.before(u64::MAX)
    }
}

/// Whether an operation changes something.
pub fn is_write(event: &Event) -> bool {
    matches!(event.what, What::Submit(_) | What::Cancel(_))
}

/// Where each replica's last word of itself is: host, and the event of its last probe.
pub fn probed_nodes(history: &History) -> BTreeMap<&str, &Event> {
    history
        .events()
        .iter()
        .filter(|event| matches!(event.what, What::Probe(_)))
        .filter_map(|event| Some((event.node.as_deref()?, event)))
        .collect()
}
