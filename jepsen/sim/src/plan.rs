//! Plans: what a seed means, expanded before anything runs.
//!
//! Every seed draws its own small set of faults and its own sizes, so that faults meet each other in many
//! combinations and none is drowned by the others.

use orloj_jepsen_agents::mock::Vices;
use orloj_jepsen_agents::rng::Rng;

use crate::nemesis::naming;
use crate::net::Cut;

/// Load without faults at the beginning, in ms.
const WARM_UP_MS: u64 = 1_500;
/// Kinds of faults of one seed, fewest and most.
const KINDS: (u64, u64) = (3, 7);

/// A good clock is at most so wrong, in parts per million.
const GOOD_CLOCK_PPM: i64 = 50;

/// Whom a fault is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The replica that leads.
    Leader,
    /// A replica that follows.
    Follower,
    /// This replica.
    Replica(usize),
    /// The leader and a follower.
    Majority,
    /// Every replica.
    All,
    /// This executor.
    Executor(usize),
}

/// What is done.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The process is killed; started again at the undo.
    Kill,
    /// The power fails; it comes back at the undo.
    Power,
    /// One follower stands still while the leader and the other go on; the other loses power, the leader stands
    /// still, the first goes on and the other comes back. From one of these to the next, in ms.
    Amnesiac(u64),
    /// The process stands still.
    Pause,
    /// Cut off in both directions.
    Isolate(Cut),
    /// Hears nothing.
    OneWayIn(Cut),
    /// Is not heard.
    OneWayOut(Cut),
    /// Cannot talk to one other replica.
    Edge(Cut),
    /// Cannot talk to executors.
    Executors(Cut),
    /// Cannot talk to clients.
    Clients(Cut),
    /// Every message of the target takes so long, in ms.
    Delay(u64, u64),
    /// Messages of the target need retransmissions.
    Loss(f64),
    /// Requests of the target arrive twice.
    Duplicate(f64),
    /// Messages of the target overtake each other.
    Reorder(f64),
    /// A sync takes so long, in ms.
    SlowSync(u64, u64),
    /// Writes fail.
    SyncError,
    /// The disk has little room.
    DiskLow,
    /// The wall clock jumps, and back at the undo.
    ClockJump(i64),
    /// A snapshot is taken.
    Snapshot,
    /// The leadership is handed to another replica.
    Transfer,
    /// The executor dies; the next life begins at the undo, with its disk or without.
    ExecutorKill {
        /// Without.
        amnesiac: bool,
    },
    /// The executor has vices.
    ExecutorVice(&'static str, Box<Vices>),
}

/// One fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// From 1.
    pub number: u64,
    /// When, in ms from the beginning of the load.
    pub at_ms: u64,
    /// How long it stays, in ms.
    pub for_ms: u64,
    /// Whom it hits.
    pub target: Target,
    /// What it does.
    pub fault: Fault,
}

/// Sizes of the product that a seed chooses, so that rare paths are common.
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes {
    /// A snapshot is due after so many bytes.
    pub snapshot_bytes: u64,
    /// A snapshot is due after so many seconds.
    pub snapshot_s: u64,
    /// Entries that are kept behind a snapshot.
    pub keep_entries: u64,
    /// Changes in one entry.
    pub entry_changes: usize,
    /// Entries under way.
    pub in_flight: usize,
    /// What sits in the wheel, in ms.
    pub window_ms: u64,
    /// Due shards in one tick.
    pub due_per_tick: usize,
    /// How fast the clocks of the replicas run, in parts per million of the world's.
    pub drift_ppm: Vec<i64>,
}

/// Everything that a run needs to know.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// How long the load goes on with faults, in ms.
    pub load_ms: u64,
    /// Operations per second of all clients.
    pub ops_per_s: f64,
    /// Sizes of the product.
    pub sizes: Sizes,
    /// The faults, in the order of their beginning.
    pub steps: Vec<Step>,
}

