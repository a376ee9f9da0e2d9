//! `tools/list`: one page of 500 tools, the same in five pages, against the same bytes served by a
//! program that knows nothing else.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::{Bench, Gateway, several_servers, through};
use crate::child::{self, Running};
use crate::load::call::{Call, Form, MESSAGE, Page, first_list};
use crate::load::closed::Wire;
use crate::measure::Role;

const CONNECTIONS: usize = 16;

/// Ten servers with 50 tools each, and one with 500.
pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    group(bench, "10 × 50 tools", 10, 50).await?;
    group(bench, "1 × 500 tools", 1, 500).await
}

async fn group(bench: &mut Bench, name: &str, servers: usize, tools: usize) -> anyhow::Result<()> {
    let server = child::own(&["server", "--tools", &tools.to_string()])?;
    let config = several_servers(&server, servers);
    let first = Call::tools(Form::Modern, (0..servers).map(|number| format!("t{number}_0")), MESSAGE);
    let whole = bench.gateways(&config, &first).await?;
    let paged = bench.gateways(&format!("{config}tools_per_page: 100\n"), &first).await?;
    for gateway in whole.iter().chain(&paged) {
        for number in 0..servers {
            let tool = Call::tool(Form::Modern, &format!("t{number}_{}", tools - 1), MESSAGE);
            gateway.running.until_it_answers(&tool).await?;
        }
    }
    in_pages(bench, name, &whole, 1).await?;
    in_pages(bench, &format!("{name}, paged"), &paged, 5).await
}

/// The first page alone, and where there are several, one after the other.
async fn in_pages(bench: &mut Bench, name: &str, gateways: &[Gateway], count: usize) -> anyhow::Result<()> {
    let mut ways = Vec::new();
    let mut limit = None;
    for gateway in gateways {
        let pages = pages(gateway.running.address).await?;
        ensure!(pages.len() == count, "{} pages instead of {count}", pages.len());
        let first = pages[0].body.clone();
        if limit.is_none() {
            limit = Some(fixed(bench, &first)?);
        }
        let first = [Page { cursor: None, body: first, reads_id: true }];
        ways.push(gateway.way("", &Call::pages(first.into()), CONNECTIONS));
        if count > 1 {
            ways.push(gateway.way("all pages in turn", &Call::pages(pages), CONNECTIONS));
        }
    }
    let (fixed, same) = limit.context("there is a gateway")?;
    ways.insert(0, through("the same bytes, fixed", Role::Limit, &fixed, &same, CONNECTIONS));
    bench.measure(name, &ways).await
}

/// A program that answers everything with these bytes, and how it is called.
fn fixed(bench: &Bench, body: &[u8]) -> anyhow::Result<(Running, Call)> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("page.json");
    std::fs::write(&file, body)?;
    // It has read the file when it listens.
    let running = bench.hop(&["fixed", &file.to_string_lossy()])?;
    let page = Page { cursor: None, body: body.to_owned(), reads_id: false };
    Ok((running, Call::pages([page].into())))
}

/// The list as a client reads it, page by page.
pub(super) async fn pages(address: SocketAddr) -> anyhow::Result<Arc<[Page]>> {
    #[derive(Deserialize)]
    struct Response {
        result: Listed,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Listed {
        next_cursor: Option<String>,
    }
    let call = Call::pages([].into());
    let mut wire = Wire::connect(address).await?;
    let mut pages: Vec<Page> = Vec::new();
    let mut cursor = None;
    loop {
        wire.exchange(&first_list(&call, address, cursor.as_deref())).await?;
        let body = wire.inbox.answer()?.body.to_vec();
        let shown = || String::from_utf8_lossy(&body[..body.len().min(500)]).into_owned();
        let response: Response = serde_json::from_slice(&body).with_context(shown)?;
        pages.push(Page { cursor, body, reads_id: true });
        cursor = response.result.next_cursor;
        if cursor.is_none() {
            return Ok(pages.into());
        }
        ensure!(pages.len() < 1000, "a list without an end");
    }
}
