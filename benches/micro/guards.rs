//! Benchmarks of the checks in every call, and of sealing the state that clients get.

use std::hint::black_box;
use std::time::Duration;

use auth::{Principal, Sealer};
use criterion::Criterion;
use upstream::Error;
use upstream::breaker::Breaker;
use upstream::config;

pub fn breaker(c: &mut Criterion) {
    let breaker =
        Breaker::new(config::BreakerConfig { threshold: 5, successes: 1, timeout: Duration::from_secs(30) });
    let good: Result<(), Error> = Ok(());
    c.bench_function("breaker, admit and record", |b| {
        b.iter(|| breaker.judge(breaker.admit(None).expect("it is closed"), black_box(&good)));
    });
}

pub fn sealer(c: &mut Criterion) {
    let (sealer, principal) = (Sealer::random(), Principal::anonymous());
    let state = [b'x'; 200];
    let token = sealer.seal("bench", &principal, &state);
    let mut group = c.benchmark_group("a state of 200 bytes");
    group.bench_function("seal", |b| b.iter(|| sealer.seal("bench", &principal, black_box(&state))));
    group.bench_function("open", |b| b.iter(|| sealer.open("bench", &principal, black_box(&token))));
    group.finish();
}
