//! Fifty servers behind one gateway: what each costs in memory and at rest, and calls over all.

use std::time::Duration;

use super::{Bench, one_server, several_servers, through};
use crate::child;
use crate::load::call::{Call, Form, MESSAGE};
use crate::measure::Role;

const SERVERS: usize = 50;
const CONNECTIONS: usize = 64;
/// How long nothing is asked of it, to see what it does by itself.
const REST: Duration = Duration::from_secs(3);

/// Beside a gateway with one.
pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let echo = Call::echo(Form::Modern);
    let server = child::own(&["server", "--tools", "5"])?;
    let hop = bench.bare(&server)?;
    let over_all = Call::tools(Form::Modern, (0..SERVERS).map(|number| format!("t{number}_0")), MESSAGE);
    let one = bench.gateways(&one_server(&server), &echo).await?;
    let fifty = bench.gateways(&several_servers(&server, SERVERS), &over_all).await?;
    for (one, fifty) in one.iter().zip(&fifty) {
        for number in 0..SERVERS {
            let tool = Call::tool(Form::Modern, &format!("t{number}_0"), MESSAGE);
            fifty.running.until_it_answers(&tool).await?;
        }
        let more = fifty.running.memory().resident - one.running.memory().resident;
        #[allow(clippy::cast_precision_loss)] // fifty
        let each = more / (SERVERS - 1) as f64;
        bench.report.fact(format!("{}: resident per server", one.name), each, "KiB");
    }
    let ids: Vec<u32> = fifty.iter().map(|gateway| gateway.running.id()).collect();
    let before = child::processor_times(&ids);
    tokio::time::sleep(REST).await;
    let after = child::processor_times(&ids);
    for ((gateway, before), after) in fifty.iter().zip(before).zip(after) {
        let share = (after - before) / REST.as_secs_f64() * 100.0;
        bench.report.fact(format!("{}: processor at rest, {SERVERS} servers", gateway.name), share, "%");
    }
    let mut ways = vec![through("bare hop", Role::Limit, &hop, &echo, CONNECTIONS)];
    for (one, fifty) in one.iter().zip(&fifty) {
        ways.push(one.way("", &echo, CONNECTIONS));
        ways.push(fifty.way("over 50 servers", &over_all, CONNECTIONS));
    }
    bench.measure("servers", &ways).await
}
