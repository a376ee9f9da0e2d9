//! The fixture servers and client programs among themselves, nothing between them: what fails
//! through the program and not here is the program's.

use super::fixtures::{
    Outcomes, PYTHON, PYTHON_AUTO, Program, TS1, TS2, TS2_AUTO, TS2_JUNE, TS2_MARCH, Target, http, judge,
    nothing_is, path, server, sse, stdio, visit,
};
use super::rmcp_client;
use crate::support::peers;

async fn with(programs: &[Program], targets: &[Target]) {
    let mut wrong = Vec::new();
    for program in programs {
        visit(*program, targets, &mut wrong).await;
    }
    nothing_is(&wrong);
}

/// The command line of a fixture server on its standard input and output.
fn command(interpreter: &str, file: &str) -> Vec<String> {
    vec![peers::program(interpreter), path(file), "stdio".to_owned()]
}

#[tokio::test]
async fn the_rust_sdk_and_the_servers_of_its_era() {
    let (old, new) =
        (server("peer-node", &["server-ts1.mjs"]).await, server("peer-node", &["server-ts2.mjs"]).await);
    let both = server("peer-python", &["server.py"]).await;
    let mut wrong = Vec::new();
    for (url, revision) in [
        (old.url("/mcp"), "2025-11-25"),
        (old.url("/mcp"), "2025-06-18"),
        (both.url("/mcp"), "2025-11-25"),
        (both.url("/mcp"), "2026-07-28"),
        (new.url("/mcp"), "2026-07-28"),
    ] {
        let outcomes = Outcomes::from([(url.clone(), rmcp_client::outcome(&url, revision).await)]);
        judge("rmcp", revision, &outcomes, &mut wrong);
    }
    nothing_is(&wrong);
}

#[tokio::test]
async fn every_old_client_and_the_old_server() {
    let typescript = server("peer-node", &["server-ts1.mjs"]).await;
    let targets = [
        http("http", &typescript.url("/mcp")),
        sse("sse", &typescript.url("/sse")),
        stdio("stdio", &command("peer-node", "server-ts1.mjs")),
    ];
    with(&[TS1, TS2, PYTHON], &targets).await;
    with(&[TS2_MARCH, TS2_JUNE], &targets[..1]).await;
}

#[tokio::test]
async fn every_new_client_and_the_new_servers() {
    let (typescript, python) =
        (server("peer-node", &["server-ts2.mjs"]).await, server("peer-python", &["server.py"]).await);
    let targets = [
        http("typescript", &typescript.url("/mcp")),
        http("python", &python.url("/mcp")),
        stdio("python stdio", &command("peer-python", "server.py")),
    ];
    with(&[TS2_AUTO, PYTHON_AUTO], &targets).await;
}

#[tokio::test]
async fn every_old_client_and_the_server_of_both_eras() {
    let (python, streams) =
        (server("peer-python", &["server.py"]).await, server("peer-python", &["server.py", "sse"]).await);
    let targets = [
        http("http", &python.url("/mcp")),
        sse("sse", &streams.url("/sse")),
        stdio("stdio", &command("peer-python", "server.py")),
    ];
    with(&[TS1, TS2, PYTHON], &targets).await;
}
