//! Reads the answer to a POST: one JSON text or an event stream, with any status.
//!
//! Invariant: an answer counts only for the request whose id it has. An error with another id or none is a refusal,
//! returned together with its status, and the transport decides what both mean.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use http::response::Parts;
use http::{HeaderValue, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;

use crate::connection::Call;
use crate::error::Error;
use crate::response_stream::{ResponseBody, ResponseStream};
use crate::transport::http::{describe, describe_other, status_error};
use crate::transport::inbound::{self, FloodGuard, Relevance, is_message};
use crate::transport::{handshake, unreadable};
use json::envelope_stream::{EnvelopeEdit, Terms};
use net::http::{Body, EventStream, Response, chunk, collect, is_media_type};
use net::sse::{Event, Item};
use protocol::sanitize::shown;
use protocol::{ErrorObject, Message, ParseError, Reply, RequestId, Response as Answer, method};
use runtime::memory::Payer;
use runtime::shutdown::Shutdown;

/// Smallest streamed answer. A smaller one comes in one or two pieces, so streaming it would save nothing.
const LARGE: usize = 16 * 1024;
/// The part of a large result that is checked to be UTF-8. Programs that write another code page do so throughout, and
/// checking all of it would cost more than the rest of the way.
const TEXT_BEGIN: usize = 4 * 1024;
/// How long the end of a stream may take to arrive after the answer.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);
/// A stream that ended before the answer.
#[derive(Debug)]
pub(super) struct BrokenStream {
    pub(super) error: Error,
    /// How to resume, if the server provided that.
    pub(super) resume: Option<Resume>,
}

/// The position from which a broken stream resumes.
#[derive(Debug)]
pub(super) struct Resume {
    /// For `Last-Event-ID`.
    pub(super) last_id: Bytes,
    /// The pause that the server asked for.
    pub(super) retry: Option<Duration>,
}

impl From<Error> for BrokenStream {
    fn from(error: Error) -> Self {
        Self { error, resume: None }
    }
}

/// Receives the messages before the answer.
pub(super) trait MessageHandler: Sync {
    /// Handles a notification or a server request, and returns its relevance. It must not block.
    fn handle(&self, message: Message) -> Relevance;
}

/// The answer on a stream.
pub(super) enum StreamAnswer {
    /// The response to the request.
    Ours(Reply),
    /// An error that names another request or none.
    Foreign(ErrorObject),
}

impl StreamAnswer {
    /// The reply for the caller.
    pub(super) fn into_reply(self) -> Reply {
        match self {
            Self::Ours(reply) => reply,
            Self::Foreign(error) => Err(error),
        }
    }
}

/// One event of the stream of a request.
enum StreamItem {
    Answer(StreamAnswer),
    /// An error that names another request. It counts if no answer follows.
    Foreign(ErrorObject),
    Other(Relevance),
}

impl StreamItem {
    /// The more important of two messages of one batch.
    fn and(one: Result<Self, Error>, other: Result<Self, Error>) -> Result<Self, Error> {
        match (one, other) {
            (Ok(ours @ Self::Answer(StreamAnswer::Ours(_))), _)
            | (_, Ok(ours @ Self::Answer(StreamAnswer::Ours(_)))) => Ok(ours),
            (Ok(answer @ Self::Answer(_)), _) | (_, Ok(answer @ Self::Answer(_))) => Ok(answer),
            (Err(error), _) | (_, Err(error)) => Err(error),
            (Ok(foreign @ Self::Foreign(_)), _) | (_, Ok(foreign @ Self::Foreign(_))) => Ok(foreign),
            (Ok(Self::Other(one)), Ok(Self::Other(other))) => Ok(Self::Other(one.and(other))),
        }
    }
}

/// Reads the answer to one request.
pub(super) struct AnswerReader<'a> {
    /// The id that Switchyard gave the request.
    pub(super) id: u64,
    /// Most bytes of one message.
    pub(super) limit: usize,
    /// Terms under which the result may be streamed.
    pub(super) terms: Option<Terms>,
    /// Receives the other messages.
    pub(super) handler: &'a dyn MessageHandler,
    /// Limits messages that belong to no call.
    pub(super) floods: &'a FloodGuard,
    /// Runs the task that reads the tail of a stream.
    pub(super) shutdown: &'a Shutdown,
    /// The payer for the bytes that are read.
    pub(super) payer: Payer<'a>,
}

