//! What the integration tests are written in: the running program, its clients, and servers that
//! do as they are told. Nothing here knows a test.
//!
//! - [`gateway`] the program under test, as `serve` and as `stdio`;
//! - [`client`] a bare JSON-RPC client for both eras, which sees every byte of an answer;
//! - [`line`] a barer one still, for thousands of requests;
//! - [`registry`] registry files;
//! - [`scripted`] servers that answer, stream, fail, hang and cut as scripted, and keep the record;
//! - [`flooding`] servers that answer a call with events without end;
//! - [`child`] the same for a server on standard input and output;
//! - [`asker`] and [`asking`] a server that asks its client before it answers;
//! - [`stateful`] and [`stateful_http`] a server that keeps state for each client;
//! - [`redis`] a real Redis, and a slow way to it;
//! - [`rmcp_peer`] the Rust SDK as independent client and server;
//! - [`r2r`] R2R, from recordings;
//! - [`rag`] a RAG bridge;
//! - [`served`] what these two are served by, which can be killed and come back;
//! - [`user`] the program as a user without privileges, and in a control group;
//! - [`peers`] programs of other makers, where `scripts/peers` installed them.

pub mod answer;
pub mod asker;
pub mod asker_user;
pub mod asking;
pub mod child;
pub mod client;
pub mod flooding;
pub mod gateway;
pub mod line;
pub mod peers;
pub mod process;
pub mod redis;
pub mod registry;
pub mod rmcp_peer;
pub mod scripted;
pub mod sse;
pub mod stateful;
pub mod stateful_http;
pub mod user;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

pub use answer::Answer;
pub use client::Client;
pub use gateway::{Gateway, Running};
pub use registry::Registry;
pub use testkit::{r2r, rag};

/// How long a test waits for what should come at once; a test that gets here has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A server of ours on a thread and a runtime of its own, until this value goes. It answers also
/// while its test waits for the end of a process, as a server elsewhere does.
#[derive(Debug)]
pub struct Background {
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl Background {
    /// Runs what `task` makes until it ends or this value goes.
    pub fn run<F: Future<Output = ()>>(task: impl FnOnce() -> F + Send + 'static) -> Self {
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        std::thread::spawn(move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = task() => {}
                    _ = stopped => {}
                }
            });
        });
        Self { _stop: stop }
    }
}

/// A listener that belongs to no runtime yet.
pub fn listen(address: SocketAddr) -> std::net::TcpListener {
    let listener = std::net::TcpListener::bind(address).expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    listener
}

/// Asks again until `attempt` has something, and fails with `what` when patience ends.
///
/// For what another process does in its own time; it returns as soon as it is so.
pub async fn eventually<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(found) = attempt().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, asking).await;
    found.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}
