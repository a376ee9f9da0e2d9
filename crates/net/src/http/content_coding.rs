//! The content coding of a response: undone while it is read, although it was not asked for.
//!
//! Some servers and proxies compress every response with gzip or deflate (zlib). Invariants: one step gives at most [`STEP`]
//! bytes. A response may not become more than [`MAX_RATIO`] times as large as it was, once it has [`FREE`] bytes. The memory
//! budget pays for the window of a decoder while it lives, and the reader of the body pays for what it keeps. Input is decoded
//! as far as it has arrived, so events of a compressed stream are not delayed. Bytes behind a complete coding are ignored.
//!
//! Not here: other codings and several of them. Such a response is refused by name.
//!
//! Source: RFC 9110, section 8.4; RFC 1950 and 1952.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use flate2::{Decompress, FlushDecompress, Status};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};

use super::error::Error;
use runtime::memory::{Account, Charge, ChargeKind};

/// Bytes that one step gives at most.
const STEP: usize = 16 * 1024;
/// How many times as large as its content a response may become.
const MAX_RATIO: u64 = 200;
/// Bytes that a response may have whatever its ratio is.
const FREE: u64 = 1024 * 1024;
/// Bits of the window of gzip and zlib.
const WINDOW_BITS: u8 = 15;
/// Memory of a decoder, in bytes.
const DECODER_MEMORY: usize = 64 * 1024;

/// Decodes one response.
pub(super) struct ContentDecoder {
    coding: Coding,
    stream: CodedStream,
    /// The input that has arrived.
    arrived: Bytes,
    has_ended: bool,
    /// Bytes that have arrived so far.
    received: u64,
    /// Bytes that were decoded so far.
    produced: u64,
    scratch: Box<[u8]>,
    charge: Charge,
    /// Why the response cannot be decoded.
    refusal: Option<Error>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Coding {
    Gzip,
    Deflate,
}

/// The input. A gzip file has one or more members.
enum CodedStream {
    /// Before a member, and whether there was one before.
    Between(bool),
    Inside(Decompress),
    /// Bytes that are no member follow.
    Over,
}

/// The result of one step.
pub(super) enum DecodedStep {
    /// The next bytes of the content.
    Data(Bytes),
    /// More of the response has to arrive first.
    NeedsInput,
    End,
}

impl Coding {
    const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
        }
    }

    /// Whether a further member may begin with `first`.
    fn has_member(self, first: u8) -> bool {
        self == Self::Gzip && first == 0x1f
    }

    fn decompress(self) -> Decompress {
        match self {
            Self::Gzip => Decompress::new_gzip(WINDOW_BITS),
            Self::Deflate => Decompress::new(true),
        }
    }
}

impl ContentDecoder {
    /// Returns the decoder for a response with `headers`; `None` if it has no content coding. `origin` pays for it. The
    /// headers are those of the decoded response afterwards.
    pub(super) fn of(headers: &mut HeaderMap, origin: &Arc<str>) -> Option<Box<Self>> {
        // Most responses have none, which costs one search.
        headers.get(CONTENT_ENCODING)?;
        let (coding, refusal) = match coding(headers) {
            Ok(None) => return None,
            Ok(Some(coding)) => (coding, None),
            Err(error) => (Coding::Gzip, Some(error)),
        };
        headers.remove(CONTENT_ENCODING);
        headers.remove(CONTENT_LENGTH);
        Some(Box::new(Self {
            coding,
            stream: CodedStream::Between(false),
            arrived: Bytes::new(),
            has_ended: false,
            received: 0,
            produced: 0,
            scratch: vec![0; STEP].into(),
            charge: Charge::open(Account::Server(Arc::clone(origin)), ChargeKind::Answer),
            refusal,
        }))
    }

    /// Takes the next bytes of the response. [`ContentDecoder::step`] has returned [`DecodedStep::NeedsInput`] before.
    pub(super) fn push(&mut self, arrived: Bytes) {
        self.received += arrived.len() as u64;
        self.arrived = arrived;
    }

