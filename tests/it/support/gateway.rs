//! The program under test: `switchyard serve` on a port of its own, and `switchyard stdio`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::answer::Answer;
use super::client::{Client, LEGACY, MODERN, client_info};
use super::process::Process;
use super::registry::Registry;
use super::user::User;
use super::{PATIENCE, eventually};

/// The program with a configuration, not started yet.
#[derive(Debug)]
pub struct Gateway {
    folder: TempDir,
    environment: Vec<(String, String)>,
    path: Vec<PathBuf>,
    listen: &'static str,
    pub(super) user: User,
}

impl Gateway {
    /// With `yaml` as its registry file, in a folder of its own.
    pub fn with_config(yaml: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("mcp_servers.yaml"), yaml).expect("it can be written");
        Self {
            folder,
            environment: Vec::new(),
            path: Vec::new(),
            listen: "127.0.0.1:0",
            user: User::default(),
        }
    }

    /// With `registry` as its registry file.
    pub fn of(registry: &Registry) -> Self {
        Self::with_config(&registry.yaml())
    }

    /// With one more variable in its environment, which is empty but for `PATH` and `HOME`.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With a folder of programs before the others.
    pub fn path(mut self, folder: &Path) -> Self {
        self.path.push(folder.to_owned());
        self
    }

    /// With `/proc/PID/fd` readable for a test that does not run as root.
    pub fn dumpable(self) -> Self {
        self.env("SWITCHYARD_DUMPABLE", "1")
    }

    /// Listening elsewhere than on loopback.
    pub fn listening_on(mut self, address: &'static str) -> Self {
        self.listen = address;
        self
    }

    /// The folder its configuration stands in, which is also its working folder and its home.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs the program to its end, where it ends by itself.
    pub fn output(&self, arguments: &[&str]) -> Output {
        self.program().args(arguments).stdin(Stdio::null()).output().expect("it runs")
    }

    /// Starts it and waits until it listens.
    pub async fn start(self) -> Running {
        let mut command = self.command("serve");
        command.args(["--listen", self.listen]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = Process::start(command);
        let address = eventually("the program listens", async || {
            assert!(!process.has_ended(), "it ended: {}", process.errors().join("\n"));
            process.errors().iter().find_map(|line| bound_address(line))
        });
        let address = address.await;
        Running { process, client: Client::at(&format!("http://{address}/mcp")), address, gateway: self }
    }

    /// Starts it as a server on its standard input and output.
    pub fn start_stdio(self) -> StdioSession {
        let command = self.command("stdio");
        self.piped(command)
    }

    /// Starts `serve` with its standard input and output as a client has them, where these are its only way in.
    pub fn start_piped(self) -> StdioSession {
        let command = self.command("serve");
        self.piped(command)
    }

    /// The same where it listens beside.
    pub fn start_piped_and_listening(self) -> StdioSession {
        let mut command = self.command("serve");
        command.args(["--listen", self.listen]);
        self.piped(command)
    }

    fn piped(self, mut command: Command) -> StdioSession {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        StdioSession::of(Process::start(command), Some(self.folder))
    }

    /// The command line and environment of one start, for clients that spawn it themselves.
    pub fn command(&self, command: &str) -> Command {
        let mut program = self.program();
        program.args([command, "--config", "mcp_servers.yaml"]);
        program
    }

    fn program(&self) -> Command {
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let folders = self.path.iter().cloned().chain(std::env::split_paths(&inherited));
        let mut child = self.user.command();
        child
            .env_clear()
            .env("PATH", std::env::join_paths(folders).expect("no colon in a folder"))
            .env("HOME", self.folder.path())
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.folder.path());
        child
    }
}

/// `{"message":"listening","address":"127.0.0.1:40123",…}`
fn bound_address(line: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    (line["message"] == "listening").then(|| line["address"].as_str().expect("an address").to_owned())
}

/// The program, listening.
#[derive(Debug)]
pub struct Running {
    process: Process,
    /// Where it listens, as `127.0.0.1:40123`.
    pub address: String,
    client: Client,
    gateway: Gateway,
}

impl Running {
    /// The URL of `path`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A client of the MCP endpoint over all servers.
    pub fn mcp(&self) -> Client {
        self.client.clone()
    }

    /// A client of the endpoint of one server alone.
    pub fn mcp_of(&self, server: &str) -> Client {
        self.client.to(&self.url(&format!("/mcp/{server}")))
    }

    /// GET of a REST route, below `/api/v1/mcp`.
    pub async fn get(&self, route: &str) -> Answer {
        self.client.to(&self.url(&format!("/api/v1/mcp{route}"))).bare(http::Method::GET, &[]).await
    }

    /// POST to a REST route, below `/api/v1/mcp`.
    pub async fn post(&self, route: &str, body: &str) -> Answer {
        self.client.to(&self.url(&format!("/api/v1/mcp{route}"))).post(body, &[]).await
    }

    /// Runs a tool over REST.
    pub async fn call(&self, server: &str, tool: &str, arguments: Value) -> Answer {
        let body = json!({"server": server, "tool": tool, "arguments": arguments});
        self.post("/call", &body.to_string()).await
    }

