//! The one strict message type: request, notification or response, from one flat envelope. Responses are printed in one piece,
//! or in parts so that a large payload is not copied.
//!
//! Invariants: an id keeps its spelling and its type (string or integer). `params` is an object. `params`, `result` and
//! `error` are slices of the received bytes. The envelope is written again for the next hop, so its members outside of
//! JSON-RPC are not forwarded.
//!
//! Not here: what a method means. Batches of clients are refused, because 2025-06-18 removed them. Servers may send them.

use std::convert::Infallible;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;

pub use super::error::ParseError;
use super::error::{ErrorObject, Reply};
use super::method::Method;
use crate::{absent, sanitize};
use json::decimal::Decimal;
use json::part::{MemberIndex, Part, decode_key};
use json::raw::Raw;
use json::raw::edit::write_string;
use json::scanner::Survey;
use json::{Fault, decimal, raw};

/// The deepest nesting accepted from a client, and in the definition of a tool.
pub const MAX_DEPTH: usize = json::scanner::MAX_DEPTH;
/// Members of the message, of `params` and of `_meta` accepted from a client, each. Arguments have no such limit.
const MAX_MEMBERS: usize = 1_024;
/// The smallest text of a server of which small parts are copied, in bytes.
const PADDED: usize = 4 * 1024;
/// Prefix of the methods of notifications.
const NOTIFICATIONS: &str = "notifications/";
/// The most messages of one batch that are read.
const MAX_BATCH: usize = 1_024;
/// The longest id accepted, in bytes of its JSON text.
const MAX_ID_BYTES: usize = 1024;

/// A JSON-RPC id: a string or an integer, as its sender spelled it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RequestId(Raw);

impl RequestId {
    /// An id that Switchyard makes.
    pub fn from_u64(number: u64) -> Self {
        Self(Raw::unindexed(Bytes::copy_from_slice(Decimal::default().write(number))))
    }

    /// Accepts a JSON string or integer; anything else (null, fractions, objects) is no id.
    pub fn from_raw(raw: Raw) -> Option<Self> {
        let text = raw.bytes();
        let is_integer = || {
            let digits = text.strip_prefix(b"-").unwrap_or(text);
            !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
        };
        let fits = text.len() <= MAX_ID_BYTES && (text.first() == Some(&b'"') || is_integer());
        fits.then_some(Self(raw))
    }

    /// Returns a copy that does not keep the whole received message in memory.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(self.0.detached())
    }

    /// The id as JSON.
    pub const fn raw(&self) -> &Raw {
        &self.0
    }

    /// The number, if [`RequestId::from_u64`] can have made it.
    pub fn as_u64(&self) -> Option<u64> {
        self.0.as_str().parse().ok()
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

/// A call that expects a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Chosen by the sender, unique among its open requests.
    pub id: RequestId,
    /// The method name.
    pub method: Method,
    /// An object, if present.
    pub params: Option<Raw>,
}

/// A message that expects no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The method name.
    pub method: Method,
    /// An object, if present.
    pub params: Option<Raw>,
}

/// The response to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The id of the request; `None` where the request's id could not be read.
    pub id: Option<RequestId>,
    /// The result or the error.
    pub reply: Reply,
}

/// One JSON-RPC message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A call that expects a response.
    Request(Request),
    /// A message that expects no response.
    Notification(Notification),
    /// The response to a request.
    Response(Response),
}

/// The sender of a message. Messages of servers are read more leniently, because they are not authorized.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MessageSource {
    Client,
    Server,
}

/// The id of the request that a response answers. The requests have numbers, and some programs repeat a number as text.
fn answered(id: Raw) -> Option<RequestId> {
    let number = if id.bytes().first().is_some_and(u8::is_ascii_digit) && !id.bytes().contains(&b'.') {
        None
    } else {
        decimal::whole(id.bytes())
    };
    number.map_or_else(|| RequestId::from_raw(id), |number| Some(RequestId::from_u64(number)))
}

/// The positions of the members of JSON-RPC in a message.
#[derive(Default)]
struct Envelope {
    jsonrpc: Option<Range<usize>>,
    id: Option<Range<usize>>,
    method: Option<Range<usize>>,
    params: Option<Range<usize>>,
    result: Option<Range<usize>>,
    error: Option<Range<usize>>,
}

