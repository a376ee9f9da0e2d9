//! Every client with every server through the program: { new, 2025-11-25, older, HTTP+SSE } × { new,
//! 2025-11-25, HTTP+SSE, stdio }, with the TypeScript and the Rust SDK. To each of them the other side looks
//! like its own kind, and every feature works as in `direct`. The Python SDK is compared item by item in `tests/compare`.

use serde_json::Value;

use super::fixtures::{
    self, CANCEL, FEATURES, Program, TS1, TS2, TS2_AUTO, TS2_FALLS_BACK, TS2_JUNE, TS2_MARCH, Target,
    all_is_ok, http, sse, stdio, visit, visit_by_rmcp,
};
use super::gateway;
use crate::support::Registry;
use crate::support::gateway::Running;
use crate::support::peers::{self, Listening};

/// The servers of the table.
const SERVERS: [&str; 4] = ["new", "old", "streams", "child"];

/// The program with all servers. Dropping it ends them.
struct Cells {
    gateway: Running,
    _servers: [Listening; 2],
}

/// A server of each era over HTTP, and one as a child process. Dropping the result ends the first
/// two.
async fn three_servers() -> (Registry, [Listening; 2]) {
    let new = fixtures::server("peer-node", &["server-ts2.mjs"]).await;
    let old = fixtures::server("peer-node", &["server-ts1.mjs"]).await;
    let child = fixtures::path("server-ts1.mjs");
    let registry = Registry::new().http("new", &new.url("/mcp")).http("old", &old.url("/mcp")).command(
        "child",
        &peers::program("peer-node"),
        &[&child, "stdio"],
    );
    (registry, [new, old])
}

/// Changes `target` for an endpoint at which the server `name` is one of several.
fn among_others(name: &str, mut target: Value) -> Target {
    target["prefix"] = format!("{name}__").into();
    target["owner"] = name.into();
    (name.to_owned(), target)
}

impl Cells {
    async fn start() -> Self {
        let (registry, [new, old]) = three_servers().await;
        let registry = registry.sse("streams", &old.url("/sse"));
        let gateway = gateway(&registry).start().await;
        gateway.offers(&SERVERS.map(|name| format!("{name}__echo")).each_ref().map(String::as_str)).await;
        Self { gateway, _servers: [new, old] }
    }

    /// One target for each server alone, at `path` and its name.
    fn each(&self, path: &str, target: impl Fn(&str, &str) -> Target) -> Vec<Target> {
        SERVERS.iter().map(|name| target(name, &self.gateway.url(&format!("{path}/{name}")))).collect()
    }

    /// One target for each server at the common endpoint, distinguished by names.
    fn merged(&self) -> Vec<Target> {
        let target = http("", &self.gateway.url("/mcp")).1;
        SERVERS.iter().map(|name| among_others(name, target.clone())).collect()
    }
}

/// Runs the programs, and the Rust SDK that asks for a revision and speaks another one, on every target.
async fn all(programs: &[Program], revision: (&str, &str), targets: &[Target]) {
    all_is_ok(&[
        visit(programs, targets, &FEATURES).await,
        visit_by_rmcp(revision, targets, &FEATURES).await,
        visit(programs, targets, &CANCEL).await,
        visit_by_rmcp(revision, targets, &CANCEL).await,
    ]);
}

#[tokio::test]
async fn new_clients() {
    let cells = Cells::start().await;
    let at = |server: &&str| http(server, &cells.gateway.url(&format!("/mcp/{server}")));
    let [modern, legacy]: [Vec<Target>; 2] =
        [&["new"][..], &["old", "streams", "child"]].map(|names| names.iter().map(at).collect());
    all(&[TS2_AUTO], ("2026-07-28", "2026-07-28"), &modern).await;
    all(&[TS2_FALLS_BACK], ("2026-07-28", "2025-11-25"), &legacy).await;
}

#[tokio::test]
async fn old_clients() {
    let cells = Cells::start().await;
    all(&[TS1, TS2], ("2025-11-25", "2025-11-25"), &cells.each("/mcp", http)).await;
}

#[tokio::test]
async fn older_clients() {
    let cells = Cells::start().await;
    let targets = cells.each("/mcp", http);
    // This revision has no elicitation, even if an SDK supports it.
    let march: Vec<&str> = FEATURES.into_iter().filter(|feature| *feature != "elicitation").collect();
    all_is_ok(&[visit(&[TS2_MARCH], &targets, &march).await]);
    all(&[TS2_JUNE], ("2025-06-18", "2025-06-18"), &targets).await;
    all_is_ok(&[visit(&[TS2_MARCH], &targets, &CANCEL).await]);
}

#[tokio::test]
async fn clients_over_http_and_sse() {
    let cells = Cells::start().await;
    let targets = cells.each("/sse", sse);
    all_is_ok(&[visit(&[TS1, TS2], &targets, &FEATURES).await, visit(&[TS1, TS2], &targets, &CANCEL).await]);
}

#[tokio::test]
async fn clients_of_all_servers_at_once() {
    let cells = Cells::start().await;
    all_is_ok(&[visit(&[TS1, TS2_AUTO], &cells.merged(), &FEATURES).await]);
}

#[tokio::test]
async fn clients_over_stdio() {
    let (registry, _servers) = three_servers().await;
    let gateway = gateway(&registry);
    let config = gateway.folder().join("mcp_servers.yaml");
    let command = [env!("CARGO_BIN_EXE_switchyard"), "stdio", "--config", config.to_str().expect("UTF-8")];
    let target = stdio("", &command.map(str::to_owned)).1;
    let targets = ["new", "old", "child"].map(|name| among_others(name, target.clone()));
    let programs = [TS1, TS2_AUTO];
    all_is_ok(&[visit(&programs, &targets, &FEATURES).await, visit(&programs, &targets, &CANCEL).await]);
}
