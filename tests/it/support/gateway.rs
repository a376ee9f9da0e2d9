//! The program under test: `switchyard serve` on its own port, and `switchyard stdio`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::answer::Answer;
use super::client::{Client, LEGACY, MODERN, client_info};
use super::process::Process;
use super::registry::Registry;
use super::user::User;
use super::{WAIT, eventually};

/// The program with a configuration, not started yet.
#[derive(Debug)]
pub struct Gateway {
    folder: TempDir,
    environment: Vec<(String, String)>,
    path: Vec<PathBuf>,
    listen: &'static str,
    names_file: bool,
    pub(super) user: User,
}

impl Gateway {
    /// Creates a program with `yaml` as its configuration file, in its own folder.
    pub fn with_config(yaml: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("mcp_servers.yaml"), yaml).expect("it can be written");
        Self {
            folder,
            environment: Vec::new(),
            path: Vec::new(),
            listen: "127.0.0.1:0",
            names_file: true,
            user: User::default(),
        }
    }

    /// Creates a program in an empty folder, for which no configuration file is named.
    pub fn without_file() -> Self {
        let gateway = Self { names_file: false, ..Self::with_config("") };
        std::fs::remove_file(gateway.folder().join("mcp_servers.yaml")).expect("it was there");
        gateway
    }

    /// Creates a program with `registry` as its configuration file.
    pub fn of(registry: &Registry) -> Self {
        Self::with_config(&registry.yaml())
    }

    /// Adds a variable to its environment, which otherwise has only `PATH` and `HOME`.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a folder of programs before the others.
    pub fn path(mut self, folder: &Path) -> Self {
        self.path.push(folder.to_owned());
        self
    }

    /// Makes `/proc/PID/fd` readable for a test that does not run as root.
    pub fn dumpable(self) -> Self {
        self.env("SWITCHYARD_DUMPABLE", "1")
    }

    /// Makes it listen on another address than loopback.
    pub fn listening_on(mut self, address: &'static str) -> Self {
        self.listen = address;
        self
    }

    /// The folder of its configuration file, which is also its working folder and its home.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs the program until it ends by itself. Starts `stdio`.
    pub fn output(&self, arguments: &[&str]) -> Output {
        self.program().args(arguments).stdin(Stdio::null()).output().expect("it runs")
    }

    /// Runs the program until it ends by itself. Returns how it ended, and all that it has printed.
    pub fn printed(&self, arguments: &[&str]) -> (ExitStatus, String) {
        let Output { status, stdout, stderr } = self.output(arguments);
        (status, String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
    }

    /// Runs the program until it ends by itself. The reader of its standard output is closed.
    pub fn output_unread(&self, arguments: &[&str]) -> Output {
        let (_, unread) = std::io::pipe().expect("a pipe");
        self.program().args(arguments).stdin(Stdio::null()).stdout(unread).output().expect("it runs")
    }

    /// Runs the program with `input` on standard input until it ends by itself.
    pub fn output_with_input(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut program = self.program();
        program.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = program.spawn().expect("it runs");
        // It may end without reading.
        let _ = child.stdin.take().expect("piped").write_all(input);
        child.wait_with_output().expect("it ends")
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

    /// Starts `serve` with only standard input and output for clients.
    pub fn start_piped(self) -> StdioSession {
        let command = self.command("serve");
        self.piped(command)
    }

    /// Starts `serve` with standard input and output, and a listener beside it.
    pub fn start_piped_and_listening(self) -> StdioSession {
        let mut command = self.command("serve");
        command.args(["--listen", self.listen]);
        self.piped(command)
    }

    fn piped(self, mut command: Command) -> StdioSession {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        StdioSession::of(Process::start(command), Some(self.folder))
    }

    /// Returns the command line and environment of one start, for clients that spawn it themselves.
    pub fn command(&self, command: &str) -> Command {
        let mut program = self.program();
        program.arg(command);
        if self.names_file {
            program.args(["--config", "mcp_servers.yaml"]);
        }
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

/// The running program, which listens.
#[derive(Debug)]
pub struct Running {
    process: Process,
    /// Its address, such as `127.0.0.1:40123`.
    pub address: String,
    client: Client,
    gateway: Gateway,
}

impl Running {
    /// The URL of `path`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns a client of the MCP endpoint of all servers.
    pub fn mcp(&self) -> Client {
        self.client.clone()
    }

    /// Returns a client of the MCP endpoint of one server.
    pub fn mcp_of(&self, server: &str) -> Client {
        self.client.to(&self.url(&format!("/mcp/{server}")))
    }

    /// Sends GET to a REST route below `/api/v1/mcp`.
    pub async fn get(&self, route: &str) -> Answer {
        self.client.to(&self.url(&format!("/api/v1/mcp{route}"))).bare(http::Method::GET, &[]).await
    }

    /// Sends POST to a REST route below `/api/v1/mcp`.
    pub async fn post(&self, route: &str, body: &str) -> Answer {
        self.client.to(&self.url(&format!("/api/v1/mcp{route}"))).post(body, &[]).await
    }

    /// Sends DELETE to a REST route below `/api/v1/mcp`.
    pub async fn delete(&self, route: &str) -> Answer {
        self.client.to(&self.url(&format!("/api/v1/mcp{route}"))).bare(http::Method::DELETE, &[]).await
    }

    /// Runs a tool over REST.
    pub async fn call(&self, server: &str, tool: &str, arguments: Value) -> Answer {
        let body = json!({"server": server, "tool": tool, "arguments": arguments});
        self.post("/call", &body.to_string()).await
    }

    /// Waits until the catalog has all of `tools`, and returns all names in it.
    pub async fn offers(&self, tools: &[&str]) -> Vec<String> {
        let client = self.mcp();
        eventually(&format!("the tools {tools:?} are offered"), async || {
            let names = client.modern("tools/list", json!({})).await.tool_names();
            tools.iter().all(|tool| names.iter().any(|name| name == tool)).then_some(names)
        })
        .await
    }

    /// Waits until one tool is in the catalog of a client with `credential`.
    pub async fn offers_to(&self, tool: &str, credential: &str) {
        let client = self.mcp().with_header("authorization", credential);
        eventually(&format!("{tool} is offered"), async || {
            let names = client.modern("tools/list", json!({})).await.tool_names();
            names.iter().any(|name| name == tool).then_some(())
        })
        .await;
    }

    /// Replaces its configuration file with `yaml`.
    pub fn rewrite(&self, yaml: &str) {
        std::fs::write(self.gateway.folder().join("mcp_servers.yaml"), yaml).expect("it can be written");
    }

    /// Replaces its configuration file, sends it SIGHUP, and waits until the reload is done.
    pub async fn reload_with(&self, registry: &Registry) {
        let reloads = || self.log().iter().filter(|line| line["message"] == "configuration reloaded").count();
        let before = reloads();
        self.rewrite(&registry.yaml());
        self.hang_up();
        eventually("the file was taken over", async || (reloads() > before).then_some(())).await;
    }

    /// Its working folder.
    pub fn folder(&self) -> &Path {
        self.gateway.folder()
    }

    /// Its configuration, for other commands of the program.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Sends it SIGHUP.
    pub fn hang_up(&self) {
        self.process.hang_up();
    }

    /// Its peak memory so far, in bytes (`VmHWM`).
    pub fn peak_memory(&self) -> u64 {
        self.memory("VmHWM:")
    }

    /// Its resident memory, in bytes (`VmRSS`).
    pub fn resident_memory(&self) -> u64 {
        self.memory("VmRSS:")
    }

    fn memory(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a size");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The names of its threads.
    pub fn threads(&self) -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process.id())).expect("it runs");
        // A thread may end in the meantime.
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok()).collect()
    }

    /// The CPU time that it has used so far.
    pub fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).expect("it runs");
        let (_, fields) = stat.rsplit_once(") ").expect("a name in parentheses");
        let ticks = |at: usize| fields.split(' ').nth(at).and_then(|field| field.parse::<u64>().ok());
        // User and system time, in hundredths of a second.
        Duration::from_millis(10 * (ticks(11).expect("a number") + ticks(12).expect("a number")))
    }

    /// The number of its open files and sockets.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).expect("it runs").count()
    }

    /// Waits until its log has a line of this kind, and returns all such lines.
    ///
    /// A thread of its own writes the log, so a line can come later than the response of the request that it is about.
    pub async fn logs(&self, what: &str, is: impl Fn(&Value) -> bool) -> Vec<Value> {
        eventually(&format!("the log has {what}"), async || {
            let lines: Vec<_> = self.log().into_iter().filter(&is).collect();
            (!lines.is_empty()).then_some(lines)
        })
        .await
    }

    /// The lines of its log so far, each parsed from JSON.
    pub fn log(&self) -> Vec<Value> {
        let lines = self.process.errors();
        lines.iter().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
    }

    /// Sends it SIGTERM.
    pub fn ask_to_end(&self) {
        self.process.ask_to_end();
    }

    /// Sends it SIGTERM and waits until it has ended.
    pub async fn stop(mut self) -> ExitStatus {
        self.process.ask_to_end();
        tokio::task::spawn_blocking(move || self.process.wait()).await.expect("it is waited for")
    }

    /// Sends it SIGTERM, waits until it has ended, and keeps its folder.
    pub async fn end(self) -> Gateway {
        self.process.ask_to_end();
        let Self { mut process, gateway, .. } = self;
        tokio::task::spawn_blocking(move || process.wait()).await.expect("it is waited for");
        gateway
    }

    /// Kills it (SIGKILL) and keeps its folder.
    pub fn kill(self) -> Gateway {
        self.process.kill();
        self.gateway
    }
}

