//! Fake RAG bridge: six techniques that answer with their question, and any fault on any route.
//!
//! It does not depend on the gateway, so unit tests can use it too.

use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State as Shared};
use axum::response::Response;
use serde_json::{Value, json};

use super::served::Served;

/// The techniques, unless a test sets others.
pub const SIX: [&str; 6] =
    ["basic", "basic_rerank", "crag", "graphrag", "pylate_colbert", "iris_global_graphrag"];
/// The tool that lists the techniques. These constants name the routes for [`Bridge::fail`] and
/// [`Bridge::count`].
pub const LIST: &str = "list_techniques";
/// The tool that reports the health of the bridge.
pub const HEALTH: &str = "health_check";
/// The tool that runs a technique.
pub const INVOKE: &str = "invoke_technique";

/// Largest request, in bytes.
const MOST_BYTES: usize = 1 << 20;

/// Simulated fault of a route.
#[derive(Debug, Clone)]
pub enum Fault {
    /// A response with this status, `Retry-After` in seconds if any, and this body.
    Answer(u16, Option<u32>, String),
    /// No response.
    Hang,
}

impl Fault {
    /// A response with status 200 and this body.
    pub fn body(body: &(impl ToString + ?Sized)) -> Self {
        Self::status(200, body)
    }

    /// A response with this status and body.
    pub fn status(status: u16, body: &(impl ToString + ?Sized)) -> Self {
        Self::Answer(status, None, body.to_string())
    }
}

/// One received request.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    /// Last segment of the path.
    pub route: String,
    /// The `Authorization` header.
    pub authorization: Option<String>,
    /// The body.
    pub body: String,
}

#[derive(Debug, Default)]
struct State {
    techniques: Vec<String>,
    key: Option<String>,
    faults: Vec<(String, Fault)>,
    seen: Vec<ReceivedRequest>,
}

/// A running bridge. It stops when this value is dropped. [`Bridge::kill`] keeps its state.
#[derive(Debug)]
pub struct Bridge {
    state: Arc<Mutex<State>>,
    service: Served,
}

impl Bridge {
    /// Starts a bridge with [`SIX`] techniques and no required key.
    pub fn start() -> Self {
        let techniques = SIX.map(str::to_owned).to_vec();
        let state = Arc::new(Mutex::new(State { techniques, ..State::default() }));
        let routes = Router::new().fallback(answer).with_state(Arc::clone(&state));
        Self { state, service: Served::start(routes) }
    }

    /// Returns its address, without `/mcp`.
    pub fn url(&self) -> String {
        self.service.url()
    }

    /// Replaces its techniques.
    pub fn has(&self, techniques: &[&str]) {
        self.state().techniques = techniques.iter().map(|&name| name.to_owned()).collect();
    }

    /// Makes it require this key.
    pub fn wants(&self, key: &str) {
        self.state().key = Some(key.to_owned());
    }

    /// Applies `fault` to `route`. `None` ends that.
    pub fn fail(&self, route: &str, fault: Option<Fault>) {
        let mut state = self.state();
        state.faults.retain(|(of, _)| of != route);
        state.faults.extend(fault.map(|fault| (route.to_owned(), fault)));
    }

    /// Counts the requests of `route`.
    pub fn count(&self, route: &str) -> usize {
        self.state().seen.iter().filter(|seen| seen.route == route).count()
    }

    /// Returns all requests since the start.
    pub fn seen(&self) -> Vec<ReceivedRequest> {
        self.state().seen.clone()
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
    let route = head.uri.path().strip_prefix("/mcp/").unwrap_or("elsewhere").to_owned();
    let authorization =
        head.headers.get("authorization").map(|value| value.to_str().expect("text").to_owned());
    let body = String::from_utf8_lossy(&body).into_owned();
    let fault = {
        let mut state = state.lock().expect("no handler panicked");
        state.seen.push(ReceivedRequest {
            route: route.clone(),
            authorization: authorization.clone(),
            body: body.clone(),
        });
        state.faults.iter().find(|(of, _)| *of == route).map(|(_, fault)| fault.clone())
    };
    match fault {
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Answer(status, retry_after, body)) => response(status, retry_after, body),
        None => {
            let state = state.lock().expect("no handler panicked");
            let (status, body) = state.usual(&route, authorization.as_deref(), &body);
            response(status, None, body.to_string())
        }
    }
}

impl State {
    fn usual(&self, route: &str, authorization: Option<&str>, body: &str) -> (u16, Value) {
        let wanted = self.key.as_ref().map(|key| format!("Bearer {key}"));
        if wanted.is_some() && authorization != wanted.as_deref() {
            return (401, json!({"detail": "Invalid API key"}));
        }
        match route {
            LIST => (200, json!(self.techniques)),
            HEALTH => {
                let pipelines: serde_json::Map<String, Value> =
                    self.techniques.iter().map(|name| (name.clone(), "ready".into())).collect();
                (200, json!({"status": "healthy", "pipelines": pipelines, "database": {"connected": true}}))
            }
            INVOKE => (200, self.invoked(body)),
            _ => (404, json!({"detail": "Not Found"})),
        }
    }

    fn invoked(&self, body: &str) -> Value {
        let asked: Value = serde_json::from_str(body).expect("JSON");
        let (technique, query) = (asked["technique"].as_str().expect("a name"), &asked["query"]);
        if !self.techniques.iter().any(|known| known == technique) {
            return json!({"success": false, "error": format!("Unknown technique: {technique}")});
        }
        let documents: Vec<Value> = (1..=asked["params"]["top_k"].as_u64().unwrap_or(2))
            .map(|number| json!({"content": format!("passage {number}"), "score": 0.9}))
            .collect();
        json!({"success": true, "result": {
            "answer": format!("{technique} says of {query}: it depends."),
            "retrieved_documents": documents,
            "sources": ["handbook.md"],
            "metadata": {"params": asked["params"], "retrieval": technique},
            "performance": {"execution_time_ms": 12.5, "tokens_used": 321},
        }})
    }
}

fn response(status: u16, retry_after: Option<u32>, body: String) -> Response {
    let mut response = Response::builder().status(status).header("content-type", "application/json");
    if let Some(seconds) = retry_after {
        response = response.header("retry-after", seconds);
    }
    response.body(Body::from(body)).expect("a response")
}
