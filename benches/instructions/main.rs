//! A fixed sequence of calls through the gateway, for `scripts/budget`, which counts its instructions.
//!
//! `instructions SEQUENCE [bare] [CALLS]` makes CALLS calls (300) after a warm-up, one after another on one
//! connection: through the gateway, or with `bare` through a hop that looks at nothing. Client, gateway and
//! server share one thread, so every run takes the same turns. Without a SEQUENCE each is gone through
//! once, as a check that they work.
#![allow(unreachable_pub)] // a benchmark exports nothing
#![allow(clippy::print_stdout)] // for who runs it by hand

mod bare;
mod client;
mod gateway;
mod http;
mod outside;
mod sequence;
mod server;

use std::time::{Duration, Instant};

use anyhow::Context as _;
use client::Client;
use outside::{Outside, count};
use sequence::{SEQUENCES, Sequence};

/// Enough for connections to be open, buffers to have grown and caches to be filled.
const WARM_UP: u64 = 100;

fn main() -> anyhow::Result<()> {
    // Cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let calls = arguments.iter().find_map(|word| word.parse().ok()).unwrap_or(300);
    let is_bare = arguments.iter().any(|word| word == "bare");
    let named = |sequence: &&Sequence| arguments.first().is_none_or(|name| name == sequence.name);
    let wanted: Vec<&Sequence> = SEQUENCES.iter().filter(named).collect();
    anyhow::ensure!(
        !wanted.is_empty(),
        "no such sequence; there are {}",
        SEQUENCES.map(|s| s.name).join(", ")
    );
    for sequence in wanted {
        run(*sequence, is_bare, calls).with_context(|| sequence.name)?;
        println!("{}: {calls} calls", sequence.name);
    }
    Ok(())
}

fn run(sequence: Sequence, is_bare: bool, calls: u64) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut client = runtime.block_on(async {
        let server = server::start(sequence.offer).await?;
        let address = if is_bare { bare::start(server).await? } else { gateway::start(server).await? };
        ready(address, sequence).await
    })?;
    runtime.block_on(Outside::of(client.calls(WARM_UP)))?;
    count(|| runtime.block_on(Outside::of(client.calls(calls))))
}

/// A client whose first call has been answered: before that, the gateway may not know the server.
async fn ready(address: std::net::SocketAddr, sequence: Sequence) -> anyhow::Result<Client> {
    let patience = Instant::now() + Duration::from_mins(1);
    let mut client = Client::connect(address, sequence).await?;
    loop {
        match client.calls(1).await {
            Ok(()) => return Ok(client),
            Err(error) if Instant::now() > patience => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
