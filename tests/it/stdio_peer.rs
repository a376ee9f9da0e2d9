//! A scripted server on standard input and output, controlled by its arguments, for tests of child processes. It is an
//! example target because a test binary prints a banner.
//!
//! - `--era modern|legacy|dual` chooses the era (dual), `--tools a,b` the tools (echo).
//! - `--banner` prints a line that is not JSON.
//! - `--exit-on METHOD` ends the process, `--silent-on METHOD` never answers.
//! - `--record FILE` appends `started PID`, `grandchild PID` and every line received.
//! - `--grandchild` starts another process.
//! - `--refuse METHOD` answers with an error that repeats the variable `KEY`, and also writes it to standard error.
//! - `--asks` makes it the server of `support/asker.rs`, `--stateful` that of `support/stateful.rs`.
//! - `--flood LINE` writes that line to standard output again and again from the first call on, `--flood-errors LINE`
//!   to standard error. `--flood-one-line TEXT` and `--flood-one-error TEXT` write no line ends.
//! - `--pause MS` waits between the record of a call and its answer.
//! - `--noise N` writes N lines to standard error.
//! - `--stays` continues after the end of its input.
//!
//! The tool `paced` sends eight progress messages, 300 ms apart, before it answers. `exit` ends the process, `hang`
//! never answers, `read` is declared read-only, and `count` returns the number of its calls in this process. `form`
//! asks its client with the input requests of 2026-07-28.

#![allow(unreachable_pub)] // a program exports nothing

#[path = "support/asker.rs"]
mod asker;
#[path = "support/stateful.rs"]
mod stateful;

use std::fs::OpenOptions;
use std::io::{BufRead, Write};
use std::process::{Command, Stdio, exit};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

const MODERN: &str = "2026-07-28";

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
    #[serde(borrow, default)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(default)]
    name: Option<String>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(default, rename = "protocolVersion")]
    version: Option<String>,
    #[serde(default, rename = "_meta")]
    meta: Value,
    #[serde(default, rename = "inputResponses")]
    inputs: Value,
}

struct Peer {
    arguments: Vec<String>,
}

#[allow(clippy::zombie_processes)] // a grandchild that nobody waits for is what it is asked for
fn main() {
    let peer = Peer { arguments: std::env::args().collect() };
    peer.record(&format!("started {}", std::process::id()));
    if peer.has("--grandchild") {
        let child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().expect("sleep starts");
        peer.record(&format!("grandchild {}", child.id()));
    }
    for number in 0..peer.option("--noise").map_or(0, |count| count.parse().expect("a number")) {
        eprintln!("noise {number} {}", "x".repeat(200));
    }
    if peer.has("--banner") {
        say("Welcome! This line is not a message.");
    }
    if peer.has("--asks") {
        return ask();
    }
    if peer.has("--stateful") {
        return keep_state();
    }
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        peer.record(&line);
        if line.contains("tools/call") {
            peer.begin_floods();
        }
        if let Some(answer) = serde_json::from_str(&line).ok().and_then(|envelope| peer.answer(&envelope)) {
            say(&answer);
        }
    }
    while peer.has("--stays") {
        std::thread::park();
    }
}

fn ask() {
    let mut asker = asker::Asker::default();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        asker.take(&line, &()).iter().for_each(|((), message)| say(message));
    }
}

fn keep_state() {
    let mut state = stateful::Stateful::default();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let (answer, unasked) = state.take(&line);
        answer.into_iter().chain(unasked.iter().map(Value::to_string)).for_each(|message| say(&message));
    }
}

fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    // An error means that the reader is gone; the end of input follows.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

/// Writes `text` to `stream` in blocks until the reader is gone.
fn flood(text: &str, mut stream: impl Write + Send + 'static) {
    let block = text.repeat(32 * 1024 / text.len());
    std::thread::spawn(move || while stream.write_all(block.as_bytes()).is_ok() {});
}

impl Peer {
    fn has(&self, name: &str) -> bool {
        self.arguments.iter().any(|argument| argument == name)
    }

    fn option(&self, name: &str) -> Option<&str> {
        let at = self.arguments.iter().position(|argument| argument == name)?;
        self.arguments.get(at + 1).map(String::as_str)
    }

    fn record(&self, line: &str) {
        if let Some(path) = self.option("--record") {
            let mut file = OpenOptions::new().append(true).create(true).open(path).expect("a file");
            writeln!(file, "{line}").expect("it can be written");
        }
    }

    /// Starts a thread for each stream that is flooded.
    fn begin_floods(&self) {
        if let Some(line) = self.option("--flood") {
            flood(&format!("{line}\n"), std::io::stdout());
        }
        if let Some(line) = self.option("--flood-errors") {
            flood(&format!("{line}\n"), std::io::stderr());
        }
        if let Some(text) = self.option("--flood-one-line") {
            flood(text, std::io::stdout());
        }
        if let Some(text) = self.option("--flood-one-error") {
            flood(text, std::io::stderr());
        }
    }

