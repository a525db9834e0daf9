//! What waits is small, shares what it can, and hides nothing else.

use orloj_model::Command;
use orloj_model::id::TaskId;
use orloj_model::task::Origin;

use super::*;
use crate::core::{Now, Step, Tracked};
use crate::options::Options;
use crate::testing;
use crate::waiting::Turn;

const START: Now = Now { mono_ms: 1_000, wall_ms: 1_000_000, cluster_ms: 1_000_000 };
/// As many as wait behind an executor that is away.
const BACKLOG: u32 = 60_000;

/// A leader with one executor of a hundred slots that runs `echo`.
fn leader(max_running: BTreeMap<CallerId, u32>) -> Core {
    let mut core = Core::new(Options { max_running, ..Options::default() }, 7, START);
    core.executor_row(testing::executor_row("a", 1, 100), START);
    core.heartbeat(testing::heartbeat("a", 1, 100), START);
    core.take_steps();
    core
}

fn shard(number: u32) -> ShardKey {
    let mut task = [0; 16];
    task[..4].copy_from_slice(&number.to_be_bytes());
    ShardKey { task: TaskId(task), shard: 0 }
}

fn ready(core: &mut Core, number: u32, spec: &Arc<TaskSpec>) {
    let (spec, since) = (Arc::clone(spec), START.wall_ms + i64::from(number));
    let shard = shard(number);
    core.ready(
        Candidate { shard, attempt: 1, since, ready: true, spec, last: None, broadcast: false },
        START,
    );
}

/// Plans until nothing more is to be planned; what was granted.
fn granted(core: &mut Core) -> Vec<ShardKey> {
    let mut granted = Vec::new();
    loop {
        core.plan(START);
        for step in core.take_steps() {
            let Step::Propose(commands) = step else { panic!("{step:?}") };
            for command in commands {
                let Command::Grant { shard, .. } = command else { panic!("{command:?}") };
                granted.push(shard.into());
            }
        }
        if !core.has_more_to_plan() {
            return granted;
        }
    }
}

fn caller(name: &str) -> CallerId {
    CallerId::new(name).expect("a valid name")
}

#[test]
fn what_is_kept_of_a_shard_that_waits_is_small() {
    assert!(size_of::<Tracked>() <= 16, "there is one for each shard in hand");
    assert!(size_of::<(ShardKey, Tracked)>() <= 40);
    assert!(size_of::<Waiter>() <= 48);
    // A hash table is 7/16 full at least, a node of an ordered one has 11 places of which 6 are taken, and one in seven
    // such nodes stands above others; a list that grows has room for twice as many.
    let tracked = (size_of::<(ShardKey, Tracked)>() + 1) * 16 / 7;
    let node = |entry: usize| (11 * entry + 24) / 6 * 8 / 7;
    let room = node(size_of::<Turn>()) + node(size_of::<(Millis, usize)>());
    let unready = 2 * size_of::<(ShardKey, u64)>() * 5 / 4;
    let worst = tracked + size_of::<Waiter>() + room + unready;
    assert!(worst <= 350, "{worst} bytes: the documents say 350");
}

#[test]
fn a_backlog_of_a_handler_that_nobody_offers_hides_nothing_and_keeps_no_parameters() {
    let mut core = leader(BTreeMap::new());
    let params = vec![b' '; 128 << 10];
    let nowhere = TaskSpec { handler: "nobody-has-it".into(), priority: 9, params, ..testing::spec() };
    let nowhere = Arc::new(nowhere);
    for number in 0..BACKLOG {
        ready(&mut core, number, &nowhere);
    }
    assert_eq!(granted(&mut core), []);
    ready(&mut core, BACKLOG, &Arc::new(TaskSpec { priority: 0, ..testing::spec() }));
    assert_eq!(granted(&mut core), [shard(BACKLOG)], "the least important one, which came last");
    assert_eq!(core.counts().waiting, BACKLOG as usize);
    assert_eq!(Arc::strong_count(&nowhere), 1, "nothing holds what was submitted");
    assert_eq!(core.shared.demands.len(), 2, "and what is asked for is there once");
}

#[test]
fn a_backlog_of_a_caller_at_its_limit_hides_nothing() {
    let mut core = leader(BTreeMap::from([(testing::spec().caller, 1)]));
    let limited = Arc::new(TaskSpec { priority: 9, ..testing::spec() });
    for number in 0..BACKLOG {
        ready(&mut core, number, &limited);
    }
    let other = TaskSpec { caller: caller("d"), priority: 0, ..testing::spec() };
    ready(&mut core, BACKLOG, &Arc::new(other));
    assert_eq!(granted(&mut core), [shard(0), shard(BACKLOG)]);
    assert_eq!(core.counts().waiting, BACKLOG as usize - 1);
}

#[test]
fn tasks_that_ask_for_the_same_share_it_and_others_do_not() {
    let mut shared = Shared::default();
    let plain = shared.demand(&testing::spec(), false);
    let alike = TaskSpec {
        params: b"[1]".to_vec(),
        routing_key: Some("r".into()),
        origin: Origin::RetryOf(TaskId([1; 16])),
        ..testing::spec()
    };
    assert!(Arc::ptr_eq(&plain, &shared.demand(&alike, false)));
    let fire = |job: &str| Origin::Fire { job: job.into(), scheduled_at: 1 };
    let others = [
        TaskSpec { handler: "h".into(), ..testing::spec() },
        TaskSpec { caller: caller("d"), ..testing::spec() },
        TaskSpec { origin: fire("i"), ..testing::spec() },
        TaskSpec { origin: fire("j"), ..testing::spec() },
        TaskSpec { priority: 6, ..testing::spec() },
        TaskSpec { labels: BTreeMap::from([("a".into(), "b".into())]), ..testing::spec() },
        TaskSpec { zone: Some("z".into()), ..testing::spec() },
        TaskSpec { strategy: Strategy::Random, ..testing::spec() },
        TaskSpec {
            strategy: Strategy::Pinned(ExecutorId::new("a").expect("a valid name")),
            ..testing::spec()
        },
        TaskSpec { timeout_ms: Some(1), ..testing::spec() },
    ];
    for (known, spec) in (1..).zip(&others) {
        assert_eq!(shared.demands.len(), known);
        let demand = shared.demand(spec, false);
        assert!(demand.is_of(spec, false) && !plain.is_of(spec, false), "{spec:?}");
        assert!(Arc::ptr_eq(&demand, &shared.demand(spec, false)));
    }
    assert!(!Arc::ptr_eq(&plain, &shared.demand(&testing::spec(), true)), "the shard of a broadcast");
}

#[test]
fn what_nobody_asks_for_any_more_is_dropped() {
    let mut shared = Shared::default();
    let kept = shared.demand(&testing::spec(), false);
    for timeout_ms in 1..=3 * KEPT_DEMANDS as u64 {
        shared.demand(&TaskSpec { timeout_ms: Some(timeout_ms), ..testing::spec() }, false);
    }
    assert!(shared.demands.len() <= KEPT_DEMANDS + 1, "{}", shared.demands.len());
    assert!(Arc::ptr_eq(&kept, &shared.demand(&testing::spec(), false)));
}
