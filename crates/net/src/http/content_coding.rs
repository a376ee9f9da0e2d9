//! The content coding of a response: undone while it is read, although it was not asked for.
//!
//! Some servers and proxies compress every response. Invariants: one step gives at most [`STEP`] bytes. A response may
//! not become more than [`MAX_RATIO`] times as large as it was, once it has [`FREE`] bytes. The memory budget pays for the
//! window of a decoder while it lives, and the reader of the body pays for what it keeps. Input is decoded as far as it has
//! arrived, so events of a compressed stream are not delayed. Bytes behind a complete coding are ignored.
//!
//! Source: RFC 9110, section 8.4; RFC 1950, 1951, 1952 and 7932.

mod codec;

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};

use self::codec::{Codec, Fault};
use super::error::Error;
use runtime::memory::{Account, Charge, ChargeKind};

/// Bytes that one step gives at most.
const STEP: usize = 16 * 1024;
/// How many times as large as its content a response may become.
const MAX_RATIO: u64 = 200;
/// Bytes that a response may have whatever its ratio is.
const FREE: u64 = 1024 * 1024;
/// Codings of one response. More than one is unusual, and each multiplies the work.
const MAX_CODINGS: usize = 2;

/// Decodes one response.
pub(super) struct ContentDecoder {
    /// The coding that was applied first, which gives the content, is the first.
    layers: Vec<Layer>,
    /// The input of the last layer that has arrived.
    arrived: Bytes,
    has_ended: bool,
    /// Bytes that have arrived so far.
    received: u64,
    scratch: Box<[u8]>,
    charge: Charge,
    charged: usize,
    /// Why the response cannot be decoded.
    refusal: Option<Error>,
}

/// One coding.
struct Layer {
    coding: Coding,
    codec: Codec,
    input: Bytes,
    has_started: bool,
    produced: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Gzip,
    Deflate,
    Brotli,
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
            Self::Brotli => "br",
        }
    }
}

impl ContentDecoder {
    /// Returns the decoder for a response with `headers`; `None` if it has no content coding. `origin` pays for it. The
    /// headers are those of the decoded response afterwards.
    pub(super) fn of(headers: &mut HeaderMap, origin: &Arc<str>) -> Option<Box<Self>> {
        // Most responses have none, which costs one search.
        headers.get(CONTENT_ENCODING)?;
        let codings = codings(headers);
        if matches!(&codings, Ok(codings) if codings.is_empty()) {
            return None;
        }
        headers.remove(CONTENT_ENCODING);
        headers.remove(CONTENT_LENGTH);
        let (codings, refusal) = match codings {
            Ok(codings) => (codings, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let layer = |coding: Coding| Layer {
            coding,
            codec: Codec::new(coding),
            input: Bytes::new(),
            has_started: false,
            produced: 0,
        };
        Some(Box::new(Self {
            layers: codings.into_iter().map(layer).collect(),
            arrived: Bytes::new(),
            has_ended: false,
            received: 0,
            scratch: vec![0; STEP].into(),
            charge: Charge::open(Account::Server(Arc::clone(origin)), ChargeKind::Answer),
            charged: 0,
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
        let (arrived, has_ended) = (&mut self.arrived, self.has_ended);
        let mut source = Source { arrived, has_ended, received: self.received, scratch: &mut self.scratch };
        let decoded = source.pull(&mut self.layers)?;
        let memory: usize = self.layers.iter().map(|layer| layer.codec.memory()).sum();
        if memory != self.charged {
            self.charge.resize(memory)?;
            self.charged = memory;
        }
        Ok(decoded)
    }
}

/// The input of the layers.
struct Source<'a> {
    arrived: &'a mut Bytes,
    has_ended: bool,
    received: u64,
    scratch: &'a mut [u8],
}

impl Source<'_> {
    /// Returns the next bytes that come out of the first of `layers`.
    fn pull(&mut self, layers: &mut [Layer]) -> Result<DecodedStep, Error> {
        let Some((layer, outer)) = layers.split_first_mut() else {
            return Ok(match std::mem::take(self.arrived) {
                arrived if !arrived.is_empty() => DecodedStep::Data(arrived),
                _ if self.has_ended => DecodedStep::End,
                _ => DecodedStep::NeedsInput,
            });
        };
        loop {
            if let Some(data) = layer.decode(self.scratch)? {
                if layer.produced > FREE.max(self.received.saturating_mul(MAX_RATIO)) {
                    return Err(undecodable(format!(
                        "it is more than {MAX_RATIO} times as large as its compressed form (`{}`), so it was \
                         discarded",
                        layer.coding.name()
                    )));
                }
                return Ok(DecodedStep::Data(data));
            }
            match self.pull(outer)? {
                DecodedStep::Data(data) => {
                    layer.has_started = true;
                    layer.input = data;
                }
                // A response without a body may name a coding.
                DecodedStep::End if layer.has_started && !layer.codec.is_complete() => {
                    return Err(undecodable(format!("its `{}` coding ends too early", layer.coding.name())));
                }
                other => return Ok(other),
            }
        }
    }
}

impl Layer {
    /// Decodes some of its input. `None`: it needs more.
    fn decode(&mut self, scratch: &mut [u8]) -> Result<Option<Bytes>, Error> {
        let broken = |_: Fault| undecodable(format!("its `{}` coding is broken", self.coding.name()));
        let count = self.codec.decode(&mut self.input, scratch).map_err(broken)?;
        self.produced += count as u64;
        Ok((count > 0).then(|| Bytes::copy_from_slice(&scratch[..count])))
    }
}

/// Returns the codings of a response, the one that was applied first at the beginning.
fn codings(headers: &HeaderMap) -> Result<Vec<Coding>, Error> {
    let mut codings = Vec::new();
    for value in headers.get_all(CONTENT_ENCODING) {
        let text = value.to_str().map_err(|_| undecodable("its `Content-Encoding` is not ASCII".into()))?;
        for name in text.split(',').map(|name| name.trim().to_ascii_lowercase()) {
            codings.push(match name.as_str() {
                // The others are no codings. Servers write them for a body without one, and common clients accept that.
                "" | "identity" | "none" | "utf-8" | "utf8" | "aws-chunked" => continue,
                "gzip" | "x-gzip" => Coding::Gzip,
                "deflate" => Coding::Deflate,
                "br" => Coding::Brotli,
                other => return Err(unknown(other)),
            });
        }
    }
    if codings.len() > MAX_CODINGS {
        return Err(undecodable(format!(
            "it has {} content codings, and {MAX_CODINGS} are read",
            codings.len()
        )));
    }
    Ok(codings)
}

/// Whether the content of a message with these headers has a coding.
pub fn has_content_coding(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CONTENT_ENCODING).iter();
    let mut names =
        values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii));
    names.any(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"identity"))
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
