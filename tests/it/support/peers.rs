//! Programs of other makers, where `scripts/peers` put them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::eventually;
use super::process::Process;

/// The folder of their programs. Fails when the peers are not installed: a peer test that did not
/// run must not look like one that passed.
pub fn folder() -> PathBuf {
    let peers = std::env::var_os("SWITCHYARD_PEERS").expect(
        "SWITCHYARD_PEERS is not set: run `scripts/test peers`, or set it to what `scripts/peers` prints",
    );
    PathBuf::from(peers).join("bin")
}

/// The path of one program.
pub fn program(name: &str) -> String {
    let path = folder().join(name);
    assert!(path.exists(), "the peer {name} is missing: run `scripts/peers`");
    path.to_str().expect("UTF-8").to_owned()
}

/// A command for one program, with the pinned interpreters first in `PATH` and a home of its own.
pub fn command(name: &str, home: &std::path::Path) -> Command {
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder()).chain(std::env::split_paths(&inherited));
    let mut command = Command::new(program(name));
    command
        .env_clear()
        .env("PATH", std::env::join_paths(folders).expect("no colon in a folder"))
        .env("HOME", home)
        .current_dir(home);
    command
}

/// A peer that listens on a port.
#[derive(Debug)]
pub struct Listening {
    _process: Process,
    _home: tempfile::TempDir,
    /// Where it listens.
    pub address: SocketAddr,
}

/// Starts a peer that takes its port from `arguments` or from `PORT`, and waits until it accepts.
pub async fn listening(name: &str, arguments: impl Fn(u16) -> Vec<String>) -> Listening {
    let home = tempfile::tempdir().expect("a folder");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let mut command = command(name, home.path());
    command
        .args(arguments(address.port()))
        .env("PORT", address.port().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut process = Process::start(command);
    eventually(&format!("{name} listens"), async || {
        assert!(!process.has_ended(), "{name} ended: {}", process.errors().join("\n"));
        tokio::net::TcpStream::connect(address).await.ok()
    })
    .await;
    Listening { _process: process, _home: home, address }
}

impl Listening {
    /// The URL of `path`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// A port that was free just now, for programs that cannot choose one themselves. The system gives none of this range to a
/// connection or to a listener without a port of its own, so that nothing takes it before the program listens.
pub(super) fn free_port() -> u16 {
    let ports = std::iter::repeat_with(|| rand::random_range(10_000..32_000));
    let is_free = |port: &u16| std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    ports.take(100).find(is_free).expect("a port")
}
