//! Event streams, in both directions.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use net::sse::{Decoder, Event};

use crate::messages::answer;

pub fn events(c: &mut Criterion) {
    let mut group = c.benchmark_group("event stream");
    for size in [100, 64 * 1024] {
        let event = Event::of(answer(size));
        let encoded = event.encode();
        group.throughput(Throughput::Bytes(encoded.len() as u64));
        group
            .bench_with_input(BenchmarkId::new("encode", size), &event, |b, event| b.iter(|| event.encode()));
        group.bench_with_input(BenchmarkId::new("decode", size), &encoded, |b, encoded| {
            b.iter(|| {
                let mut decoder = Decoder::new(16 << 20);
                let mut input = encoded.clone();
                while let Some(item) = decoder.decode(&mut input) {
                    black_box(item);
                }
            });
        });
    }
    group.finish();
}
