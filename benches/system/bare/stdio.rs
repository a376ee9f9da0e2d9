//! The least cost of a hop from HTTP to a child process: a body becomes a line, and a line becomes
//! an answer. Nothing is parsed or rewritten; only the `"id":` of a line is searched, to find its
//! request.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex as Lock, MutexGuard, PoisonError};

use anyhow::Context as _;
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::{Mutex, oneshot};

use crate::child;

/// The child and the requests that wait for its lines.
struct Line {
    input: Mutex<ChildStdin>,
    waiting: Lock<HashMap<Bytes, oneshot::Sender<Bytes>>>,
}

impl Line {
    fn waiting(&self) -> MutexGuard<'_, HashMap<Bytes, oneshot::Sender<Bytes>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the benchmark's stdio server and passes every body to it.
pub async fn serve() -> anyhow::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("stdio-server").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut server = command.spawn()?;
    let input = Mutex::new(server.stdin.take().context("it is piped")?);
    let output = server.stdout.take().context("it is piped")?;
    let line = Arc::new(Line { input, waiting: Lock::default() });
    tokio::spawn(read(output, line.clone()));
    let (listener, _) = child::listen().await?;
    loop {
        let (socket, _) = listener.accept().await.context("no more connections")?;
        socket.set_nodelay(true)?;
        let line = line.clone();
        let service = service_fn(move |request| forward(line.clone(), request));
        tokio::spawn(async move {
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service)
                .await;
        });
    }
}

async fn forward(line: Arc<Line>, request: Request<Incoming>) -> anyhow::Result<Response<Full<Bytes>>> {
    let body = request.into_body().collect().await?.to_bytes();
    let id = id_in(&body).context("a request has an id")?;
    let (sender, answer) = oneshot::channel();
    line.waiting().insert(id, sender);
    let framed = [&body[..], b"\n"].concat();
    line.input.lock().await.write_all(&framed).await?;
    let mut response = Response::new(Full::new(answer.await?));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

async fn read(mut output: ChildStdout, line: Arc<Line>) {
    let mut came = BytesMut::with_capacity(64 * 1024);
    while output.read_buf(&mut came).await.is_ok_and(|read| read > 0) {
        while let Some(ends) = memchr::memchr(b'\n', &came) {
            let answer = came.split_to(ends + 1).freeze().slice(..ends);
            let waits = id_in(&answer).and_then(|id| line.waiting().remove(&id));
            if let Some(waits) = waits {
                // A client that has disconnected needs no answer.
                let _ = waits.send(answer);
            }
        }
        came.reserve(16 * 1024);
    }
}

/// Returns the token after the first `"id":`.
fn id_in(message: &Bytes) -> Option<Bytes> {
    let from = memmem::find(message, b"\"id\":")? + 5;
    let length = message[from..].iter().position(|byte| matches!(byte, b',' | b'}'))?;
    Some(message.slice(from..from + length))
}