    /// Notes that the response is complete.
    pub(super) const fn end(&mut self) {
        self.has_ended = true;
    }

    /// Decodes more of what has arrived.
    pub(super) fn step(&mut self) -> Result<DecodedStep, Error> {
        if let Some(refusal) = self.refusal.take() {
            return Err(refusal);
        }
        self.charge.resize(DECODER_MEMORY)?;
        let count = self.decode()?;
        if count > 0 {
            self.produced += count as u64;
            if self.produced > FREE.max(self.received.saturating_mul(MAX_RATIO)) {
                return Err(undecodable(format!(
                    "it is more than {MAX_RATIO} times as large as its compressed form (`{}`), so it was discarded",
                    self.coding.name()
                )));
            }
            return Ok(DecodedStep::Data(Bytes::copy_from_slice(&self.scratch[..count])));
        }
        match self.stream {
            _ if !self.has_ended => Ok(DecodedStep::NeedsInput),
            // A response without a body may name a coding.
            CodedStream::Between(_) | CodedStream::Over => Ok(DecodedStep::End),
            CodedStream::Inside(_) => {
                Err(undecodable(format!("its `{}` coding ends too early", self.coding.name())))
            }
        }
    }

    /// Decodes some of the input, and returns how much. With 0, all of it was read.
    fn decode(&mut self) -> Result<usize, Error> {
        loop {
            let Some(&first) = self.arrived.first() else { return Ok(0) };
            match &mut self.stream {
                CodedStream::Over => self.arrived.clear(),
                CodedStream::Between(true) if !self.coding.has_member(first) => {
                    self.stream = CodedStream::Over;
                }
                CodedStream::Between(_) => self.stream = CodedStream::Inside(self.coding.decompress()),
                CodedStream::Inside(stream) => {
                    let (read, written) = (stream.total_in(), stream.total_out());
                    let decoded = stream.decompress(&self.arrived, &mut self.scratch, FlushDecompress::None);
                    let read = usize::try_from(stream.total_in() - read).unwrap_or_default();
                    let count = usize::try_from(stream.total_out() - written).unwrap_or_default();
                    let is_complete = matches!(decoded, Ok(Status::StreamEnd));
                    if decoded.is_err() || read + count == 0 && !is_complete {
                        return Err(undecodable(format!("its `{}` coding is broken", self.coding.name())));
                    }
                    self.arrived.advance(read);
                    if is_complete {
                        self.stream = CodedStream::Between(true);
                    }
                    if count > 0 {
                        return Ok(count);
                    }
                }
            }
        }
    }
}

/// Returns the coding of a response.
fn coding(headers: &HeaderMap) -> Result<Option<Coding>, Error> {
    let mut found = None;
    for value in headers.get_all(CONTENT_ENCODING) {
        let text = value.to_str().map_err(|_| undecodable("its `Content-Encoding` is not ASCII".into()))?;
        for name in text.split(',').map(|name| name.trim().to_ascii_lowercase()) {
            let coding = match name.as_str() {
                "" | "identity" => continue,
                "gzip" | "x-gzip" => Coding::Gzip,
                "deflate" => Coding::Deflate,
                other => return Err(unknown(other)),
            };
            if found.replace(coding).is_some() {
                return Err(undecodable("it has several content codings, and one is read".into()));
            }
        }
    }
    Ok(found)
}

fn unknown(name: &str) -> Error {
    let name: String = name.chars().take(32).filter(char::is_ascii_graphic).collect();
    undecodable(format!(
        "it has the content coding `{name}`, which was not asked for and is not supported; have the server or the \
         proxy before it heed `Accept-Encoding: identity`"
    ))
}

const fn undecodable(reason: String) -> Error {
    Error::Undecodable { reason }
}

#[cfg(test)]
mod tests;