impl Plan {
    /// What a seed means for a load of this length.
    pub fn expand(seed: u64, load_ms: u64) -> Plan {
        let rng = Rng::new(seed).split("plan");
        let mut sizes = sizes(&mut rng.split("sizes"));
        let ops_per_s = rng.split("load").between(20, 90) as f64;
        let steps = steps(&mut rng.split("steps"), load_ms);
        // With both, the checkers could not tell how far the cluster's time is ahead.
        if steps.iter().any(|step| matches!(step.fault, Fault::ClockJump(_))) {
            sizes.drift_ppm.iter_mut().for_each(|ppm| *ppm %= GOOD_CLOCK_PPM);
        }
        Plan { seed, load_ms, ops_per_s, sizes, steps }
    }

    /// Leaves only the faults of these names, such as `clock.jump`; all of them when none is named.
    pub fn keep(&mut self, names: &[String]) {
        let is_kept = |step: &Step| {
            let (package, name) = naming::name(&step.fault);
            names.iter().any(|kept| kept.split_once('.') == Some((package, name)))
        };
        if !names.is_empty() {
            self.steps.retain(is_kept);
        }
    }
}

fn sizes(rng: &mut Rng) -> Sizes {
    let often = rng.chance(0.6);
    let pick = |rng: &mut Rng, among: &[u64]| rng.pick(among).copied().unwrap_or(1);
    Sizes {
        snapshot_bytes: if often { rng.between(8 << 10, 128 << 10) } else { 1 << 30 },
        snapshot_s: if often { rng.between(2, 10) } else { 600 },
        keep_entries: if often { rng.between(10, 300) } else { 200_000 },
        entry_changes: pick(rng, &[1, 4, 64, 512]) as usize,
        in_flight: pick(rng, &[1, 2, 8, 32]) as usize,
        window_ms: pick(rng, &[1_000, 3_000, 300_000]),
        due_per_tick: pick(rng, &[2, 16, 512]) as usize,
        drift_ppm: (0..crate::place::REPLICAS).map(|_| drift(rng)).collect(),
    }
}

/// Most clocks are good, some run away by up to one percent.
fn drift(rng: &mut Rng) -> i64 {
    let most = if rng.chance(0.2) { 10_000 } else { GOOD_CLOCK_PPM };
    rng.between(0, 2 * most.unsigned_abs()) as i64 - most
}

fn steps(rng: &mut Rng, load_ms: u64) -> Vec<Step> {
    let kinds: Vec<usize> = {
        let count = rng.between(KINDS.0, KINDS.1);
        (0..count).map(|_| rng.weighted(&WEIGHTS)).collect()
    };
    let mean = rng.between(500, 2_500);
    let mut at_ms = WARM_UP_MS;
    let mut steps = Vec::new();
    loop {
        at_ms += 200 + rng.exponential(mean);
        if at_ms >= load_ms {
            return steps;
        }
        let kind = rng.pick(&kinds).copied().unwrap_or(0);
        let (target, fault) = draw(rng, kind);
        let for_ms = length(rng, &fault);
        let number = steps.len() as u64 + 1;
        steps.push(Step { number, at_ms, for_ms, target, fault });
    }
}

/// From a fraction of an election's timeout to several of them.
fn length(rng: &mut Rng, fault: &Fault) -> u64 {
    match fault {
        Fault::Amnesiac(beat_ms) => 5 * beat_ms,
        Fault::Snapshot | Fault::Transfer => 100,
        _ => match rng.below(4) {
            0 => rng.between(50, 400),
            1 | 2 => rng.between(400, 2_500),
            _ => rng.between(2_500, 6_000),
        },
    }
}

/// How often each kind is drawn; the order is that of [`draw`].
const WEIGHTS: [u32; 22] = [12, 12, 3, 10, 10, 5, 5, 6, 4, 2, 5, 5, 4, 5, 6, 3, 3, 10, 4, 4, 8, 12];

