//! R5: an identity belongs to one set of data.

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use crate::event::{Event, Probe, What};
use crate::history::History;
use crate::verdict::Judgement;

/// R5. An id belongs to one birth of a data directory: a replica whose data was wiped never comes back under the id
/// that it had, since it has forgotten what it promised under it. And data whose place in the cluster newer data of
/// its host has taken, and that turns up again, is no member any more: it does not lead, votes for nobody else, and
/// is sent no entries.
///
/// How often such data was seen is a figure; whether that is enough is the coverage checker's business.
pub fn one_place(history: &History, _: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("R5");
    let mut ids: BTreeMap<u64, BTreeMap<&str, u64>> = BTreeMap::new();
    let mut hosts: BTreeMap<&str, Host<'_>> = BTreeMap::new();
    for event in history.events() {
        let What::Probe(probe) = &event.what else { continue };
        if probe.birth.is_empty() {
            continue;
        }
        if probe.id > 0 {
            one_birth(&mut word, ids.entry(probe.id).or_default(), event, probe);
        }
        hosts.entry(event.node.as_deref().unwrap_or_default()).or_default().take(&mut word, event, probe);
    }
    word.stat("looked_at", ids.len() as f64);
    word.stat("returned", hosts.values().map(|host| host.returned.len() as f64).sum());
    vec![word]
}

fn one_birth<'a>(
    word: &mut Judgement,
    births: &mut BTreeMap<&'a str, u64>,
    event: &'a Event,
    probe: &'a Probe,
) {
    let known = births.iter().next().map(|(birth, event)| (*birth, *event));
    if births.contains_key(probe.birth.as_str()) {
        return;
    }
    if let Some((birth, first)) = known {
        let (id, node) = (probe.id, event.node.as_deref().unwrap_or_default());
        let what = format!("id {id} was that of data {birth}, and {node} has it with data {}", probe.birth);
        word.violated(what, None, &[first, event.i]);
    }
    births.insert(&probe.birth, event.i);
}

/// The data that a host has had.
#[derive(Default)]
struct Host<'a> {
    /// Every birth, counted in the order of first sight.
    births: BTreeMap<&'a str, usize>,
    /// The youngest that has had a vote.
    youngest_voter: usize,
    /// The lives of data that newer data had replaced: the first probe of each.
    returned: BTreeMap<(&'a str, u64), (&'a Event, &'a Probe)>,
    /// Those of which something was told already.
    told: BTreeSet<(&'a str, u64)>,
}

impl<'a> Host<'a> {
    fn take(&mut self, word: &mut Judgement, event: &'a Event, probe: &'a Probe) {
        let next = self.births.len();
        let number = *self.births.entry(&probe.birth).or_insert(next);
        if number >= self.youngest_voter {
            if matches!(probe.role.as_str(), "leader" | "follower") {
                self.youngest_voter = number;
            }
            return;
        }
        let life = (probe.birth.as_str(), probe.life);
        let first = *self.returned.entry(life).or_insert((event, probe));
        if let Some(what) = acts(first.1, probe)
            && self.told.insert(life)
        {
            let node = event.node.as_deref().unwrap_or_default();
            let what = format!("{node} came back with data {} that was replaced, and {what}", probe.birth);
            word.violated(what, None, &[first.0.i, event.i]);
        }
    }
}

/// What replaced data does that only a member may.
fn acts(first: &Probe, now: &Probe) -> Option<String> {
    if let Some(round) = now.serving {
        return Some(format!("serves in round {round}"));
    }
    if now.role == "leader" {
        return Some(format!("leads in term {}", now.term));
    }
    let voted = (now.term, now.vote) != (first.term, first.vote);
    if let Some(vote) = now.vote.filter(|vote| voted && *vote != now.id) {
        return Some(format!("voted for {vote} in term {}", now.term));
    }
    let grown = now.last_log > first.last_log;
    grown.then(|| format!("was sent entries up to {}, and had {}", now.last_log, first.last_log))
}
