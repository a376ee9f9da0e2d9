//! Results of 64 KiB and 1 MiB at 16 connections, from servers that print the id before the result
//! and from one that prints it behind. Then requests of these sizes.

use super::{Bench, direct, one_server, through};
use crate::child;
use crate::load::call::{Call, Form};
use crate::measure::Role;

const CONNECTIONS: usize = 16;

/// Both sizes, both orders.
pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let server = child::own(&["server"])?;
    let last = child::own(&["server", "--id-last"])?;
    let hop = bench.bare(&server)?;
    let echo = Call::echo(Form::Modern);
    let gateways = bench.gateways(&one_server(&server), &echo).await?;
    let last_gateways = bench.gateways(&one_server(&last), &echo).await?;
    for (group, tool, size) in [("64 KiB", "kib64", 64 * 1024), ("1 MiB", "mib1", 1024 * 1024)] {
        let call = Call::tool(Form::Modern, tool, size);
        let mut ways = vec![
            direct(&server, &call, CONNECTIONS),
            through("bare hop", Role::Limit, &hop, &call, CONNECTIONS),
        ];
        for (gateway, last) in gateways.iter().zip(&last_gateways) {
            ways.push(gateway.way("", &call, CONNECTIONS));
            ways.push(last.way("id last", &call, CONNECTIONS));
        }
        bench.measure(group, &ways).await?;
    }
    for (group, padding) in [("64 KiB sent", 64 * 1024), ("1 MiB sent", 1024 * 1024)] {
        let call = Call { padding, ..Call::echo(Form::Modern) };
        let mut ways = vec![
            direct(&server, &call, CONNECTIONS),
            through("bare hop", Role::Limit, &hop, &call, CONNECTIONS),
        ];
        ways.extend(gateways.iter().map(|gateway| gateway.way("", &call, CONNECTIONS)));
        bench.measure(group, &ways).await?;
    }
    for gateway in &gateways {
        let peak = gateway.running.memory().peak / 1024.0;
        bench.report.fact(format!("{}: peak after 16 × 1 MiB", gateway.name), peak, "MiB");
    }
    Ok(())
}
