//! The timing wheel against what else there is, each with a million timers spread over the look-ahead window.
//!
//! `tokio_util`'s `DelayQueue` has a granularity of 1 ms and takes delays of up to 2.18 years;
//! `hierarchical_hash_wheel_timer` has no way to cancel but through a map of reference-counted timers, which
//! is the variant measured here, and ticks once per unit. Ours runs at ticks of 10 ms, its default, and 1 ms.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hierarchical_hash_wheel_timer::wheels::cancellable::{CancellableTimerEntry, QuadWheelWithOverflow};
use orloj_scheduler::wheel::{TimerId, Wheel};
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

const TIMERS: u64 = 1_000_000;
const WINDOW_MS: u64 = 300_000;
const TICKS_MS: [u64; 2] = [10, 1];

/// A payload of the size of a shard key.
type Payload = [u64; 3];

/// Deadlines in no order, the same each time.
fn deadlines() -> impl Iterator<Item = u64> + Clone {
    (0..TIMERS).map(|n| 1 + n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % WINDOW_MS)
}

fn wheel(tick_ms: u64) -> (Wheel<Payload>, Vec<TimerId>) {
    let mut wheel = Wheel::new(tick_ms);
    let ids = deadlines().enumerate().map(|(n, at)| wheel.insert(at, [n as u64; 3])).collect();
    (wheel, ids)
}

fn delay_queue() -> (DelayQueue<Payload>, Vec<Key>) {
    let mut queue = DelayQueue::new();
    let delays = deadlines().map(Duration::from_millis).enumerate();
    let keys = delays.map(|(n, delay)| queue.insert([n as u64; 3], delay)).collect();
    (queue, keys)
}

#[derive(Debug)]
struct Timer(u64, #[allow(dead_code, reason = "there for its size alone")] Payload);

impl CancellableTimerEntry for Timer {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.0
    }
}

type HashWheel = QuadWheelWithOverflow<Timer>;

fn hash_wheel() -> HashWheel {
    let mut wheel = HashWheel::new();
    for (n, at) in deadlines().enumerate() {
        let timer = Timer(n as u64, [n as u64; 3]);
        wheel.insert_ref_with_delay(timer.into(), Duration::from_millis(at)).expect("due in the future");
    }
    wheel
}

fn paused_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
}

fn insert(c: &mut Criterion) {
    let mut group = c.benchmark_group("wheel/insert");
    group.throughput(Throughput::Elements(TIMERS)).sample_size(10);
    for tick_ms in TICKS_MS {
        group.bench_function(BenchmarkId::new("orloj", tick_ms), |b| {
            b.iter_with_large_drop(|| wheel(tick_ms))
        });
    }
    group.bench_function("delay_queue", |b| {
        let runtime = paused_runtime();
        let _inside = runtime.enter();
        b.iter_with_large_drop(delay_queue);
    });
    group.bench_function("hash_wheel", |b| b.iter_with_large_drop(hash_wheel));
    group.finish();
}

fn cancel(c: &mut Criterion) {
    let mut group = c.benchmark_group("wheel/cancel");
    group.throughput(Throughput::Elements(TIMERS)).sample_size(10);
    for tick_ms in TICKS_MS {
        group.bench_function(BenchmarkId::new("orloj", tick_ms), |b| {
            let cancel_all = |(mut wheel, ids): (Wheel<Payload>, Vec<TimerId>)| {
                for id in ids {
                    black_box(wheel.cancel(id));
                }
                wheel
            };
            b.iter_batched(|| wheel(tick_ms), cancel_all, BatchSize::PerIteration);
        });
    }
    group.bench_function("delay_queue", |b| {
        let runtime = paused_runtime();
        let _inside = runtime.enter();
        let cancel_all = |(mut queue, keys): (DelayQueue<Payload>, Vec<Key>)| {
            for key in &keys {
                black_box(queue.remove(key));
            }
            queue
        };
        b.iter_batched(delay_queue, cancel_all, BatchSize::PerIteration);
    });
    group.bench_function("hash_wheel", |b| {
        let cancel_all = |mut wheel: HashWheel| {
            (0..TIMERS).for_each(|id| wheel.cancel(&id).expect("it is in the wheel"));
            wheel
        };
        b.iter_batched(hash_wheel, cancel_all, BatchSize::PerIteration);
    });
    group.finish();
}

