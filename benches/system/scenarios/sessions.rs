//! Sessions that say nothing: what a thousand of them cost, in memory and for those who call, and
//! the curves up to ten thousand sessions, open streams and tools.

use std::time::Instant;

use super::lists::pages;
use super::{Bench, one_server, several_servers, through};
use crate::child;
use crate::load::call::{Call, Form, MESSAGE};
use crate::load::crowd::Crowd;
use crate::measure::Role;
use crate::options::Pace;

const IDLE: usize = 1000;
const STEPS: [usize; 4] = [10, 100, 1000, 10_000];
/// Files that a process needs beside its sockets.
const SPARE: usize = 200;

/// A thousand idle sessions beside a gateway without any.
pub async fn idle(bench: &mut Bench) -> anyhow::Result<()> {
    let call = Call::echo(Form::Modern);
    let server = child::own(&["server"])?;
    let hop = bench.bare(&server)?;
    let config = one_server(&server);
    let empty = bench.gateways(&config, &call).await?;
    let full = bench.gateways(&config, &call).await?;
    let mut crowds = Vec::new();
    for gateway in &full {
        let mut crowd = Crowd::at(gateway.running.address).await?;
        crowd.grow(1).await?;
        let before = gateway.running.memory().resident;
        crowd.grow(1 + IDLE).await?;
        let each = per(gateway.running.memory().resident - before, IDLE);
        bench.report.fact(format!("{}: resident per idle session, of {IDLE}", gateway.name), each, "KiB");
        crowds.push(crowd);
    }
    let mut ways = vec![through("bare hop", Role::Limit, &hop, &call, 64)];
    for (empty, full) in empty.iter().zip(&full) {
        ways.push(empty.way("", &call, 64));
        ways.push(full.way("1,000 idle sessions", &call, 64));
    }
    bench.measure("sessions", &ways).await?;
    for (gateway, crowd) in full.iter().zip(&mut crowds) {
        let before = gateway.running.memory().resident;
        crowd.listen(IDLE).await?;
        let each = per(gateway.running.memory().resident - before, IDLE);
        bench.report.fact(format!("{}: resident per open stream more, of {IDLE}", gateway.name), each, "KiB");
    }
    Ok(())
}

/// 10 to 10,000 sessions, streams and tools.
pub async fn scale(bench: &mut Bench) -> anyhow::Result<()> {
    let server = child::own(&["server"])?;
    let limits = "server:\n  max_sessions: 30000\n  max_connections: 30000\n";
    let config = format!("{}{limits}", one_server(&server));
    sessions(bench, &config).await?;
    streams(bench, &config).await?;
    for tools in STEPS {
        many_tools(bench, tools).await?;
    }
    Ok(())
}

async fn sessions(bench: &mut Bench, config: &str) -> anyhow::Result<()> {
    let call = Call::echo(Form::Modern);
    for gateway in bench.gateways(config, &call).await? {
        let mut crowd = Crowd::at(gateway.running.address).await?;
        for count in STEPS {
            let began = Instant::now();
            crowd.grow(count).await?;
            let took = began.elapsed().as_secs_f64() * 1e3;
            let held = gateway.running.memory().resident / 1024.0;
            bench.report.fact(format!("{}: resident with {count} sessions", gateway.name), held, "MiB");
            bench.report.fact(format!("{}: opening sessions up to {count}", gateway.name), took, "ms");
            let way = gateway.way(&format!("{count} sessions"), &call, 16);
            curve(bench, &[way]).await?;
        }
    }
    Ok(())
}

async fn streams(bench: &mut Bench, config: &str) -> anyhow::Result<()> {
    let call = Call::echo(Form::Modern);
    for gateway in bench.gateways(config, &call).await? {
        let mut crowd = Crowd::at(gateway.running.address).await?;
        for count in STEPS {
            if count + SPARE > bench.files {
                bench.report.note(format!("{count} streams left out: {} files at most here", bench.files));
                break;
            }
            crowd.listen(count).await?;
            let held = gateway.running.memory().resident / 1024.0;
            bench.report.fact(format!("{}: resident with {count} open streams", gateway.name), held, "MiB");
            let way = gateway.way(&format!("{count} open streams"), &call, 16);
            curve(bench, &[way]).await?;
        }
    }
    Ok(())
}

async fn many_tools(bench: &mut Bench, tools: usize) -> anyhow::Result<()> {
    let server = child::own(&["server", "--tools", &tools.to_string()])?;
    let call = Call::tool(Form::Modern, &format!("t0_{}", tools - 1), MESSAGE);
    let config = format!("{}tools_per_page: 10000\n", several_servers(&server, 1));
    for gateway in bench.gateways(&config, &call).await? {
        let list = Call::pages(pages(gateway.running.address).await?);
        let held = gateway.running.memory().resident / 1024.0;
        bench.report.fact(format!("{}: resident with {tools} tools", gateway.name), held, "MiB");
        let calls = gateway.way(&format!("call, {tools} tools"), &call, 16);
        let lists = gateway.way(&format!("list of {tools} tools"), &list, 1);
        curve(bench, &[calls, lists]).await?;
    }
    Ok(())
}

/// A point of a curve needs no rounds.
async fn curve(bench: &mut Bench, ways: &[crate::measure::Way]) -> anyhow::Result<()> {
    let pace = bench.pace;
    bench.pace = Pace { rounds: 1, ..pace };
    let done = bench.measure("scale", ways).await;
    bench.pace = pace;
    done
}

#[allow(clippy::cast_precision_loss)] // thousands
fn per(total: f64, count: usize) -> f64 {
    total / count as f64
}