impl Envelope {
    /// Records a member. If members have the same name, the first counts.
    fn record(&mut self, name: &[u8], value: Range<usize>) {
        let slot = match name {
            b"jsonrpc" => &mut self.jsonrpc,
            b"id" => &mut self.id,
            b"method" => &mut self.method,
            b"params" => &mut self.params,
            b"result" => &mut self.result,
            b"error" => &mut self.error,
            _ => return,
        };
        slot.get_or_insert(value);
    }

    /// The message in `text`. `indexed` is the start of an object whose members are known.
    ///
    /// Some programs print every member that a message can have. A `null` in the place of `method`, `result` or `error`
    /// counts as a missing member. So does one in the place of `params`, and in calls of a server or notifications of a
    /// client in the place of `id`.
    fn message(
        mut self,
        text: &Bytes,
        indexed: Option<(usize, MemberIndex)>,
        sender: MessageSource,
    ) -> Result<Message, ParseError> {
        let is_there = |range: &Range<usize>| text[range.clone()] != *b"null";
        self.method = self.method.filter(is_there);
        if self.error.as_ref().is_some_and(is_there) {
            self.result = self.result.filter(is_there);
        } else if self.result.is_some() {
            self.error = None;
        }
        let slice = |range: Range<usize>| Raw::unindexed(text.slice(range));
        let payload = |range: Range<usize>| match indexed {
            Some((start, places)) if start == range.start => Raw::indexed(text.slice(range), places),
            _ => slice(range),
        };
        let id = |range| RequestId::from_raw(slice(range)).ok_or(ParseError::Id);
        if self.jsonrpc.map(|range| &text[range]) != Some(b"\"2.0\"") {
            return Err(ParseError::Version);
        }
        if let Some(method) = self.method {
            let method = Part::new(&text[method], None).text().ok_or(ParseError::Method)?;
            let method = Method::from(&*method);
            let params = self.params.filter(is_there).map(payload);
            if params.as_ref().is_some_and(|params| !params.is_object()) {
                return Err(ParseError::Params);
            }
            let has_no_id = sender == MessageSource::Server || method.starts_with(NOTIFICATIONS);
            return Ok(match self.id.filter(|range| !has_no_id || is_there(range)) {
                Some(range) => Message::Request(Request { id: id(range)?, method, params }),
                None => Message::Notification(Notification { method, params }),
            });
        }
        let reply = match (self.result, self.error) {
            (Some(result), None) => Ok(payload(result)),
            (None, Some(error)) if sender == MessageSource::Server && is_there(&error) => {
                Err(ErrorObject::from_server(slice(error)))
            }
            (None, Some(error)) => Err(ErrorObject::from_raw(slice(error)).ok_or(ParseError::Shape)?),
            _ => return Err(ParseError::Shape),
        };
        let answered = |range| answered(slice(range)).ok_or(ParseError::Id);
        let id = self.id.filter(is_there).map(answered).transpose()?;
        if id.is_none() && reply.is_ok() {
            return Err(ParseError::Id);
        }
        Ok(Message::Response(Response { id, reply }))
    }
}

impl Message {
    /// Reads a message from a server. Depth and duplicate keys are not checked: they are for its client to judge. Its
    /// payload does not keep a buffer in memory that is much larger.
    pub fn from_server(bytes: &Bytes) -> Result<Self, ParseError> {
        let message =
            Self::indexed(bytes, MessageSource::Server).unwrap_or_else(
                || match raw::without_byte_order_mark(bytes) {
                    Some(text) => Self::scanned(&text),
                    None => Self::scanned(bytes),
                },
            )?;
        Ok(if bytes.len() < PADDED { message } else { message.compact_in(bytes.len()) })
    }

    /// The messages of a batch, which [`Message::from_server`] refuses; `None` if there are too many. A small one does not
    /// keep the batch in memory.
    ///
    /// Source: 2025-03-26 `basic`, Batching: a client must support receiving them.
    pub fn batch(bytes: &Bytes) -> Option<Vec<Bytes>> {
        let batch = Raw::judged(raw::without_byte_order_mark(bytes).as_ref().unwrap_or(bytes)).ok()?;
        let own = |message: Raw| compact(message.bytes().clone(), bytes.len());
        let messages: Vec<Bytes> = batch.elements().take(MAX_BATCH + 1).map(own).collect();
        (messages.len() <= MAX_BATCH).then_some(messages)
    }

