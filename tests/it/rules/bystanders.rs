//! Isolation: a failing call or server does not affect other calls.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;

use downstream::listener::{self, Limits};
use gateway::manager::Scope;
use gateway::manager::config::ToolNames;
use runtime::shutdown::Shutdown;
use upstream::config::Tools;

use super::policies::{BROKEN, Ran, Written};
use crate::support::line::Line;
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Gateway, Registry, Running, eventually};

const MODERN: [(&str, &str); 2] = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call")];

/// A modern call of `tool`.
fn call(tool: &str) -> String {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": tool, "arguments": {"x": 1}, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
}

/// Calls of one client in one round; each gateway has two clients.
const CALLS: usize = 100;
/// How long the responsive server takes for a call.
const SERVICE: Duration = Duration::from_millis(20);

/// A gateway with one worker, a server that hangs and a responsive one.
async fn gateway_of(hung: &Server, well: &Server) -> Running {
    let registry = Registry::new().setting("server: {workers: 1}").http("well", &well.url());
    let registry = registry.http("hung", &hung.url()).with("timeout: 120");
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["hang", "a"]).await;
    gateway
}

/// Measures one call of the responsive server.
async fn time(line: &mut Line) -> Duration {
    let began = Instant::now();
    let headers = [&MODERN[..], &[("mcp-name", "a")]].concat();
    let told = line.post("/mcp", &headers, call("a").as_bytes()).await;
    assert!(told.status == 200 && told.body.contains("\"result\""), "{told:?}");
    began.elapsed()
}

/// Opens 320 calls of the hanging server: they take all its slots and its whole queue.
async fn hang(address: &str) -> Vec<Infallible> {
    let calls = (0..320).map(async |_| {
        let (mut line, headers) = (Line::to(address), [&MODERN[..], &[("mcp-name", "hang")]].concat());
        loop {
            // After 15 s the answer begins as an event stream, which this client does not read.
            line.post("/mcp", &headers, call("hang").as_bytes()).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    join_all(calls).await
}

/// One round: clients call two gateways in turn. Returns how many times longer calls take at `loaded` than at `quiet`,
/// in the median and at the 99th percentile.
async fn round(loaded: &Running, quiet: &Running) -> (f64, f64) {
    let client = async || {
        let (mut loaded, mut quiet) = (Line::to(&loaded.address), Line::to(&quiet.address));
        let mut times = Vec::new();
        for _ in 0..CALLS {
            times.push((time(&mut loaded).await, time(&mut quiet).await));
        }
        times
    };
    let (one, other) = tokio::join!(client(), client());
    let (mut with, mut without): (Vec<_>, Vec<_>) = one.into_iter().chain(other).unzip();
    with.sort_unstable();
    without.sort_unstable();
    let ratio = |at: usize| with[at].as_secs_f64() / without[at].as_secs_f64();
    (ratio(with.len() / 2), ratio(with.len() * 99 / 100 - 1))
}

/// RULES R13: a hanging server with all slots and its whole queue taken slows calls of another server on the same
/// worker by at most a fifth. A second gateway without a hanging server is measured at the same time. The figure is the
/// median of five rounds, which ends when three agree.
#[tokio::test]
async fn a_server_that_hangs_slows_nobody_else() {
    let well = Scripted::modern().tool(Tool::named("a").does(Act::Slow(SERVICE))).start();
    let hung = Scripted::modern().tool(Tool::named("hang").does(Act::Hang)).start();
    let (loaded, quiet) = (gateway_of(&hung, &well).await, gateway_of(&hung, &well).await);
    round(&loaded, &quiet).await; // connects and warms up
    let measured = async {
        eventually("its places are taken", async || (hung.runs("hang") == 64).then_some(())).await;
        let (mut rounds, mut good) = (Vec::new(), 0);
        while good < 3 && rounds.len() - good < 3 {
            let (middle, slowest) = round(&loaded, &quiet).await;
            rounds.push((middle, slowest));
            good += usize::from(middle <= 1.1 && slowest <= 1.2);
        }
        (rounds, good)
    };
    let (rounds, good) = tokio::select! {
        never = hang(&loaded.address) => panic!("{never:?}"),
        measured = measured => measured,
    };
    eprintln!("R13: (median, p99) of calls beside a server that hangs, as a multiple: {rounds:.2?}");
    assert_eq!(good, 3, "(median, p99) as a multiple in each round: {rounds:.2?}");
}

/// RULES R25: 1,000 calls panic, over REST and MCP, beside as many that do not. Each panic gives an error for its own
/// call only.
#[tokio::test]
async fn a_thousand_panics_hurt_nobody_else() {
    let panics = Arc::new(AtomicUsize::new(0));
    let (count, usual) = (Arc::clone(&panics), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        if panic.to_string().contains(BROKEN) {
            count.fetch_add(1, Ordering::Relaxed);
        } else {
            usual(panic);
        }
    }));
    let servers =
        BTreeMap::from([("s0".to_owned(), (vec!["a".to_owned(), BROKEN.to_owned()], Tools::default()))]);
    let (written, shutdown) = (Written { servers, names: ToolNames::Auto, view: None }, Shutdown::new());
    let manager = written.start(&Ran::default(), &shutdown);
    manager.settled(&Scope::ALL, Duration::from_secs(20)).await;
    let site = switchyard_mcp::program::router(&manager, &downstream::Config::default(), &shutdown)
        .expect("it is valid");
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = socket.local_addr().expect("an address").to_string();
    shutdown.spawn(listener::serve(socket, site, Limits::default(), shutdown.clone()));
    let ask = async |line: &mut Line, tool: &str, number: usize| {
        if number.is_multiple_of(2) {
            return line
                .post("/mcp", &[&MODERN[..], &[("mcp-name", tool)]].concat(), call(tool).as_bytes())
                .await;
        }
        line.post("/api/v1/mcp/call", &[], json!({"tool": tool, "arguments": {}}).to_string().as_bytes())
            .await
    };
    let (mut broken, mut good) = (Line::to(&address), Line::to(&address));
    for number in 0..1_000 {
        let (broken, good) = tokio::join!(ask(&mut broken, BROKEN, number), ask(&mut good, "a", number));
        assert!(good.status == 200 && good.body.contains("content"), "{good:?}");
        assert!(broken.body.contains("-32603") || broken.status == 500, "{broken:?}");
        assert!(!broken.body.contains("panic"), "{broken:?}");
    }
    assert_eq!(panics.load(Ordering::Relaxed), 1_000);
    shutdown.begin();
}
