//! The gateway as a whole, measured from outside: the same calls direct, through a bare hyper
//! pass-through, and through the gateway, every answer verified.
//!
//! `cargo bench --bench system` takes some minutes, `-- --quick` one, `-- --only echo,large` what is
//! named; `-- --help` shows the rest. It prints one table and writes one JSON file.
//!
//! ```text
//! this process: load ──> bare hop │ gateway ──> server      each a process of its own
//! ```
//!
//! The server, the bare hops and the load are this same program, started again with a subcommand,
//! each on one thread. Ratios mean something, absolute figures are this machine's. Each ratio is
//! taken within a round, between slices that are seconds apart; the median of the rounds counts.
#![allow(unreachable_pub)] // a benchmark exports nothing
#![allow(clippy::print_stdout)] // its table is its product
#![allow(clippy::disallowed_methods)] // nothing of the program runs in this process

mod bare;
mod chart;
mod child;
mod load;
mod measure;
mod options;
mod page;
#[allow(dead_code)] // the integration tests use the rest
#[path = "../../tests/it/support/process.rs"]
mod process;
mod report;
mod scenarios;
mod server;
mod stats;

use anyhow::ensure;
use clap::Parser as _;

use options::{Options, Part};

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    if let Some(Part::StdioServer(server_options)) = options.part {
        return server::stdio::serve(server_options);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match &options.part {
            Some(Part::Server(server_options)) => server::serve(*server_options).await,
            Some(Part::Bare { server }) => bare::http::serve(*server).await,
            Some(Part::BareStdio) => bare::stdio::serve().await,
            Some(Part::Hold(hold)) => scenarios::hold::run(hold).await,
            Some(Part::Fixed { file }) => bare::fixed::serve(file).await,
            Some(Part::StdioServer(_)) => Ok(()),
            None => run(&options).await,
        }
    })
}

async fn run(options: &Options) -> anyhow::Result<()> {
    if options.list {
        scenarios::list();
        return Ok(());
    }
    let report = scenarios::run(options).await?;
    if let Some(chart) = &options.chart {
        chart::write(chart, &report.rows)?;
    }
    if let Some(page) = &options.page {
        page::write(page, &report.rows, &report.facts, &report.notes)?;
    }
    let path = report.write(options.json.as_deref())?;
    println!("written to {}", path.display());
    ensure!(report.failures.is_empty(), "given up:\n{}", report.failures.join("\n"));
    Ok(())
}
