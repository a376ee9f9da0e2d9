//! How many sockets there are to a server over HTTP: as many as calls run, and afterwards no more than
//! `connection_pool_size`. The system's own table is what is believed.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;

use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Gateway, Registry, Running, eventually};

/// Calls at a time.
const BURST: usize = 60;
/// `connection_pool_size`.
const KEPT: usize = 4;

/// Established connections to `server`, as the system counts them.
fn connected_to(server: &Server) -> usize {
    let port: u16 =
        server.url().rsplit([':', '/']).nth(1).and_then(|port| port.parse().ok()).expect("a port");
    let (peer, established) = (format!(":{port:04X}"), "01");
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux");
    let is_ours = |line: &&str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields[2].ends_with(&peer) && fields[3] == established
    };
    table.lines().skip(1).filter(is_ours).count()
}

/// Those in use and those that are idle, as the metrics have them.
async fn counted(gateway: &Running) -> (usize, usize) {
    let text = gateway.mcp().to(&gateway.url("/metrics")).bare(http::Method::GET, &[]).await.body;
    let value = |state: &str| {
        let name = format!(r#"switchyard_server_sockets{{server="one",state="{state}"}} "#);
        let line = text.lines().find_map(|line| line.strip_prefix(&name)).expect("it is there");
        line.parse().expect("a number")
    };
    (value("in_use"), value("idle"))
}

#[tokio::test]
async fn a_burst_has_a_socket_for_each_call_and_leaves_those_of_the_pool() {
    burst(Scripted::modern()).await;
}

#[tokio::test]
async fn so_it_does_in_sessions_with_a_server_of_the_old_era() {
    burst(Scripted::legacy()).await;
}

async fn burst(server: Scripted) {
    let server = server.tool(Tool::named("slow").does(Act::Slow(Duration::from_secs(2)))).start();
    let pool = format!("connection_pool_size: {KEPT}");
    let registry = Registry::new().http("one", &server.url()).setting(&pool);
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["slow"]).await;
    let (client, params) = (gateway.mcp(), json!({}));
    let calls = join_all((0..BURST).map(|_| client.call("slow", params.clone())));
    let meanwhile = async {
        eventually("all run", async || (server.runs("slow") == BURST).then_some(())).await;
        let (open, (in_use, _)) = (connected_to(&server), counted(&gateway).await);
        assert!((BURST..=BURST + KEPT).contains(&in_use), "{in_use} in use");
        assert!(open >= in_use && open <= BURST + 2 * KEPT, "{open} open, {in_use} in use");
    };
    let (answers, ()) = tokio::join!(calls, meanwhile);
    assert!(answers.iter().all(|answer| answer.status == 200));

    let kept = eventually("the pool keeps some", async || {
        let (in_use, idle) = counted(&gateway).await;
        (idle == KEPT).then_some(in_use + idle)
    })
    .await;
    assert!(connected_to(&server) <= kept, "there are no others");
    eventually("and not for long", async || (counted(&gateway).await.1 == 0).then_some(())).await;
    assert!(connected_to(&server) <= KEPT, "only the streams of its sessions are left");
}
