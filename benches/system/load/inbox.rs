//! Parses one HTTP/1.1 response without a client library, because the load shares its processors
//! with the measured programs.
//!
//! It supports what the benchmark servers and the gateway send: `content-length`, `chunked`, or no
//! body.

use anyhow::{Context as _, bail, ensure};
use memchr::memmem;

/// Limit of the size of a head.
const MAX_HEAD: usize = 64 * 1024;

/// The received bytes, and the parsed part of them.
#[derive(Debug, Default)]
pub struct Inbox {
    /// The bytes of the current response.
    pub bytes: Vec<u8>,
    head: Option<Head>,
    /// The chunks without their framing.
    unchunked: Vec<u8>,
    /// The start of the next chunk.
    at: usize,
}

/// A complete head.
#[derive(Debug)]
struct Head {
    status: u16,
    session: Option<String>,
    ends: usize,
    /// `None` for a chunked body.
    length: Option<usize>,
}

/// A complete response, valid until the inbox is cleared.
#[derive(Debug)]
pub struct Answer<'a> {
    /// The status code.
    pub status: u16,
    /// The session it opens.
    pub session: Option<&'a str>,
    /// The body.
    pub body: &'a [u8],
}

impl Inbox {
    /// Drops the response, but keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.unchunked.clear();
        self.head = None;
        self.at = 0;
    }

    /// Whether the response is complete; called whenever bytes arrived.
    pub fn is_complete(&mut self) -> anyhow::Result<bool> {
        if self.head.is_none() {
            let Some(ends) = memmem::find(&self.bytes, b"\r\n\r\n") else {
                ensure!(self.bytes.len() < MAX_HEAD, "a head without an end");
                return Ok(false);
            };
            let head = Head::read(&self.bytes[..ends + 2])?;
            self.at = head.ends;
            self.bytes.reserve(head.length.unwrap_or(0));
            self.head = Some(head);
        }
        let head = self.head.as_ref().context("just read")?;
        match head.length {
            Some(length) => {
                ensure!(self.bytes.len() <= head.ends + length, "more came than was announced");
                Ok(self.bytes.len() == head.ends + length)
            }
            None => self.unchunk(),
        }
    }

    /// Returns the response, once it is complete.
    pub fn answer(&self) -> anyhow::Result<Answer<'_>> {
        let head = self.head.as_ref().context("no response yet")?;
        let body = match head.length {
            Some(_) => &self.bytes[head.ends..],
            None => &self.unchunked[..],
        };
        Ok(Answer { status: head.status, session: head.session.as_deref(), body })
    }

    /// Decodes the complete chunks; returns true after the last one.
    fn unchunk(&mut self) -> anyhow::Result<bool> {
        loop {
            let rest = &self.bytes[self.at..];
            let Some(line) = memchr::memchr(b'\n', rest) else { return Ok(false) };
            let size = std::str::from_utf8(&rest[..line])?.trim_end();
            let size = usize::from_str_radix(size, 16).with_context(|| format!("chunk size {size:?}"))?;
            let (from, to) = (line + 1, line + 1 + size);
            if rest.len() < to + 2 {
                self.bytes.reserve(size);
                return Ok(false);
            }
            self.unchunked.extend_from_slice(&rest[from..to]);
            self.at += to + 2;
            if size == 0 {
                ensure!(self.at == self.bytes.len(), "more came than one response");
                return Ok(true);
            }
        }
    }
}

impl Head {
    /// Parses the lines of a head, each with its line end.
    fn read(lines: &[u8]) -> anyhow::Result<Self> {
        let text = std::str::from_utf8(lines)?;
        let (first, fields) = text.split_once("\r\n").context("a status line")?;
        let status = first.get(9..12).and_then(|code| code.parse().ok()).context("a status")?;
        let mut head = Self { status, session: None, ends: lines.len() + 2, length: None };
        let mut is_chunked = false;
        for (name, value) in fields.split("\r\n").filter_map(|line| line.split_once(": ")) {
            if name.eq_ignore_ascii_case("content-length") {
                head.length = Some(value.parse()?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                is_chunked = value == "chunked";
            } else if name.eq_ignore_ascii_case("mcp-session-id") {
                head.session = Some(value.to_owned());
            }
        }
        if !is_chunked && head.length.is_none() {
            if status != 204 {
                bail!("neither a length nor chunks: {text}");
            }
            head.length = Some(0);
        }
        Ok(head)
    }
}
