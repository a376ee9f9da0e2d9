//! Routes of the fake R2R.

use axum::body::Bytes;
use axum::http::request::Parts;
use serde_json::{Value, json};
use uuid::Uuid;

use super::recorded_answer;
use super::state::{Fault, ReceivedRequest, State};
use super::{documents, retrieval};

/// One request.
#[derive(Debug)]
pub(super) struct ParsedRequest {
    method: String,
    raw_path: String,
    /// Path after decoding, as R2R's server does it before routing.
    pub path: String,
    query: String,
    headers: Vec<(String, String)>,
    pub body: Bytes,
}

impl ParsedRequest {
    pub(super) fn new(head: &Parts, body: Bytes) -> Self {
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let headers = head.headers.iter().filter(|(name, _)| *name != "host");
        Self {
            method: head.method.to_string(),
            raw_path: head.uri.path().to_owned(),
            path: percent_encoding::percent_decode_str(head.uri.path()).decode_utf8_lossy().into_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            headers: headers.map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect(),
            body,
        }
    }

    pub(super) fn seen(&self) -> ReceivedRequest {
        ReceivedRequest {
            method: self.method.clone(),
            path: self.raw_path.clone(),
            query: self.query.clone(),
            headers: self.headers.clone(),
            body: String::from_utf8_lossy(&self.body).into_owned(),
        }
    }

    /// Returns the method and the path.
    pub(super) fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// Returns the route, such as `GET /v3/documents/{}`.
    pub(super) fn route(&self) -> String {
        let general = |segment| if Uuid::parse_str(segment).is_ok() { "{}" } else { segment };
        let path: Vec<&str> = self.path.split('/').map(general).collect();
        format!("{} {}", self.method, path.join("/"))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| &**value)
    }

    pub(super) fn bearer(&self) -> Option<&str> {
        self.header("authorization")?.strip_prefix("Bearer ")
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(super) fn parameters(&self, name: &str) -> Vec<String> {
        let pairs = url::form_urlencoded::parse(self.query.as_bytes());
        pairs.filter(|(given, _)| given == name).map(|(_, value)| value.into_owned()).collect()
    }

    /// Returns the requested page of `all`, as a list of R2R.
    pub(super) fn page(&self, all: &[Value]) -> Reply {
        let number =
            |name, usual| self.parameters(name).first().map_or(Ok(usual), |text| text.parse::<usize>());
        match (number("offset", 0), number("limit", 100)) {
            (Ok(offset), Ok(limit @ 1..=1000)) => {
                let page: Vec<&Value> = all.iter().skip(offset).take(limit).collect();
                // It counts beside the rows of the page, and finds no number where there are none.
                let total = if page.is_empty() { 0 } else { all.len() };
                Reply::of(200, &json!({"results": page, "total_entries": total}))
            }
            _ => Reply::recorded("collections-list-bad-limit"),
        }
    }
}

/// One response.
#[derive(Debug)]
pub(super) struct Reply {
    pub status: u16,
    pub media_type: &'static str,
    pub retry_after: Option<u64>,
    pub body: String,
    /// Document whose ingestion ends before the response is sent.
    pub ingesting: Option<String>,
}

impl Reply {
    pub(super) fn of(status: u16, body: &Value) -> Self {
        Self {
            status,
            media_type: "application/json",
            retry_after: None,
            body: body.to_string(),
            ingesting: None,
        }
    }

    pub(super) fn results(results: &Value) -> Self {
        Self::of(200, &json!({ "results": results }))
    }

    /// Makes a response exactly as recorded.
    pub(super) fn recorded(name: &str) -> Self {
        let (status, body) = recorded_answer(name);
        Self::of(status, &body)
    }

    pub(super) fn stream(body: String) -> Self {
        Self {
            status: 200,
            media_type: "text/event-stream; charset=utf-8",
            retry_after: None,
            body,
            ingesting: None,
        }
    }
}

/// Makes the response of a simulated fault.
pub(super) fn failed(fault: &Fault) -> Reply {
    match fault {
        Fault::RateLimited(after) => Reply { retry_after: *after, ..Reply::recorded("rate-limited") },
        Fault::Status(500) => Reply::recorded("search-embedding-401"),
        Fault::Status(status @ 502..) => Reply {
            status: *status,
            media_type: "text/html",
            retry_after: None,
            body: "<html>not R2R</html>".into(),
            ingesting: None,
        },
        Fault::Status(status) => {
            Reply::of(*status, &json!({"message": "injected failure", "error_type": "R2RException"}))
        }
        Fault::Recorded(name) => Reply::recorded(name),
        Fault::Lost | Fault::Hang => Reply::of(500, &json!({"detail": "it does not end"})),
    }
}

pub(super) fn answer(state: &mut State, request: &ParsedRequest) -> Reply {
    let path: Vec<&str> = request.path.trim_start_matches('/').split('/').collect();
    let Some((&"v3", path)) = path.split_first() else { return Reply::recorded("unknown-route") };
    match (&*request.method, path) {
        ("GET", ["health"]) => return Reply::recorded("health"),
        ("POST", ["users", "login"]) => return state.users.log_in(request),
        ("POST", ["users", "refresh-token"]) => return state.users.renew(request),
        _ => {}
    }
    if let Some(refusal) = state.users.refusal(request) {
        return refusal;
    }
    match (&*request.method, path) {
        ("POST", ["users", "logout"]) => state.users.log_out(request),
        ("GET", ["users", "me"]) => Reply::recorded("users-me"),
        ("POST", ["retrieval", "search"]) => retrieval::search(state, &request.json()),
        ("POST", ["retrieval", "rag"]) => retrieval::rag(state, &request.json()),
        ("POST", ["documents"]) => documents::create(state, request),
        ("GET", ["documents"]) => documents::list(state, request),
        ("GET", ["documents", id]) => documents::one(state, id),
        ("DELETE", ["documents", id]) => documents::delete(state, id),
        ("GET", ["collections"]) => documents::collections(state, request),
        ("POST", ["collections"]) => documents::create_collection(state, &request.json()),
        ("GET", ["collections", "name", name]) => documents::collection_named(state, name),
        ("GET", ["collections", id]) => documents::collection(state, id),
        ("DELETE", ["collections", id]) => documents::delete_collection(state, id),
        ("GET", ["collections", id, "documents"]) => documents::of_collection(state, id, request),
        ("POST", ["collections", id, "documents", document]) => documents::assign(state, id, document),
        ("DELETE", ["collections", id, "documents", document]) => documents::remove(state, id, document),
        _ => Reply::recorded("unknown-route"),
    }
}
