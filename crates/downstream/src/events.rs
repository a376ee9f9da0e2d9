//! Answers over HTTP: a single JSON body, or an event stream that stays open.
//!
//! Streams of legacy sessions are recorded (`replay`) and read from the record, so that a client
//! whose connection broke reads on. Invariants: a stream sends a keep-alive comment every 15 seconds, so
//! that no proxy in between closes it as idle. The record or the exchange bounds the messages that wait for a slow
//! reader; this module does not.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, StatusCode};
use tokio_util::sync::CancellationToken;

use super::bodies::{SegmentedBody, StreamingBody, enveloped};
use super::error::{MessageRefusal, is_forbidden, status_of};
use super::exchange::{Exchange, OutsideCalls, Step};
use super::headers::{EVENTS_NEEDED, ResponseFormat};
use super::message_encoder::{MessageEncoder, retry};
use super::replay::{Log, Reader};
use super::sessions::{Session, SessionReader};
use gateway::Gateway;
use gateway::error::memory_exhausted;
use gateway::subscriptions::Feed;
use net::sse::{Event, KEEP_ALIVE};
use protocol::{Closed, Era, ErrorObject, Message, RequestId};
use runtime::memory::{self, Account, ChargeKind, SMALL};
use runtime::shutdown::Shutdown;
use runtime::worker::{now, until};
use upstream::ResponseStream;

/// Time between two signs of life, and the longest a request waits for its first message before it
/// is answered with a stream.
pub(super) const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);
/// How long a request of a session waits for its answer before it is answered with a stream, which
/// survives a broken connection.
const STREAM_AFTER: Duration = Duration::from_secs(1);
/// When clients come back whose connection broke.
const RESUME_AFTER: Duration = Duration::from_secs(1);
/// When clients come back whose streams the gateway ends.
const COME_BACK_AFTER: Duration = Duration::from_secs(3);

/// A payload that is not larger is copied, which costs less than to hand it over in parts. A larger one is charged, and
/// its copy would have to be charged too.
const COPIED: usize = SMALL;

/// A page of a list for a modern client. A large one is copied for none who reads it.
pub(super) fn listed(
    id: RequestId,
    listed: Result<Closed, ErrorObject>,
    format: ResponseFormat,
    principal: &Arc<str>,
) -> Response {
    match listed {
        Ok(page) if format == ResponseFormat::OnlyStream => {
            event_stream(Event::of(page.encode(&id)).encode().into())
        }
        Ok(page) if page.size() > COPIED => {
            let [head, page] = page.parts(&id);
            match memory::hold(page, || Account::of(Some(principal)), ChargeKind::Answer) {
                Ok(page) => json(Body::new(SegmentedBody::of([head, page])), StatusCode::OK),
                Err(_) => {
                    given(&protocol::Response { id: Some(id), reply: Err(memory_exhausted(Era::Modern)) })
                }
            }
        }
        Ok(page) => json(page.encode(&id).into(), StatusCode::OK),
        Err(error) => given(&protocol::Response { id: Some(id), reply: Err(error) }),
    }
}

/// A response to a modern client that is there already.
fn given(response: &protocol::Response) -> Response {
    whole(response, status_of(&response.reply))
}

/// The answer to a request: JSON when its response comes first and the client accepts that, else a stream.
pub(super) async fn answer(mut exchange: Exchange, format: ResponseFormat, tasks: &Shutdown) -> Response {
    if format == ResponseFormat::OnlyJson {
        // Boxed: it is rarely needed.
        return Box::pin(as_json(exchange, || {})).await;
    }
    let first = async {
        loop {
            // A modern client is not notified of pauses.
            match exchange.step().await {
                Some(Step::Pause(_)) => {}
                step => return step,
            }
        }
    };
    match within(KEEP_ALIVE_EVERY, first).await {
        Some(Some(Step::Message(Message::Response(response)))) => {
            let status = status(&exchange, &response);
            // An error whose status is not 200 has no other form than JSON.
            if format == ResponseFormat::OnlyStream && status == StatusCode::OK {
                event_stream(event(&exchange.encoder(), &Message::Response(response)).into())
            } else {
                whole(&response, status)
            }
        }
        Some(Some(Step::Stream(stream))) if format == ResponseFormat::OnlyStream => {
            let response = exchange.collected(stream).await;
            event_stream(event(&exchange.encoder(), &response).into())
        }
        Some(Some(Step::Message(first))) => {
            let first = event(&exchange.encoder(), &first);
            stream_of(exchange, first, tasks)
        }
        Some(Some(Step::Stream(stream))) => passed(&exchange, stream),
        // Cancelled before anything was said: a stream that ends, because JSON would need a body.
        Some(Some(Step::Pause(_)) | None) => event_stream(Body::empty()),
        None => stream_of(exchange, KEEP_ALIVE, tasks),
    }
}

