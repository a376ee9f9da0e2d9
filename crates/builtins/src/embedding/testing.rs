//! Helpers for the tests of embeddings: a scripted service, and a provider that counts.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::{Embedding, Error, Window};
use runtime::shutdown::Shutdown;

/// A deadline that tests do not reach.
pub(super) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

pub(super) fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Returns the vector that [`Service`] and [`Counting`] make of a text, with `dimension` numbers.
#[allow(clippy::cast_precision_loss)] // of a few characters
pub(super) fn vector(text: &str, dimension: usize) -> Vec<f32> {
    (0..dimension).map(|at| text.chars().count() as f32 + at as f32 / 8.0).collect()
}

/// A scripted response.
pub(super) enum Answer {
    /// Vectors of this many numbers, the last one first.
    Vectors(usize),
    /// This status, header and body.
    Json(u16, &'static str, String),
    /// No response: the connection is closed.
    Gone,
}

/// A received request.
#[derive(Debug, Clone)]
pub(super) struct ReceivedRequest {
    pub(super) head: String,
    pub(super) body: Value,
}

impl ReceivedRequest {
    pub(super) fn inputs(&self) -> usize {
        self.body["input"].as_array().map_or(0, Vec::len)
    }
}

/// A service at a real socket. After the end of its script it repeats the last response.
pub(super) struct Service {
    pub(super) url: String,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
    tasks: Shutdown,
}

impl Service {
    pub(super) async fn new(script: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let (seen, tasks) = (Arc::new(Mutex::new(Vec::new())), Shutdown::new());
        let script = Arc::new(Mutex::new(VecDeque::from(script)));
        let (log, group) = (Arc::clone(&seen), tasks.clone());
        tasks.spawn_until_end(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, script) = (Arc::clone(&log), Arc::clone(&script));
                group.spawn_until_end(async move { serve(stream, &log, &script).await });
            }
        });
        Self { url, seen, tasks }
    }

    pub(super) fn seen(&self) -> Vec<ReceivedRequest> {
        self.seen.lock().expect("lock").clone()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.tasks.begin();
    }
}

async fn serve(stream: TcpStream, log: &Mutex<Vec<ReceivedRequest>>, script: &Mutex<VecDeque<Answer>>) {
    let mut stream = BufReader::new(stream);
    while let Some(seen) = read(&mut stream).await {
        log.lock().expect("lock").push(seen.clone());
        let Some((status, headers, body)) = answer(&seen, &mut script.lock().expect("lock")) else { return };
        let length = body.len();
        let text = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}");
        if stream.get_mut().write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn answer(seen: &ReceivedRequest, script: &mut VecDeque<Answer>) -> Option<(u16, &'static str, String)> {
    let (next, is_last) = (script.pop_front()?, script.is_empty());
    let given = match &next {
        Answer::Vectors(dimension) => {
            let inputs = seen.body["input"].as_array().cloned().unwrap_or_default();
            let one = |(index, text): (usize, &Value)| json!({"index": index, "embedding": vector(text.as_str().expect("a text"), *dimension)});
            let data: Vec<_> = inputs.iter().enumerate().rev().map(one).collect();
            Some((200, "", json!({"object": "list", "data": data}).to_string()))
        }
        Answer::Json(status, headers, body) => Some((*status, *headers, body.clone())),
        Answer::Gone => None,
    };
    if is_last {
        script.push_back(next);
    }
    given
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<ReceivedRequest> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(ReceivedRequest { head, body: serde_json::from_slice(&body).ok()? })
}

/// A provider that records its requests.
#[derive(Default)]
pub(super) struct Counting {
    pub(super) model: &'static str,
    pub(super) dimension: Mutex<usize>,
    pub(super) requested: Mutex<Vec<Vec<String>>>,
}

impl Counting {
    pub(super) fn of(dimension: usize) -> Arc<Self> {
        Arc::new(Self { model: "m", dimension: Mutex::new(dimension), requested: Mutex::default() })
    }

    pub(super) fn requested(&self) -> Vec<Vec<String>> {
        self.requested.lock().expect("lock").clone()
    }
}

impl Embedding for Counting {
    fn embed<'a>(&'a self, texts: &'a [String], _: Instant) -> BoxFuture<'a, Result<Vec<Vec<f32>>, Error>> {
        self.requested.lock().expect("lock").push(texts.to_vec());
        let dimension = *self.dimension.lock().expect("lock");
        let vectors = texts.iter().map(|text| vector(text, dimension)).collect();
        async { Ok(vectors) }.boxed()
    }

    fn provider(&self) -> &'static str {
        "counting"
    }

    fn model(&self) -> &'static str {
        self.model
    }

    fn dimension(&self) -> Option<usize> {
        None
    }

    fn window(&self) -> Window {
        Window::of_tokens(100)
    }
}
