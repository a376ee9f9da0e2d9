//! The fixture servers and client programs in `fixtures/`, written with the SDKs of other makers.
//!
//! Every server offers the same; every program tries every feature on each target it is given and
//! answers what the server asks it. What comes out is held against one table: all is `ok`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::rmcp_client;
use crate::support::peers::{self, Listening};

/// What each program does with each target. They all can with all of their servers when nothing
/// stands between: `direct` holds that. One more is `CANCEL`.
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

/// Comes after all others of all programs: on a channel that calls share, a call given up counts as
/// open for five seconds, and what the server asks or logs meanwhile may be its own.
pub const CANCEL: [&str; 1] = ["cancel"];

/// How long a program may take with all of its targets.
const PATIENCE: Duration = Duration::from_secs(90);

/// The outcome of each feature, by target.
type Outcomes = BTreeMap<String, BTreeMap<String, String>>;

/// A client program and how it negotiates.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    interpreter: &'static str,
    file: &'static str,
    mode: &'static str,
    /// The revision it ends up with.
    speaks: &'static str,
}

impl Program {
    const fn typescript(file: &'static str, mode: &'static str, speaks: &'static str) -> Self {
        Self { interpreter: "peer-node", file, mode, speaks }
    }

    const fn python(mode: &'static str, speaks: &'static str) -> Self {
        Self { interpreter: "peer-python", file: "client.py", mode, speaks }
    }
}

pub const TS1: Program = Program::typescript("client-ts1.mjs", "legacy", "2025-11-25");
pub const TS2: Program = Program::typescript("client-ts2.mjs", "legacy", "2025-11-25");
pub const TS2_AUTO: Program = Program::typescript("client-ts2.mjs", "auto", "2026-07-28");
pub const TS2_MARCH: Program = Program::typescript("client-ts2.mjs", "2025-03-26", "2025-03-26");
pub const TS2_JUNE: Program = Program::typescript("client-ts2.mjs", "2025-06-18", "2025-06-18");
pub const PYTHON: Program = Program::python("legacy", "2025-11-25");
pub const PYTHON_AUTO: Program = Program::python("auto", "2026-07-28");

/// Something to talk to: its name in the outcome, and what `features.mjs` says of it.
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

/// Starts a fixture server that listens; it ends with what is returned.
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
    let mut command = peers::command(program.interpreter, home.path());
    command.args([path(program.file), ask.to_string()]);
    let (stdout, stderr) = output(command).await;
    // The last line: the SDKs have things to say too.
    let last = stdout.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{}: {error}: {stdout}\n{stderr}", program.file))
}

/// Runs every program with `features` on every target, and says what went wrong.
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

/// The same with the client of the Rust SDK, over Streamable HTTP, speaking `revision`.
pub async fn visit_by_rmcp(revision: &str, targets: &[Target], features: &[&str]) -> Vec<String> {
    let mut outcomes = Outcomes::new();
    for (name, target) in targets {
        let url = target["url"].as_str().expect("a URL");
        outcomes.insert(name.clone(), rmcp_client::outcome(url, revision, features).await);
    }
    judge(&format!("rmcp {revision}"), revision, &outcomes, features)
}

/// A paragraph for each target with an outcome that is not `ok`.
fn judge(client: &str, speaks: &str, outcomes: &Outcomes, features: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (target, outcome) in outcomes {
        let found = |what: &str| outcome.get(what).map_or("not tried", String::as_str);
        let tried = features.iter().map(|feature| (*feature, found(feature), "ok"));
        // Where there is no connection nothing else was tried.
        let connected = found("connected") == speaks;
        let all =
            std::iter::once(("connected", found("connected"), speaks)).chain(tried.filter(|_| connected));
        let lines: String =
            all.filter(|(_, found, wanted)| found != wanted).fold(String::new(), |mut lines, line| {
                write!(lines, "\n    {}: {}", line.0, line.1).expect("a string");
                lines
            });
        if !lines.is_empty() {
            wrong.push(format!("{client} -> {target}{lines}"));
        }
    }
    wrong
}

/// Fails with everything that went wrong.
pub fn all_is_ok(wrong: &[Vec<String>]) {
    let wrong = wrong.concat();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Runs a program to its end, beside the test.
async fn output(mut command: Command) -> (String, String) {
    let ran = tokio::task::spawn_blocking(move || command.output().expect("it runs"));
    let output = tokio::time::timeout(PATIENCE, ran).await.expect("it ends").expect("it is waited for");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr))
}
