//! The decoders of gzip, deflate and Brotli, step by step and with the same face.
//!
//! Invariant: a step reads the input that it is given and writes into the buffer that it is given, and keeps no more than
//! its window.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use bytes::{Buf, Bytes};
use flate2::{Decompress, FlushDecompress, Status};

use super::Coding;

/// Bits of the window of gzip and zlib.
const WINDOW_BITS: u8 = 15;
/// Memory of a decoder of gzip or deflate, in bytes.
const DEFLATE_MEMORY: usize = 64 * 1024;

/// The input is not of the coding.
#[derive(Debug)]
pub(super) struct Fault;

pub(super) enum Codec {
    Gzip(Member),
    /// Before its first two bytes, which tell zlib from bare deflate.
    Deflate(Vec<u8>),
    Inflating(Inflate),
    Brotli(Box<Brotli>),
}

/// A gzip file has one or more members.
pub(super) enum Member {
    /// Before a member, and whether there was one before.
    Between(bool),
    Inside(Inflate),
    /// Bytes that are no member follow.
    Over,
}

/// A decoder of zlib, gzip or bare deflate.
pub(super) struct Inflate {
    stream: Decompress,
    is_complete: bool,
}

pub(super) struct Brotli {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    window: usize,
    is_complete: bool,
}

impl Codec {
    pub(super) fn new(coding: Coding) -> Self {
        match coding {
            Coding::Gzip => Self::Gzip(Member::Between(false)),
            Coding::Deflate => Self::Deflate(Vec::new()),
            Coding::Brotli => Self::Brotli(Box::new(Brotli {
                state: BrotliState::new(
                    StandardAlloc::default(),
                    StandardAlloc::default(),
                    StandardAlloc::default(),
                ),
                window: 0,
                is_complete: false,
            })),
        }
    }

    /// Decodes some of `input` into `output`, and returns how much. With 0, all of `input` was read.
    pub(super) fn decode(&mut self, input: &mut Bytes, output: &mut [u8]) -> Result<usize, Fault> {
        match self {
            Self::Gzip(member) => member.decode(input, output),
            Self::Inflating(inflate) => {
                let count = inflate.decode(input, output)?;
                if inflate.is_complete {
                    input.clear();
                }
                Ok(count)
            }
            Self::Brotli(brotli) => brotli.decode(input, output),
            Self::Deflate(first) => {
                while first.len() < 2 && input.has_remaining() {
                    first.push(input.get_u8());
                }
                let &[one, two] = first.as_slice() else { return Ok(0) };
                let mut inflate = Inflate::new(Decompress::new(is_zlib(one, two)));
                let mut head = Bytes::from(std::mem::take(first));
                let count = inflate.decode(&mut head, output)?;
                *self = Self::Inflating(inflate);
                if count > 0 { Ok(count) } else { self.decode(input, output) }
            }
        }
    }

    /// Whether the end of the input may be here.
    pub(super) fn is_complete(&self) -> bool {
        match self {
            Self::Gzip(member) => matches!(member, Member::Between(true) | Member::Over),
            Self::Deflate(_) => false,
            Self::Inflating(inflate) => inflate.is_complete,
            Self::Brotli(brotli) => brotli.is_complete,
        }
    }

    /// The memory that it needs, in bytes.
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Brotli(brotli) => brotli.window,
            _ => DEFLATE_MEMORY,
        }
    }
}

/// Whether the first two bytes are the header of zlib (RFC 1950, 2.2). Some servers send bare deflate.
fn is_zlib(one: u8, two: u8) -> bool {
    one & 0x0f == 8 && one >> 4 <= 7 && u16::from_be_bytes([one, two]).is_multiple_of(31)
}

impl Member {
    fn decode(&mut self, input: &mut Bytes, output: &mut [u8]) -> Result<usize, Fault> {
        loop {
            match self {
                Self::Over => input.clear(),
                Self::Between(has_member) => match input.first() {
                    None => {}
                    Some(&first) if first != 0x1f && *has_member => *self = Self::Over,
                    Some(_) => *self = Self::Inside(Inflate::new(Decompress::new_gzip(WINDOW_BITS))),
                },
                Self::Inside(inflate) => {
                    let count = inflate.decode(input, output)?;
                    if inflate.is_complete {
                        *self = Self::Between(true);
                    }
                    if count > 0 || matches!(self, Self::Inside(_)) {
                        return Ok(count);
                    }
                }
            }
            if input.is_empty() {
                return Ok(0);
            }
        }
    }
}

impl Inflate {
    const fn new(stream: Decompress) -> Self {
        Self { stream, is_complete: false }
    }

    fn decode(&mut self, input: &mut Bytes, output: &mut [u8]) -> Result<usize, Fault> {
        while !self.is_complete {
            let (read, written) = (self.stream.total_in(), self.stream.total_out());
            let status = self.stream.decompress(input, output, FlushDecompress::None).map_err(|_| Fault)?;
            let read = usize::try_from(self.stream.total_in() - read).unwrap_or_default();
            let count = usize::try_from(self.stream.total_out() - written).unwrap_or_default();
            input.advance(read.min(input.len()));
            self.is_complete = status == Status::StreamEnd;
            if count > 0 || self.is_complete {
                return Ok(count);
            }
            if input.is_empty() || read == 0 {
                return if input.is_empty() { Ok(0) } else { Err(Fault) };
            }
        }
        // In gzip, the next member follows.
        Ok(0)
    }
}

impl Brotli {
    fn decode(&mut self, input: &mut Bytes, output: &mut [u8]) -> Result<usize, Fault> {
        if self.is_complete {
            input.clear();
            return Ok(0);
        }
        if let Some(&first) = input.first().filter(|_| self.window == 0) {
            self.window = 1 << window_bits(first);
        }
        let (mut left, mut read, mut room, mut count, mut total) = (input.len(), 0, output.len(), 0, 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut read,
            input,
            &mut room,
            &mut count,
            output,
            &mut total,
            &mut self.state,
        );
        input.advance(read.min(input.len()));
        match result {
            BrotliResult::ResultFailure => Err(Fault),
            BrotliResult::ResultSuccess => {
                self.is_complete = true;
                input.clear();
                Ok(count)
            }
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => Ok(count),
        }
    }
}

/// The bits of the window, from the first byte of a stream (RFC 7932, 9.1).
const fn window_bits(first: u8) -> u8 {
    match (first & 1, first >> 1 & 7, first >> 4 & 7) {
        (0, ..) => 16,
        (_, 0, 0) => 17,
        (_, 0, more) => 8 + more,
        (_, more, _) => 17 + more,
    }
}