    #[allow(clippy::disallowed_methods)] // a program without a runtime
    fn answer(&self, request: &Envelope<'_>) -> Option<String> {
        let (id, method) = (request.id?.get(), request.method.as_deref()?);
        if self.option("--exit-on") == Some(method) {
            exit(3);
        }
        if self.option("--silent-on") == Some(method) {
            return None;
        }
        if self.option("--refuse") == Some(method) {
            let key = std::env::var("KEY").unwrap_or_default();
            eprintln!("bad key {key}");
            let error = json!({"code": -32001, "message": format!("Incorrect API key provided: {key}.")});
            return Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
        }
        if let Some(pause) = self.option("--pause").filter(|_| method == "tools/call") {
            sleep(Duration::from_millis(pause.parse().expect("a number")));
        }
        let reply = match self.reply(method, request.params.as_ref())? {
            Ok(result) => format!(r#""result":{result}"#),
            Err((code, message)) => format!(r#""error":{{"code":{code},"message":"{message}"}}"#),
        };
        Some(format!(r#"{{"jsonrpc":"2.0","id":{id},{reply}}}"#))
    }

    fn reply(
        &self,
        method: &str,
        params: Option<&Params<'_>>,
    ) -> Option<Result<String, (i64, &'static str)>> {
        let era = self.option("--era").unwrap_or("dual");
        let is_modern =
            params.is_some_and(|params| params.meta["io.modelcontextprotocol/protocolVersion"] == MODERN);
        let end = if is_modern { r#","resultType":"complete","ttlMs":0,"cacheScope":"public""# } else { "" };
        let info = json!({"name": "stdio-peer", "version": "1"});
        Some(match method {
            "server/discover" if era != "legacy" => Ok(format!(
                r#"{{"supportedVersions":["{MODERN}"],"capabilities":{{"tools":{{}}}},"_meta":{{"io.modelcontextprotocol/serverInfo":{info}}}{end}}}"#
            )),
            "initialize" if era != "modern" => {
                let asked = params.and_then(|params| params.version.as_deref()).unwrap_or_default();
                let version = if asked < MODERN { asked } else { "2025-11-25" };
                Ok(json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
                    .to_string())
            }
            "ping" if !is_modern => Ok("{}".to_owned()),
            _ if is_modern && era == "legacy" => Err((-32600, "initialize first")),
            "tools/list" => Ok(format!(r#"{{"tools":{}{end}}}"#, self.tools())),
            "tools/call" => {
                return call(params?, if is_modern { r#","resultType":"complete""# } else { "" });
            }
            _ => Err((-32601, "no such method")),
        })
    }

    fn tools(&self) -> Value {
        let names = self.option("--tools").unwrap_or("echo").split(',');
        let tool = |name: &str| {
            let mut tool =
                json!({"name": name, "description": "of the stdio peer", "inputSchema": {"type": "object"}});
            if name == "read" {
                tool["annotations"] = json!({"readOnlyHint": true});
            }
            tool
        };
        names.map(tool).collect()
    }
}

#[allow(clippy::disallowed_methods)] // a program without a runtime
fn pace(token: &Value) {
    for progress in 1..=8 {
        sleep(Duration::from_millis(300));
        let params = json!({"progressToken": token, "progress": progress});
        say(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).to_string());
    }
}

fn call(params: &Params<'_>, end: &str) -> Option<Result<String, (i64, &'static str)>> {
    match params.name.as_deref()? {
        "exit" => exit(4),
        "hang" => None,
        "count" => {
            static COUNT: AtomicU64 = AtomicU64::new(1);
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            Some(Ok(format!(r#"{{"content":[{{"type":"text","text":"{count}"}}]{end}}}"#)))
        }
        "form" if params.inputs.is_null() => Some(Ok(json!({
            "resultType": "input_required",
            "inputRequests": {"q": {"method": "elicitation/create", "params": {
                "message": "which?", "requestedSchema": {"type": "object", "properties": {}}}}},
        })
        .to_string())),
        "form" => {
            let text = params.inputs["q"]["content"]["nonce"].to_string();
            Some(Ok(format!(r#"{{"content":[{{"type":"text","text":{text}}}]{end}}}"#)))
        }
        name => {
            if name == "paced" {
                pace(&params.meta["progressToken"]);
            }
            let text = params.arguments.map_or("(none)", RawValue::get);
            Some(Ok(format!(r#"{{"content":[{{"type":"text","text":{}}}]{end}}}"#, json!(text))))
        }
    }
}
