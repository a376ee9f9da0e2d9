//! A server of the older HTTP+SSE, beside a bare hop to a server of Streamable HTTP for scale.

use super::{Bench, through};
use crate::child;
use crate::load::call::{Call, Form};
use crate::measure::Role;

const CONNECTIONS: usize = 16;

/// 16 callers.
pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let call = Call::echo(Form::Modern);
    let server = child::own(&["server"])?;
    let old = child::own(&["server", "--sse"])?;
    let hop = bench.bare(&server)?;
    let config = format!("mcp_servers:\n  bench:\n    transport: sse\n    url: http://{}/sse\n", old.address);
    let gateways = bench.gateways(&config, &call).await?;
    let mut ways = vec![through("bare hop, Streamable HTTP", Role::Limit, &hop, &call, CONNECTIONS)];
    ways.extend(gateways.iter().map(|gateway| gateway.way("", &call, CONNECTIONS)));
    bench.measure("sse", &ways).await
}
