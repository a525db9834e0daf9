//! How often the product goes through the log, counted in a calm world.

use orloj_model::query;

use super::*;
use crate::entropy;
use crate::plan::Sizes;
use crate::time::WALL_START_MS;

/// When the jobs are due, in ms from the beginning: the cluster has booted by then and is at rest.
const DUE_MS: u64 = 20_000;
/// Attempts that all executors together run at a time.
const SLOTS: u64 = 12;

/// A cluster without faults, in which so many jobs are due at one instant.
fn calm(jobs: u64, dir: &Path) -> Run {
    let mut plan = Plan::expand(1, 1_000);
    plan.steps.clear();
    plan.sizes = Sizes {
        snapshot_bytes: 1 << 30,
        snapshot_s: 600,
        keep_entries: 200_000,
        entry_changes: 512,
        in_flight: 8,
        window_ms: 300_000,
        due_per_tick: 512,
        drift_ppm: vec![0; crate::place::REPLICAS],
    };
    let at_ms = WALL_START_MS + DUE_MS as i64;
    let jobs = (0..jobs).map(|number| SimJob::once(number, at_ms, 2_000).unwrap()).collect();
    let mut run = Run::boot(&plan, dir, jobs).unwrap();
    let rest_ms = (DUE_MS - 10).checked_sub(run.world.now_ms).unwrap();
    run.pass_until(rest_ms, |_| false).unwrap();
    run
}

/// The last entry that the leader has applied, and how many attempts are leased.
fn applied(world: &World) -> (u64, usize) {
    let leader = world.machines[world.leader().unwrap()].replica().unwrap();
    let leased = query::running(&leader.store.view(), None, usize::MAX).unwrap();
    (leader.store.status().applied, leased.len())
}

#[test]
fn b100_jobs_of_one_instant_and_the_grants_of_their_tasks_are_one_entry() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    let work = std::thread::spawn(move || {
        entropy::seed(1);
        let mut run = calm(SLOTS, &path);
        let (before, none) = applied(&run.world);
        assert_eq!(none, 0, "nothing is early");
        run.pass_until(1_000, |world| applied(world).0 > before).unwrap();
        assert_eq!(applied(&run.world), (before + 1, SLOTS as usize));
    });
    work.join().unwrap();
}
