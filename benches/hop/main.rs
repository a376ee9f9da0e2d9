//! One hop, measured: the same calls direct, through a bare hyper proxy, and through the gateway.
//!
//! `cargo bench --bench hop [-- --rounds 5 --seconds 1.2]` prints one table and writes `hop.json`
//! into the target folder. Every answer is verified. The cells are visited in rounds, each round in
//! another order, and the median of a cell's rounds counts, so that a noisy minute hits all alike.
//!
//! Server, proxy and load each have a thread with a runtime of its own; the gateway is the release
//! binary in a process of its own. The ratios mean something, the absolute numbers are this machine's.
#![allow(unreachable_pub)] // a benchmark exports nothing
#![allow(clippy::print_stdout)] // its table is its product
#![allow(clippy::disallowed_methods)] // nothing of the program runs in this process

mod gateway;
mod load;
#[allow(dead_code)] // the integration tests use the rest
#[path = "../../tests/it/support/process.rs"]
mod process;
mod proxy;
mod report;
mod server;

use std::net::SocketAddr;
use std::time::Duration;

use load::{Load, Protocol, Sample};
use report::{Cell, Report};

const CONNECTIONS: [usize; 3] = [1, 16, 64];
const WARM_UP: Duration = Duration::from_millis(150);

/// One way to the server.
#[derive(Debug, Clone, Copy)]
struct Way {
    name: &'static str,
    address: SocketAddr,
    protocol: Protocol,
}

fn main() -> anyhow::Result<()> {
    let rounds = option("--rounds").unwrap_or(5.0);
    let slice = Duration::from_secs_f64(option("--seconds").unwrap_or(1.2));
    let server = on_its_own_thread(server::start);
    let proxy = on_its_own_thread(move || proxy::start(server));
    let gateway = gateway::start(server)?;
    let ways = [
        Way { name: "direct", address: server, protocol: Protocol::Modern },
        Way { name: "bare hyper hop", address: proxy, protocol: Protocol::Modern },
        Way { name: "gateway, modern", address: gateway.address, protocol: Protocol::Modern },
        Way { name: "gateway, legacy session", address: gateway.address, protocol: Protocol::Legacy },
        Way { name: "gateway, REST", address: gateway.address, protocol: Protocol::Rest },
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut report = Report::new(ways.map(|way| way.name));
    for round in 0..count(rounds) {
        for (column, connections) in CONNECTIONS.into_iter().enumerate() {
            for turn in 0..ways.len() {
                let row = (turn + round) % ways.len();
                let way = ways[row];
                let load = Load { address: way.address, protocol: way.protocol, connections };
                let before = gateway.cpu();
                let sample: Sample = runtime.block_on(load.run(WARM_UP, slice))?;
                let cpu = gateway.cpu().saturating_sub(before);
                report.add(row, column, Cell::of(&sample, cpu));
            }
        }
    }
    println!("{report}");
    println!("gateway: peak memory {:.1} MiB", gateway.peak_memory_mib());
    let path = report.write()?;
    println!("written to {}", path.display());
    Ok(())
}

/// The number after `name` on the command line.
fn option(name: &str) -> Option<f64> {
    let arguments: Vec<String> = std::env::args().collect();
    let at = arguments.iter().position(|argument| argument == name)?;
    Some(arguments.get(at + 1)?.parse().expect("a number after the option"))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a handful of rounds
fn count(rounds: f64) -> usize {
    rounds.max(1.0) as usize
}

/// Runs what `start` returns (an address and a task) for the rest of the program.
fn on_its_own_thread<S, F, T>(start: S) -> SocketAddr
where
    S: FnOnce() -> F + Send + 'static,
    F: Future<Output = std::io::Result<(SocketAddr, T)>>,
    T: Future<Output = ()>,
{
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (address, task) = start().await.expect("a port");
            tell.send(address).expect("it is waited for");
            task.await;
        });
    });
    told.recv().expect("the thread started")
}