    /// Makes the payload [`compact`]. The rest of the `whole` text is what a server added to the envelope.
    fn compact_in(self, whole: usize) -> Self {
        let keep = |bytes: Bytes| Ok::<_, Infallible>(compact(bytes, whole));
        let own = |payload: Raw| {
            let Ok(payload) = payload.try_map_bytes(keep);
            payload
        };
        match self {
            Self::Request(request) => Self::Request(Request { params: request.params.map(own), ..request }),
            Self::Notification(notification) => {
                Self::Notification(Notification { params: notification.params.map(own), ..notification })
            }
            Self::Response(Response { id, reply }) => {
                let reply = reply.map(own).map_err(|error| {
                    let Ok(error) = error.try_map_bytes(keep);
                    error
                });
                Self::Response(Response { id, reply })
            }
        }
    }

    /// Reads a message from a client, strictly: bounded depth, few members, and no key twice in the envelope,
    /// in `params` or in `_meta`. So the message that is authorized is the one that is executed.
    ///
    /// Optional members that are `null` are left out. Many languages print absent members so, and servers refuse them.
    /// A byte order mark is ignored.
    pub fn from_client(bytes: &Bytes) -> Result<Self, ParseError> {
        let mut message =
            Self::indexed(bytes, MessageSource::Client).unwrap_or_else(
                || match raw::without_byte_order_mark(bytes) {
                    Some(text) => Self::judged(&text),
                    None => Self::judged(bytes),
                },
            )?;
        if let Self::Request(Request { params, .. }) | Self::Notification(Notification { params, .. }) =
            &mut message
            && let Some(without) = params.as_ref().and_then(absent::without_nulls)
        {
            *params = Some(without);
        }
        Ok(message)
    }

    /// Reads a common message in one pass; `None` if it is invalid or unusual.
    fn indexed(bytes: &Bytes, sender: MessageSource) -> Option<Result<Self, ParseError>> {
        let mut survey = Survey::new();
        survey.read(bytes)?;
        let mut envelope = Envelope::default();
        for (name, value) in survey.members(bytes) {
            envelope.record(name, value);
        }
        Some(envelope.message(bytes, survey.payload(), sender))
    }

    /// Reads any message of a server.
    pub(crate) fn scanned(bytes: &Bytes) -> Result<Self, ParseError> {
        Self::from_raw(&parse_object(bytes)?, MessageSource::Server)
    }

    /// Reads any message of a client and says what is wrong with it, with one check after the other.
    pub(crate) fn judged(bytes: &Bytes) -> Result<Self, ParseError> {
        let raw = parse_object(bytes)?;
        match raw.depth() {
            depth if depth > MAX_DEPTH => return Err(ParseError::TooDeep(depth)),
            _ => {}
        }
        no_duplicate("the message", Some(&raw))?;
        let params = raw.get("params");
        no_duplicate("params", params.as_ref())?;
        no_duplicate("_meta", params.as_ref().and_then(|params| params.get("_meta")).as_ref())?;
        Self::from_raw(&raw, MessageSource::Client)
    }

    fn from_raw(raw: &Raw, sender: MessageSource) -> Result<Self, ParseError> {
        let mut envelope = Envelope::default();
        for member in raw.as_part().places() {
            let key = decode_key(&raw.bytes()[member.key]);
            envelope.record(key.as_bytes(), member.value);
        }
        envelope.message(raw.bytes(), None, sender)
    }

    /// The id of a text that [`Message::from_client`] refused, if it can be read. The refusal has this id.
    pub fn readable_id(bytes: &Bytes) -> Option<RequestId> {
        let text = raw::without_byte_order_mark(bytes);
        Raw::parse(text.as_ref().unwrap_or(bytes)).ok()?.get("id").and_then(RequestId::from_raw)
    }

    /// The message as JSON on one line, when its payload is on one line.
    pub fn encode(&self) -> Bytes {
        match self {
            Self::Request(request) => request.encode(),
            Self::Notification(notification) => notification.encode(),
            Self::Response(response) => response.encode(),
        }
    }
}

impl Request {
    /// The request as JSON.
    pub fn encode(&self) -> Bytes {
        encode_call(Some(&self.id), &self.method, self.params.as_ref())
    }
}

impl Notification {
    /// The notification as JSON.
    pub fn encode(&self) -> Bytes {
        encode_call(None, &self.method, self.params.as_ref())
    }
}

