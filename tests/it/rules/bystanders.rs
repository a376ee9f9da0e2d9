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

/// Calls of one round at each gateway.
const CALLS: usize = 200;
/// How long the server that does not hang takes for a call.
const SERVICE: Duration = Duration::from_millis(10);

/// A gateway before a server that hangs and one that does not, and all its clients.
struct Beside {
    hung: Arc<Server>,
    gateway: Running,
    line: Line,
}

impl Beside {
    async fn start(well: &Server) -> Self {
        let hung = Arc::new(Scripted::modern().tool(Tool::named("hang").does(Act::Hang)).start());
        let registry = Registry::new().setting("server: {workers: 1}");
        let registry = registry.http("hung", &hung.url()).http("well", &well.url());
        let gateway = Gateway::of(&registry).start().await;
        gateway.offers(&["hang", "a"]).await;
        let line = Line::to(&gateway.address);
        Self { hung, gateway, line }
    }

    /// How long one call of the server that does not hang takes.
    async fn time(&mut self) -> Duration {
        let began = Instant::now();
        let headers = [&MODERN[..], &[("mcp-name", "a")]].concat();
        let told = self.line.post("/mcp", &headers, call("a").as_bytes()).await;
        assert!(told.status == 200 && told.body.contains("\"result\""), "{told:?}");
        began.elapsed()
    }
}

/// Makes 320 calls of the server that hangs: all its places and all of its queue.
async fn hang(address: &str) {
    let body = call("hang");
    let calls = (0..320).map(async |_| {
        let headers = [&MODERN[..], &[("mcp-name", "hang")]].concat();
        Line::to(address).post("/mcp", &headers, body.as_bytes()).await
    });
    join_all(calls).await;
}

/// One round: a call at each of two gateways in turns. How many times as long as at `quiet` they take at `loaded`, in
/// the median and at the 99th percentile.
async fn round(loaded: &mut Beside, quiet: &mut Beside) -> (f64, f64) {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        with.push(loaded.time().await);
        without.push(quiet.time().await);
    }
    with.sort_unstable();
    without.sort_unstable();
    let ratio = |at: usize| with[at].as_secs_f64() / without[at].as_secs_f64();
    (ratio(CALLS / 2), ratio(CALLS - 1 - CALLS / 100))
}

/// RULES R13: a server that hangs, with all places of its calls and all of its queue taken, costs the calls of another
/// one on the same worker at most a fifth. A second gateway at which nothing hangs is measured in the same moments.
#[tokio::test]
async fn a_server_that_hangs_slows_nobody_else() {
    let well = Scripted::modern().tool(Tool::named("a").does(Act::Slow(SERVICE))).start();
    let (mut loaded, mut quiet) = (Beside::start(&well).await, Beside::start(&well).await);
    round(&mut loaded, &mut quiet).await; // all is loaded and connected
    let (address, hung) = (loaded.gateway.address.clone(), Arc::clone(&loaded.hung));
    let measured = async {
        eventually("its places are taken", async || (hung.runs("hang") == 64).then_some(())).await;
        let mut rounds = Vec::new();
        for _ in 0..3 {
            rounds.push(round(&mut loaded, &mut quiet).await);
        }
        rounds
    };
    let rounds = tokio::select! {
        () = hang(&address) => panic!("they hang"),
        rounds = measured => rounds,
    };
    let median = |mut ratios: Vec<f64>| {
        ratios.sort_by(f64::total_cmp);
        ratios[1]
    };
    let (middle, slowest) =
        (rounds.iter().map(|one| one.0).collect(), rounds.iter().map(|one| one.1).collect());
    let (middle, slowest) = (median(middle), median(slowest));
    eprintln!(
        "R13: calls beside a server that hangs: median {middle:.2}, p99 {slowest:.2} times, of {rounds:.2?}"
    );
    assert!(middle <= 1.2 && slowest <= 1.2, "median {middle:.2}, p99 {slowest:.2} times as long");
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
