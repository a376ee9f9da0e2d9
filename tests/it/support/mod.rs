//! Support for the integration tests: the running program, its clients, and scripted servers. It is
//! independent of any test.
//!
//! - [`gateway`] the program under test, as `serve` and as `stdio`;
//! - [`client`] a plain JSON-RPC client for both eras, which sees every byte of an answer;
//! - [`line`] an even simpler one, for thousands of requests;
//! - [`named_issuer`] a server that chooses its login service, and login services that record requests;
//! - [`registry`] configuration files;
//! - [`listing`] a server whose lists a test decides, down to the bytes;
//! - [`scripted`] servers that answer, stream, fail, hang and cut as scripted, and keep the record;
//! - [`flooding`] servers that answer a call with events without end;
//! - [`child`] a flooding server on standard input and output;
//! - [`asker`] and [`asking`] a server that asks its client before it answers;
//! - [`stateful`] and [`stateful_http`] a server that keeps state for each client;
//! - [`browser`] a browser without scripts, and [`remote_client`] a client that logs a person in through it;
//! - [`redis`] a real Redis, and a slow proxy to it;
//! - [`rmcp_peer`] the Rust SDK as independent client and server;
//! - [`r2r`] R2R, from recordings;
//! - [`rag`] a RAG bridge;
//! - [`served`] serves these two, and can be killed and restarted;
//! - [`user`] the program as a user without privileges, and in a control group;
//! - [`peers`] programs of other makers, if `scripts/peers` installed them.

pub mod answer;
pub mod asker;
pub mod asker_user;
pub mod asking;
pub mod authorization_server;
pub mod browser;
pub mod child;
pub mod client;
pub mod flooding;
pub mod gateway;
pub mod line;
pub mod listing;
pub mod named_issuer;
pub mod odd;
pub mod peers;
pub mod process;
pub mod redis;
pub mod registry;
pub mod remote_client;
pub mod rmcp_peer;
pub mod scripted;
pub mod sse;
pub mod stateful;
pub mod stateful_http;
pub mod user;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use futures_util::StreamExt as _;

pub use answer::Answer;
pub use client::Client;
pub use gateway::{Gateway, Running};
pub use registry::{Registry, api_keys};
pub use testkit::{r2r, rag};

/// How long a test waits for an event that should come at once; after that it has failed.
pub const WAIT: Duration = Duration::from_secs(20);

/// A service on its own thread and runtime, until this value is dropped. It also answers while its
/// test blocks on the end of a process.
#[derive(Debug)]
pub struct Background {
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl Background {
    /// Runs the future of `task` until it ends or this value is dropped.
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

/// A listener without a runtime.
pub fn listen(address: SocketAddr) -> std::net::TcpListener {
    let listener = std::net::TcpListener::bind(address).expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    listener
}

/// Sends `request` on to the server at `base`, and returns its answer.
pub async fn forwarded(http: &reqwest::Client, base: &str, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.expect("a body");
    let url = format!("{base}{}", head.uri);
    let sent = http.request(head.method, url).headers(head.headers).body(body).send().await;
    let answered = sent.expect("it answers");
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answered.status();
    *response.headers_mut() = answered.headers().clone();
    response.headers_mut().remove("transfer-encoding");
    *response.body_mut() = Body::from_stream(answered.bytes_stream());
    response
}

/// Repeats `attempt` until it returns a value, and fails with `what` when `WAIT` is over.
///
/// Use it for events in another process; it returns as soon as the event has happened.
pub async fn eventually<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(found) = attempt().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(WAIT, asking).await;
    found.unwrap_or_else(|_| panic!("{what}: not within {WAIT:?}"))
}

/// Checks all `cases`, four at a time: each has a gateway of its own and mostly waits.
pub async fn at_once<T>(cases: impl IntoIterator<Item = T>, check: impl AsyncFn(T)) {
    futures_util::stream::iter(cases).for_each_concurrent(4, |case| check(case)).await;
}
