//! Cuts texts into chunks that an embedding model can read as a whole.
//!
//! Invariants, for every text: the chunks cover it without a gap, and none has more characters than the
//! budget. Two adjacent chunks share at most the overlap. The content of a chunk is the original text between
//! its positions. A cut never falls inside a UTF-8 character, nor inside a grapheme that fits the budget (a
//! letter with its accents and joiners). A chunk ends at the last paragraph that leaves it large enough, or
//! else at the last sentence, line, word or grapheme. Equal texts give equal chunks. Time and memory are
//! linear in the length of any text.
//!
//! Positions and budgets count characters (Unicode scalar values), as most languages index text.
//! [`Chunk::bytes`] is the range in bytes.
//!
//! Not here: what is stored of a chunk, and how much a model reads ([`super::embedding`]).

mod boundary;
mod markdown;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use boundary::{Boundary, Strength};
use markdown::HeadingOutline;

/// The largest budget, in characters.
pub(crate) const MOST_SIZE: usize = 100_000;
/// Largest Markdown text whose headings are read, in bytes. A longer one is cut like a plain text, because
/// parsing a text of headings only needs some forty times its size.
pub(crate) const MOST_MARKDOWN: usize = 8 << 20;

/// Size and overlap of chunks. Valid by construction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunking {
    size: usize,
    overlap: usize,
}

/// Why a chunk size or overlap is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadChunking {
    /// The size is zero or too large.
    #[error("the chunk size is {size} characters, it must be from 1 to {MOST_SIZE}")]
    Size {
        /// The requested size.
        size: usize,
    },
    /// The overlap is more than half of the size: every text would be stored many times.
    #[error(
        "the overlap of {overlap} characters is more than half of the chunk size {size}; make it at most {}",
        size / 2
    )]
    Overlap {
        /// The requested size.
        size: usize,
        /// The requested overlap.
        overlap: usize,
    },
}

impl Default for Chunking {
    /// 1,000 characters, of which up to 200 are shared.
    fn default() -> Self {
        Self { size: 1_000, overlap: 200 }
    }
}

impl Chunking {
    /// Chunks of at most `size` characters that share at most `overlap` with the previous one. The overlap
    /// may be at most half of the size, so that every chunk adds text.
    pub const fn new(size: usize, overlap: usize) -> Result<Self, BadChunking> {
        if size == 0 || size > MOST_SIZE {
            return Err(BadChunking::Size { size });
        }
        if overlap > size / 2 {
            return Err(BadChunking::Overlap { size, overlap });
        }
        Ok(Self { size, overlap })
    }

    /// Reduces the size to at most `size` characters, and the overlap in proportion: for a model with a
    /// smaller window, or for one call.
    pub(crate) fn at_most(self, size: usize) -> Self {
        let size = size.clamp(1, self.size);
        Self { size, overlap: self.overlap * size / self.size }
    }

    /// Largest size of a chunk, in characters.
    pub const fn size(self) -> usize {
        self.size
    }

    /// Most characters that a chunk shares with the previous one.
    pub const fn overlap(self) -> usize {
        self.overlap
    }

    /// Smallest size of a chunk that is cut at a boundary. The next chunk then adds at least half of the
    /// characters that it does not share.
    const fn least(self) -> usize {
        (self.size + self.overlap).div_ceil(2)
    }
}

/// Format of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Plain text, with paragraphs only.
    #[default]
    Plain,
    /// Markdown. A chunk stays within one section and lists its headings. Headings without text of their own
    /// are joined with the text that follows. A fenced code block is not cut if it fits the budget. A text
    /// larger than [`MOST_MARKDOWN`] is treated as plain.
    Markdown,
}

/// One piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk<'t> {
    /// The original text between the positions.
    pub content: &'t str,
    /// Index of the first character, from 0.
    pub start_pos: usize,
    /// Index after the last character.
    pub end_pos: usize,
    /// The range in bytes.
    pub bytes: Range<usize>,
    /// Headings of its section, outermost first, without markup and shortened.
    pub headings: Vec<Arc<str>>,
}

impl Chunk<'_> {
    /// Whether the chunk is white space only.
    pub fn is_blank(&self) -> bool {
        self.content.trim().is_empty()
    }
}

/// Returns an iterator that makes the chunks of `text` on demand. An empty text has none.
pub fn chunks(text: &str, chunking: Chunking, format: Format) -> Chunks<'_> {
    let outline = match format {
        Format::Markdown if text.len() <= MOST_MARKDOWN => markdown::outline(text, chunking.size),
        Format::Markdown | Format::Plain => HeadingOutline::default(),
    };
    let start = TextPosition::default();
    Chunks { text, chunking, outline, start, covered: start, section: 0, window: Vec::new() }
}

