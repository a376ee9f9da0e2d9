//! The three HTTP transports of a scripted server, on plain hyper, because the server must be able
//! to misbehave.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};

use ::http::{HeaderMap, Method, Request, Response, StatusCode};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{broadcast, mpsc};

use super::super::client::MODERN;
use super::super::sse;
use super::state::{Envelope, Era, Outcome, ReceivedRequest, State, error, plain, tagged};

type Body = UnsyncBoxBody<Bytes, io::Error>;
/// An error closes the connection immediately.
type Reply = Result<Response<Body>, io::Error>;
/// The streams of HTTP+SSE by session.
type Streams = Arc<Mutex<HashMap<String, mpsc::UnboundedSender<String>>>>;

/// Accepts connections until it is dropped; its runtime and all connections end with it.
#[allow(clippy::disallowed_methods)] // the server has its own runtime
pub async fn serve(listener: std::net::TcpListener, state: Arc<State>) {
    let listener = TcpListener::from_std(listener).expect("a socket");
    let streams = Streams::default();
    while let Ok((socket, _)) = listener.accept().await {
        let (state, streams) = (state.clone(), streams.clone());
        let service = service_fn(move |request| handle(state.clone(), streams.clone(), request));
        let socket = TokioIo::new(socket);
        // An error means that the server was scripted to misbehave, or that the client
        // disconnected.
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(socket, service));
    }
}

async fn handle(state: Arc<State>, streams: Streams, request: Request<Incoming>) -> Reply {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let body = String::from_utf8_lossy(&body).into_owned();
    let envelope: Option<Envelope<'_>> = serde_json::from_str(&body).ok();
    state.remember(ReceivedRequest {
        http_method: head.method.to_string(),
        headers: head.headers.clone(),
        body: body.clone(),
        rpc_method: envelope.as_ref().and_then(|envelope| envelope.method.clone()),
    });
    let sent = head.headers.get("authorization").and_then(|sent| sent.to_str().ok());
    if !state.accepts(sent) {
        return status(401);
    }
    match (state.era, envelope) {
        (Era::Modern, Some(envelope)) => modern(&state, &head.headers, &envelope).await,
        (Era::Legacy, envelope) => legacy(&state, &head, envelope).await,
        (Era::Sse, envelope) => old_sse(&state, &streams, &head, envelope),
        (Era::Modern, None) if head.method == Method::POST => status(400),
        (Era::Modern, None) => status(405),
    }
}

async fn modern(state: &Arc<State>, headers: &HeaderMap, request: &Envelope<'_>) -> Reply {
    if request.id.is_none() {
        return status(202);
    }
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let known = request.known();
    let meta = &known.meta;
    if meta["io.modelcontextprotocol/protocolVersion"] != MODERN {
        return match request.method.as_deref() {
            Some("initialize") => json(404, error(request, -32601, "no such method")),
            _ => json(400, error(request, -32602, "_meta lacks the protocol version")),
        };
    }
    if !meta["io.modelcontextprotocol/clientCapabilities"].is_object() {
        return json(400, error(request, -32602, "_meta lacks the client's capabilities"));
    }
    let named = matches!(request.method.as_deref(), Some("tools/call")).then(|| known.name.as_deref());
    let agrees = header("mcp-protocol-version") == Some(MODERN)
        && header("mcp-method") == request.method.as_deref()
        && named.is_none_or(|name| header("mcp-name") == name);
    if !agrees {
        return json(400, error(request, -32020, "a header says something else than the body"));
    }
    perform(state, state.answer(request)).await
}

