//! Child processes: parts of this program, the gateway, and the kernel's figures about each. A
//! process ends when its value is dropped.

use std::fs;
use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::load::Load;
use crate::load::call::Call;
use crate::load::closed::Caller;
use crate::process::Process;

/// How long a process may take until it listens, and until a first call succeeds.
const WAIT: Duration = Duration::from_secs(20);

/// A process with a listener.
#[derive(Debug)]
pub struct Running {
    /// The address of its listener.
    pub address: SocketAddr,
    process: Process,
    _folder: Option<TempDir>,
}

/// The memory of a process, in KiB.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    /// Resident now.
    pub resident: f64,
    /// Resident now, with shared pages counted in proportion.
    pub proportional: f64,
    /// Peak resident memory.
    pub peak: f64,
}

/// Starts a subcommand of this program.
pub fn own(arguments: &[&str]) -> anyhow::Result<Running> {
    part_of(&std::env::current_exe()?, arguments)
}

/// Starts a subcommand of `program`, which is this program or another build of it.
pub fn part_of(program: &Path, arguments: &[&str]) -> anyhow::Result<Running> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null());
    listening(Process::start(command), None)
}

/// Starts a gateway with this configuration.
pub fn gateway(binary: &Path, config: &str) -> anyhow::Result<Running> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("mcp_servers.yaml");
    fs::write(&file, config)?;
    let mut command = Command::new(binary);
    command.arg("serve").arg("--config").arg(&file).args(["--listen", "127.0.0.1:0"]);
    command.current_dir(folder.path()).env("RUST_LOG", "info").stdin(Stdio::null()).stdout(Stdio::null());
    // `smaps_rollup` and `perf` need it, unless this runs as root.
    command.env("SWITCHYARD_DUMPABLE", "1");
    listening(Process::start(command), Some(folder))
}

fn listening(mut process: Process, folder: Option<TempDir>) -> anyhow::Result<Running> {
    let deadline = Instant::now() + WAIT;
    loop {
        if let Some(address) = process.errors().iter().find_map(|line| address_in(line)) {
            return Ok(Running { address, process, _folder: folder });
        }
        if process.has_ended() || Instant::now() > deadline {
            bail!("a process does not listen:\n{}", process.errors().join("\n"));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Returns the address in a line of a part's output, or of the gateway's log.
fn address_in(line: &str) -> Option<SocketAddr> {
    if let Some(address) = line.strip_prefix("listening ") {
        return address.parse().ok();
    }
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    (line["message"] == "listening").then(|| line["address"].as_str()?.parse().ok()).flatten()
}

/// Opens a listener for a part of this program and prints its address. The process ends when its
/// parent ends.
pub async fn listen() -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    std::thread::spawn(|| {
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    eprintln!("listening {address}");
    Ok((listener, address))
}

impl Running {
    /// Waits until `call` gets the expected answer.
    pub async fn until_it_answers(&self, call: &Call) -> anyhow::Result<()> {
        let load = Load { address: self.address, call: call.clone(), connections: 1 };
        let deadline = Instant::now() + WAIT;
        loop {
            let first = async { Caller::connect(&load, 0).await?.call().await };
            match tokio::time::timeout(WAIT, first).await.context("no answer")? {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    let errors = self.process.errors().join("\n");
                    return Err(error.context(format!("no call goes through\n{errors}")));
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns its memory.
    pub fn memory(&self) -> Memory {
        let read = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", self.id())).unwrap_or_default();
        let (status, maps) = (read("status"), read("smaps_rollup"));
        Memory {
            resident: kibibytes(&status, "VmRSS:"),
            proportional: kibibytes(&maps, "Pss:"),
            peak: kibibytes(&status, "VmHWM:"),
        }
    }
}

fn kibibytes(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}

/// Returns the CPU time of each process so far, in seconds. The kernel reports hundredths of a
/// second.
pub fn processor_times(processes: &[u32]) -> Vec<f64> {
    processes.iter().map(|process| processor_time(*process).unwrap_or_default()).collect()
}

#[allow(clippy::cast_precision_loss)] // far below 2^52
fn processor_time(process: u32) -> anyhow::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').context("a command in brackets")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(ticks as f64 / 100.0)
}
