//! The ring, placement in batches of fifty thousand, and the waiting room.

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use orloj_model::executor::Registration;
use orloj_model::id::{ExecutorId, TaskId};
use orloj_model::key::ShardKey;
use orloj_model::task::Strategy;
use orloj_scheduler::placement::{ClassId, ExecutorSet, Fleet, Wanted};
use orloj_scheduler::ring::{KeyHash, LoadFactor, Ring, RingMember, WeightClass};
use orloj_scheduler::waiting::{Answer, Waiting, WaitingRoom};

const BATCH: u32 = 50_000;
const FLEETS: [u32; 3] = [10, 100, 1000];
const AVOID: &ExecutorSet = &ExecutorSet::new();

fn ring(c: &mut Criterion) {
    let mut group = c.benchmark_group("ring");
    group.sample_size(20);
    for count in FLEETS {
        let ids: Vec<_> = (0..count).map(|n| format!("executor-{n}")).collect();
        let class = WeightClass::new(100, LoadFactor::Full);
        let members: Vec<_> = ids.iter().map(|id| RingMember { id, class }).collect();
        group.bench_function(BenchmarkId::new("build", count), |b| b.iter(|| Ring::build(&members)));
        let ring = Ring::build(&members);
        let keys: Vec<_> = (0..1024).map(|n| format!("daily-report-{n}")).collect();
        group.bench_function(BenchmarkId::new("lookup", count), |b| {
            let mut keys = keys.iter().cycle();
            b.iter(|| keys.next().and_then(|key| ring.find(KeyHash::of(key), |_| true)));
        });
    }
    group.finish();
}

/// Executors with room for the whole batch, or for a fifth of it.
fn fleet(count: u32, room: u32) -> Fleet {
    let mut fleet = Fleet::new();
    for n in 0..count {
        fleet.register(&Registration {
            id: ExecutorId::new(format!("executor-{n}")).expect("a valid name"),
            incarnation: 1,
            address: "127.0.0.1:1".into(),
            handlers: vec!["report".into(), "mail".into()],
            slots: room / count,
            queue: 0,
            weight: 100,
            zone: Some(format!("zone-{}", n % 3)),
            labels: BTreeMap::new(),
            version: String::new(),
        });
    }
    fleet
}

/// Places a batch over a thousand keys; returns how many found a place.
fn place(fleet: &mut Fleet, strategy: &Strategy, keys: &[String], zone: Option<&str>) -> u32 {
    let class = fleet.class("report", &BTreeMap::new(), strategy);
    let attempts = (0..BATCH).zip(keys.iter().cycle());
    attempts
        .filter(|(n, key)| {
            let wanted = Wanted {
                class,
                strategy,
                key: KeyHash::of(key),
                zone,
                avoid: AVOID,
                may_queue: false,
                number: u64::from(*n),
            };
            fleet.take(&wanted).is_ok()
        })
        .count() as u32
}

fn placement(c: &mut Criterion) {
    let mut group = c.benchmark_group("placement/50000");
    group.throughput(Throughput::Elements(u64::from(BATCH))).sample_size(10);
    let keys: Vec<_> = (0..1000).map(|n| format!("job-{n}")).collect();
    for count in FLEETS {
        let mut bench = |name: &str, room: u32, strategy: Strategy, zone: Option<&str>| {
            group.bench_function(BenchmarkId::new(name, count), |b| {
                let ready = || {
                    let mut fleet = fleet(count, room);
                    // The first choice builds the ring, which a batch does not pay for.
                    place_one(&mut fleet);
                    fleet
                };
                b.iter_batched_ref(
                    ready,
                    |fleet| black_box(place(fleet, &strategy, &keys, zone)),
                    BatchSize::PerIteration,
                );
            });
        };
        bench("ring", 2 * BATCH, Strategy::Ring, None);
        bench("ring_until_full", BATCH, Strategy::Ring, None);
        bench("ring_in_a_full_zone", 2 * BATCH, Strategy::Ring, Some("zone-1"));
        bench("ring_with_room_for_a_fifth", BATCH / 5, Strategy::Ring, None);
        bench("round_robin", 2 * BATCH, Strategy::RoundRobin, None);
        bench("least_loaded", 2 * BATCH, Strategy::LeastLoaded, None);
    }
    group.finish();
}

fn place_one(fleet: &mut Fleet) {
    let class = fleet.class("report", &BTreeMap::new(), &Strategy::Ring);
    let strategy = &Strategy::Ring;
    let key = KeyHash::of("first");
    let wanted = Wanted { class, strategy, key, zone: None, avoid: AVOID, may_queue: false, number: 0 };
    if let Ok(idx) = fleet.take(&wanted) {
        fleet.give_back(idx);
    }
}

fn crowd(classes: &[ClassId]) -> impl Iterator<Item = Waiting> + '_ {
    (0..BATCH).zip(classes.iter().cycle()).map(|(n, class)| {
        let mut task = [0; 16];
        task[..4].copy_from_slice(&n.wrapping_mul(0x9e37_79b9).to_le_bytes());
        let shard = ShardKey { task: TaskId(task), shard: 0 };
        Waiting { shard, class: *class, priority: (n % 10) as u8, since: i64::from(n) }
    })
}

fn waiting(c: &mut Criterion) {
    let mut group = c.benchmark_group("waiting/50000");
    group.throughput(Throughput::Elements(u64::from(BATCH))).sample_size(10);
    let mut fleet = fleet(10, BATCH);
    let strategy = Strategy::Ring;
    let classes: Vec<_> =
        (0..20).map(|n| fleet.class(&format!("handler-{n}"), &BTreeMap::new(), &strategy)).collect();
    let full = || {
        let mut room = WaitingRoom::new();
        crowd(&classes).for_each(|one| room.insert(one));
        room
    };
    group.bench_function("insert", |b| b.iter_with_large_drop(full));
    group.bench_function("take_all", |b| {
        b.iter_batched_ref(full, |room| room.offer(usize::MAX, |_| Answer::Taken), BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group!(benches, ring, placement, waiting);
criterion_main!(benches);
