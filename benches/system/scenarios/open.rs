//! Latency at a fixed rate: 30, 60 and 90 % of what the gateway does in a closed loop, the same rate
//! for all ways.

use anyhow::ensure;

use super::{Bench, direct, one_server, through};
use crate::child;
use crate::load::call::{Call, Form};
use crate::load::{closed, open};
use crate::measure::{Role, Way};
use crate::stats::Spread;

const CONNECTIONS: usize = 64;
/// Calls at fixed times need a longer look than others: their tail is what counts.
const STRETCH: u32 = 2;

/// At 64 connections, or at `rate` calls per second alone.
pub async fn run(bench: &mut Bench, rate: Option<f64>) -> anyhow::Result<()> {
    let call = Call::echo(Form::Modern);
    let server = child::own(&["server"])?;
    let hop = bench.bare(&server)?;
    let gateways = bench.gateways(&one_server(&server), &call).await?;
    let mut ways =
        vec![direct(&server, &call, CONNECTIONS), through("bare hop", Role::Limit, &hop, &call, CONNECTIONS)];
    ways.extend(gateways.iter().map(|gateway| gateway.way("", &call, CONNECTIONS)));
    let pace = bench.pace;
    let closed = closed::run(&ways[2].load, pace.warm_up, pace.slice * STRETCH, &[]).await?.rate();
    ensure!(closed > 0.0, "no call fits into a slice: the machine is busy with something else");
    let rates = match rate {
        Some(rate) => vec![("fixed rate".to_owned(), rate)],
        None => [30, 60, 90].map(|share| (format!("{share} %"), closed * f64::from(share) / 100.0)).into(),
    };
    for (name, rate) in rates {
        at(bench, &name, rate, &ways)?;
    }
    Ok(())
}

fn at(bench: &mut Bench, name: &str, rate: f64, ways: &[Way]) -> anyhow::Result<()> {
    let pace = bench.pace;
    let mut seen: Vec<Vec<[f64; 3]>> = vec![Vec::new(); ways.len()];
    for round in 0..pace.rounds.min(5) {
        for turn in 0..ways.len() {
            let index = (turn + round) % ways.len();
            let sample = open::run(&ways[index].load, rate, pace.warm_up, pace.slice * STRETCH)?;
            seen[index].push([0.5, 0.99, 0.999].map(|share| sample.percentile(share)));
        }
    }
    for (way, seen) in ways.iter().zip(&seen) {
        for (at, percentile) in ["p50", "p99", "p99.9"].into_iter().enumerate() {
            let spread = Spread::of(seen.iter().map(|seen| seen[at]));
            bench.report.fact(
                format!("{}: {percentile} at {name}, {rate:.0} calls/s", way.name),
                spread.median,
                "us",
            );
        }
    }
    Ok(())
}
