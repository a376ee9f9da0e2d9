//! R2R as it answered when it was recorded (`tests/backends/r2r`), with the state that a conversation
//! needs: accounts and tokens, collections, documents that are taken in, and a search by words.
//!
//! It is its own module, so that unit tests can use it too: nothing here knows the gateway. What it
//! answers is a recording with ids, tokens and texts put in; what nobody recorded is a 404 as R2R's.
//! It decodes a path before it routes it, as R2R's server does.

mod documents;
mod multipart;
mod record;
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
use routes::{Asked, Reply};
use state::State;
pub use state::{Fault, Seen};

/// The account it knows, unless told otherwise.
pub const EMAIL: &str = "service@example.com";
/// Its password.
pub const PASSWORD: &str = "correct horse battery staple";
/// A key of that account.
pub const KEY: &str = "pk_test.sk_a-key-that-works";

/// Bytes of one request.
const MOST_BYTES: usize = 64 << 20;

/// A running R2R. It ends with this value; what it knows outlives [`R2r::kill`].
#[derive(Debug)]
pub struct R2r {
    state: Arc<Mutex<State>>,
    service: Served,
}

impl R2r {
    /// One with nothing in it, which takes in documents before it answers.
    pub fn start() -> Self {
        let state = Arc::new(Mutex::new(State::new()));
        let routes = Router::new().fallback(answer).with_state(Arc::clone(&state));
        Self { state, service: Served::start(routes) }
    }

    /// Its address, without `/v3`.
    pub fn url(&self) -> String {
        self.service.url()
    }

    /// Tokens that it gives from now on live so long.
    pub fn token_lifetime(&self, life: Duration) {
        self.state().users.lifetime = life;
    }

    /// Nobody has to say who they are, as R2R is shipped.
    pub fn anonymous(&self) {
        self.state().users.is_open = true;
    }

    /// Ends every access token; those that renew them still work.
    pub fn expire_access(&self) {
        self.state().users.access.clear();
    }

    /// Ends every token of any kind.
    pub fn expire_all(&self) {
        let mut state = self.state();
        state.users.access.clear();
        state.users.refresh.clear();
    }

    /// Gives the account another password, and ends its tokens and its key.
    pub fn change_password(&self, password: &str) {
        self.expire_all();
        let mut state = self.state();
        password.clone_into(&mut state.users.password);
        state.users.key = None;
    }

    /// Takes in documents after it has answered: one more step each time one is asked for by its id.
    pub fn queued(&self) {
        self.state().is_queued = true;
    }

    /// Documents that come from now on fail with `reason`; none: they do not.
    pub fn fail_ingestion(&self, reason: Option<&str>) {
        self.state().failure = reason.map(str::to_owned);
    }

    /// The next `times` requests whose path has `part` in it end so.
    pub fn fail_next(&self, part: &str, times: usize, fault: Fault) {
        self.state().faults.push((part.to_owned(), times, fault));
    }

    /// Requests whose path has `part` in it are answered after `pause`; zero: at once again.
    pub fn delay(&self, part: &str, pause: Duration) {
        let mut state = self.state();
        state.delays.retain(|(of, _)| of != part);
        if !pause.is_zero() {
            state.delays.push((part.to_owned(), pause));
        }
    }

    /// A collection of somebody else's; its id.
    pub fn foreign_collection(&self, name: &str) -> String {
        self.state().foreign_collection(name)
    }

    /// How often `route` was asked, such as `GET /v3/documents/{}`: a segment that is an id is `{}`.
    pub fn count(&self, route: &str) -> usize {
        self.state().counts.get(route).copied().unwrap_or_default()
    }

    /// All requests since the start, the first 10,000 of them.
    pub fn seen(&self) -> Vec<Seen> {
        self.state().seen.clone()
    }

    /// The collections as R2R lists them.
    pub fn collections(&self) -> Vec<Value> {
        self.state().collections.iter().map(|one| one.shown.clone()).collect()
    }

    /// The documents as R2R lists them.
    pub fn documents(&self) -> Vec<Value> {
        self.state().documents.iter().map(state::Document::shown).collect()
    }

    /// Ends it as a crash does: connections are cut, and nobody listens when this returns.
    pub fn kill(&mut self) {
        self.service.kill();
    }

    /// Starts it again at the same address.
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
    let asked = Asked::new(&head, body);
    let (pause, fault) = {
        let mut state = state.lock().expect("no handler panicked");
        state.note(&asked);
        (state.pause(&asked.path), state.fault(&asked.path))
    };
    tokio::time::sleep(pause).await;
    let reply = match fault {
        Some(Fault::Hang) => return std::future::pending().await,
        Some(fault) => routes::failed(&fault),
        None => routes::answer(&mut state.lock().expect("no handler panicked"), &asked),
    };
    reply.into_response()
}

impl Reply {
    fn into_response(self) -> Response {
        let mut response = Response::builder().status(self.status).header("content-type", self.media_type);
        if let Some(seconds) = self.retry_after {
            response = response.header("retry-after", seconds);
        }
        // R2R's stream breaks anywhere.
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
