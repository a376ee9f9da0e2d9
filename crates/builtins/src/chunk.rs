//! Texts cut into pieces that an embedding model can read whole.
//!
//! Invariants, for every text: the chunks cover it without a gap; none has more characters than the
//! budget; two neighbours share at most the overlap; a chunk's content is the original text between its
//! positions, unchanged; a cut never falls inside a grapheme (what a reader takes for one letter, with
//! its accents and joiners) that fits the budget, nor ever inside a UTF-8 character. A chunk ends at the
//! last paragraph that leaves it big enough, else sentence, line, word, grapheme. The same text gives
//! the same chunks. Time and memory are linear in the text, whatever is in it.
//!
//! Positions and budgets count characters (Unicode scalar values), which is what most languages index
//! texts by; [`Chunk::bytes`] has the same place in bytes.
//!
//! Not here: what is stored of a chunk, and how much a model reads ([`super::embedding`] says that).

mod boundary;
mod markdown;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use boundary::{Boundary, Strength};
use markdown::Outline;
use settings::{Fields, Setting};

/// The largest budget, in characters.
pub const MOST_SIZE: usize = 100_000;
/// Bytes of a Markdown text whose headings are looked for; a longer one is cut like a plain one, because
/// one that is nothing but headings takes some forty times its size while it is read.
pub const MOST_MARKDOWN: usize = 8 << 20;

/// How big chunks are. Valid by construction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunking {
    size: usize,
    overlap: usize,
}

/// Why there can be no such chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadChunking {
    /// No budget, or one that nobody needs.
    #[error("the chunk size is {size} characters, it must be from 1 to {MOST_SIZE}")]
    Size {
        /// What was asked for.
        size: usize,
    },
    /// Every text would be stored many times over, or the chunks would never move on.
    #[error(
        "the overlap of {overlap} characters is more than half of the chunk size {size}; make it at most {}",
        size / 2
    )]
    Overlap {
        /// The size beside it.
        size: usize,
        /// What was asked for.
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
    /// Chunks of at most `size` characters that share at most `overlap` with the one before: at most half
    /// of the size, so that chunks always move on.
    pub const fn new(size: usize, overlap: usize) -> Result<Self, BadChunking> {
        if size == 0 || size > MOST_SIZE {
            return Err(BadChunking::Size { size });
        }
        if overlap > size / 2 {
            return Err(BadChunking::Overlap { size, overlap });
        }
        Ok(Self { size, overlap })
    }

    /// Reads `{size: 1000, overlap: 200}`. Without an overlap it is a fifth of the size.
    pub fn from_settings(setting: &Setting<'_>) -> Option<Self> {
        let mut fields = setting.fields()?;
        let chunking = Self::from_fields(&mut fields, MOST_SIZE);
        fields.finish();
        chunking
    }

    /// Reads `size`, of at most `most`, and `overlap`, which stand among other fields.
    pub fn from_fields(fields: &mut Fields<'_>, most: usize) -> Option<Self> {
        let size = fields.integer("size", 1..=most).unwrap_or(Self::default().size);
        let overlap = fields.integer("overlap", 0..=most).unwrap_or(size / 5);
        let chunking = Self::new(size, overlap);
        if let Err(problem) = chunking {
            fields.setting().key_problem(problem.to_string(), None);
        }
        chunking.ok()
    }

    /// The same in chunks of at most `size` characters, with the overlap in proportion: what a model reads
    /// in one piece, or what one call asks for.
    pub fn at_most(self, size: usize) -> Self {
        let size = size.clamp(1, self.size);
        Self { size, overlap: self.overlap * size / self.size }
    }

    /// Characters of a chunk, at most.
    pub const fn size(self) -> usize {
        self.size
    }

    /// Characters that a chunk shares with the one before, at most.
    pub const fn overlap(self) -> usize {
        self.overlap
    }

    /// A cut where one likes leaves this many characters, so that the next chunk goes on by at least half
    /// of what it does not share.
    const fn least(self) -> usize {
        (self.size + self.overlap).div_ceil(2)
    }
}

/// What a text is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Nothing but paragraphs.
    #[default]
    Plain,
    /// A chunk stays within one section and knows its headings; headings without text of their own stand
    /// with the text that follows. A fenced code block is not cut where it fits the budget. A text
    /// beyond [`MOST_MARKDOWN`] is taken for plain.
    Markdown,
}

/// One piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk<'t> {
    /// `{document_id}#{chunk_index:05}`.
    pub id: String,
    /// Whose piece it is.
    pub document_id: &'t str,
    /// Its number, from 0.
    pub chunk_index: usize,
    /// The original text between its positions.
    pub content: &'t str,
    /// Its first character in the text, counted from 0.
    pub start_pos: usize,
    /// The character behind its last one.
    pub end_pos: usize,
    /// The same place in bytes.
    pub bytes: Range<usize>,
    /// Headings that it stands below, outermost first, without markup and clipped.
    pub headings: Vec<Arc<str>>,
}

