//! Calls of 100 bytes: how many callers, and in which form they are put.

use super::{Bench, direct, one_server, through};
use crate::child;
use crate::load::call::{Call, Form, MESSAGE};
use crate::measure::Role;

/// The modern form at 1, 16, 64 and 256 connections.
pub async fn connections(bench: &mut Bench) -> anyhow::Result<()> {
    let call = Call::echo(Form::Modern);
    let server = child::own(&["server"])?;
    let hop = bench.bare(&server)?;
    let gateways = bench.gateways(&one_server(&server), &call).await?;
    for gateway in &gateways {
        bench.report.fact(
            format!("{}: resident when idle, one server", gateway.name),
            gateway.running.memory().resident / 1024.0,
            "MiB",
        );
    }
    for connections in [1, 16, 64, 256] {
        let mut ways = vec![
            direct(&server, &call, connections),
            through("bare hop", Role::Limit, &hop, &call, connections),
        ];
        ways.extend(gateways.iter().map(|gateway| gateway.way("", &call, connections)));
        bench.measure("echo", &ways).await?;
    }
    for gateway in &gateways {
        let peak = gateway.running.memory().peak / 1024.0;
        bench.report.fact(format!("{}: peak after 256 connections", gateway.name), peak, "MiB");
    }
    bench.report.fact("bare hop: peak after 256 connections", hop.memory().peak / 1024.0, "MiB");
    Ok(())
}

/// Legacy sessions, REST and event streams beside the modern form.
pub async fn forms(bench: &mut Bench) -> anyhow::Result<()> {
    let modern = Call::echo(Form::Modern);
    let legacy = Call::echo(Form::Legacy);
    let stream = Call::tool(Form::Modern, "echo_stream", MESSAGE);
    let noticed = Call { wants_progress: true, ..Call::tool(Form::Modern, "noticed", MESSAGE) };
    let server = child::own(&["server"])?;
    let old = child::own(&["server", "--legacy"])?;
    let (hop, old_hop) = (bench.bare(&server)?, bench.bare(&old)?);
    let gateways = bench.gateways(&one_server(&server), &modern).await?;
    let old_gateways = bench.gateways(&one_server(&old), &legacy).await?;
    let counts: &[usize] = if bench.pace.is_quick { &[64] } else { &[16, 64] };
    for connections in counts.iter().copied() {
        let mut ways = vec![
            through("bare hop", Role::Limit, &hop, &modern, connections),
            through("bare hop, legacy session", Role::Other, &old_hop, &legacy, connections),
            through("bare hop, event stream", Role::Other, &hop, &stream, connections),
        ];
        for (gateway, old) in gateways.iter().zip(&old_gateways) {
            ways.push(gateway.way("", &modern, connections));
            ways.push(old.way("legacy session", &legacy, connections));
            ways.push(gateway.way("REST", &Call::echo(Form::Rest), connections));
            ways.push(gateway.way("event stream", &stream, connections));
            ways.push(gateway.way("a notice, then the answer", &noticed, connections));
        }
        bench.measure("forms", &ways).await?;
    }
    Ok(())
}
