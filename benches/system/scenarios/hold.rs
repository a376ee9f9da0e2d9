//! One load for as long as a profiler needs; nothing is compared.

use std::time::Duration;

use anyhow::bail;

use super::one_server;
use crate::child;
use crate::load::call::{Call, Form, MESSAGE};
use crate::load::{Load, closed};
use crate::options::Hold;

/// Prints the process id of the gateway, then loads it.
pub async fn run(hold: &Hold) -> anyhow::Result<()> {
    let (form, tool, size) = match hold.call.as_str() {
        "echo" => (Form::Modern, "echo", MESSAGE),
        "legacy" => (Form::Legacy, "echo", MESSAGE),
        "rest" => (Form::Rest, "echo", MESSAGE),
        "stream" => (Form::Modern, "echo_stream", MESSAGE),
        "kib64" => (Form::Modern, "kib64", 64 * 1024),
        "mib1" => (Form::Modern, "mib1", 1024 * 1024),
        other => bail!("{other} is not a call: echo, legacy, rest, stream, kib64 or mib1"),
    };
    let call = Call::tool(form, tool, size);
    let server =
        if form == Form::Legacy { child::own(&["server", "--legacy"]) } else { child::own(&["server"]) }?;
    let gateway = child::gateway(&hold.gateway, &one_server(&server))?;
    gateway.until_it_answers(&call).await?;
    println!("{}", gateway.id());
    let load = Load { address: gateway.address, call, connections: hold.connections };
    let sample =
        closed::run(&load, Duration::ZERO, Duration::from_secs_f64(hold.seconds), &[gateway.id()]).await?;
    println!("{:.0} calls/s", sample.rate());
    Ok(())
}
