//! The fixture servers and client programs among themselves, nothing between them: what fails
//! through the program and not here is the program's. All of them can do everything.

use super::fixtures::{
    CANCEL, FEATURES, TS1, TS2, TS2_AUTO, TS2_JUNE, TS2_MARCH, all_is_ok, http, path, server, sse, stdio,
    visit, visit_by_rmcp,
};
use crate::support::peers;

/// The command line of a fixture server on its standard input and output.
fn command(interpreter: &str, file: &str) -> Vec<String> {
    vec![peers::program(interpreter), path(file), "stdio".to_owned()]
}

#[tokio::test]
async fn the_rust_sdk_and_the_servers_of_its_era() {
    let (old, new) =
        (server("peer-node", &["server-ts1.mjs"]).await, server("peer-node", &["server-ts2.mjs"]).await);
    let [old, new] = [&old, &new].map(|server| [http("http", &server.url("/mcp"))]);
    all_is_ok(&[
        visit_by_rmcp(("2025-06-18", "2025-06-18"), &old, &FEATURES).await,
        visit_by_rmcp(("2025-11-25", "2025-11-25"), &old, &FEATURES).await,
        visit_by_rmcp(("2026-07-28", "2026-07-28"), &new, &FEATURES).await,
        visit_by_rmcp(("2025-11-25", "2025-11-25"), &old, &CANCEL).await,
        visit_by_rmcp(("2026-07-28", "2026-07-28"), &new, &CANCEL).await,
    ]);
}

#[tokio::test]
async fn every_old_client_and_the_old_server() {
    let typescript = server("peer-node", &["server-ts1.mjs"]).await;
    let targets = [
        http("http", &typescript.url("/mcp")),
        sse("sse", &typescript.url("/sse")),
        stdio("stdio", &command("peer-node", "server-ts1.mjs")),
    ];
    all_is_ok(&[
        visit(&[TS1, TS2], &targets, &FEATURES).await,
        visit(&[TS1, TS2], &targets, &CANCEL).await,
        visit(&[TS2_MARCH, TS2_JUNE], &targets[..1], &FEATURES).await,
    ]);
}

#[tokio::test]
async fn every_new_client_and_the_new_server() {
    let typescript = server("peer-node", &["server-ts2.mjs"]).await;
    let targets = [http("http", &typescript.url("/mcp"))];
    all_is_ok(&[visit(&[TS2_AUTO], &targets, &FEATURES).await, visit(&[TS2_AUTO], &targets, &CANCEL).await]);
}
