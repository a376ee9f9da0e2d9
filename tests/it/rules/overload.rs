//! Overload: with more calls than a server can take, it works at its capacity, and other calls are refused at once.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;

use crate::support::line::Line;
use crate::support::scripted::{Act, Scripted, Tool};
use crate::support::{Gateway, Registry};

/// How long the server takes for a call: long compared with the noise of a busy machine.
const SERVICE: Duration = Duration::from_millis(400);
/// How long a refused call may wait for its refusal.
const SHED: Duration = Duration::from_millis(10);
/// Calls that the server gets at a time.
const PLACES: u32 = 8;
/// Calls come at this multiple of the server's capacity.
const OVERLOAD: u32 = 4;
/// How many times the server's slots are filled.
const ROUNDS: u32 = 10;

/// RULES R14: at four times its capacity a server does at least 80 % of its capacity, and refused calls do not wait.
#[tokio::test]
async fn at_four_times_its_capacity_a_server_is_kept_busy_and_the_rest_refused_at_once() {
    let server = Scripted::modern().tool(Tool::named("a").does(Act::Slow(SERVICE))).start();
    let limits = format!("limits: {{concurrent_calls: {PLACES}, waiting_calls: {PLACES}}}");
    let registry = Registry::new().http("one", &server.url()).with(&limits).with("retry_attempts: 0");
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["a"]).await;
    let calls = PLACES * OVERLOAD * ROUNDS;
    let began = Instant::now();
    let call = async |number: u32| {
        let mut line = Line::to(&gateway.address);
        // Connected before the measurement, so that only the answer is measured.
        line.send("GET", "/health/live", &[], b"").await;
        tokio::time::sleep_until((began + SERVICE * number / (PLACES * OVERLOAD)).into()).await;
        let asked = Instant::now();
        let body = json!({"server": "one", "tool": "a", "arguments": {"n": number}}).to_string();
        let answer = line.post("/api/v1/mcp/call", &[], body.as_bytes()).await;
        (answer, asked.elapsed())
    };
    let answers = join_all((0..calls).map(call)).await;
    let took = began.elapsed().as_secs_f64();

    let (good, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|(answer, _)| answer.status == 200);
    let could = f64::from(PLACES) * took / SERVICE.as_secs_f64();
    let (good, of) = (u32::try_from(good.len()).expect("few"), u32::try_from(refused.len()).expect("few"));
    let share = f64::from(good) / could;
    assert!(share >= 0.8, "{good} of {could:.0} calls in {took:.1} s: {share:.2}");
    assert_eq!(
        server.runs("a"),
        good as usize,
        "what was run was answered, and what was refused was not run"
    );
    for (answer, _) in &refused {
        assert_eq!(answer.status, 429, "{answer:?}");
        assert!(
            answer.body.contains("\"overloaded\"") && answer.header("retry-after").is_some(),
            "{answer:?}"
        );
    }
    let mut waits: Vec<Duration> = refused.iter().map(|(_, took)| *took).collect();
    waits.sort_unstable();
    assert!(of > calls / 2, "{of} were refused: there was no overload");
    let (half, most) = (waits[waits.len() / 2], waits[waits.len() * 9 / 10]);
    eprintln!(
        "R14: goodput {:.0} %, half of the refused waited {half:?}, nine of ten {most:?}",
        share * 100.0
    );
    assert!(most <= SHED, "one of ten that were refused waited for more than {most:?}");
}