    /// Waits until the catalog has all of `tools`, and returns every name in it.
    pub async fn offers(&self, tools: &[&str]) -> Vec<String> {
        let client = self.mcp();
        eventually(&format!("the tools {tools:?} are offered"), async || {
            let names = client.modern("tools/list", json!({})).await.tool_names();
            tools.iter().all(|tool| names.iter().any(|name| name == tool)).then_some(names)
        })
        .await
    }

    /// The same for one tool, asked for with a credential.
    pub async fn offers_to(&self, tool: &str, credential: &str) {
        let client = self.mcp().with_header("authorization", credential);
        eventually(&format!("{tool} is offered"), async || {
            let names = client.modern("tools/list", json!({})).await.tool_names();
            names.iter().any(|name| name == tool).then_some(())
        })
        .await;
    }

    /// Puts `yaml` in the place of its registry file.
    pub fn rewrite(&self, yaml: &str) {
        std::fs::write(self.gateway.folder().join("mcp_servers.yaml"), yaml).expect("it can be written");
    }

    /// The folder that it runs in.
    pub fn folder(&self) -> &Path {
        self.gateway.folder()
    }

    /// Sends it SIGHUP.
    pub fn hang_up(&self) {
        self.process.hang_up();
    }

    /// The most memory it has held so far, in bytes (`VmHWM`).
    pub fn peak_memory(&self) -> u64 {
        self.memory("VmHWM:")
    }

    /// The memory it holds now, in bytes (`VmRSS`).
    pub fn resident_memory(&self) -> u64 {
        self.memory("VmRSS:")
    }

    fn memory(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a size");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    }

    /// Its number among the processes.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The names of its threads.
    pub fn threads(&self) -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process.id())).expect("it runs");
        // A thread may end meanwhile.
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok()).collect()
    }

    /// How many files and sockets it has open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).expect("it runs").count()
    }

    /// The lines of its log so far, each one JSON.
    pub fn log(&self) -> Vec<Value> {
        let lines = self.process.errors();
        lines.iter().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
    }

    /// Asks it to end (SIGTERM).
    pub fn ask_to_end(&self) {
        self.process.ask_to_end();
    }

    /// Asks it to end and waits for that.
    pub async fn stop(mut self) -> ExitStatus {
        self.process.ask_to_end();
        tokio::task::spawn_blocking(move || self.process.wait()).await.expect("it is waited for")
    }

    /// Kills it (SIGKILL) and keeps its folder.
    pub fn kill(self) -> Gateway {
        self.process.kill();
        self.gateway
    }
}

/// A conversation with a child over its standard input and output, one message a line.
#[derive(Debug)]
pub struct StdioSession {
    process: Process,
    input: Option<ChildStdin>,
    output: mpsc::Receiver<String>,
    next_id: u64,
    _folder: Option<TempDir>,
}

impl StdioSession {
    /// Speaks to `process`, whose input and output are piped.
    pub fn of(mut process: Process, folder: Option<TempDir>) -> Self {
        let (input, stdout) = (process.take_stdin(), process.take_stdout());
        let (lines, output) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        Self { process, input: Some(input), output, next_id: 1, _folder: folder }
    }

    /// Writes one line.
    pub fn send(&mut self, line: &str) {
        let input = self.input.as_mut().expect("standard input is open");
        writeln!(input, "{line}").expect("it reads");
    }

    /// The next line; everything on standard output must be a message. `None` at its end.
    pub fn next(&mut self) -> Option<Value> {
        match self.output.recv_timeout(PATIENCE) {
            Ok(line) => {
                let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("stdout: {line}"));
                assert_eq!(message["jsonrpc"], "2.0", "stdout: {line}");
                Some(message)
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("nothing on standard output"),
        }
    }

    /// Sends a legacy request and returns its response; notifications on the way are dropped.
    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        loop {
            let message = self.next().expect("a response");
            if message["id"] == id {
                return message;
            }
        }
    }

    /// Sends a modern request and returns its response.
    pub fn modern(&mut self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": client_info(),
        });
        self.request(method, &params)
    }

    /// The handshake of the legacy era; returns the result of `initialize`.
    pub fn initialize(&mut self) -> Value {
        let params = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client_info()});
        let response = self.request("initialize", &params);
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        response["result"].clone()
    }

    /// Sends it SIGHUP.
    pub fn hang_up(&self) {
        self.process.hang_up();
    }

    /// Where it listens beside, once it does.
    pub async fn address(&mut self) -> String {
        let process = &mut self.process;
        eventually("the program listens", async || {
            process.errors().iter().find_map(|line| bound_address(line))
        })
        .await
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.process.has_ended()
    }

    /// Asks it to end and waits for that.
    pub async fn stop(mut self) -> ExitStatus {
        self.process.ask_to_end();
        tokio::task::spawn_blocking(move || self.process.wait()).await.expect("it is waited for")
    }

    /// Closes standard input; what was asked before is still answered.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Closes standard input, reads to the end, and returns what still came and the exit status.
    pub fn finish(mut self) -> (Vec<Value>, ExitStatus) {
        self.close_input();
        let mut rest = Vec::new();
        while let Some(message) = self.next() {
            rest.push(message);
        }
        (rest, self.process.wait())
    }
}
