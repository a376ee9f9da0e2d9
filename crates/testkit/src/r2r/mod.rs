//! Fake R2R that answers from recordings (`tests/backends/r2r`). It keeps the state of a conversation:
//! accounts and tokens, collections, ingested documents, and a search by words.
//!
//! It does not depend on the gateway, so unit tests can use it too. A response is a recording with ids,
//! tokens and texts filled in. A request without a recording gets the 404 of R2R. A path is decoded before it
//! is routed, as in R2R's server.

mod documents;
mod retrieval;
mod routes;
mod state;
mod users;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State as Shared};
use axum::response::Response;
use serde_json::Value;

use super::served::Served;
use routes::{ParsedRequest, Reply};
use state::State;

pub use state::{Fault, ReceivedRequest};

/// The account, unless a test sets another one.
pub const EMAIL: &str = "service@example.com";
/// Password of the account.
pub const PASSWORD: &str = "correct horse battery staple";
/// API key of the account.
pub const KEY: &str = "pk_test.sk_a-key-that-works";

/// Largest request, in bytes.
const MOST_BYTES: usize = 64 << 20;

/// A running R2R. It stops when this value is dropped. [`R2r::kill`] keeps its state.
#[derive(Debug)]
pub struct R2r {
    state: Arc<Mutex<State>>,
    service: Served,
}

impl R2r {
    /// Starts an empty R2R, which finishes the ingestion of a document before it answers.
    pub fn start() -> Self {
        let state = Arc::new(Mutex::new(State::new()));
        let routes = Router::new().fallback(answer).with_state(Arc::clone(&state));
        Self { state, service: Served::start(routes) }
    }

    /// Returns its address, without `/v3`.
    pub fn url(&self) -> String {
        self.service.url()
    }

    /// Sets the lifetime of new tokens.
    pub fn token_lifetime(&self, life: Duration) {
        self.state().users.lifetime = life;
    }

    /// Accepts requests without credentials, as R2R does by default.
    pub fn anonymous(&self) {
        self.state().users.is_open = true;
    }

    /// Invalidates every access token. Refresh tokens stay valid.
    pub fn expire_access(&self) {
        self.state().users.access.clear();
    }

    /// Invalidates every token.
    pub fn expire_all(&self) {
        let mut state = self.state();
        state.users.access.clear();
        state.users.refresh.clear();
    }

    /// Changes the password of the account, and invalidates its tokens and its key.
    pub fn change_password(&self, password: &str) {
        self.expire_all();
        let mut state = self.state();
        password.clone_into(&mut state.users.password);
        state.users.key = None;
    }

    /// Ingests documents after the answer: each request for a document by id advances its ingestion by one
    /// step.
    pub fn queued(&self) {
        self.state().is_queued = true;
    }

    /// Ingests documents for `time` before it answers, and shows them meanwhile.
    pub fn ingestion_time(&self, time: Duration) {
        self.state().ingestion_time = time;
    }

    /// Leaves all documents in the middle of their ingestion, as of 2020.
    pub fn abandon_documents(&self) {
        for document in &mut self.state().documents {
            document.abandon();
        }
    }

    /// Makes new documents fail with `reason`. `None` ends that.
    pub fn fail_ingestion(&self, reason: Option<&str>) {
        self.state().failure = reason.map(str::to_owned);
    }

    /// Applies `fault` to the next `times` requests whose line, such as `POST /v3/documents`, contains `part`.
    pub fn fail_next(&self, part: &str, times: usize, fault: Fault) {
        self.state().faults.push((part.to_owned(), times, fault));
    }

    /// Delays requests whose path contains `part`. Zero ends that.
    pub fn delay(&self, part: &str, pause: Duration) {
        let mut state = self.state();
        state.delays.retain(|(of, _)| of != part);
        if !pause.is_zero() {
            state.delays.push((part.to_owned(), pause));
        }
    }

    /// Adds a collection of another account. Returns its id.
    pub fn foreign_collection(&self, name: &str) -> String {
        self.state().foreign_collection(name)
    }

    /// Counts the requests of `route`, such as `GET /v3/documents/{}`, where `{}` stands for an id.
    pub fn count(&self, route: &str) -> usize {
        self.state().counts.get(route).copied().unwrap_or_default()
    }

    /// Returns the requests since the start, the first 10,000 of them.
    pub fn seen(&self) -> Vec<ReceivedRequest> {
        self.state().seen.clone()
    }

    /// Returns the collections as R2R lists them.
    pub fn collections(&self) -> Vec<Value> {
        self.state().collections.iter().map(|one| one.shown.clone()).collect()
    }

    /// Returns the documents as R2R lists them.
    pub fn documents(&self) -> Vec<Value> {
        self.state().documents.iter().map(state::Document::shown).collect()
    }

    /// Stops it like a crash: connections are cut, and when this returns the port is closed.
    pub fn kill(&mut self) {
        self.service.kill();
    }

    /// Starts it again at the former address.
    pub fn restart(&mut self) {
        self.service.restart();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no handler panicked")
    }
}

async fn answer(Shared(state): Shared<Arc<Mutex<State>>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body: Bytes = to_bytes(body, MOST_BYTES).await.unwrap_or_default();
    let parsed = ParsedRequest::new(&head, body);
    let (pause, fault) = {
        let mut state = state.lock().expect("no handler panicked");
        state.note(&parsed);
        (state.pause(&parsed.path), state.fault(&parsed.line()))
    };
    tokio::time::sleep(pause).await;
    let reply = match fault {
        Some(Fault::Hang) => return std::future::pending().await,
        Some(Fault::Lost) => {
            routes::answer(&mut state.lock().expect("no handler panicked"), &parsed);
            routes::failed(&Fault::Status(502))
        }
        Some(fault) => routes::failed(&fault),
        None => routes::answer(&mut state.lock().expect("no handler panicked"), &parsed),
    };
    if let Some(id) = &reply.ingesting {
        let time = state.lock().expect("no handler panicked").ingestion_time;
        tokio::time::sleep(time).await;
        state.lock().expect("no handler panicked").finish(id);
    }
    reply.into_response()
}

impl Reply {
    fn into_response(self) -> Response {
        let mut response = Response::builder().status(self.status).header("content-type", self.media_type);
        if let Some(seconds) = self.retry_after {
            response = response.header("retry-after", seconds);
        }
        // R2R splits its stream at any byte.
        let pieces: Vec<_> = self.body.as_bytes().chunks(1024).map(Bytes::copy_from_slice).collect();
        let stream = futures_util::stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>));
        let body = if self.media_type.starts_with("text/event-stream") {
            Body::from_stream(stream)
        } else {
            Body::from(self.body)
        };
        response.body(body).expect("a response")
    }
}

/// Returns status and JSON of the recorded response `name`.
fn recorded_answer(name: &str) -> (u16, Value) {
    let recorded = recording(name);
    let response = &recorded["response"];
    let status = response["status"].as_u64().and_then(|status| u16::try_from(status).ok());
    (status.expect("a status"), response["json"].clone())
}

/// Returns the `results` of a recorded response.
fn recorded_results(name: &str) -> Value {
    recorded_answer(name).1["results"].clone()
}

/// Returns the text of a recorded stream.
fn recorded_stream(name: &str) -> String {
    recording(name)["response"]["text"].as_str().expect("a stream").to_owned()
}

fn recording(name: &str) -> Value {
    let path = format!("{}/../../tests/backends/r2r/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).expect("a recording is JSON")
}
