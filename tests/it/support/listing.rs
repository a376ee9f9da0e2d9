//! A server over Streamable HTTP whose answers to requests a test decides, down to the bytes.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Response, StatusCode};
use axum::routing::any;
use serde_json::{Value, json};
use testkit::served::Served;

/// The answer to one request.
#[derive(Debug, Clone)]
pub enum Listed {
    /// A result, as JSON text.
    Result(String),
    /// A JSON-RPC error.
    Refused(i64, &'static str),
    /// Another answer: status, content type and body.
    Other(u16, &'static str, &'static str),
    /// No answer.
    Silence,
}

/// The result with the list `member` of `items`.
pub fn list(member: &str, items: &Value) -> Listed {
    Listed::Result(json!({member: items}).to_string())
}

/// Starts a legacy server with `capabilities`, which answers as `answer` says and refuses what that does not know.
pub fn legacy(
    capabilities: Value,
    answer: impl Fn(&str, &Value) -> Option<Listed> + Send + Sync + 'static,
) -> Served {
    start(move |method, params| {
        match method {
        "initialize" => Some(Listed::Result(
            json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": {"name": "s", "version": "1"}})
                .to_string(),
        )),
        "ping" => Some(Listed::Result("{}".to_owned())),
        "server/discover" => Some(Listed::Refused(-32601, "no such method")),
        other => answer(other, params),
    }
    })
}

/// Starts a modern server. Every result gets the members that its revision requires.
pub fn modern(
    capabilities: Value,
    answer: impl Fn(&str, &Value) -> Option<Listed> + Send + Sync + 'static,
) -> Served {
    let whole = |text: String| {
        let rest = text.strip_prefix('{').expect("an object");
        format!(r#"{{"resultType":"complete","ttlMs":0,"cacheScope":"private",{rest}"#)
    };
    start(move |method, params| {
        let listed = if method == "server/discover" {
            let discovered = json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities});
            Some(Listed::Result(discovered.to_string()))
        } else {
            answer(method, params)
        };
        listed.map(|listed| match listed {
            Listed::Result(text) => Listed::Result(whole(text)),
            other => other,
        })
    })
}

fn start(answer: impl Fn(&str, &Value) -> Option<Listed> + Send + Sync + 'static) -> Served {
    let answer = Arc::new(answer);
    let handler = move |request: Request| {
        let answer = Arc::clone(&answer);
        async move {
            let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap_or_default();
            let Ok(message) = serde_json::from_slice::<Value>(&body) else { return response(405, "", "") };
            let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else {
                return response(202, "", "");
            };
            let answered =
                match answer(method, &message["params"]).unwrap_or(Listed::Refused(-32601, "unknown")) {
                    Listed::Result(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
                    Listed::Refused(code, message) => {
                        json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
                            .to_string()
                    }
                    Listed::Other(status, kind, body) => return response(status, kind, body),
                    Listed::Silence => std::future::pending().await,
                };
            response(200, "application/json", &answered)
        }
    };
    Served::start(Router::new().fallback(any(handler)))
}

fn response(status: u16, kind: &str, body: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_owned()));
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    if !kind.is_empty() {
        response.headers_mut().insert("content-type", kind.parse().expect("a type"));
    }
    response
}
