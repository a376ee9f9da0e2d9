//! The fixture servers and client programs in `fixtures/`, written with the SDKs of other makers.
//!
//! Every server has the same offer. Every program tries every feature on each of its targets and
//! answers the server's requests. The results are compared with one table, in which all is `ok`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::rmcp_client;
use crate::support::peers::{self, Listening};

/// The features that each program tries on each target. All of them work with all of the servers if
/// the connection is direct, which `direct` checks. `CANCEL` is tried separately.
pub const FEATURES: [&str; 12] = [
    "tools",
    "resources",
    "missing",
    "prompts",
    "completion",
    "progress",
    "log",
    "elicitation",
    "sampling",
    "roots",
    "list_changed",
    "updated",
];

/// Comes after all other features of all programs. On a channel that calls share, an abandoned call
/// counts as running for five seconds. Requests and log messages of the server in that time may
/// belong to it.
pub const CANCEL: [&str; 1] = ["cancel"];

/// How long a program may take for all of its targets.
const WAIT: Duration = Duration::from_secs(90);

/// The result of each feature, by target.
type Outcomes = BTreeMap<String, BTreeMap<String, String>>;

/// A client program and the way it negotiates.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    file: &'static str,
    mode: &'static str,
    /// The revision that it negotiates.
    speaks: &'static str,
}

impl Program {
    const fn typescript(file: &'static str, mode: &'static str, speaks: &'static str) -> Self {
        Self { file, mode, speaks }
    }
}

pub const TS1: Program = Program::typescript("client-ts1.mjs", "legacy", "2025-11-25");
pub const TS2: Program = Program::typescript("client-ts2.mjs", "legacy", "2025-11-25");
pub const TS2_AUTO: Program = Program::typescript("client-ts2.mjs", "auto", "2026-07-28");
pub const TS2_MARCH: Program = Program::typescript("client-ts2.mjs", "2025-03-26", "2025-03-26");
pub const TS2_JUNE: Program = Program::typescript("client-ts2.mjs", "2025-06-18", "2025-06-18");
/// A client of both eras at a server that speaks the legacy era only.
pub const TS2_FALLS_BACK: Program = Program::typescript("client-ts2.mjs", "auto", "2025-11-25");

/// A target: its name in the results, and its description for `features.mjs`.
pub type Target = (String, Value);

pub fn http(name: &str, url: &str) -> Target {
    (name.to_owned(), json!({"transport": "http", "url": url}))
}

pub fn sse(name: &str, url: &str) -> Target {
    (name.to_owned(), json!({"transport": "sse", "url": url}))
}

pub fn stdio(name: &str, command: &[String]) -> Target {
    (name.to_owned(), json!({"transport": "stdio", "command": command}))
}

/// The path of a file in `fixtures/`.
pub fn path(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/peers/fixtures").join(file);
    path.to_str().expect("UTF-8").to_owned()
}

/// Starts a fixture server, which ends when the returned value is dropped.
pub async fn server(interpreter: &str, arguments: &[&str]) -> Listening {
    peers::listening(interpreter, |_| {
        std::iter::once(path(arguments[0]))
            .chain(arguments[1..].iter().map(|&word| word.to_owned()))
            .collect()
    })
    .await
}

/// Runs `program` with `features` on every target.
async fn outcomes(program: Program, targets: &[Target], features: &[&str]) -> Outcomes {
    let home = tempfile::tempdir().expect("a folder");
    let targets: serde_json::Map<String, Value> = targets.iter().cloned().collect();
    let ask = json!({"mode": program.mode, "features": features, "targets": targets});
    let mut command = peers::command("peer-node", home.path());
    command.args([path(program.file), ask.to_string()]);
    let (stdout, stderr) = output(command).await;
    // Only the last line counts, because the SDKs print lines too.
    let last = stdout.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{}: {error}: {stdout}\n{stderr}", program.file))
}

/// Runs every program with `features` on every target, and returns the failures.
pub async fn visit(programs: &[Program], targets: &[Target], features: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    for program in programs {
        let outcomes = outcomes(*program, targets, features).await;
        assert_eq!(outcomes.len(), targets.len());
        wrong.extend(judge(
            &format!("{} {}", program.file, program.mode),
            program.speaks,
            &outcomes,
            features,
        ));
    }
    wrong
}

/// Tries the features with the client of the Rust SDK, over Streamable HTTP in `revision`.
pub async fn visit_by_rmcp(
    (asks_for, speaks): (&str, &str),
    targets: &[Target],
    features: &[&str],
) -> Vec<String> {
    let mut outcomes = Outcomes::new();
    for (name, target) in targets {
        let url = target["url"].as_str().expect("a URL");
        outcomes.insert(name.clone(), rmcp_client::outcome(url, asks_for, features).await);
    }
    judge(&format!("rmcp {asks_for}"), speaks, &outcomes, features)
}

/// Returns a paragraph for each target with a result that is not `ok`.
fn judge(client: &str, speaks: &str, outcomes: &Outcomes, features: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (target, outcome) in outcomes {
        let found = |what: &str| outcome.get(what).map_or("not tried", String::as_str);
        let tried = features.iter().map(|feature| (*feature, found(feature), "ok"));
        // Without a connection nothing else was tried.
        let connected = found("connected") == speaks;
        let all =
            std::iter::once(("connected", found("connected"), speaks)).chain(tried.filter(|_| connected));
        let lines: String =
            all.filter(|(_, found, expected)| found != expected).fold(String::new(), |mut lines, line| {
                write!(lines, "\n    {}: {}", line.0, line.1).expect("a string");
                lines
            });
        if !lines.is_empty() {
            wrong.push(format!("{client} -> {target}{lines}"));
        }
    }
    wrong
}

/// Fails with a list of all failures.
pub fn all_is_ok(wrong: &[Vec<String>]) {
    let wrong = wrong.concat();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Runs a program to its end without blocking the test.
async fn output(mut command: Command) -> (String, String) {
    let ran = tokio::task::spawn_blocking(move || command.output().expect("it runs"));
    let output = tokio::time::timeout(WAIT, ran).await.expect("it ends").expect("it is waited for");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr))
}