/// A conversation with a child process over its standard input and output, one message per line.
#[derive(Debug)]
pub struct StdioSession {
    process: Process,
    input: Option<ChildStdin>,
    output: mpsc::Receiver<String>,
    next_id: u64,
    _folder: Option<TempDir>,
}

impl StdioSession {
    /// Connects to `process`, whose input and output are piped.
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

    /// Returns the next line, which must be a message; `None` at the end of standard output.
    pub fn next(&mut self) -> Option<Value> {
        match self.output.recv_timeout(WAIT) {
            Ok(line) => {
                let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("stdout: {line}"));
                assert_eq!(message["jsonrpc"], "2.0", "stdout: {line}");
                Some(message)
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("nothing on standard output"),
        }
    }

    /// Sends a legacy request and returns its response; notifications before it are dropped.
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

    /// Performs the legacy handshake and returns the result of `initialize`.
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

    /// Returns the address of its listener, once it listens.
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

    /// Sends it SIGTERM and waits until it has ended.
    pub async fn stop(mut self) -> ExitStatus {
        self.process.ask_to_end();
        tokio::task::spawn_blocking(move || self.process.wait()).await.expect("it is waited for")
    }

    /// Closes standard input; requests sent before are still answered.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Closes standard input, and returns the remaining messages and the exit status.
    pub fn finish(mut self) -> (Vec<Value>, ExitStatus) {
        self.close_input();
        let mut rest = Vec::new();
        while let Some(message) = self.next() {
            rest.push(message);
        }
        (rest, self.process.wait())
    }
}
