//! Helpers for the tests of embeddings: a scripted service, and a provider that counts.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::json;
use testkit::scripted::{ReceivedRequest, Step, TestServer, full};
use tokio::time::Instant;

use super::{Embedding, EmbeddingFuture, Window};

/// A deadline that tests do not reach.
pub(super) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

pub(super) fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Returns the vector that [`scripted`] and [`Counting`] make of a text, with `dimension` numbers.
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

/// The number of texts in a request.
pub(super) fn inputs(seen: &ReceivedRequest) -> usize {
    seen.body.get_as::<Vec<String>>("input").map_or(0, |texts| texts.len())
}

/// Starts a service. After the end of the script it repeats the last response.
pub(super) async fn scripted(script: Vec<Answer>) -> TestServer {
    let script = Mutex::new(VecDeque::from(script));
    let service = TestServer::new(move |seen| {
        let mut script = script.lock().expect("lock");
        let step = script.front().map(|next| step(next, seen)).expect("a script");
        if script.len() > 1 {
            script.pop_front();
        }
        vec![step]
    });
    service.await
}

fn step(answer: &Answer, seen: &ReceivedRequest) -> Step {
    match answer {
        Answer::Vectors(dimension) => {
            let texts: Vec<String> = seen.body.get_as("input").unwrap_or_default();
            let one = |(index, text): (usize, &String)| json!({"index": index, "embedding": vector(text, *dimension)});
            let data: Vec<_> = texts.iter().enumerate().rev().map(one).collect();
            full(200, "", &json!({"object": "list", "data": data}).to_string())
        }
        Answer::Json(status, headers, body) => full(*status, headers, body),
        Answer::Gone => Step::Close,
    }
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
    fn embed<'a>(&'a self, texts: &'a [String], _: Instant) -> EmbeddingFuture<'a> {
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

    fn window(&self) -> Window {
        Window::of_tokens(100)
    }
}
