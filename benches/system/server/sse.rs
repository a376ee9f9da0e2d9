//! The benchmark server over HTTP+SSE of 2024-11-05: requests are posted, answers come on a stream.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf as _, Bytes};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::answers::{Answer, Character, Reaction};
use super::{Outgoing, Pieces, pieces, status, with_type};

/// The open streams by their number.
pub(super) type Streams = Arc<Mutex<HashMap<usize, UnboundedSender<Pieces>>>>;

/// `GET /sse` opens a stream, `POST /messages/<number>` sends a message that is answered there.
pub(super) async fn answer(
    character: Character,
    streams: Streams,
    request: Request<Incoming>,
) -> Result<Response<Outgoing>, hyper::Error> {
    let path = request.uri().path().to_owned();
    if *request.method() == Method::GET && path == "/sse" {
        return Ok(open(&streams));
    }
    let number = path.strip_prefix("/messages/").and_then(|number| number.parse::<usize>().ok());
    let stream = number.and_then(|number| streams.lock().ok()?.get(&number).cloned());
    let Some(stream) = stream else { return Ok(status(StatusCode::NOT_FOUND)) };
    let body = request.into_body().collect().await?.to_bytes();
    match character.react(&body) {
        Some(Reaction::Answer(answer) | Reaction::Open(answer)) => {
            // A client that has disconnected needs no answer.
            let _ = stream.send(event(answer));
        }
        Some(Reaction::Accept | Reaction::Listen(_)) => {}
        None => return Ok(status(StatusCode::BAD_REQUEST)),
    }
    Ok(status(StatusCode::ACCEPTED))
}

fn open(streams: &Streams) -> Response<Outgoing> {
    let (sender, events) = unbounded_channel();
    let mut streams = streams.lock().unwrap_or_else(PoisonError::into_inner);
    let number = streams.len();
    let first = Bytes::from(format!("event: endpoint\ndata: /messages/{number}\n\n"));
    let _ = sender.send(first.chain(Bytes::new().chain(Bytes::new())));
    streams.insert(number, sender);
    with_type(Outgoing::Events(events), "text/event-stream")
}

fn event(answer: Answer) -> Pieces {
    pieces(if answer.is_stream { answer } else { answer.into_event("") })
}