/// The HTTP status of the response to the client of `exchange`. A client whose token has a weaker scope than the request needs
/// reads it from the status (MCP 2026-07-28 `basic/authorization`, insufficient scope), in both eras.
fn status(exchange: &Exchange, response: &protocol::Response) -> StatusCode {
    if exchange.lacks_scope() && is_forbidden(&response.reply) {
        StatusCode::FORBIDDEN
    } else if exchange.is_modern() {
        status_of(&response.reply)
    } else {
        StatusCode::OK
    }
}

/// The answer to a client that accepts JSON alone, however long it takes. Notifications are left out, because the
/// response has no place for them. A server request cannot be left out: it makes the answer a refusal, and `cancel`
/// ends the call.
async fn as_json(mut exchange: Exchange, cancel: impl FnOnce()) -> Response {
    loop {
        match exchange.step().await {
            Some(Step::Message(Message::Response(response))) => {
                return whole(&response, status(&exchange, &response));
            }
            Some(Step::Stream(stream)) => return passed(&exchange, stream),
            Some(Step::Message(Message::Request(_))) => {
                cancel();
                let refusal = MessageRefusal::accept(EVENTS_NEEDED);
                return refusal.into_response(Some(exchange.id().clone()), exchange.named());
            }
            Some(Step::Message(Message::Notification(_)) | Step::Pause(_)) => {}
            // Cancelled, so there is no response.
            None => {
                let mut nothing = Response::new(Body::empty());
                *nothing.status_mut() = StatusCode::ACCEPTED;
                return nothing;
            }
        }
    }
}

/// The answer to a request of a session, whose stream can be read again and on other connections. `cancel` ends the
/// request.
pub(super) async fn recorded(
    mut exchange: Exchange,
    format: ResponseFormat,
    (session, cancel): (&Arc<Session>, CancellationToken),
    tasks: &Shutdown,
) -> Response {
    let first = match format {
        ResponseFormat::OnlyJson => return Box::pin(as_json(exchange, || cancel.cancel())).await,
        ResponseFormat::Stream | ResponseFormat::OnlyStream if !exchange.lacks_scope() => None,
        _ => match within(STREAM_AFTER, exchange.step()).await {
            Some(Some(Step::Message(Message::Response(response)))) => {
                return whole(&response, status(&exchange, &response));
            }
            Some(Some(Step::Stream(stream))) => return passed(&exchange, stream),
            Some(None) => return event_stream(Body::empty()),
            Some(first) => first,
            None => None,
        },
    };
    let log = session.replay.open();
    let reader = log.reader_from_start();
    if session.caller.version.has_polling() {
        log.prime(RESUME_AFTER);
    }
    if let Some(first) = first {
        record_one(&mut exchange, first, session, &log).await;
    }
    tasks.spawn(record(exchange, Arc::clone(session), log));
    event_stream(read(reader, session.hold()))
}

/// Returns the output of `work`, or nothing if it takes longer than `limit`.
async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        output = work => Some(output),
        () = until(now() + limit) => None,
    }
}

/// Takes down what is said, whether somebody reads it or not.
async fn record(mut exchange: Exchange, session: Arc<Session>, log: Arc<Log>) {
    while let Some(step) = exchange.step().await {
        record_one(&mut exchange, step, &session, &log).await;
    }
    session.replay.end(&log);
}

async fn record_one(exchange: &mut Exchange, step: Step, session: &Session, log: &Log) {
    match step {
        Step::Message(message) => log.push(&message),
        Step::Stream(stream) => log.push(&exchange.collected(stream).await),
        Step::Pause(pause) if session.caller.version.has_polling() => log.pause(pause),
        Step::Pause(_) => {}
    }
}

fn read(reader: Reader, held: SessionReader) -> Body {
    Body::from_stream(stream::unfold((reader, held), |(mut reader, held)| async move {
        let chunk = match tokio::time::timeout(KEEP_ALIVE_EVERY, reader.next()).await {
            Ok(event) => event?,
            Err(_) => KEEP_ALIVE,
        };
        Some((Ok::<_, Infallible>(chunk), (reader, held)))
    }))
}

/// A stream that continues where `reader` begins.
pub(super) fn resumed(
    gateway: &Gateway,
    session: &Arc<Session>,
    reader: Reader,
    tasks: &Shutdown,
) -> Response {
    if Arc::ptr_eq(reader.log(), session.own_stream()) {
        notices(gateway, session, reader, tasks)
    } else {
        event_stream(read(reader, session.hold()))
    }
}

fn stream_of(mut exchange: Exchange, first: Bytes, tasks: &Shutdown) -> Response {
    // A body is asked for more only while its reader reads; the call has deadlines to keep.
    exchange.keep_going(tasks);
    let encoder = exchange.encoder();
    let rest = stream::unfold((exchange, encoder), |(mut exchange, encoder)| async move {
        let chunk = match tokio::time::timeout(KEEP_ALIVE_EVERY, exchange.next()).await {
            Ok(message) => event(&encoder, &message?),
            Err(_) => KEEP_ALIVE,
        };
        Some((Ok::<_, Infallible>(chunk), (exchange, encoder)))
    });
    let all = stream::StreamExt::chain(stream::once(async { Ok(first) }), rest);
    event_stream(Body::from_stream(all))
}

