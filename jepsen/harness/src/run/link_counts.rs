//! What the network has really done to packets, as the history has it: that a fault was laid over links says nothing
//! of whether any packet met it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use orloj_jepsen_core::event::{LinkCount, Links, What};

use crate::agents::recorder::{Note, Recorder};
use crate::fabric::{Fabric, LinkCounters};
use crate::hosts::ADMIN;

/// Keeps what was told of each link, so that only what has changed is told again.
#[derive(Debug, Default)]
pub struct LinkCounts {
    told: Mutex<BTreeMap<(String, String), LinkCount>>,
}

impl LinkCounts {
    /// Writes down what has happened on the links of the network since it was written down before.
    pub fn record(&self, fabric: &Fabric, recorder: &Recorder) {
        let links = self.changed(fabric.counters());
        if !links.is_empty() {
            let note = Note::event(ADMIN, What::Links(Links { links }));
            recorder.note(Note { node: None, ..note });
        }
    }

    /// The links on which something has happened to a packet since they were told before. That packets went through
    /// is nothing.
    fn changed(&self, counters: Vec<LinkCounters>) -> Vec<LinkCount> {
        // Every change of the list is whole.
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = Vec::new();
        for link in counters.into_iter().map(count) {
            let before = told.entry((link.from.clone(), link.to.clone())).or_default();
            if happened(before) != happened(&link) {
                before.clone_from(&link);
                changed.push(link);
            }
        }
        changed
    }
}

fn happened(link: &LinkCount) -> [u64; 5] {
    [link.dropped, link.duplicated, link.reordered, link.delayed, link.throttled]
}

fn count(link: LinkCounters) -> LinkCount {
    let LinkCounters { from, to, counters } = link;
    LinkCount {
        from,
        to,
        packets: counters.packets,
        dropped: counters.dropped,
        duplicated: counters.duplicated,
        reordered: counters.reordered,
        delayed: counters.delayed,
        throttled: counters.throttled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Counters;

    fn link(to: &str, packets: u64, dropped: u64) -> LinkCounters {
        let counters = Counters { packets, dropped, ..Counters::default() };
        LinkCounters { from: "n1".into(), to: to.into(), counters }
    }

    #[test]
    fn only_links_on_which_something_happened_are_told_and_each_news_once() {
        let counts = LinkCounts::default();
        let changed = |counters| {
            let changed = counts.changed(counters).into_iter();
            changed.map(|link| (link.to, link.packets, link.dropped)).collect::<Vec<_>>()
        };
        assert_eq!(changed(vec![link("n2", 10, 0), link("n3", 10, 2)]), [("n3".to_owned(), 10, 2)]);
        assert!(changed(vec![link("n2", 50, 0), link("n3", 50, 2)]).is_empty());
        assert_eq!(changed(vec![link("n2", 60, 1), link("n3", 60, 2)]), [("n2".to_owned(), 60, 1)]);
    }
}