async fn legacy(state: &Arc<State>, head: &::http::request::Parts, request: Option<Envelope<'_>>) -> Reply {
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    if header("mcp-protocol-version").is_some_and(|version| version >= MODERN) {
        return json(400, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Unsupported protocol version"}}"#.into());
    }
    if let Some(request) = request.as_ref().filter(|request| request.method.as_deref() == Some("initialize"))
    {
        let mut response = perform(state, state.answer(request)).await?;
        let id = state.open_session().parse().expect("visible");
        response.headers_mut().insert("mcp-session-id", id);
        return Ok(response);
    }
    let Some(session) = header("mcp-session-id") else { return status(400) };
    if !state.has_session(session) {
        return status(404);
    }
    match (&head.method, request) {
        (&Method::GET, _) => events(notices(state).map(|method| sse::message(&plain(&method)))),
        (&Method::DELETE, _) => status(if state.close_session(session) { 200 } else { 404 }),
        (&Method::POST, Some(request)) if request.id.is_some() && request.method.is_some() => {
            perform(state, state.answer(&request)).await
        }
        (&Method::POST, Some(_)) => status(202),
        _ => status(400),
    }
}

#[allow(clippy::disallowed_methods)] // the server has its own runtime
fn old_sse(
    state: &Arc<State>,
    streams: &Streams,
    head: &::http::request::Parts,
    request: Option<Envelope<'_>>,
) -> Reply {
    if head.method == Method::GET && head.uri.path() == "/sse" {
        return open_old_sse(state, streams);
    }
    let session = head.uri.query().and_then(|query| query.strip_prefix("session=")).unwrap_or_default();
    let stream = streams.lock().expect("no panic holds it").get(session).cloned();
    let (Some(stream), Some(request)) = (stream, request) else {
        return status(if head.uri.path() == "/messages" { 404 } else { 405 });
    };
    if request.id.is_some() {
        match state.answer(&request) {
            Outcome::Message(text) | Outcome::Cut(text) | Outcome::Later(_, text) => drop(stream.send(text)),
            Outcome::Stream(texts) => texts.into_iter().for_each(|text| drop(stream.send(text))),
            Outcome::Paced(pause, texts) => {
                let send = move |text: String| {
                    drop(stream.send(text));
                    std::future::ready(())
                };
                tokio::spawn(paced(pause, texts).for_each(send));
            }
            Outcome::Status(code, _) => return status(code),
            Outcome::Redirect(target) => return redirect(&target),
            Outcome::Drop => return Err(io::Error::other("told to drop")),
            Outcome::Hang | Outcome::Listen(_) => {}
        }
    }
    status(202)
}

fn open_old_sse(state: &Arc<State>, streams: &Streams) -> Reply {
    let id = state.open_session();
    let (sender, receiver) = mpsc::unbounded_channel();
    streams.lock().expect("no panic holds it").insert(id.clone(), sender);
    let endpoint = format!("event: endpoint\ndata: /messages?session={id}\n\n");
    let messages = stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)));
    let unasked = notices(state).map(|method| plain(&method));
    let both = stream::select(messages.boxed(), unasked.boxed()).map(|text| sse::message(&text));
    events(stream::iter([endpoint]).chain(both))
}

async fn perform(state: &Arc<State>, outcome: Outcome) -> Reply {
    match outcome {
        Outcome::Message(text) => {
            let is_unknown = state.era == Era::Modern && text.contains("\"code\":-32601");
            json(if is_unknown { 404 } else { 200 }, text)
        }
        Outcome::Stream(texts) => events(stream::iter(texts).map(|text| sse::message(&text))),
        Outcome::Paced(pause, texts) => events(paced(pause, texts).map(|text| sse::message(&text))),
        Outcome::Status(code, retry_after) => {
            let mut response = status(code)?;
            if let Some(seconds) = retry_after {
                response.headers_mut().insert("retry-after", seconds.into());
            }
            Ok(response)
        }
        Outcome::Redirect(target) => redirect(&target),
        Outcome::Later(pause, text) => {
            tokio::time::sleep(pause).await;
            json(200, text)
        }
        Outcome::Hang => std::future::pending().await,
        Outcome::Drop => Err(io::Error::other("told to drop")),
        Outcome::Cut(text) => {
            let half = text.len() / 2;
            let half = Bytes::from(text).slice(..half);
            let end = stream::once(async {
                // This lets hyper flush the first half; an immediate error would discard it.
                tokio::task::yield_now().await;
                Err(io::Error::other("told to cut"))
            });
            let cut = stream::iter([Ok(Frame::data(half))]).chain(end);
            Ok(with_type(200, "application/json", BodyExt::boxed_unsync(StreamBody::new(cut))))
        }
        Outcome::Listen(id) => {
            let first = sse::message(&tagged("notifications/subscriptions/acknowledged", &id));
            events(
                stream::iter([first])
                    .chain(notices(state).map(move |method| sse::message(&tagged(&method, &id)))),
            )
        }
    }
}

fn redirect(target: &str) -> Reply {
    let mut response = status(307)?;
    response.headers_mut().insert("location", target.parse().expect("a URL"));
    Ok(response)
}

fn paced(pause: std::time::Duration, texts: Vec<String>) -> impl Stream<Item = String> + Send + 'static {
    stream::iter(texts).then(move |text| async move {
        tokio::time::sleep(pause).await;
        text
    })
}

fn notices(state: &Arc<State>) -> impl Stream<Item = String> + Send + 'static {
    stream::unfold(state.notices.subscribe(), async |mut receiver| {
        loop {
            match receiver.recv().await {
                Ok(method) => return Some((method, receiver)),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    })
}

#[allow(clippy::unnecessary_wraps)] // so that every arm reads the same
fn json(code: u16, text: String) -> Reply {
    Ok(with_type(code, "application/json", full(text)))
}

#[allow(clippy::unnecessary_wraps)] // so that every arm reads the same
fn status(code: u16) -> Reply {
    Ok(with_type(code, "text/plain", full(String::new())))
}

#[allow(clippy::unnecessary_wraps)] // so that every arm reads the same
fn events(events: impl Stream<Item = String> + Send + 'static) -> Reply {
    let frames = events.map(|text| Ok(Frame::data(Bytes::from(text))));
    Ok(with_type(200, "text/event-stream", BodyExt::boxed_unsync(StreamBody::new(frames))))
}

fn full(text: String) -> Body {
    Full::new(Bytes::from(text)).map_err(|never: Infallible| match never {}).boxed_unsync()
}

fn with_type(code: u16, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).expect("a status");
    response.headers_mut().insert("content-type", ::http::HeaderValue::from_static(kind));
    response
}
