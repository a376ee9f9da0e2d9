//! What happens to one call or one server, and what the others notice of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use switchyard::downstream;
use switchyard::downstream::listener::{self, Limits};
use switchyard::manager::Scope;
use switchyard::manager::config::ToolNames;
use switchyard::shutdown::Shutdown;
use switchyard::upstream::config::Tools;

use super::policies::{BROKEN, Ran, Written};
use crate::support::line::Line;
use crate::support::scripted::{Act, Scripted, Tool};
use crate::support::{Gateway, Registry, eventually};

const MODERN: [(&str, &str); 2] = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call")];

/// A modern call of `tool`.
fn call(tool: &str) -> String {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": tool, "arguments": {"x": 1}, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
}

/// How long 200 calls of `tool` take, the median and the slowest but two; all of them are answered.
async fn times(line: &mut Line, tool: &str) -> (Duration, Duration) {
    let (body, mut times) = (call(tool), Vec::new());
    for _ in 0..200 {
        let began = Instant::now();
        let told = line.post("/mcp", &[&MODERN[..], &[("mcp-name", tool)]].concat(), body.as_bytes()).await;
        assert!(told.status == 200 && told.body.contains("\"result\""), "{told:?}");
        times.push(began.elapsed());
    }
    times.sort_unstable();
    (times[100], times[197])
}

/// RULES R13: a server that hangs, with all places of its calls and all of its queue taken, slows no other one. The rule's
/// 1.2 times is for a quiet machine; here the bound is what a shared queue, lock or place would break.
#[tokio::test]
async fn a_server_that_hangs_slows_nobody_else() {
    let hung = Scripted::modern().tool(Tool::named("hang").does(Act::Hang)).start();
    let well = Scripted::modern().tool(Tool::named("a")).start();
    let registry = Registry::new().http("hung", &hung.url()).http("well", &well.url());
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["hang", "a"]).await;
    let mut line = Line::to(&gateway.address);
    times(&mut line, "a").await; // all is loaded and connected
    let before = times(&mut line, "a").await;
    let body = call("hang");
    let hanging = join_all((0..320).map(async |_| {
        let headers = [&MODERN[..], &[("mcp-name", "hang")]].concat();
        Line::to(&gateway.address).post("/mcp", &headers, body.as_bytes()).await
    }));
    let meanwhile = async {
        eventually("its places are taken", async || (hung.runs("hang") == 64).then_some(())).await;
        times(&mut line, "a").await
    };
    let during = tokio::select! {
        _ = hanging => panic!("they hang"),
        during = meanwhile => during,
    };
    let slack = Duration::from_millis(50);
    assert!(during.0 <= before.0 * 2 + slack, "the median was {:?} and is {:?}", before.0, during.0);
    assert!(during.1 < Duration::from_secs(2), "the slowest but two of 200 took {:?}", during.1);
}

/// RULES R25: 1,000 calls panic, over REST and MCP, beside as many that do not: each panic is the answer of its call, and
/// nobody else is hurt.
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
    let (written, shutdown) = (Written { servers, names: ToolNames::Auto }, Shutdown::new());
    let manager = written.start(&Ran::default(), &shutdown);
    manager.settled(&Scope::All, Duration::from_secs(20)).await;
    let site =
        switchyard::app::router(&manager, &downstream::Config::default(), &shutdown).expect("it is valid");
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
