//! From starting the process to the answer of its first call, with one server and no handbook.

use std::time::Instant;

use super::{Bench, one_server};
use crate::child;
use crate::load::call::{Call, Form};
use crate::stats::median;

const STARTS: usize = 11;

/// The median of eleven starts, and what the last one held at rest.
pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let call = Call::echo(Form::Modern);
    let server = child::own(&["server"])?;
    let config = one_server(&server);
    let mut took = vec![Vec::new(); bench.binaries.len()];
    let mut held = vec![Vec::new(); bench.binaries.len()];
    for _ in 0..STARTS {
        for (at, binary) in bench.binaries.iter().enumerate() {
            let began = Instant::now();
            let gateway = child::gateway(&binary.path, &config)?;
            gateway.until_it_answers(&call).await?;
            took[at].push(began.elapsed().as_secs_f64() * 1e3);
            held[at].push(gateway.memory());
        }
    }
    for (at, binary) in bench.binaries.iter().enumerate() {
        let name = binary.name;
        let resident = median(held[at].iter().map(|memory| memory.resident / 1024.0));
        let proportional = median(held[at].iter().map(|memory| memory.proportional / 1024.0));
        let started = median(took[at].iter().copied());
        bench.report.fact(format!("{name}: start to first call"), started, "ms");
        bench.report.fact(format!("{name}: resident after the first call"), resident, "MiB");
        bench.report.fact(format!("{name}: proportional after the first call"), proportional, "MiB");
    }
    Ok(())
}
