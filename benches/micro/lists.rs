//! The catalog: who owns a name, and `tools/list`, merged and served.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion};
use gateway::manager::Trust;
use gateway::manager::catalog::{Catalog, History, Part, Style};
use gateway::manager::config::ToolNames;
use gateway::manager::naming::Rules;
use json::Raw;
use protocol::Version;
use protocol::feature::{Kind, Tool};
use protocol::lifecycle::Peer;
use serde_json::json;
use upstream::Offer;
use upstream::config::Tools;

/// Ten servers that offer `tools` between them.
fn offers(tools: usize) -> Vec<(Arc<str>, Offer)> {
    let peer = Peer {
        version: Version::V2026_07_28,
        info: Raw::empty_object(),
        capabilities: Raw::of(&json!({"tools": {}})),
        instructions: None,
    };
    let tool = |server: usize, number: usize| {
        let definition = json!({"name": format!("tool_{server}_{number}"), "description": "gives the message back",
            "inputSchema": {"type": "object", "properties": {"message": {"type": "string"}}}});
        Tool::from_definition(Raw::of(&definition)).expect("a tool")
    };
    let of_one = |server: usize| {
        let mut offer = Offer::empty(peer.clone());
        offer.tools = (0..tools / 10).map(|number| tool(server, number)).collect();
        (Arc::from(format!("server{server}")), offer)
    };
    (0..10).map(of_one).collect()
}

fn catalog(offers: &[(Arc<str>, Offer)]) -> Catalog {
    let (choice, trust) = (Tools::default(), Trust::default());
    let parts: Vec<Part<'_>> = offers
        .iter()
        .map(|(server, offer)| Part {
            server,
            choice: &choice,
            view: None,
            offer,
            trust: &trust,
            login: None,
            lists_login: false,
        })
        .collect();
    let servers = offers.iter().map(|(server, _)| Arc::clone(server)).collect();
    let rules = Rules { mode: ToolNames::Auto, max_length: 64, servers: &servers, keeps_dots: false };
    Catalog::build(&parts, Style { rules, per_page: 1_000 }, &mut History::default())
}

pub fn lookup(c: &mut Criterion) {
    let mut group = c.benchmark_group("catalog lookup");
    for tools in [10, 1_000, 10_000] {
        let catalog = catalog(&offers(tools));
        group.bench_with_input(BenchmarkId::from_parameter(tools), &catalog, |b, catalog| {
            b.iter(|| black_box(catalog.tool(black_box("tool_7_0"))));
        });
    }
    group.finish();
}

pub fn thousand_tools(c: &mut Criterion) {
    let offers = offers(1_000);
    let catalog_of_all = catalog(&offers);
    let mut group = c.benchmark_group("tools/list of 1,000 tools");
    group.bench_function("built", |b| b.iter(|| catalog(black_box(&offers))));
    group.bench_function("served from its page", |b| {
        b.iter(|| black_box(&catalog_of_all).listing(Kind::Tools).page(None, Version::V2026_07_28));
    });
    group.finish();
}
