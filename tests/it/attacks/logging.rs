//! Logs: a log reader that stops, and clients that produce log lines.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::line::Line;
use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::{Gateway, Registry, eventually};

/// Requests whose lines fill the pipe and the queue of log lines.
const FLOOD: usize = 8_000;
/// Every refused request has a log line, and no call has an audit line.
const QUIET_AUDIT: &str = "warn,switchyard=debug,switchyard::audit=info";
/// Samples of one median.
const SAMPLES: usize = 100;
const REFUSED: usize = 20_000;

/// The program with a log that is read only when a test says so.
struct Unread {
    child: Child,
    log: Option<BufReader<ChildStderr>>,
    address: String,
    server: Server,
    _gateway: Gateway,
}

impl Unread {
    /// Reads the log until the server is ready, and no further.
    fn start(server: Server, filter: &str) -> Self {
        let gateway = Gateway::of(&Registry::new().http("one", &server.url())).env("SWITCHYARD_LOG", filter);
        let mut command = gateway.command("serve");
        command.args(["--listen", "127.0.0.1:0"]).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut log = BufReader::new(child.stderr.take().expect("it is piped"));
        let (mut address, mut is_ready) = (None, false);
        while address.is_none() || !is_ready {
            let mut line = String::new();
            assert!(log.read_line(&mut line).expect("text") > 0, "it ended");
            let line: Value = serde_json::from_str(&line).expect("JSON");
            is_ready |= line["message"] == "server is ready";
            if line["message"] == "listening" {
                address = line["address"].as_str().map(str::to_owned);
            }
        }
        let address = address.expect("just read");
        Self { child, log: Some(log), address, server, _gateway: gateway }
    }

    fn line(&self) -> Line {
        Line::to(&self.address)
    }

    /// Asks it to end, waits for that, and returns how long it took.
    async fn end(&mut self) -> Duration {
        let started = Instant::now();
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(id, Signal::TERM).expect("it runs");
        eventually("it ends", async || self.child.try_wait().expect("our child")).await;
        started.elapsed()
    }

    /// Starts to read the log, in a thread that ends with it.
    fn read(&mut self) -> std::thread::JoinHandle<Vec<Value>> {
        let mut log = self.log.take().expect("it was not read before");
        std::thread::spawn(move || {
            let mut text = String::new();
            log.read_to_string(&mut text).expect("text");
            text.lines().map(|line| serde_json::from_str(line).expect("one object a line")).collect()
        })
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it has ended already
        let _ = self.child.wait();
    }
}

fn call(tool: &str) -> Vec<u8> {
    json!({"server": "one", "tool": tool}).to_string().into_bytes()
}

const CALL: &str = "/api/v1/mcp/call";

/// The median times of a probe and of a call.
async fn medians(line: &mut Line) -> [Duration; 2] {
    let (mut probes, mut calls) = (Vec::new(), Vec::new());
    for _ in 0..SAMPLES {
        let started = Instant::now();
        assert_eq!(line.send("GET", "/health/live", &[], b"").await.status, 200);
        probes.push(started.elapsed());
        let started = Instant::now();
        assert_eq!(line.post(CALL, &[], &call("good")).await.status, 200);
        calls.push(started.elapsed());
    }
    [probes, calls].map(|mut times| {
        times.sort_unstable();
        times[SAMPLES / 2]
    })
}

/// How much slower probes and calls are, each as a ratio.
fn slower([before, after]: [[Duration; 2]; 2]) -> f64 {
    let ratio = |at: usize| after[at].as_secs_f64() / before[at].as_secs_f64();
    ratio(0).max(ratio(1))
}