fn draw(rng: &mut Rng, kind: usize) -> (Target, Fault) {
    let cut = if rng.chance(0.5) { Cut::Lose } else { Cut::Hold };
    let fault = match kind {
        0 => Fault::Kill,
        1 => Fault::Power,
        2 => return (Target::All, Fault::Amnesiac(rng.between(300, 1_500))),
        3 => Fault::Pause,
        4 => Fault::Isolate(cut),
        5 => Fault::OneWayIn(cut),
        6 => Fault::OneWayOut(cut),
        7 => Fault::Edge(cut),
        8 => Fault::Executors(cut),
        9 => Fault::Clients(cut),
        10 => {
            let low = rng.between(5, 200);
            Fault::Delay(low, low + rng.between(0, 300))
        }
        11 => Fault::Loss(rng.between(2, 40) as f64 / 100.0),
        12 => Fault::Duplicate(rng.between(5, 60) as f64 / 100.0),
        13 => Fault::Reorder(rng.between(5, 60) as f64 / 100.0),
        14 => {
            let low = rng.between(10, 300);
            Fault::SlowSync(low, low + rng.between(0, 1_000))
        }
        15 => Fault::SyncError,
        16 => Fault::DiskLow,
        17 => Fault::ClockJump(jump(rng)),
        18 => Fault::Snapshot,
        19 => return (Target::Leader, Fault::Transfer),
        20 => return (executor(rng), Fault::ExecutorKill { amnesiac: rng.chance(0.3) }),
        _ => return (executor(rng), vice(rng)),
    };
    (replicas(rng, &fault), fault)
}

fn executor(rng: &mut Rng) -> Target {
    Target::Executor(rng.between(1, crate::place::EXECUTORS as u64) as usize)
}

fn replicas(rng: &mut Rng, fault: &Fault) -> Target {
    let several = !matches!(fault, Fault::Transfer | Fault::SyncError);
    match rng.below(10) {
        0..=4 => Target::Leader,
        5 | 6 => Target::Follower,
        8 if several => Target::Majority,
        9 if several => Target::All,
        _ => Target::Replica(rng.between(1, crate::place::REPLICAS as u64) as usize),
    }
}

/// From 10 ms to hours forward and days back, each size as likely as the others. Not a day forward: by the
/// cluster's time, which follows, an Idempotency-Key is forgotten then, as it is promised.
fn jump(rng: &mut Rng) -> i64 {
    const SIZES: [u64; 6] = [10, 100, 1_000, 30_000, 1_000_000, 172_800_000];
    let back = rng.chance(0.5);
    let sizes = if back { &SIZES[..] } else { &SIZES[..5] };
    let size = rng.pick(sizes).copied().unwrap_or(10);
    let by = rng.between(size, 5 * size) as i64;
    if back { -by } else { by }
}

fn vice(rng: &mut Rng) -> Fault {
    let clean = Vices::default;
    let share = rng.between(20, 100) as f64 / 100.0;
    let ms = rng.between(100, 3_000);
    let (name, vices) = match rng.below(9) {
        0 => ("hang", Vices { hang: share, ..clean() }),
        1 => ("report-twice", Vices { report_twice: share, ..clean() }),
        2 => ("report-late", Vices { report_late: share, report_late_ms: ms, ..clean() }),
        3 => ("report-old-leader", Vices { report_to_former: share, ..clean() }),
        4 => ("error-after-accept", Vices { broken_answer: share, ..clean() }),
        5 => ("no-answer", Vices { no_answer: share, ..clean() }),
        6 => ("slow-answer", Vices { slow_answer: share, slow_answer_ms: ms, ..clean() }),
        7 => ("flap", Vices { flap_ms: Some(ms), ..clean() }),
        _ => ("silent", Vices { mute: true, ..clean() }),
    };
    Fault::ExecutorVice(name, Box::new(vices))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_one_plan_and_every_kind_of_fault_is_drawn() {
        assert_eq!(Plan::expand(7, 20_000), Plan::expand(7, 20_000));
        assert_ne!(Plan::expand(7, 20_000).steps, Plan::expand(8, 20_000).steps);
        let mut kinds = std::collections::HashSet::new();
        for seed in 0..300 {
            let plan = Plan::expand(seed, 20_000);
            assert!(plan.steps.iter().all(|step| step.at_ms >= WARM_UP_MS && step.at_ms < 20_000));
            kinds.extend(plan.steps.iter().map(|step| std::mem::discriminant(&step.fault)));
        }
        assert_eq!(kinds.len(), WEIGHTS.len());
    }
}
