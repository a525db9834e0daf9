//! What it takes to turn an entry into bytes and back: with one command, with as many as a full entry carries, and with
//! the largest parameters.

mod common;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use orloj_model::Batch;
use orloj_model::command::Command;
use orloj_raft_store::codec::{Schema, decode, encode};

use common::{World, grant, report, spec, submission, submit};

/// Commands of a full entry.
const FULL: u64 = 512;
/// The largest parameters of a task, but for what stands around the text.
const LARGEST: usize = 128 * 1024 - 64;

/// The entries that are measured, each with its name and how many commands it carries.
fn entries() -> Vec<(&'static str, u64, Batch)> {
    let mut world = World::ready();
    let mut of = |count: u64, command: &dyn Fn(&mut World) -> Command| {
        let changes = (0..count).map(|_| command(&mut world)).collect();
        world.batch(changes)
    };
    vec![
        ("submit", 1, of(1, &|world| submit(world.fresh_task()))),
        ("submit", FULL, of(FULL, &|world| submit(world.fresh_task()))),
        ("grant", FULL, of(FULL, &|world| grant(world.fresh_task()))),
        ("report", FULL, of(FULL, &|world| report(world.fresh_task(), 7))),
        ("submit_128_kib", 1, of(1, &|world| submission(world.fresh_task(), spec(LARGEST)))),
    ]
}

fn codec(c: &mut Criterion) {
    for (name, count, batch) in entries() {
        let bytes = encode(Schema::Batch, &batch).expect("an entry is within its bounds");
        let mut group = c.benchmark_group("codec");
        group.throughput(Throughput::ElementsAndBytes { elements: count, bytes: bytes.len() as u64 });
        group.bench_function(BenchmarkId::new(format!("encode/{name}"), count), |b| {
            b.iter(|| encode(Schema::Batch, black_box(&batch)));
        });
        group.bench_function(BenchmarkId::new(format!("decode/{name}"), count), |b| {
            b.iter(|| decode::<Batch>(Schema::Batch, black_box(&bytes)));
        });
        group.finish();
    }
}

criterion_group!(benches, codec);
criterion_main!(benches);
