//! A child process as the server, against a bare hop that only frames and forwards lines.

use serde_json::json;

use super::{Bench, through};
use crate::load::call::{Call, Form};
use crate::measure::Role;

/// 1 and 16 callers on one child.
pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let call = Call::echo(Form::Modern);
    let hop = bench.hop(&["bare-stdio"])?;
    // JSON is YAML.
    let command = json!(std::env::current_exe()?.to_string_lossy());
    let config = format!("mcp_servers:\n  bench:\n    command: {command}\n    args: [stdio-server]\n");
    let gateways = bench.gateways(&config, &call).await?;
    for connections in [1, 16] {
        let mut ways = vec![through("bare stdio hop", Role::Limit, &hop, &call, connections)];
        ways.extend(gateways.iter().map(|gateway| gateway.way("", &call, connections)));
        bench.measure("stdio", &ways).await?;
    }
    Ok(())
}