/// Iterator over the chunks of a text. Made by [`chunks`].
#[derive(Debug)]
pub struct Chunks<'t> {
    text: &'t str,
    chunking: Chunking,
    outline: HeadingOutline,
    /// Where the next chunk begins, if it then ends after `covered`.
    start: TextPosition,
    /// Where the last chunk ended.
    covered: TextPosition,
    /// The section that `start` is in.
    section: usize,
    /// Boundaries where the next chunk might end. A field only to reuse its memory.
    window: Vec<Boundary>,
}

/// A position in the text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct TextPosition {
    byte: usize,
    chars: usize,
}

/// Where a chunk ends and the next one begins.
struct ChunkEnd {
    end: TextPosition,
    next: TextPosition,
}

impl<'t> Iterator for Chunks<'t> {
    type Item = Chunk<'t>;

    fn next(&mut self) -> Option<Chunk<'t>> {
        if self.covered.byte == self.text.len() {
            return None;
        }
        let mut cut = self.cut();
        if cut.end.byte <= self.covered.byte {
            // With the overlap, the next part that must not be cut would exceed the budget.
            self.start = self.covered;
            self.section = self.outline.section_at(self.section, self.start.byte);
            cut = self.cut();
        }
        let chunk = self.chunk(cut.end);
        (self.start, self.covered) = (cut.next, cut.end);
        self.section = self.outline.section_at(self.section, self.start.byte);
        Some(chunk)
    }
}

impl<'t> Chunks<'t> {
    fn chunk(&self, end: TextPosition) -> Chunk<'t> {
        let bytes = self.start.byte..end.byte;
        Chunk {
            content: &self.text[bytes.clone()],
            start_pos: self.start.chars,
            end_pos: end.chars,
            headings: self.outline.headings(self.outline.section_at(self.section, bytes.end - 1)),
            bytes,
        }
    }

    /// Finds where the chunk that begins at `start` ends.
    fn cut(&mut self) -> ChunkEnd {
        let size = self.chunking.size;
        let rest = &self.text[self.start.byte..];
        // A character has at most four bytes, so a window of that many bytes suffices.
        let rest = &rest
            [..self.outline.end(self.section, self.start.byte, size * 4, self.text.len()) - self.start.byte];
        let mut places = rest.char_indices().map(|(byte, _)| byte).skip(size);
        let Some(full) = places.next() else {
            let end = self.place(rest.len(), rest.chars().count());
            return ChunkEnd { end, next: end };
        };
        // Includes one more character, which is needed to judge the last boundary.
        let seen = &rest[..places.next().unwrap_or(rest.len())];
        let from = self.start.byte;
        let blocks = self.outline.blocks_from(from);
        boundary::find(seen, size, blocks, from, &mut self.window);
        let Some(end) = self.best() else {
            // If the first boundary is beyond the budget, there is no good position.
            let early = self.window.last().map_or((full, size), |last| (last.byte, last.chars));
            let end = self.place(early.0, early.1);
            return ChunkEnd { end, next: end };
        };
        let next = self.shared(end.chars).map_or(end, |next| next);
        ChunkEnd { end: self.place(end.byte, end.chars), next: self.place(next.byte, next.chars) }
    }

    fn place(&self, bytes: usize, chars: usize) -> TextPosition {
        TextPosition { byte: self.start.byte + bytes, chars: self.start.chars + chars }
    }

    /// Returns the last of the strongest boundaries that leave the chunk large enough.
    fn best(&self) -> Option<Boundary> {
        let least = self.window.partition_point(|boundary| boundary.chars < self.chunking.least());
        self.window[least..].iter().max_by_key(|boundary| boundary.strength).copied()
    }

    /// Returns where the chunk after one of `end` characters begins, so that it shares at most the overlap.
    /// It begins at a sentence if at least half of the overlap remains, else at a word.
    fn shared(&self, end: usize) -> Option<Boundary> {
        let overlap = self.chunking.overlap;
        let from = end - overlap;
        let below = |chars| self.window.partition_point(|boundary| boundary.chars < chars);
        let shared = &self.window[below(from)..below(end)];
        let first = |least| shared.iter().find(|boundary| boundary.strength >= least);
        let sentence = first(Strength::Sentence).filter(|boundary| boundary.chars <= from + overlap / 2);
        sentence.or_else(|| first(Strength::Word)).or(shared.first()).copied()
    }
}
