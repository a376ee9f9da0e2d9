//! Servers that crash and return under load: an acknowledged call ran once, and no call ran twice unless its
//! tool is read-only.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::post;
use futures_util::future::join_all;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::processes::{is_alive, kill, started};
use crate::support::gateway::Running;
use crate::support::line::Line;
use crate::support::{Gateway, Registry, eventually};
use testkit::served::Served;

const CALLS: usize = 10_000;
const ENDS: usize = 50;
/// Number of concurrent callers.
const CALLERS: usize = 16;
/// How many of a hundred thousand calls of a read-only tool may fail.
const MAY_FAIL: usize = 100;

/// How often the call of each number ran.
type Runs = HashMap<u64, usize>;

/// The result of each call: its number, and whether it was answered.
#[derive(Default)]
struct Outcomes {
    reads: Vec<(u64, bool)>,
    writes: Vec<(u64, bool)>,
}

impl Outcomes {
    /// Compares the answers with the runs at the servers. Returns how many calls ran without an answer.
    fn judge(&self, runs: &Runs) -> usize {
        let ran = |number: &u64| runs.get(number).copied().unwrap_or(0);
        for (number, is_answered) in &self.writes {
            assert!(ran(number) <= 1, "call {number} ran {} times", ran(number));
            assert!(!is_answered || ran(number) == 1, "call {number} was acknowledged and never ran");
        }
        assert!(self.reads.iter().all(|(number, is_answered)| !is_answered || ran(number) > 0), "invented");
        let failed = self.reads.iter().filter(|(_, is_answered)| !is_answered).count();
        assert!(failed * 100_000 <= self.reads.len() * MAY_FAIL, "{failed} of {} failed", self.reads.len());
        let unknown = self.writes.iter().filter(|(_, is_answered)| !is_answered).count();
        assert!(unknown <= ENDS * CALLERS, "{unknown} calls were lost: more than ran when a server ended");
        self.writes.iter().filter(|(number, is_answered)| !is_answered && ran(number) == 1).count()
    }
}

/// Makes all calls; those with an even number only read. `server` chooses the server of each, and `done` gets
/// the number of ended calls.
async fn load(gateway: &Running, server: impl Fn(usize) -> String, done: &watch::Sender<usize>) -> Outcomes {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Outcomes::default());
    let caller = async || {
        let mut line = Line::to(&gateway.address);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= CALLS {
                return;
            }
            let tool = if number.is_multiple_of(2) { "read" } else { "write" };
            let call =
                json!({"server": server(number), "tool": tool, "arguments": {"n": number}}).to_string();
            let answer = line.post("/api/v1/mcp/call", &[], call.as_bytes()).await;
            let is_answered = answer.status == 200 && answer.body.contains(r#""success":true"#);
            assert!(!is_answered || answer.body.contains(&number.to_string()), "another's: {answer:?}");
            let mut outcomes = outcomes.lock().expect("no panic holds it");
            let of_kind = if number.is_multiple_of(2) { &mut outcomes.reads } else { &mut outcomes.writes };
            of_kind.push((number as u64, is_answered));
            drop(outcomes);
            done.send_modify(|done| *done += 1);
        }
    };
    join_all((0..CALLERS).map(|_| caller())).await;
    outcomes.into_inner().expect("no panic held it")
}

