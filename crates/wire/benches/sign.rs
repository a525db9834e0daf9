//! What it takes to check the signature of a request: HMAC-SHA256 over ten lines, one of which is the hash of the body.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use orloj_wire::sign::{Label, Parts, Secret};

/// Bodies of a read, of a submission, and of the largest single submission and batch, in bytes.
const BODIES: [usize; 4] = [0, 160, 256 * 1024, 4 * 1024 * 1024];

fn sign(c: &mut Criterion) {
    let mut group = c.benchmark_group("sign");
    let secret = Secret::new("sk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8").expect("it is not blank");
    for size in BODIES {
        let body = vec![b'x'; size];
        let parts = Parts {
            label: Label::Caller,
            audience: "default",
            access_key: "ak_TESTAAAAAAAAAAAAAAAA",
            timestamp: "1800000000",
            nonce: "0123456789abcdef0123456789abcdef",
            method: "POST",
            path: "/openapi/v1/tasks",
            query: "",
            idempotency_key: "order-42",
            body: &body,
        };
        let signature = parts.sign(&secret);
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(BenchmarkId::new("verify", size), |b| {
            b.iter(|| assert!(black_box(&parts).verify(&secret, black_box(&signature))));
        });
    }
    group.finish();
}

criterion_group!(benches, sign);
criterion_main!(benches);