impl Chunk<'_> {
    /// Whether there is nothing to be found in it.
    pub fn is_blank(&self) -> bool {
        self.content.trim().is_empty()
    }
}

/// The chunks of `text`, made one by one while they are asked for; none of an empty text.
pub fn chunks<'t>(text: &'t str, document_id: &'t str, chunking: Chunking, format: Format) -> Chunks<'t> {
    let outline = match format {
        Format::Markdown if text.len() <= MOST_MARKDOWN => markdown::outline(text, chunking.size),
        Format::Markdown | Format::Plain => Outline::default(),
    };
    let start = Place::default();
    Chunks {
        text,
        document_id,
        chunking,
        outline,
        start,
        covered: start,
        index: 0,
        section: 0,
        window: Vec::new(),
    }
}

/// See [`chunks`].
#[derive(Debug)]
pub struct Chunks<'t> {
    text: &'t str,
    document_id: &'t str,
    chunking: Chunking,
    outline: Outline,
    /// Where the next chunk begins, if that leads beyond what is covered.
    start: Place,
    /// Where the last one ended.
    covered: Place,
    index: usize,
    /// The section that `start` is in.
    section: usize,
    /// Where the next chunk might end. Here only to be used again.
    window: Vec<Boundary>,
}

/// A place in the text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Place {
    byte: usize,
    chars: usize,
}

/// Where a chunk ends and the next one begins.
struct Cut {
    end: Place,
    next: Place,
}

impl<'t> Iterator for Chunks<'t> {
    type Item = Chunk<'t>;

    fn next(&mut self) -> Option<Chunk<'t>> {
        if self.covered.byte == self.text.len() {
            return None;
        }
        let mut cut = self.cut();
        if cut.end.byte <= self.covered.byte {
            // What is shared leaves no room for what may not be cut.
            self.start = self.covered;
            self.section = self.outline.section_at(self.section, self.start.byte);
            cut = self.cut();
        }
        let chunk = self.chunk(cut.end);
        (self.start, self.covered) = (cut.next, cut.end);
        self.index += 1;
        self.section = self.outline.section_at(self.section, self.start.byte);
        Some(chunk)
    }
}

impl<'t> Chunks<'t> {
    fn chunk(&self, end: Place) -> Chunk<'t> {
        let bytes = self.start.byte..end.byte;
        Chunk {
            id: format!("{}#{:05}", self.document_id, self.index),
            document_id: self.document_id,
            chunk_index: self.index,
            content: &self.text[bytes.clone()],
            start_pos: self.start.chars,
            end_pos: end.chars,
            headings: self.outline.headings(self.outline.section_at(self.section, bytes.end - 1)),
            bytes,
        }
    }

    /// Where the chunk that begins at `start` ends.
    fn cut(&mut self) -> Cut {
        let size = self.chunking.size;
        let rest = &self.text[self.start.byte..];
        // No character has more than four bytes; no more than that is looked at.
        let rest = &rest
            [..self.outline.end(self.section, self.start.byte, size * 4, self.text.len()) - self.start.byte];
        let mut places = rest.char_indices().map(|(byte, _)| byte).skip(size);
        let Some(full) = places.next() else {
            let end = self.place(rest.len(), rest.chars().count());
            return Cut { end, next: end };
        };
        // One character more, or the last boundary could not be judged.
        let seen = &rest[..places.next().unwrap_or(rest.len())];
        let from = self.start.byte;
        let blocks = self.outline.blocks_from(from);
        boundary::find(seen, size, blocks, from, &mut self.window);
        let Some(end) = self.best() else {
            // Where the first boundary is beyond the budget, there is no good place.
            let early = self.window.last().map_or((full, size), |last| (last.byte, last.chars));
            let end = self.place(early.0, early.1);
            return Cut { end, next: end };
        };
        let next = self.shared(end.chars).map_or(end, |next| next);
        Cut { end: self.place(end.byte, end.chars), next: self.place(next.byte, next.chars) }
    }

    fn place(&self, bytes: usize, chars: usize) -> Place {
        Place { byte: self.start.byte + bytes, chars: self.start.chars + chars }
    }

    /// The last one of the strongest boundaries that leave the chunk big enough.
    fn best(&self) -> Option<Boundary> {
        let least = self.window.partition_point(|boundary| boundary.chars < self.chunking.least());
        self.window[least..].iter().max_by_key(|boundary| boundary.strength).copied()
    }

    /// Where the next chunk begins so that it shares what it may with one that ends after `end` characters:
    /// at the first sentence if that does not cost half of it, else at the first word.
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
