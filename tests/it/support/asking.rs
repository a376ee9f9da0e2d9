//! The server that sends requests ([`super::asker`]) on both HTTP transports: with a stream for each
//! call, and with one for all.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::StreamExt;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::asker::Asker;
use super::{Background, listen};

/// A running server. Dropping it ends the server.
#[derive(Debug)]
pub struct Asking {
    address: SocketAddr,
    _task: Background,
}

type Stream = UnboundedSender<String>;

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Inside>>);

#[derive(Default)]
struct Inside {
    asker: Asker<Stream>,
    streams: HashMap<u64, Stream>,
}

impl Asking {
    /// Starts it on its own port: Streamable HTTP at `/mcp`, HTTP+SSE at `/sse`.
    pub fn start() -> Self {
        let listener = listen((Ipv4Addr::LOCALHOST, 0).into());
        let address = listener.local_addr().expect("an address");
        let router = Router::new()
            .route("/mcp", get(|| async { StatusCode::METHOD_NOT_ALLOWED }).post(streamable))
            .route("/sse", get(open))
            .route("/messages", axum::routing::post(message))
            .with_state(Shared::default());
        let task = Background::run(move || async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            axum::serve(listener, router).await.expect("it serves");
        });
        Self { address, _task: task }
    }

    /// The URL of `path`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Shared {
    fn take(&self, body: &str, stream: &Stream) {
        let said = self.lock().asker.take(body, stream);
        for (stream, message) in said {
            // A client that has disconnected gets nothing.
            let _ = stream.send(format!("data: {message}\n\n"));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn streamable(State(shared): State<Shared>, body: String) -> Response {
    let (stream, said) = unbounded_channel();
    shared.take(&body, &stream);
    drop(stream);
    let is_request = body.contains(r#""id""#) && body.contains(r#""method""#);
    if is_request { events(said) } else { StatusCode::ACCEPTED.into_response() }
}

async fn open(State(shared): State<Shared>) -> Response {
    let (stream, said) = unbounded_channel();
    let mut inside = shared.lock();
    let number = inside.streams.len() as u64;
    stream.send(format!("event: endpoint\ndata: /messages?stream={number}\n\n")).expect("it is open");
    inside.streams.insert(number, stream);
    drop(inside);
    events(said)
}

async fn message(
    State(shared): State<Shared>,
    Query(query): Query<HashMap<String, u64>>,
    body: String,
) -> StatusCode {
    let stream = shared.lock().streams[&query["stream"]].clone();
    shared.take(&body, &stream);
    StatusCode::ACCEPTED
}

fn events(said: UnboundedReceiver<String>) -> Response {
    let said = tokio_stream_of(said).map(Ok::<_, Infallible>);
    ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(said)).into_response()
}

fn tokio_stream_of(receiver: UnboundedReceiver<String>) -> impl futures_util::Stream<Item = String> {
    futures_util::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|message| (message, receiver))
    })
}
