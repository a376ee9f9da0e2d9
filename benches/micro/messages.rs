//! Messages: the envelope read and written, parameters changed on their way, parameters mirrored.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput};
use json::Raw;
use protocol::headers;
use protocol::meta::{self, Sender};
use protocol::{Era, Message, Request, RequestId, Response};
use serde_json::{Value, json};

fn call() -> Bytes {
    let text = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
        "name": "echo", "arguments": {"message": "x".repeat(100), "region": "eu-west"},
        "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"}}}});
    Bytes::from(text.to_string())
}

fn request() -> Request {
    let Ok(Message::Request(request)) = Message::from_client(&call()) else { panic!("a request") };
    request
}

/// A response whose text has `size` bytes.
pub fn answer(size: usize) -> Bytes {
    let text = json!({"jsonrpc": "2.0", "id": 7, "result": {
        "content": [{"type": "text", "text": "x".repeat(size)}], "resultType": "complete"}});
    Bytes::from(text.to_string())
}

pub fn from_clients(c: &mut Criterion) {
    let (call, request) = (call(), request());
    let mut group = c.benchmark_group("client message of 370 bytes");
    group.bench_function("strict parse", |b| b.iter(|| Message::from_client(black_box(&call))));
    group.bench_function("as a value", |b| b.iter(|| serde_json::from_slice::<Value>(black_box(&call))));
    group.bench_function("encode", |b| b.iter(|| black_box(&request).encode()));
    let (sender, token) = (Sender::gateway(), Raw::of(&7));
    for (name, era) in
        [("dress for a modern server", Era::Modern), ("dress for a legacy server", Era::Legacy)]
    {
        group.bench_function(name, |b| {
            b.iter(|| meta::dress(black_box(request.params.as_ref()), era, &sender, Some(&token)));
        });
    }
    group.finish();
}

pub fn from_servers(c: &mut Criterion) {
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

pub fn edits(c: &mut Criterion) {
    let params = request().params.expect("a call has parameters");
    let name = Raw::of("bench__echo");
    let mut group = c.benchmark_group("parameters of 300 bytes");
    group.bench_function("get a member", |b| b.iter(|| black_box(&params).get("_meta")));
    group.bench_function("replace a member", |b| b.iter(|| black_box(&params).with("name", &name)));
    group.bench_function("add a member", |b| b.iter(|| black_box(&params).with("task", &name)));
    group.finish();
}

/// A tool whose schema asks for one parameter in a header.
pub fn mirrored(c: &mut Criterion) {
    let schema = Raw::of(&json!({"type": "object", "properties": {
        "message": {"type": "string"}, "region": {"type": "string", "x-mcp-header": "Region"}}}));
    let arguments = request().params.and_then(|params| params.get("arguments"));
    let mirrored = headers::header_params(Some(&schema)).expect("a sound schema");
    let mut group = c.benchmark_group("mirrored headers");
    group
        .bench_function("found in a schema", |b| b.iter(|| headers::header_params(black_box(Some(&schema)))));
    group.bench_function("value of a call", |b| {
        b.iter(|| {
            let value =
                mirrored[0].value_in(black_box(arguments.as_ref().map(Raw::as_part))).expect("it is there");
            headers::encode(&value).len()
        });
    });
    group.finish();
}
