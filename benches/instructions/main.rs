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
mod watcher;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use client::Client;
use outside::{Outside, count};
use sequence::{SEQUENCES, Sequence};
use server::Demands;
use watcher::Watcher;

/// Said to this program when it is to be the server of a sequence, as a child process.
const SERVE: &str = "serve";
/// Enough for connections to be open, buffers to have grown and caches to be filled.
const WARM_UP: u64 = 100;
/// Enough for the live events to reach the limit of their memory, so that each new one drops an old one.
const WATCHED_WARM_UP: u64 = 4_000;

fn main() -> anyhow::Result<()> {
    // Cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let calls = arguments.iter().find_map(|word| word.parse().ok()).unwrap_or(300);
    let is_bare = arguments.iter().any(|word| word == "bare");
    if arguments.get(1).is_some_and(|word| word == SERVE)
        && let Some(sequence) = SEQUENCES.iter().find(|sequence| arguments[0] == sequence.name)
    {
        return Ok(server::serve_lines(sequence.offer)?);
    }
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
    let (mut client, mut watcher) = runtime.block_on(async {
        let address = reached(sequence, is_bare).await?;
        let client = ready(address, sequence).await?;
        let watcher = if sequence.is_watched { Some(Watcher::connect(address).await?) } else { None };
        anyhow::Ok((client, watcher))
    })?;
    let mut make = |calls| {
        runtime.block_on(Outside::of(async {
            client.calls(calls).await?;
            if let Some(watcher) = &mut watcher { watcher.sees(calls).await } else { Ok(()) }
        }))
    };
    make(if sequence.is_watched { WATCHED_WARM_UP } else { WARM_UP })?;
    count(|| make(calls))
}

/// Where the calls of `sequence` go: to the gateway before its server, or to the bare hop.
async fn reached(sequence: Sequence, is_bare: bool) -> anyhow::Result<SocketAddr> {
    if sequence.offer.is_child {
        anyhow::ensure!(!is_bare, "the bare hop has no child process");
        // JSON is YAML.
        let program = serde_json::json!(std::env::current_exe()?.to_string_lossy());
        return gateway::start(&format!("command: {program}\n    args: [{}, {SERVE}]", sequence.name)).await;
    }
    let server = server::start(sequence.offer).await?;
    if is_bare {
        return Ok(bare::start(server).await?);
    }
    let credential = match sequence.offer.demands {
        Demands::Nothing => "",
        Demands::Bearer => "\n    auth: {bearer: \"${TOKEN}\"}",
        // The grant makes no difference to a call that has its token.
        Demands::Login => {
            "\n    auth: {oauth: {grant: client_credentials, client_id: bench, client_secret: \"${TOKEN}\"}}"
        }
    };
    gateway::start(&format!("url: http://{server}/mcp{credential}")).await
}

/// A client whose first call has been answered: before that, the gateway may not know the server.
async fn ready(address: SocketAddr, sequence: Sequence) -> anyhow::Result<Client> {
    let patience = Instant::now() + Duration::from_mins(1);
    let mut client = Client::connect(address, sequence.answered()).await?;
    loop {
        match client.calls(1).await {
            Ok(()) if sequence.is_refused() => return Client::connect(address, sequence).await,
            Ok(()) => return Ok(client),
            Err(error) if Instant::now() > patience => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