/// Messages of the gateway to a legacy session outside of calls, on their way into the record and out of it.
struct Notices {
    held: SessionReader,
    reader: Reader,
    feed: Feed,
    asks: OutsideCalls,
    tasks: Shutdown,
    /// Whether the client was notified that the stream ends.
    is_over: bool,
}

/// The stream for messages of the gateway to a legacy session outside of calls, from now on.
pub(super) fn own_stream(gateway: &Gateway, session: &Arc<Session>, tasks: &Shutdown) -> Response {
    let log = session.own_stream();
    let reader = log.reader_from_now();
    if session.caller.version.has_polling() {
        log.prime(RESUME_AFTER);
    }
    notices(gateway, session, reader, tasks)
}

fn notices(gateway: &Gateway, session: &Arc<Session>, reader: Reader, tasks: &Shutdown) -> Response {
    let Some(feed) = gateway.feed(&session.caller) else { return event_stream(Body::empty()) };
    let asks = OutsideCalls::of(gateway, &session.caller, &session.questions);
    let notices = Notices { held: session.hold(), reader, feed, asks, tasks: tasks.clone(), is_over: false };
    let rest = stream::unfold(notices, |mut notices| async move {
        let chunk = notices.next().await?;
        Some((Ok::<_, Infallible>(chunk), notices))
    });
    // A first sign of life, so that the client sees the stream open before anything happens.
    let all = stream::StreamExt::chain(stream::once(async { Ok(KEEP_ALIVE) }), rest);
    event_stream(Body::from_stream(all))
}

impl Notices {
    async fn next(&mut self) -> Option<Bytes> {
        while !self.is_over {
            let session = self.held.session();
            tokio::select! {
                () = session.ended() => return None,
                event = self.reader.next() => return event,
                () = self.tasks.requested() => {
                    self.is_over = true;
                    return session.caller.version.has_polling().then(|| retry(COME_BACK_AFTER));
                }
                // Through the record, so that it is there when this connection breaks.
                notice = self.feed.next() => self.reader.log().push(&Message::Notification(notice)),
                message = self.asks.next() => self.reader.log().push(&message),
                () = tokio::time::sleep(KEEP_ALIVE_EVERY) => return Some(KEEP_ALIVE),
            }
        }
        None
    }
}

fn event(encoder: &MessageEncoder, message: &Message) -> Bytes {
    let frame = |data| Event::of(data).encode();
    // A client without a session is asked nothing.
    encoder.encode(message, None, frame).unwrap_or(KEEP_ALIVE)
}

/// The response of `exchange` whose result is still arriving, unless all of it is there.
fn passed(exchange: &Exchange, mut stream: Box<ResponseStream>) -> Response {
    let id = exchange.id();
    let Some((result, ending)) = stream.arrived() else {
        return json(Body::new(StreamingBody::new(id, stream)), StatusCode::OK);
    };
    let Ok(result) = memory::hold(result, || exchange.account(), ChargeKind::Answer) else {
        let reply = Err(memory_exhausted(exchange.era()));
        return whole(&protocol::Response { id: Some(id.clone()), reply }, StatusCode::OK);
    };
    json(Body::new(SegmentedBody::new(enveloped(id, result, &ending))), StatusCode::OK)
}

/// A response that is there. A large one is written in its parts.
fn whole(response: &protocol::Response, status: StatusCode) -> Response {
    let payload = response.reply.as_ref().unwrap_or_else(|error| error.raw());
    let is_large = payload.bytes().len() > COPIED;
    let body =
        if is_large { Body::new(SegmentedBody::new(response.parts())) } else { response.encode().into() };
    let mut answer = json(body, status);
    if status == StatusCode::TOO_MANY_REQUESTS
        && let Some(seconds) =
            response.reply.as_ref().err().and_then(|error| error.problem()?.retry_after_seconds())
    {
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    answer
}

fn json(body: Body, status: StatusCode) -> Response {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

pub(super) fn event_stream(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use json::Raw;

    #[tokio::test]
    async fn a_large_page_goes_out_in_two_parts_and_is_copied_for_none() {
        let id = RequestId::from_u64(7);
        for (length, parts) in [(10, 1), (COPIED - 3, 1), (COPIED, 2), (200_000, 2)] {
            let page = Closed::new(&Raw::of(&"x".repeat(length)));
            let result = page.result();
            let mut body =
                listed(id.clone(), Ok(page.clone()), ResponseFormat::Json, &"one".into()).into_body();
            let mut frames = Vec::new();
            while let Some(frame) = body.frame().await {
                frames.push(frame.expect("it cannot fail").into_data().expect("data"));
            }
            assert_eq!(frames.concat(), page.encode(&id), "{length}");
            assert_eq!(frames.len(), parts, "{length}");
            let is_kept = frames[parts - 1].as_ptr() == result.bytes().as_ptr();
            assert_eq!(is_kept, parts == 2, "{length}");
        }
    }
}