/// A server with two tools that records its runs; the record outlives it.
fn routes(runs: Arc<Mutex<Runs>>) -> Router {
    Router::new().route(
        "/mcp",
        post(async move |body: String| {
            let request: Value = serde_json::from_str(&body).expect("a message");
            let Some(id) = request.get("id") else { return (StatusCode::ACCEPTED, String::new()) };
            let arguments = &request["params"]["arguments"];
            let result = match request["method"].as_str() {
                Some("server/discover") => json!({"supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}}, "resultType": "complete", "ttlMs": 0, "cacheScope": "public"}),
                Some("tools/list") => json!({"tools": [
                    {"name": "read", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
                    {"name": "write", "inputSchema": {"type": "object"}}],
                    "resultType": "complete", "ttlMs": 0, "cacheScope": "public"}),
                Some("tools/call") => {
                    let number = arguments["n"].as_u64().expect("a number");
                    *runs.lock().expect("no panic holds it").entry(number).or_default() += 1;
                    // The server can be killed between the run and the answer.
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    json!({"content": [{"type": "text", "text": arguments.to_string()}], "resultType": "complete"})
                }
                _ => {
                    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}});
                    return (StatusCode::NOT_FOUND, error.to_string());
                }
            };
            (StatusCode::OK, json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
        }),
    )
    .layer(axum::middleware::map_response(async |mut response: axum::response::Response| {
        response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
        response
    }))
}

/// RULES R1: 10,000 calls while their server is killed and restarted 50 times.
#[tokio::test]
async fn call_acknowledged_by_an_http_server_before_it_was_killed_ran_once() {
    let runs = Arc::new(Mutex::new(Runs::new()));
    let mut served = Served::start(routes(Arc::clone(&runs)));
    let registry = Registry::new()
        .http("one", &format!("{}/mcp", served.url()))
        .with("retry_delay: 0.1")
        .with("circuit_breaker_threshold: 10000");
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["read", "write"]).await;
    let (done, mut is_done) = watch::channel(0);
    let ends = async {
        for end in 1..=ENDS {
            is_done.wait_for(|done| *done >= end * CALLS / (ENDS + 1)).await.expect("there is load");
            served.restart();
        }
    };
    let (outcomes, ()) = tokio::join!(load(&gateway, |_| "one".into(), &done), ends);
    let cut = outcomes.judge(&runs.lock().expect("no panic holds it"));
    assert!(cut > 0, "no end came between a deed and its answer");
}

/// The numbers of the calls that a child recorded.
fn recorded(record: &Path, runs: &mut Runs) {
    let text = std::fs::read_to_string(record).expect("a record");
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    for number in messages.filter_map(|message| message["params"]["arguments"]["n"].as_u64()) {
        *runs.entry(number).or_default() += 1;
    }
}

/// RULES R2: 10,000 calls while 50 children are killed, each of them once. The pauses before restarts of one
/// child grow (R20), so a single child is not enough.
#[tokio::test]
async fn call_acknowledged_by_a_child_before_it_was_killed_ran_once_and_it_is_back_soon() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = |child: usize| folder.path().join(format!("record-{child}"));
    let registry = (0..ENDS).fold(Registry::new(), |registry, child| {
        let record = record(child);
        let record = record.to_str().expect("UTF-8");
        let arguments = ["--era", "modern", "--tools", "read,write", "--pause", "20", "--record", record];
        registry.child(&format!("s{child}"), &arguments).with("retry_delay: 0.1")
    });
    let gateway = Gateway::of(&registry).start().await;
    eventually("all children are ready", async || {
        let health = gateway.get("/health").await.json();
        let servers = health["servers"].as_array().expect("servers").clone();
        (servers.len() == ENDS && servers.iter().all(|server| server["healthy"] == true)).then_some(())
    })
    .await;
    let (done, mut is_done) = watch::channel(0);
    let ends = async {
        let mut absences = Vec::new();
        for child in 0..ENDS {
            is_done.wait_for(|done| *done >= (child + 1) * CALLS / (ENDS + 1)).await.expect("there is load");
            let (name, record) = (format!("s{child}"), record(child));
            kill(started(&record)[0]);
            let began = Instant::now();
            eventually("it is back", async || {
                let is_answered = gateway.call(&name, "read", json!({})).await.status == 200;
                (is_answered && started(&record).len() == 2).then_some(())
            })
            .await;
            absences.push(began.elapsed());
        }
        absences.sort_unstable();
        absences
    };
    let (outcomes, absences) =
        tokio::join!(load(&gateway, |number| format!("s{}", number % ENDS), &done), ends);
    let [usual, long, longest] = [ENDS / 2, ENDS - 2, ENDS - 1].map(|at| absences[at]);
    eprintln!("a killed child is back after {usual:?} (median), {longest:?} at most");
    // One of them may be slow because the machine is busy.
    assert!(long <= Duration::from_secs(1) && longest <= Duration::from_secs(5), "{absences:?}");
    let mut runs = Runs::new();
    (0..ENDS).for_each(|child| recorded(&record(child), &mut runs));
    let cut = outcomes.judge(&runs);
    eprintln!("{cut} calls ran whose answer was lost, of {CALLS}");
    assert!(cut > 0, "no child was killed between a deed and its answer");
    let spawned: BTreeSet<u32> = (0..ENDS).flat_map(|child| started(&record(child))).collect();
    assert_eq!(spawned.len(), 2 * ENDS, "each was started twice");
    assert!(gateway.stop().await.success());
    eventually("no child is left", async || (!spawned.iter().any(|id| is_alive(*id))).then_some(())).await;
}
