//! Every client through the program to every server: { new, 2025-11-25, older, HTTP+SSE } ×
//! { new, 2025-11-25, HTTP+SSE, stdio }, by SDKs of other makers. Each believes to talk to a peer of
//! its own kind, and every feature works as it does in `direct`.

use super::fixtures::{
    self, PYTHON, PYTHON_AUTO, TS1, TS2, TS2_AUTO, TS2_JUNE, TS2_MARCH, Target, all_is_ok, http, visit,
    visit_by_rmcp,
};
use super::gateway;
use crate::support::Registry;
use crate::support::gateway::Running;
use crate::support::peers::{self, Listening};

/// The servers of the table, and one that speaks both eras.
const SERVERS: [&str; 5] = ["new", "old", "streams", "child", "both"];

/// What the program carries so far.
const FEATURES: [&str; 4] = ["tools", "progress", "cancel", "list_changed"];

/// The program with all servers; they end with this value.
struct Cells {
    gateway: Running,
    _servers: [Listening; 3],
}

impl Cells {
    async fn start() -> Self {
        let servers = [
            fixtures::server("peer-node", &["server-ts2.mjs"]).await,
            fixtures::server("peer-node", &["server-ts1.mjs"]).await,
            fixtures::server("peer-python", &["server.py"]).await,
        ];
        let [new, old, both] = &servers;
        let child = fixtures::path("server-ts1.mjs");
        let registry = Registry::new()
            .http("new", &new.url("/mcp"))
            .http("old", &old.url("/mcp"))
            .sse("streams", &old.url("/sse"))
            .command("child", &peers::program("peer-node"), &[&child, "stdio"])
            .http("both", &both.url("/mcp"));
        let gateway = gateway(&registry).start().await;
        gateway.offers(&SERVERS.map(|name| format!("{name}__echo")).each_ref().map(String::as_str)).await;
        Self { gateway, _servers: servers }
    }

    /// Each server alone, at `path` and its name.
    fn each(&self, path: &str, target: impl Fn(&str, &str) -> Target) -> Vec<Target> {
        SERVERS.iter().map(|name| target(name, &self.gateway.url(&format!("{path}/{name}")))).collect()
    }

    /// All of them at one endpoint, told apart by their names.
    fn merged(&self) -> Vec<Target> {
        let target = |name: &&str| {
            let (name, mut target) = http(name, &self.gateway.url("/mcp"));
            target["prefix"] = format!("{name}__").into();
            target["owner"] = name.as_str().into();
            (name, target)
        };
        SERVERS.iter().map(target).collect()
    }
}

#[tokio::test]
async fn new_clients() {
    let cells = Cells::start().await;
    all_is_ok(&[
        visit(&[TS2_AUTO, PYTHON_AUTO], &cells.each("/mcp", http), &FEATURES).await,
        visit_by_rmcp("2026-07-28", &cells.each("/mcp", http), &FEATURES).await,
    ]);
}

#[tokio::test]
async fn old_clients() {
    let cells = Cells::start().await;
    all_is_ok(&[
        visit(&[TS1, TS2, PYTHON], &cells.each("/mcp", http), &FEATURES).await,
        visit_by_rmcp("2025-11-25", &cells.each("/mcp", http), &FEATURES).await,
    ]);
}

#[tokio::test]
async fn older_clients() {
    let cells = Cells::start().await;
    all_is_ok(&[
        visit(&[TS2_MARCH, TS2_JUNE], &cells.each("/mcp", http), &FEATURES).await,
        visit_by_rmcp("2025-06-18", &cells.each("/mcp", http), &FEATURES).await,
    ]);
}

#[tokio::test]
async fn clients_of_all_servers_at_once() {
    let cells = Cells::start().await;
    all_is_ok(&[visit(&[TS1, PYTHON_AUTO], &cells.merged(), &FEATURES).await]);
}
