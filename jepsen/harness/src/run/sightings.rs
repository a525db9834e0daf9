//! What the probes saw of the replicas last.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orloj_jepsen_core::event::Probe;

use crate::nemesis::resolve::Sighting;
use crate::wait::monotonic;

/// What is older says nothing about now.
const FRESH: Duration = Duration::from_millis(1_500);

/// The last probe of each replica and when it came. One that does not answer has none.
#[derive(Debug, Default)]
pub struct Sightings(Mutex<BTreeMap<&'static str, (Duration, Probe)>>);

impl Sightings {
    /// Takes in what a look at a replica showed.
    pub fn tell(&self, name: &'static str, probe: Option<&Probe>) {
        match probe {
            Some(probe) => drop(self.all().insert(name, (monotonic(), probe.clone()))),
            None => drop(self.all().remove(name)),
        }
    }

    /// Who leads, and how long every log is.
    pub fn now(&self) -> Sighting {
        let now = monotonic();
        let fresh: Vec<(&str, Probe)> = self.fresh(now);
        Sighting { leader: leader(&fresh), last_log: logs(&fresh), ..Sighting::default() }
    }

    /// The present probes, when every one of so many replicas answers.
    pub fn whole(&self, replicas: usize) -> Option<Vec<Probe>> {
        let fresh = self.fresh(monotonic());
        (fresh.len() == replicas).then(|| fresh.into_iter().map(|(_, probe)| probe).collect())
    }

    fn fresh(&self, now: Duration) -> Vec<(&'static str, Probe)> {
        let all = self.all();
        let fresh = all.iter().filter(|(_, (at, _))| now.saturating_sub(*at) <= FRESH);
        fresh.map(|(name, (_, probe))| (*name, probe.clone())).collect()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<&'static str, (Duration, Probe)>> {
        // Every change is one insertion or one removal.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of those that say that they lead the one with the highest term: an old leader that is cut off says so too.
fn leader(probes: &[(&str, Probe)]) -> Option<String> {
    let leading = probes.iter().filter(|(_, probe)| probe.role == "leader" && probe.serving.is_some());
    leading.max_by_key(|(_, probe)| (probe.term, probe.round)).map(|(name, _)| (*name).to_owned())
}

fn logs(probes: &[(&str, Probe)]) -> BTreeMap<String, u64> {
    probes.iter().map(|(name, probe)| ((*name).to_owned(), probe.last_log)).collect()
}

/// Whether all replicas have come to rest: one leads, all have applied all, and nothing runs, waits or is timed.
pub fn at_rest(probes: &[Probe]) -> bool {
    let Some(most) = probes.iter().map(|probe| probe.last_log).max() else { return false };
    let together = probes.iter().all(|probe| probe.applied == most && probe.committed == most);
    let mut leaders = probes.iter().filter(|probe| probe.serving.is_some());
    let idle =
        leaders.next().is_some_and(|leader| leader.running == 0 && leader.waiting == 0 && leader.wheel == 0);
    together && idle && leaders.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(term: u64, leads: bool, log: u64) -> Probe {
        Probe {
            term,
            role: if leads { "leader" } else { "follower" }.into(),
            serving: leads.then_some(term),
            last_log: log,
            committed: log,
            applied: log,
            ..Probe::default()
        }
    }

    #[test]
    fn the_leader_of_the_highest_term_leads() {
        let sightings = Sightings::default();
        assert_eq!(sightings.now().leader, None);
        sightings.tell("n1", Some(&probe(3, true, 9)));
        sightings.tell("n2", Some(&probe(4, true, 8)));
        assert_eq!(sightings.now().leader.as_deref(), Some("n2"));
        sightings.tell("n2", None);
        assert_eq!(sightings.now().leader.as_deref(), Some("n1"));
        assert_eq!(sightings.now().last_log["n1"], 9);
        assert!(sightings.whole(2).is_none() && sightings.whole(1).is_some());
    }

    #[test]
    fn rest_means_that_nothing_is_left_to_do() {
        assert!(at_rest(&[probe(1, true, 5), probe(1, false, 5)]));
        assert!(!at_rest(&[probe(1, true, 5), probe(1, false, 4)]));
        assert!(!at_rest(&[probe(1, false, 5), probe(1, false, 5)]));
        assert!(!at_rest(&[Probe { running: 1, ..probe(1, true, 5) }]));
        assert!(!at_rest(&[Probe { wheel: 1, ..probe(1, true, 5) }]));
        assert!(!at_rest(&[]));
    }
}
