//! Faults that last: what they do to links and disks. Several at once add up, and each goes with its own undo.

use orloj_jepsen_agents::rng::Rng;
use orloj_raft_store::disk::Space;

use crate::disk::Temper;
use crate::net::{Cut, Link};
use crate::place::{Place, REPLICAS};
use crate::plan::Fault;
use crate::world::World;

/// Room below the watermark, and enough for a start, in bytes.
const LITTLE: u64 = 256 << 20;

/// A change of links.
#[derive(Debug, Clone)]
pub(super) struct Links {
    pairs: Vec<(Place, Place)>,
    change: Change,
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Cut(Cut),
    Delay(u64, u64),
    Loss(f64),
    Duplicate(f64),
    Reorder(f64),
}

impl Change {
    fn apply(self, link: &mut Link) {
        match self {
            Change::Cut(cut) => link.cut = Some(cut),
            Change::Delay(low, high) => link.delay_ms = (link.delay_ms.0.max(low), link.delay_ms.1.max(high)),
            Change::Loss(share) => link.loss = link.loss.max(share),
            Change::Duplicate(share) => link.duplicate = link.duplicate.max(share),
            Change::Reorder(share) => link.reorder = link.reorder.max(share),
        }
    }
}

/// A change of a disk.
#[derive(Debug, Clone, Copy)]
pub(super) enum TemperChange {
    Slow(u64, u64),
    Fails,
    Low,
}

/// What a fault does to links, if it does.
pub(super) fn links(rng: &mut Rng, fault: &Fault, nodes: &[usize]) -> Option<Links> {
    let hit = |place: Place| matches!(place, Place::Replica(number) if nodes.contains(&(number - 1)));
    let change = match fault {
        Fault::Isolate(cut) | Fault::OneWayIn(cut) | Fault::OneWayOut(cut) | Fault::Edge(cut) => {
            Change::Cut(*cut)
        }
        Fault::Executors(cut) | Fault::Clients(cut) => Change::Cut(*cut),
        Fault::Delay(low, high) => Change::Delay(*low, *high),
        Fault::Loss(share) => Change::Loss(*share),
        Fault::Duplicate(share) => Change::Duplicate(*share),
        Fault::Reorder(share) => Change::Reorder(*share),
        _ => return None,
    };
    let others: Vec<usize> = (0..REPLICAS).filter(|one| !nodes.contains(one)).collect();
    let edge = rng.pick(&others).map(|one| Place::Replica(one + 1));
    let is_hit = |from: Place, to: Place| match fault {
        Fault::OneWayIn(_) => hit(to),
        Fault::OneWayOut(_) => hit(from),
        Fault::Edge(_) => (hit(from) && Some(to) == edge) || (hit(to) && Some(from) == edge),
        Fault::Executors(_) => is_between(hit, from, to, |place| matches!(place, Place::Executor(_))),
        Fault::Clients(_) => is_between(hit, from, to, |place| matches!(place, Place::Client(_))),
        _ => hit(from) || hit(to),
    };
    let pairs = Place::all().flat_map(|from| Place::all().map(move |to| (from, to)));
    Some(Links { pairs: pairs.filter(|(from, to)| is_hit(*from, *to)).collect(), change })
}

fn is_between(hit: impl Fn(Place) -> bool, from: Place, to: Place, class: impl Fn(Place) -> bool) -> bool {
    (hit(from) && class(to)) || (hit(to) && class(from))
}

/// What a fault does to disks, if it does.
pub(super) fn temper(fault: &Fault) -> Option<TemperChange> {
    match fault {
        Fault::SlowSync(low, high) => Some(TemperChange::Slow(*low, *high)),
        Fault::SyncError => Some(TemperChange::Fails),
        Fault::DiskLow => Some(TemperChange::Low),
        _ => None,
    }
}

/// All that lasts now, by step.
#[derive(Debug, Default)]
pub(super) struct Effects {
    links: Vec<(u64, Links)>,
    tempers: Vec<(u64, Vec<usize>, TemperChange)>,
}

impl Effects {
    pub(super) fn add(
        &mut self,
        step: u64,
        links: Option<Links>,
        temper: Option<TemperChange>,
        nodes: &[usize],
    ) {
        self.links.extend(links.map(|links| (step, links)));
        self.tempers.extend(temper.map(|temper| (step, nodes.to_vec(), temper)));
    }

    pub(super) fn remove(&mut self, step: u64) {
        self.links.retain(|(of, _)| *of != step);
        self.tempers.retain(|(of, ..)| *of != step);
    }

    /// Makes links and disks what all effects together say.
    pub(super) fn apply(&self, world: &World) {
        world.net.change(|from, to, link| {
            *link = Link::default();
            for (_, links) in &self.links {
                if links.pairs.contains(&(from, to)) {
                    links.change.apply(link);
                }
            }
        });
        for (number, machine) in world.machines.iter().enumerate() {
            let mut temper = Temper::default();
            for (_, nodes, change) in &self.tempers {
                if nodes.contains(&number) {
                    change.apply(&mut temper);
                }
            }
            machine.disk().set(temper);
        }
    }
}

impl TemperChange {
    fn apply(self, temper: &mut Temper) {
        match self {
            TemperChange::Slow(low, high) => {
                temper.sync_ms = (temper.sync_ms.0.max(low), temper.sync_ms.1.max(high))
            }
            TemperChange::Fails => temper.fails = true,
            TemperChange::Low => temper.space = Space { free: LITTLE, ..temper.space },
        }
    }
}
