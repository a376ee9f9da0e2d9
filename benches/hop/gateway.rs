//! The program under test, in a process of its own, with what the kernel knows of it.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tempfile::TempDir;

use crate::load::{Load, Protocol};
use crate::process::Process;

/// The running gateway; it ends with this value.
#[derive(Debug)]
pub struct Gateway {
    /// Where it listens.
    pub address: SocketAddr,
    process: Process,
    _folder: TempDir,
}

/// Starts it with one server, and waits until a call goes through.
pub fn start(server: SocketAddr) -> anyhow::Result<Gateway> {
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("mcp_servers.yaml");
    fs::write(&config, format!("mcp_servers:\n  bench:\n    url: http://{server}/mcp\n"))?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_switchyard"));
    command.arg("serve").arg("--config").arg(&config).args(["--listen", "127.0.0.1:0"]);
    command.current_dir(folder.path()).env("RUST_LOG", "info").stdin(Stdio::null()).stdout(Stdio::null());
    let mut process = Process::start(command);
    let deadline = Instant::now() + Duration::from_secs(10);
    let address = loop {
        if let Some(address) = process.errors().iter().find_map(|line| bound_address(line)) {
            break address;
        }
        if process.has_ended() || Instant::now() > deadline {
            bail!("the gateway does not listen:\n{}", process.errors().join("\n"));
        }
        std::thread::yield_now();
    };
    let gateway = Gateway { address, process, _folder: folder };
    gateway.wait_until_it_answers(deadline)?;
    Ok(gateway)
}

fn bound_address(line: &str) -> Option<SocketAddr> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    (line["message"] == "listening").then(|| line["address"].as_str()?.parse().ok()).flatten()
}

impl Gateway {
    fn wait_until_it_answers(&self, deadline: Instant) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let load = Load { address: self.address, protocol: Protocol::Modern, connections: 1 };
        let instant = Duration::from_millis(10);
        loop {
            match runtime.block_on(load.run(Duration::ZERO, instant)) {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => return Err(error.context("no call goes through")),
                Err(_) => runtime.block_on(tokio::time::sleep(instant)),
            }
        }
    }

    /// The processor time it has used.
    pub fn cpu(&self) -> Duration {
        let ticks = self.stat().unwrap_or_default();
        // The kernel counts in hundredths of a second on every Linux this is run on.
        Duration::from_millis(ticks * 10)
    }

    fn stat(&self) -> anyhow::Result<u64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        let (_, rest) = stat.rsplit_once(')').context("a command in brackets")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
    }

    /// The most memory it ever held, in MiB.
    pub fn peak_memory_mib(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        kib.unwrap_or_default() / 1024.0
    }
}
