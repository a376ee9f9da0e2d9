//! The benchmark server, in its own process: as fast as hyper allows on one thread.
//!
//! `/mcp` is a server with the tools that the load calls. `/<number>/mcp` are further servers on
//! the same port. An option chooses the era. HTTP+SSE is in `sse`, stdio in `stdio`.

pub mod answers;
mod sse;
pub mod stdio;

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::SystemTime;

use anyhow::Context as _;
use bytes::buf::Chain;
use bytes::{Buf as _, Bytes};
use clap::Args;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

use self::answers::{Answer, Character, Reaction};
use self::sse::Streams;
use crate::child;

/// Which server is wanted.
#[derive(Debug, Clone, Copy, Args)]
pub struct ServerOptions {
    /// It speaks 2025-11-25 with sessions, not 2026-07-28
    #[arg(long)]
    legacy: bool,
    /// It prints the id of an answer behind the result
    #[arg(long)]
    id_last: bool,
    /// How many tools a server has beside those that are called
    #[arg(long, default_value_t = 0)]
    tools: usize,
    /// It speaks HTTP+SSE, at `/sse`
    #[arg(long)]
    sse: bool,
}

impl ServerOptions {
    /// Returns the properties of the server at `path`.
    fn at(self, path: &str) -> Option<Character> {
        let number = match path.strip_suffix("/mcp")? {
            "" => None,
            number => Some(number.get(1..)?.parse().ok()?),
        };
        Some(self.character(number))
    }

    fn character(self, number: Option<usize>) -> Character {
        let Self { legacy: is_legacy, id_last: is_id_last, tools, sse } = self;
        Character { number, tools, is_legacy: is_legacy || sse, is_id_last }
    }
}

/// The body of an answer: complete, or a stream.
enum Outgoing {
    Whole(Option<Pieces>),
    /// Never ends; the first piece is the first event.
    Open(Option<Bytes>),
    /// Messages on a connection of HTTP+SSE.
    Events(tokio::sync::mpsc::UnboundedReceiver<Pieces>),
    /// An answer as an event stream.
    Event(Option<Pieces>),
}

type Pieces = Chain<Bytes, Chain<Bytes, Bytes>>;

fn pieces(answer: Answer) -> Pieces {
    answer.head.chain(answer.middle.chain(answer.tail))
}

impl Body for Outgoing {
    type Data = Pieces;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Pieces>, Infallible>>> {
        let piece = match self.get_mut() {
            Self::Whole(answer) | Self::Event(answer) => answer.take(),
            Self::Open(first) => match first.take() {
                Some(first) => Some(first.chain(Bytes::new().chain(Bytes::new()))),
                None => return Poll::Pending,
            },
            Self::Events(events) => std::task::ready!(events.poll_recv(cx)),
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None) | Self::Event(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(answer) => {
                SizeHint::with_exact(answer.as_ref().map_or(0, |left| left.remaining() as u64))
            }
            Self::Open(_) | Self::Events(_) | Self::Event(_) => SizeHint::default(),
        }
    }
}

/// Serves until the process is ended.
pub async fn serve(options: ServerOptions) -> anyhow::Result<()> {
    let (listener, _) = child::listen().await?;
    let streams = Streams::default();
    loop {
        let (socket, _) = listener.accept().await.context("no more connections")?;
        socket.set_nodelay(true)?;
        let streams = streams.clone();
        let service = service_fn(move |request| answer(options, streams.clone(), request));
        tokio::spawn(async move {
            // The client ends by closing its connections.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service)
                .await;
        });
    }
}

async fn answer(
    options: ServerOptions,
    streams: Streams,
    request: Request<Incoming>,
) -> Result<Response<Outgoing>, hyper::Error> {
    if options.sse {
        return sse::answer(options.character(None), streams, request).await;
    }
    let Some(character) = options.at(request.uri().path()) else { return Ok(status(StatusCode::NOT_FOUND)) };
    if *request.method() != Method::POST {
        let ended = *request.method() == Method::DELETE;
        return Ok(status(if ended { StatusCode::NO_CONTENT } else { StatusCode::METHOD_NOT_ALLOWED }));
    }
    let body = request.into_body().collect().await?.to_bytes();
    Ok(match character.react(&body) {
        None => status(StatusCode::BAD_REQUEST),
        Some(Reaction::Accept) => status(StatusCode::ACCEPTED),
        Some(Reaction::Answer(answer)) => whole(answer),
        Some(Reaction::Open(answer)) => {
            let mut response = whole(answer);
            response.headers_mut().insert("mcp-session-id", new_session());
            response
        }
        Some(Reaction::Listen(first)) => with_type(Outgoing::Open(Some(first)), "text/event-stream"),
    })
}

fn whole(answer: Answer) -> Response<Outgoing> {
    if answer.is_stream {
        return with_type(Outgoing::Event(Some(pieces(answer))), "text/event-stream");
    }
    with_type(Outgoing::Whole(Some(pieces(answer))), "application/json")
}

fn status(code: StatusCode) -> Response<Outgoing> {
    let mut response = Response::new(Outgoing::Whole(None));
    *response.status_mut() = code;
    response
}

fn with_type(body: Outgoing, kind: &'static str) -> Response<Outgoing> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A session id may be guessed in a benchmark, so the time is enough.
fn new_session() -> HeaderValue {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    HeaderValue::from_str(&format!("session-{}", now.as_nanos())).expect("digits")
}