impl AnswerReader<'_> {
    /// Reads the answer from `response`.
    pub(super) async fn read(&self, response: Response) -> Result<RequestOutcome, BrokenStream> {
        let (head, body) = response.into_parts();
        let (status, head) = (head.status, AnswerHead(head));
        if is_media_type(&head.0.headers, "text/event-stream") {
            // Boxed: the future that reads events is large, and most answers do not need it.
            return Box::pin(self.read_stream(head, body)).await;
        }
        if let Some(terms) = self.terms.filter(|_| status == StatusCode::OK) {
            return match self.peek(body, terms).await? {
                Peeked::Streaming(stream) => Ok(RequestOutcome::Streaming(stream)),
                Peeked::Buffered(body) => Ok(self.judge(&head, &body)?),
            };
        }
        match collect(body, Bytes::new(), self.limit, self.payer).await.map_err(Error::from) {
            Ok(body) => Ok(self.judge(&head, &body)?),
            // The status says more than a body that cannot be read.
            Err(error @ (Error::Malformed { .. } | Error::Unreadable { .. })) if !status.is_success() => {
                Ok(RequestOutcome::Refusal(head.refusal().saying(Some(error.to_string()))))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Looks at the beginning of a JSON body. A large result of the request is streamed. Everything else is
    /// buffered and judged as a whole: small responses, errors, and bodies that are no response.
    async fn peek(&self, mut body: Body, terms: Terms) -> Result<Peeked, Error> {
        let announced = body.size_hint().exact().map(|length| usize::try_from(length).unwrap_or(usize::MAX));
        if announced.is_some_and(|length| length < LARGE || length > self.limit) {
            return Ok(Peeked::Buffered(collect(body, Bytes::new(), self.limit, self.payer).await?));
        }
        let read_limit = if announced.is_some() { 1 } else { LARGE };
        let (mut pieces, mut size) = (Vec::new(), 0);
        while size < read_limit {
            let Some(piece) = chunk(&mut body).await? else { return Ok(Peeked::Buffered(joined(pieces))) };
            size += piece.len();
            pieces.push(piece);
        }
        let mut edit = EnvelopeEdit::new(self.id, terms);
        let parts: Result<VecDeque<Bytes>, _> = pieces.iter().map(|piece| edit.take(piece)).collect();
        // A whole body that is no response is judged as such. A result that is still arriving can only be cut.
        let is_broken = announced == Some(size) && edit.finish().is_err();
        let is_fit = edit.has_started() && !is_broken && pieces.first().is_some_and(begins_as_text);
        match (parts, self.limit.checked_sub(size)) {
            (Ok(parts), Some(left)) if is_fit => {
                let stream =
                    ResponseStream::new(Box::new(body.map_err(Error::from)), edit, parts, (left, self.limit));
                Ok(Peeked::Streaming(Box::new(stream.paid_by(self.payer.account()))))
            }
            _ => Ok(Peeked::Buffered(collect(body, joined(pieces), self.limit, self.payer).await?)),
        }
    }

    /// Reads the answer from a body with the type of an event stream.
    async fn read_stream(&self, head: AnswerHead, body: Body) -> Result<RequestOutcome, BrokenStream> {
        let mut stream = EventStream::of(body, self.limit, self.payer.account());
        if stream.is_bare_json().await.map_err(Error::from)? {
            let body = stream.into_body(self.limit, self.payer).await.map_err(Error::from)?;
            return Ok(self.judge(&head, &body)?);
        }
        match self.read_events(stream).await {
            Ok(StreamAnswer::Ours(reply)) => Ok(RequestOutcome::Reply(reply, head.0.status)),
            Ok(StreamAnswer::Foreign(error)) => Ok(head.refusal().with(error)),
            Err(_) if !head.0.status.is_success() => Ok(RequestOutcome::Refusal(head.refusal())),
            Err(broken) => Err(broken),
        }
    }

    /// Reads events until the answer.
    pub(super) async fn read_events(&self, mut stream: EventStream) -> Result<StreamAnswer, BrokenStream> {
        let (mut malformed, mut foreign) = (None, None);
        let error = loop {
            match self.floods.next(&mut stream).await {
                Ok(Some(Item::Event(event))) => {
                    let (sorted, messages) = self.sort(&event);
                    let relevance = match sorted {
                        Ok(StreamItem::Answer(answer)) => {
                            self.drain(stream);
                            return Ok(answer);
                        }
                        Ok(StreamItem::Foreign(error)) => {
                            foreign = Some(error);
                            Relevance::Junk
                        }
                        Ok(StreamItem::Other(relevance)) => relevance,
                        // The answer cannot be read, and no other one comes.
                        Err(error) if unreadable::answered(&event.data).contains(&self.id) => {
                            self.drain(stream);
                            return Err(error.into());
                        }
                        Err(error) => {
                            malformed = Some(error);
                            Relevance::Junk
                        }
                    };
                    self.floods.admit_batch(relevance, event.data.len(), messages).await?;
                }
                Ok(Some(Item::TooLong(_))) => return Err(Error::TooLarge { limit: self.limit }.into()),
                Ok(None) if let Some(error) = foreign => return Ok(StreamAnswer::Foreign(error)),
                Ok(None) => break Error::Cut { reason: "the stream ended before the answer".into() },
                Err(error) => break error,
            }
        };
        // The unreadable event was probably the answer, and resuming would not repeat it.
        if let Some(error) = malformed {
            return Err(error.into());
        }
        let resume = stream.last_id().map(|last_id| Resume { last_id, retry: stream.retry() });
        Err(BrokenStream { error, resume })
    }

    /// Returns the reply if `event` is the answer, and the number of messages. Other messages are passed on.
    fn sort(&self, event: &Event) -> (Result<StreamItem, Error>, usize) {
        if event.data.is_empty() || !is_message(&event.name) {
            return (Ok(StreamItem::Other(Relevance::Junk)), 1);
        }
        self.sort_text(&event.data)
    }

    /// Sorts `text`, which is one message or a batch. Returns the number of messages too.
    fn sort_text(&self, text: &Bytes) -> (Result<StreamItem, Error>, usize) {
        inbound::read(text, |message, text| self.sort_message(message, text), StreamItem::and)
    }

    fn sort_message(&self, message: Result<Message, ParseError>, text: &Bytes) -> Result<StreamItem, Error> {
        match message {
            Ok(Message::Response(answer)) if self.is_ours(&answer) => {
                Ok(StreamItem::Answer(StreamAnswer::Ours(answer.reply)))
            }
            Ok(Message::Response(Answer { id: None, reply: Err(error) })) => {
                Ok(StreamItem::Answer(StreamAnswer::Foreign(error)))
            }
            Ok(Message::Response(Answer { reply: Err(error), .. })) => Ok(StreamItem::Foreign(error)),
            Ok(Message::Response(answer)) => {
                tracing::debug!(id = ?answer.id, "an answer to something else was skipped");
                Ok(StreamItem::Other(Relevance::Junk))
            }
            Ok(message) => Ok(StreamItem::Other(self.handler.handle(message))),
            Err(error) => Err(Error::of_text(text, &error)),
        }
    }

    /// Returns the message of a body that is one JSON text, or else the error of its status.
    fn judge(&self, head: &AnswerHead, body: &Bytes) -> Result<RequestOutcome, Error> {
        let status = head.0.status;
        let refused =
            || Ok(RequestOutcome::Refusal(head.refusal().saying(describe(head.content_type(), body))));
        match Message::from_server(body) {
            Ok(Message::Response(answer)) if self.is_ours(&answer) => {
                Ok(RequestOutcome::Reply(answer.reply, status))
            }
            Ok(Message::Response(Answer { reply: Err(error), .. })) => Ok(head.refusal().with(error)),
            Err(ParseError::Batch) => match self.sort_text(body).0 {
                Ok(StreamItem::Answer(StreamAnswer::Ours(reply))) => Ok(RequestOutcome::Reply(reply, status)),
                Ok(StreamItem::Answer(StreamAnswer::Foreign(error)) | StreamItem::Foreign(error)) => {
                    Ok(head.refusal().with(error))
                }
                _ if !status.is_success() => refused(),
                Ok(StreamItem::Other(_)) => Err(not_an_answer()),
                Err(error) => Err(error),
            },
            _ if !status.is_success() => refused(),
            Ok(Message::Request(request)) if handshake::is_of_client(&request.method) => {
                Err(Error::Unreadable { reason: handshake::ECHO.into(), advice: None })
            }
            Ok(_) => Err(not_an_answer()),
            Err(_) if body.is_empty() => {
                Err(Error::Malformed { reason: format!("HTTP {} without a body", status.as_u16()) })
            }
            Err(error) => {
                Err(match (Error::of_text(body, &error), describe_other(head.content_type(), body)) {
                    (Error::Malformed { .. }, Some(reason)) => Error::Malformed { reason },
                    (error, _) => error,
                })
            }
        }
    }

    fn is_ours(&self, answer: &Answer) -> bool {
        answer.id.as_ref().and_then(RequestId::as_u64) == Some(self.id)
    }

    /// Reads the end of the stream, which is about to arrive, so that the connection can be used again.
    fn drain(&self, mut stream: EventStream) {
        // Most servers end the stream at once.
        if stream.is_over() {
            return;
        }
        self.shutdown.spawn_until_end(async move {
            // Waiting longer would cost more than a new connection.
            let _ = tokio::time::timeout(DRAIN_LIMIT, stream.drain()).await;
        });
    }
}

/// The head of a response, which is looked at only where its body is no answer.
struct AnswerHead(Parts);

impl AnswerHead {
    /// The refusal that the status alone would be.
    fn refusal(&self) -> HttpRefusal {
        let Parts { status, headers, .. } = &self.0;
        let is_challenge = *status == StatusCode::UNAUTHORIZED && headers.contains_key(WWW_AUTHENTICATE);
        HttpRefusal { status: *status, error: None, is_challenge, bare: status_error(*status, headers) }
    }

    /// Its content type, unless it is the usual one.
    fn content_type(&self) -> Option<&HeaderValue> {
        self.0.headers.get(CONTENT_TYPE).filter(|kind| *kind != "application/json")
    }
}

/// A JSON body after a look at its beginning.
enum Peeked {
    /// A large result that has begun.
    Streaming(Box<ResponseStream>),
    /// The whole body.
    Buffered(Bytes),
}

/// Whether the first [`TEXT_BEGIN`] bytes are UTF-8.
fn begins_as_text(piece: &Bytes) -> bool {
    let begin = &piece[..piece.len().min(TEXT_BEGIN)];
    begin.is_ascii() || std::str::from_utf8(begin).err().is_none_or(|error| error.error_len().is_none())
}

fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    match pieces.len() {
        1 => pieces.remove(0),
        _ => pieces.concat().into(),
    }
}

/// Statuses that say something about the path to the server, not about the request. 425 is Too Early.
const NOT_NOW: [u16; 5] = [425, 429, 502, 503, 504];

/// The result of a request.
#[derive(Debug)]
pub(super) enum RequestOutcome {
    /// The server answered the request, with this status.
    Reply(Reply, StatusCode),
    /// A result that is still arriving.
    Streaming(Box<ResponseStream>),
    /// An HTTP error status without an answer to the request, or an error that names another request or none.
    Refusal(HttpRefusal),
}

/// A refusal that does not name the request.
#[derive(Debug)]
pub(super) struct HttpRefusal {
    pub(super) status: StatusCode,
    /// The JSON-RPC error in the body, which names no request.
    pub(super) error: Option<ErrorObject>,
    /// Whether a 401 asks for credentials.
    pub(super) is_challenge: bool,
    /// Status, `Retry-After`, and what the body says.
    pub(super) bare: Error,
}

impl RequestOutcome {
    /// Returns the response, or the error of the HTTP status.
    pub(super) fn into_body(self) -> Result<ResponseBody, Error> {
        match self {
            Self::Reply(reply, _) => Ok(ResponseBody::Buffered(reply)),
            Self::Streaming(stream) => Ok(ResponseBody::Streaming(stream)),
            Self::Refusal(HttpRefusal { status, error: Some(error), .. })
                if !NOT_NOW.contains(&status.as_u16()) =>
            {
                Ok(ResponseBody::Buffered(Err(error)))
            }
            Self::Refusal(refusal) => Err(refusal.bare),
        }
    }

    /// Returns the response to `call`. A refusal answers no health check, because it comes from a server or proxy that
    /// does not know who asks.
    pub(super) fn into_body_of(self, call: &Call) -> Result<ResponseBody, Error> {
        match self {
            Self::Refusal(refusal) if matches!(&*call.method, method::PING | method::DISCOVER) => {
                Err(refusal.into_error())
            }
            outcome => outcome.into_body(),
        }
    }
}

impl HttpRefusal {
    /// The refusal with the text of its body.
    pub(super) fn saying(self, text: Option<String>) -> Self {
        Self { bare: self.bare.saying(text), ..self }
    }

    /// The refusal with the error in its body.
    pub(super) fn with(self, error: ErrorObject) -> RequestOutcome {
        let text = shown(&error.message());
        RequestOutcome::Refusal(Self { error: Some(error), ..self.saying(Some(text)) })
    }

    /// Returns the error of the status alone.
    pub(super) fn into_error(self) -> Error {
        match self.error {
            Some(_) if self.status.is_success() => not_an_answer(),
            _ => self.bare,
        }
    }
}

/// The failure of a call that was answered with something that is no response to it.
pub(super) fn not_an_answer() -> Error {
    Error::Unreadable { reason: "it does not answer the request".into(), advice: None }
}
