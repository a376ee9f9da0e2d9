//! One load for as long as a profiler needs; nothing is compared.

use std::time::Duration;

use anyhow::bail;

use super::{lists, one_server, several_servers};
use crate::child::{self, Running};
use crate::load::call::{Call, Form, MESSAGE};
use crate::load::{Load, closed};
use crate::options::Hold;

/// In the lists.
const TOOLS: usize = 500;

/// Prints the process id of the gateway, then loads it.
pub async fn run(hold: &Hold) -> anyhow::Result<()> {
    match hold.call.as_str() {
        "echo" => of_tool(hold, Form::Modern, "echo", MESSAGE).await,
        "legacy" => of_tool(hold, Form::Legacy, "echo", MESSAGE).await,
        "rest" => of_tool(hold, Form::Rest, "echo", MESSAGE).await,
        "stream" => of_tool(hold, Form::Modern, "echo_stream", MESSAGE).await,
        "kib64" => of_tool(hold, Form::Modern, "kib64", 64 * 1024).await,
        "mib1" => of_tool(hold, Form::Modern, "mib1", 1024 * 1024).await,
        "list" => of_lists(hold, TOOLS).await,
        "page" => of_lists(hold, TOOLS / 5).await,
        other => bail!("{other} is not a call: echo, legacy, rest, stream, kib64, mib1, list or page"),
    }
}

async fn of_tool(hold: &Hold, form: Form, tool: &str, size: usize) -> anyhow::Result<()> {
    let server =
        if form == Form::Legacy { child::own(&["server", "--legacy"]) } else { child::own(&["server"]) }?;
    let gateway = child::gateway(&hold.gateway, &one_server(&server))?;
    load(hold, &gateway, Call::tool(form, tool, size)).await
}

/// Reads the pages of one server's list in turn, with `per_page` tools on each.
async fn of_lists(hold: &Hold, per_page: usize) -> anyhow::Result<()> {
    let server = child::own(&["server", "--tools", &TOOLS.to_string()])?;
    let config = format!("{}tools_per_page: {per_page}\n", several_servers(&server, 1));
    let gateway = child::gateway(&hold.gateway, &config)?;
    gateway.until_it_answers(&Call::tool(Form::Modern, "t0_0", MESSAGE)).await?;
    load(hold, &gateway, Call::pages(lists::pages(gateway.address).await?)).await
}

async fn load(hold: &Hold, gateway: &Running, call: Call) -> anyhow::Result<()> {
    gateway.until_it_answers(&call).await?;
    println!("{}", gateway.id());
    let load = Load { address: gateway.address, call, connections: hold.connections };
    let sample =
        closed::run(&load, Duration::ZERO, Duration::from_secs_f64(hold.seconds), &[gateway.id()]).await?;
    println!("{:.0} calls/s", sample.rate());
    Ok(())
}