/// If no process reads standard error, requests are served as before.
#[tokio::test]
async fn an_unread_log_slows_no_probe_and_no_call() {
    let server = Scripted::modern().tool(Tool::named("good")).start();
    let mut gateway = Unread::start(server, QUIET_AUDIT);
    let (mut line, mut other) = (gateway.line(), gateway.line());
    let missing = "x".repeat(1_000);
    medians(&mut line).await; // everything is warm
    let before = medians(&mut line).await;
    let flood = async {
        for _ in 0..FLOOD {
            assert_eq!(other.post(CALL, &[], &call(&missing)).await.status, 404);
        }
    };
    tokio::time::timeout(Duration::from_mins(1), flood)
        .await
        .expect("requests are answered while nobody reads");
    let mut ratios = [0.0; 3];
    for ratio in &mut ratios {
        *ratio = slower([before, medians(&mut line).await]);
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let metrics = line.send("GET", "/metrics", &[], b"").await.body;
    let dropped = hits(&metrics, "log_lines");
    let log = gateway.read();
    assert_eq!(line.send("GET", "/health/live", &[], b"").await.status, 200);
    tokio::time::sleep(Duration::from_secs(1)).await;
    gateway.end().await;
    let log = log.join().expect("it reads");
    let told: u64 = log.iter().filter_map(|line| line["dropped"].as_u64()).sum();
    eprintln!(
        "unread log: {:.2} times as slow (median of 3), {dropped} lines dropped, told of {told}",
        ratios[1]
    );
    assert!(ratios[1] <= 3.0, "{ratios:?}");
    assert!(dropped > 0 && told >= dropped, "{dropped} dropped, told of {told}");
}

#[tokio::test]
async fn an_unread_log_does_not_hold_up_the_exit() {
    let server = Scripted::modern().tool(Tool::named("good")).start();
    let mut gateway = Unread::start(server, QUIET_AUDIT);
    let (mut line, missing) = (gateway.line(), "x".repeat(1_000));
    let flood = async {
        for _ in 0..500 {
            assert_eq!(line.post(CALL, &[], &call(&missing)).await.status, 404);
        }
    };
    tokio::time::timeout(Duration::from_secs(20), flood)
        .await
        .expect("requests are answered while nobody reads");
    let took = gateway.end().await;
    eprintln!("exit with an unread log: {took:?}");
    assert!(took < Duration::from_secs(3), "{took:?}");
}

/// How often a limit was met, by the metrics.
fn hits(metrics: &str, limit: &str) -> u64 {
    let start = format!("switchyard_limit_hits_total{{limit=\"{limit}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&start));
    line.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// what needs an audit line is refused before it runs while audit lines cannot be written, and no audit
/// line is lost.
#[tokio::test]
async fn nothing_runs_without_its_audit_line() {
    let server = Scripted::modern().tool(Tool::named("good")).start();
    let mut gateway = Unread::start(server, "warn,switchyard=info,switchyard::audit=debug");
    let mut line = gateway.line();
    let mut accepted = Vec::new();
    let mut refused = 0;
    for (path, body, tries) in [
        (CALL, call("good"), 4_000),
        ("/api/v1/mcp/servers/one/tools/approve?current=true", b"{}".to_vec(), 1_500),
        (CALL, call("good"), 50),
    ] {
        for _ in 0..tries {
            let told = tokio::time::timeout(Duration::from_secs(20), line.post(path, &[], &body)).await;
            let told = told.expect("it is answered while nobody reads");
            match told.status {
                503 => {
                    assert!(told.body.contains(r#""code":"audit_full""#), "{}", told.body);
                    assert!(told.header("retry-after").is_some(), "{told:?}");
                    refused += 1;
                }
                _ => accepted.push((path, told.header("x-request-id").expect("an id").to_owned())),
            }
        }
    }
    let runs = gateway.server.runs("good");
    let calls = accepted.iter().filter(|(path, _)| *path == CALL).count();
    let message = modern_call("good");
    let mcp = line.post("/mcp", &MODERN_CALL, message.as_bytes()).await;
    assert!(mcp.body.contains(r#""code":"audit_full""#), "{}", mcp.body);
    let log = gateway.read();
    let again = eventually("the queue is written", async || {
        let told = line.post(CALL, &[], &call("good")).await;
        (told.status == 200).then_some(told)
    });
    accepted.push((CALL, again.await.header("x-request-id").expect("an id").to_owned()));
    gateway.end().await;
    let log = log.join().expect("it reads");
    let audited = log.iter().filter(|line| line["target"] == "switchyard::audit");
    let audited: Vec<&str> = audited.map(|line| line["request_id"].as_str().expect("an id")).collect();
    let accepted: Vec<&str> = accepted.iter().map(|(_, id)| id.as_str()).collect();
    eprintln!("unread audit: {calls} calls ran, {refused} actions refused, {} lines", audited.len());
    assert!(refused > 1_000, "{refused}");
    assert_eq!(runs, calls, "a refused call ran");
    assert!(audited == accepted, "{} lines for {} actions", audited.len(), accepted.len());
}

const MODERN_CALL: [(&str, &str); 3] =
    [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "good")];

fn modern_call(tool: &str) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "_meta": meta}})
        .to_string()
}

#[tokio::test]
async fn refused_requests_cost_a_bounded_log_and_are_all_counted() {
    let gateway = Gateway::of(&Registry::new()).start().await;
    let started = Instant::now();
    let mut line = Line::to(&gateway.address);
    for _ in 0..REFUSED {
        let told = line.send("GET", "/health/live", &[("origin", "https://evil.example")], b"").await;
        assert_eq!(told.status, 403);
    }
    let took = started.elapsed();
    let of = |log: &[Value]| -> Vec<Value> {
        log.iter().filter(|line| line["code"] == "origin_not_allowed").cloned().collect()
    };
    let told = |lines: &[Value]| -> u64 {
        let shown = lines.iter().filter(|line| line["message"] == "refused").count() as u64;
        shown + lines.iter().filter_map(|line| line["suppressed"].as_u64()).sum::<u64>()
    };
    let all = REFUSED as u64;
    let lines = eventually("every refusal is counted", async || {
        let lines = of(&gateway.log());
        (told(&lines) >= all || lines.len() >= REFUSED).then_some(lines)
    });
    let lines = lines.await;
    let bytes: usize = lines.iter().map(|line| line.to_string().len() + 1).sum();
    eprintln!("{REFUSED} refused requests in {took:?}: {} lines, {} KB of log", lines.len(), bytes >> 10);
    // 50 lines, then 10 each second.
    let seconds = usize::try_from(took.as_secs()).expect("few") + 2;
    assert!(bytes <= (50 + 10 * seconds) * 512, "{bytes} bytes");
    assert_eq!(told(&lines), all);
    let metrics = line.send("GET", "/metrics", &[], b"").await.body;
    assert!(hits(&metrics, "log_pace") >= all - lines.len() as u64, "{metrics}");
}
