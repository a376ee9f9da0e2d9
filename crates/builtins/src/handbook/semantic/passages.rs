//! Cuts a document into passages that get a vector each.
//!
//! Invariants: a passage belongs to one section and fits the model's window. It begins with the headings that
//! lead to it, because without them few passages name their topic. (Measured: without them a fifth fewer
//! questions were answered.) A section without own text has no passages.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::super::document::Document;
use crate::chunk::{Chunking, Format, chunks};
use crate::embedding::Window;

/// Most characters of a passage, and of the overlap of two.
const SIZE: (usize, usize) = (1_000, 100);
/// The text of a passage gets at least this fraction (one half) of the window. Longer headings are cut.
const LEAST_SHARE: usize = 2;
/// Longest trail of headings, in characters.
const LONGEST_TRAIL: usize = 200;

/// Digest that identifies a text.
pub(super) type Digested = [u8; 16];

/// A part of a document.
pub(super) struct Passage {
    /// Number of the section in the document.
    pub section: usize,
    /// Start in the section's own text, in bytes.
    pub begin: usize,
    /// Text to be embedded.
    pub text: String,
}

impl Passage {
    /// Returns the digest of the text.
    pub(super) fn digest(&self) -> Digested {
        let mut digest = Digested::default();
        digest.copy_from_slice(&Sha256::digest(&self.text)[..16]);
        digest
    }
}

/// Returns the passages of `document` for a model with this window.
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
        let of_section = chunks(own, chunking, Format::Plain).filter(|chunk| !chunk.is_blank());
        passages.extend(of_section.map(|chunk| {
            let mut text = head.clone();
            // Writing to a String never fails.
            let _ = write!(text, "\n{}", chunk.content);
            Passage { section, begin: chunk.bytes.start, text }
        }));
    }
    passages
}
