//! What every call pays in `protocol` and `wire`, in isolation: `cargo bench --bench micro`.
//!
//! Each measure has a neighbour for scale: the same bytes through `serde_json::Value`, which is what
//! a gateway pays that holds messages as values.
#![allow(missing_docs)] // the macros of criterion

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};
use switchyard::protocol::meta::{self, Sender};
use switchyard::protocol::{Era, Message, Raw, RequestId, Response};
use switchyard::wire::sse;

fn call() -> Bytes {
    let text = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
        "name": "echo", "arguments": {"message": "x".repeat(100)},
        "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"}}}});
    Bytes::from(text.to_string())
}

/// A response whose text has `size` bytes.
fn answer(size: usize) -> Bytes {
    let text = json!({"jsonrpc": "2.0", "id": 7, "result": {
        "content": [{"type": "text", "text": "x".repeat(size)}], "resultType": "complete"}});
    Bytes::from(text.to_string())
}

fn client_message(c: &mut Criterion) {
    let call = call();
    let mut group = c.benchmark_group("client message of 350 bytes");
    group.bench_function("strict parse", |b| b.iter(|| Message::from_client(black_box(&call))));
    group.bench_function("as a value", |b| b.iter(|| serde_json::from_slice::<Value>(black_box(&call))));
    let Ok(Message::Request(request)) = Message::from_client(&call) else { panic!("a request") };
    let (sender, token) = (Sender::gateway(), Raw::of(&7));
    group.bench_function("dress for a modern server", |b| {
        b.iter(|| meta::dress(black_box(request.params.as_ref()), Era::Modern, &sender, Some(&token)));
    });
    group.bench_function("dress for a legacy server", |b| {
        b.iter(|| meta::dress(black_box(request.params.as_ref()), Era::Legacy, &sender, Some(&token)));
    });
    group.finish();
}

fn server_message(c: &mut Criterion) {
    let mut group = c.benchmark_group("answer, parsed and printed with another id");
    for size in [100, 64 * 1024, 1024 * 1024] {
        let answer = answer(size);
        group.throughput(Throughput::Bytes(answer.len() as u64));
        group.bench_with_input(BenchmarkId::new("raw", size), &answer, |b, answer| {
            b.iter(|| {
                let Ok(Message::Response(Response { reply, .. })) = Message::from_server(answer) else {
                    panic!("a response")
                };
                Response { id: Some(RequestId::from_u64(9)), reply }.encode()
            });
        });
        group.bench_with_input(BenchmarkId::new("value", size), &answer, |b, answer| {
            b.iter(|| {
                let mut value: Value = serde_json::from_slice(answer).expect("JSON");
                value["id"] = 9.into();
                value.to_string()
            });
        });
    }
    group.finish();
}

fn event_stream(c: &mut Criterion) {
    let mut group = c.benchmark_group("event stream");
    for size in [100, 64 * 1024] {
        let event = sse::Event::of(answer(size)).encode();
        group.throughput(Throughput::Bytes(event.len() as u64));
        group.bench_with_input(BenchmarkId::new("decode", size), &event, |b, event| {
            b.iter(|| {
                let mut decoder = sse::Decoder::new(16 << 20);
                let mut input = event.clone();
                while let Some(item) = decoder.decode(&mut input) {
                    black_box(item);
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, client_message, server_message, event_stream);
criterion_main!(benches);