fn encode_call(id: Option<&RequestId>, method: &str, params: Option<&Raw>) -> Bytes {
    let mut out = Vec::with_capacity(params.map_or(0, |p| p.bytes().len()) + 96);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    if let Some(id) = id {
        out.extend_from_slice(b",\"id\":");
        out.extend_from_slice(id.raw().bytes());
    }
    out.extend_from_slice(b",\"method\":");
    write_string(&mut out, method);
    if let Some(params) = params {
        out.extend_from_slice(b",\"params\":");
        out.extend_from_slice(params.bytes());
    }
    out.push(b'}');
    Bytes::from(out)
}

/// Copies `part` if it is less than half of a text of `whole` bytes, all of which it would keep in memory.
fn compact(part: Bytes, whole: usize) -> Bytes {
    if whole >= PADDED && part.len() * 2 < whole { Bytes::copy_from_slice(&part) } else { part }
}

fn parse_object(bytes: &Bytes) -> Result<Raw, ParseError> {
    let raw = Raw::judged(bytes).map_err(|error| ParseError::NotJson(Fault::of(bytes, &error)))?;
    match raw.bytes().first() {
        Some(b'{') => Ok(raw),
        Some(b'[') => Err(ParseError::Batch),
        _ => Err(ParseError::NotObject),
    }
}

fn no_duplicate(place: &'static str, object: Option<&Raw>) -> Result<(), ParseError> {
    if object.is_some_and(|object| object.as_part().places().nth(MAX_MEMBERS).is_some()) {
        return Err(ParseError::TooMany { place });
    }
    match object.and_then(Raw::duplicate_key) {
        Some(key) => Err(ParseError::Duplicate { place, key: sanitize::name(&key) }),
        None => Ok(()),
    }
}

/// The text behind the payload of a response.
const TAIL: &[u8] = b"}";

impl Response {
    /// The response as JSON. An unknown id is `null` (JSON-RPC 2.0, section 5).
    pub fn encode(&self) -> Bytes {
        let payload = self.payload();
        let mut out = head(self.id.as_ref(), self.reply.is_ok(), payload.len() + TAIL.len());
        out.extend_from_slice(payload);
        out.extend_from_slice(TAIL);
        Bytes::from(out)
    }

    /// Returns the response in three parts, so that a large payload is written without a copy.
    pub fn parts(&self) -> [Bytes; 3] {
        let head = head(self.id.as_ref(), self.reply.is_ok(), 0);
        [Bytes::from(head), self.payload().clone(), Bytes::from_static(TAIL)]
    }

    const fn payload(&self) -> &Bytes {
        match &self.reply {
            Ok(result) => result.bytes(),
            Err(error) => error.raw().bytes(),
        }
    }
}

/// A result that many clients receive, stored with the end of a response. It is written behind the head of each
/// response without a copy, and the end needs no separate write.
#[derive(Debug, Clone)]
pub struct Closed(Bytes);

impl Closed {
    /// Copies `result` once.
    pub fn new(result: &Raw) -> Self {
        Self([result.bytes(), TAIL].concat().into())
    }

    /// The result alone.
    pub fn result(&self) -> Raw {
        Raw::unindexed(self.0.slice(..self.0.len() - TAIL.len()))
    }

    /// The length in bytes.
    pub const fn size(&self) -> usize {
        self.0.len()
    }

    /// Returns the response to the request `id` in two parts: the text before the result, and the rest.
    pub fn parts(self, id: &RequestId) -> [Bytes; 2] {
        [Bytes::from(head(Some(id), true, 0)), self.0]
    }

    /// Returns the response in one piece, copied.
    pub fn encode(&self, id: &RequestId) -> Bytes {
        let mut out = head(Some(id), true, self.0.len());
        out.extend_from_slice(&self.0);
        Bytes::from(out)
    }
}

/// The beginning of a response, with room for `more` bytes.
fn head(id: Option<&RequestId>, is_result: bool, more: usize) -> Vec<u8> {
    const MEMBERS: usize = r#"{"jsonrpc":"2.0","id":,"result":"#.len();
    let id = id.map_or(&b"null"[..], |id| id.raw().bytes());
    let mut out = Vec::with_capacity(MEMBERS + id.len() + more);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id);
    out.push(b',');
    out.extend_from_slice(if is_result { b"\"result\":" } else { b"\"error\":" });
    out
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