fn expire(c: &mut Criterion) {
    let mut group = c.benchmark_group("wheel/expire");
    group.throughput(Throughput::Elements(TIMERS)).sample_size(10);
    for tick_ms in TICKS_MS {
        group.bench_function(BenchmarkId::new("orloj", tick_ms), |b| {
            b.iter_batched(
                || wheel(tick_ms).0,
                |wheel| expire_wheel(wheel, tick_ms),
                BatchSize::PerIteration,
            );
        });
    }
    group.bench_function("delay_queue", |b| {
        b.iter_batched(
            || {
                let runtime = paused_runtime();
                let queue = runtime.block_on(async { delay_queue().0 });
                (runtime, queue)
            },
            |(runtime, queue)| runtime.block_on(expire_delay_queue(queue)),
            BatchSize::PerIteration,
        );
    });
    group.bench_function("hash_wheel", |b| {
        let expire_all = |mut wheel: HashWheel| {
            let due: usize = (0..=WINDOW_MS).map(|_| wheel.tick().len()).sum();
            assert_eq!(due as u64, TIMERS);
            wheel
        };
        b.iter_batched(hash_wheel, expire_all, BatchSize::PerIteration);
    });
    group.finish();
}

/// Lets the whole window pass, one wake per tick.
fn expire_wheel(mut wheel: Wheel<Payload>, tick_ms: u64) -> Wheel<Payload> {
    let (mut out, mut due) = (Vec::new(), 0);
    for now in (0..=WINDOW_MS).step_by(tick_ms as usize) {
        wheel.advance(now, usize::MAX, &mut out);
        due += out.len() as u64;
        out.clear();
    }
    assert_eq!(due, TIMERS);
    wheel
}

/// Lets the whole window pass, one wake per 10 ms.
async fn expire_delay_queue(mut queue: DelayQueue<Payload>) -> DelayQueue<Payload> {
    let mut due = 0;
    while due < TIMERS {
        tokio::time::advance(Duration::from_millis(10)).await;
        std::future::poll_fn(|cx| {
            while let std::task::Poll::Ready(Some(_)) = queue.poll_expired(cx) {
                due += 1;
            }
            std::task::Poll::Ready(())
        })
        .await;
    }
    queue
}

/// One timer in, one out, among a million that stay: what a lease costs.
fn churn(c: &mut Criterion) {
    let mut group = c.benchmark_group("wheel/insert_and_cancel_among_a_million");
    group.bench_function("orloj", |b| {
        let (mut wheel, _) = wheel(10);
        let mut at = deadlines().cycle();
        b.iter(|| {
            let id = wheel.insert(at.next().unwrap_or(1), [0; 3]);
            wheel.cancel(black_box(id))
        });
    });
    group.bench_function("delay_queue", |b| {
        let runtime = paused_runtime();
        let _inside = runtime.enter();
        let (mut queue, _) = delay_queue();
        let mut at = deadlines().cycle();
        b.iter(|| {
            let key = queue.insert([0; 3], Duration::from_millis(at.next().unwrap_or(1)));
            queue.remove(black_box(&key))
        });
    });
    group.finish();
}

/// A process that was paused for 30 years with a handful of timers in its wheel.
fn jump(c: &mut Criterion) {
    c.bench_function("wheel/jump_of_30_years", |b| {
        b.iter(|| {
            let mut wheel = Wheel::new(1);
            let mut out = Vec::new();
            for at in [10, 1_000_000, 86_400_000] {
                wheel.insert(at, ());
            }
            wheel.advance(946_080_000_000, usize::MAX, &mut out);
            out
        });
    });
}

criterion_group!(benches, insert, cancel, expire, churn, jump);
criterion_main!(benches);
