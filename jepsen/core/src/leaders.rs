//! Who led when, from what the replicas said of themselves.

use std::collections::BTreeMap;

use crate::event::What;
use crate::history::History;

/// One round of one leader, as far as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reign<'a> {
    /// The round.
    pub round: u64,
    /// The replica that served in it.
    pub node: &'a str,
    /// When it was first seen to serve, in ns.
    pub first_ns: u64,
    /// When it was last seen to serve, in ns.
    pub last_ns: u64,
    /// The probe that first showed it.
    pub event: u64,
}

/// The rounds of a run in the order in which they were first seen.
#[derive(Debug, Clone, Default)]
pub struct Leaders<'a> {
    reigns: Vec<Reign<'a>>,
}

impl<'a> Leaders<'a> {
    /// From the probes.
    pub fn of(history: &'a History) -> Leaders<'a> {
        let mut reigns: Vec<Reign<'a>> = Vec::new();
        let mut places: BTreeMap<(u64, &str), usize> = BTreeMap::new();
        for event in history.events() {
            let What::Probe(probe) = &event.what else { continue };
            let (Some(round), Some(node)) = (probe.serving, event.node.as_deref()) else { continue };
            let place = *places.entry((round, node)).or_insert_with(|| {
                let (first_ns, last_ns) = (event.mono_ns, event.mono_ns);
                reigns.push(Reign { round, node, first_ns, last_ns, event: event.i });
                reigns.len() - 1
            });
            reigns[place].last_ns = event.mono_ns;
        }
        Leaders { reigns }
    }

    /// Every round, in the order of first sight.
    pub fn reigns(&self) -> &[Reign<'a>] {
        &self.reigns
    }

    /// How often the leader changed.
    pub fn changes(&self) -> u64 {
        self.reigns.len().saturating_sub(1) as u64
    }

    /// The highest round seen to serve before this instant; 0 for none.
    pub fn round_before(&self, instant: u64) -> u64 {
        let begun = self.reigns.iter().take_while(|reign| reign.first_ns < instant);
        begun.map(|reign| reign.round).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Probe;
    use crate::testing::{at, probe};

    #[test]
    fn rounds_in_the_order_of_first_sight() {
        let serving = |ms, node, round| probe(ms, node, Probe { serving: Some(round), ..Probe::default() });
        let history = History::merge(vec![
            serving(1, "n1", 3),
            probe(2, "n2", Probe::default()),
            serving(3, "n1", 3),
            serving(9, "n2", 4),
        ]);
        let leaders = Leaders::of(&history);
        let found: Vec<_> =
            leaders.reigns().iter().map(|reign| (reign.round, reign.node, reign.last_ns)).collect();
        assert_eq!(found, [(3, "n1", at(3)), (4, "n2", at(9))]);
        assert_eq!((leaders.changes(), leaders.round_before(at(9)), leaders.round_before(0)), (1, 3, 0));
    }
}
