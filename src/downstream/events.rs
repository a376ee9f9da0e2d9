//! Answers over HTTP: a single JSON body, or an event stream that stays open.
//!
//! Invariants: a stream shows a sign of life every 15 seconds, so that nobody in between takes it
//! for dead; what waits for a slow reader is bounded by the exchange, not by this.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue};

use super::error::status_of;
use super::exchange::Exchange;
use super::sessions::Stream;
use crate::gateway::Gateway;
use crate::gateway::subscriptions::Feed;
use crate::protocol::Message;
use crate::shutdown::Shutdown;
use crate::wire::sse::{Event, KEEP_ALIVE};

/// Time between two signs of life, and the longest a request waits for its first message before it
/// is answered with a stream.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);

/// The answer to a request: JSON when its response comes first, else a stream.
pub(super) async fn answer(mut exchange: Exchange, tasks: &Shutdown) -> Response {
    match tokio::time::timeout(KEEP_ALIVE_EVERY, exchange.next()).await {
        Ok(Some(Message::Response(response))) => {
            let status = if exchange.is_modern() { status_of(&response.reply) } else { http::StatusCode::OK };
            let mut answer = Response::new(Body::from(response.encode()));
            *answer.status_mut() = status;
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            answer
        }
        Ok(Some(first)) => stream_of(exchange, event(&first), tasks),
        // Cancelled before anything was said: a stream that ends, because JSON would need a body.
        Ok(None) => event_stream(Body::empty()),
        Err(_) => stream_of(exchange, KEEP_ALIVE, tasks),
    }
}

fn stream_of(mut exchange: Exchange, first: Bytes, tasks: &Shutdown) -> Response {
    // A body is asked for more only while its reader reads; the call has deadlines to keep.
    exchange.keep_going(tasks);
    let rest = stream::unfold(exchange, |mut exchange| async move {
        let chunk = match tokio::time::timeout(KEEP_ALIVE_EVERY, exchange.next()).await {
            Ok(message) => event(&message?),
            Err(_) => KEEP_ALIVE,
        };
        Some((Ok::<_, std::convert::Infallible>(chunk), exchange))
    });
    let all = stream::StreamExt::chain(stream::once(async { Ok(first) }), rest);
    event_stream(Body::from_stream(all))
}

/// What the stream of a session carries, from its opening on.
struct Notices {
    stream: Stream,
    feed: Feed,
    tasks: Shutdown,
}

/// The stream for what the gateway tells a legacy session by itself.
pub(super) fn notices(gateway: &Gateway, stream: Stream, tasks: Shutdown) -> Response {
    let caller = &stream.session().caller;
    let Some(feed) = gateway.feed(caller) else { return event_stream(Body::empty()) };
    let notices = Notices { stream, feed, tasks };
    let rest = stream::unfold(notices, |mut notices| async move {
        let chunk = tokio::select! {
            () = notices.stream.ended() => return None,
            () = notices.tasks.requested() => return None,
            notice = notices.feed.next() => event(&Message::Notification(notice)),
            () = tokio::time::sleep(KEEP_ALIVE_EVERY) => KEEP_ALIVE,
        };
        Some((Ok::<_, std::convert::Infallible>(chunk), notices))
    });
    // A first sign of life, so that the client sees the stream open before anything happens.
    let all = stream::StreamExt::chain(stream::once(async { Ok(KEEP_ALIVE) }), rest);
    event_stream(Body::from_stream(all))
}

fn event(message: &Message) -> Bytes {
    Event::of(message.encode()).encode()
}

fn event_stream(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}
