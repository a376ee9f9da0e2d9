//! The pieces of a document that get a vector each.
//!
//! Invariants: a piece is of one section and small enough for the model to read whole; in front of it stand
//! the headings that lead to it, because without them few pieces say what they are about (measured:
//! a fifth fewer questions were answered). A section without text of its own has none.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::super::document::Document;
use crate::chunk::{Chunking, Format, chunks};
use crate::embedding::Window;

/// Characters of a piece and of what two share, at most.
const SIZE: (usize, usize) = (1_000, 100);
/// A piece has at least this share of what the model reads; longer headings are cut.
const LEAST_SHARE: usize = 2;
/// What the headings may be, in characters.
const LONGEST_TRAIL: usize = 200;

/// What a text is recognized by.
pub(super) type Digested = [u8; 16];

/// A piece of a document.
pub(super) struct Passage {
    /// Number of the section in the document.
    pub section: usize,
    /// Where it begins in the section's own text, in bytes.
    pub begin: usize,
    /// What is embedded.
    pub text: String,
}

impl Passage {
    /// The same for the same text.
    pub(super) fn digest(&self) -> Digested {
        let mut digest = Digested::default();
        digest.copy_from_slice(&Sha256::digest(&self.text)[..16]);
        digest
    }
}

/// The passages of `document` for a model with this window.
pub(super) fn passages(document: &Document, window: Window) -> Vec<Passage> {
    let room = window.characters(&document.source);
    let mut passages = Vec::new();
    for section in 0..document.sections.len() {
        let mut head = document.trail(section).join(" > ");
        let most = LONGEST_TRAIL.min(room / LEAST_SHARE);
        head.truncate(head.char_indices().nth(most).map_or(head.len(), |(at, _)| at));
        let size = room.saturating_sub(head.chars().count() + 1).clamp(1, SIZE.0);
        let Ok(chunking) = Chunking::new(size, SIZE.1.min(size / 2)) else { continue };
        let own = document.own_text(section);
        let of_section = chunks(own, "", chunking, Format::Plain).filter(|chunk| !chunk.is_blank());
        passages.extend(of_section.map(|chunk| {
            let mut text = head.clone();
            // Into a String: never fails.
            let _ = write!(text, "\n{}", chunk.content);
            Passage { section, begin: chunk.bytes.start, text }
        }));
    }
    passages
}
