//! The server of [`super::stateful`] over Streamable HTTP: one state for each session.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::stream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::stateful::Stateful;
use testkit::served::Served;

/// A running one.
pub struct StatefulHttp {
    served: Served,
    sessions: Sessions,
}

#[derive(Clone, Default)]
struct Sessions(Arc<Mutex<HashMap<String, Session>>>);

struct Session {
    state: Stateful,
    unasked: UnboundedSender<String>,
    stream: Option<UnboundedReceiver<String>>,
}

impl StatefulHttp {
    /// Starts one.
    pub fn start() -> Self {
        let sessions = Sessions::default();
        let routes = Router::new()
            .route("/mcp", post(take).get(open).delete(async || StatusCode::OK))
            .with_state(sessions.clone());
        Self { served: Served::start(routes), sessions }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("{}/mcp", self.served.url())
    }

    /// How many sessions were opened with it.
    pub fn opened(&self) -> usize {
        self.sessions.lock().len()
    }
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn take(State(sessions): State<Sessions>, headers: HeaderMap, body: String) -> Response {
    let mut sessions = sessions.lock();
    let id = if body.contains(r#""initialize""#) {
        let (unasked, stream) = unbounded_channel();
        let id = format!("session-{}", sessions.len());
        sessions.insert(id.clone(), Session { state: Stateful::default(), unasked, stream: Some(stream) });
        id
    } else {
        let named = headers.get("mcp-session-id").and_then(|id| id.to_str().ok());
        named.unwrap_or_default().to_owned()
    };
    let Some(session) = sessions.get_mut(&id) else { return StatusCode::BAD_REQUEST.into_response() };
    let (answer, unasked) = session.state.take(&body);
    for message in unasked {
        let _ = session.unasked.send(format!("data: {message}\n\n")); // the session has ended
    }
    match answer {
        Some(answer) => {
            let headers = [("content-type", "application/json"), ("mcp-session-id", id.as_str())];
            (headers, answer).into_response()
        }
        None => StatusCode::ACCEPTED.into_response(),
    }
}

async fn open(State(sessions): State<Sessions>, headers: HeaderMap) -> Response {
    let id = headers.get("mcp-session-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
    let stream = sessions.lock().get_mut(id).and_then(|session| session.stream.take());
    let Some(stream) = stream else { return StatusCode::METHOD_NOT_ALLOWED.into_response() };
    let events = stream::unfold(stream, async |mut stream| {
        let event = stream.recv().await?;
        Some((Ok::<_, Infallible>(event), stream))
    });
    ([("content-type", "text/event-stream")], Body::from_stream(events)).into_response()
}
