//! The full-text index: which sections have a word, and how well they match several.
//!
//! It is in memory, contains only numbers of documents and sections, and is built at each start. A copy shares what
//! was only added to. To remove documents numbers all sections again, so both copies are whole until the old one is dropped.
//!
//! Scores are those of BM25, per field. The rarity of a word is the same in all fields: a word that every text
//! has tells little, even if few headings have it.
//!
//! Not here: which words are looked for (`query`), and the form of a hit (`answers`).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::document::Document;
use super::postings::{Counts, FIELDS, Positions, Postings};
use super::words::words_of;

/// Weights of the fields.
pub(super) const WEIGHTS: [f32; FIELDS] = [2.4, 1.6, 1.0];
/// Share of a word's score in further fields that have it too.
const TIE: f32 = 0.3;
/// BM25: how soon more occurrences of a word tell nothing more.
const K1: f32 = 1.2;
/// BM25: how much the length of a field counts.
const B: f32 = 0.75;

/// A section that matches a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Match {
    /// Serial number of the document.
    pub document: u64,
    /// Number of the section in the document.
    pub section: usize,
    /// Score; larger is better.
    pub score: f32,
}

impl Match {
    /// Whether both are the same section.
    pub(super) const fn is_of(&self, other: &Self) -> bool {
        self.document == other.document && self.section == other.section
    }
}

/// The index.
#[derive(Debug, Default, Clone)]
pub(super) struct Index {
    words: BTreeMap<Arc<str>, Arc<Postings>>,
    sections: Vec<IndexedSection>,
    /// Number of words in each field of all sections.
    lengths: [u64; FIELDS],
}

#[derive(Debug, Clone, Copy)]
struct IndexedSection {
    document: u64,
    number: usize,
    /// Number of words in each field.
    lengths: [u32; FIELDS],
}

impl Index {
    /// Adds a document. `bodies` are the words of its sections.
    pub(super) fn add(&mut self, document: &Document, bodies: &[String]) {
        for (number, body) in bodies.iter().enumerate() {
            let place = format!("{} {}", document.trail(number).join(" "), document.path);
            let fields = [document.sections[number].heading.as_str(), &place, body];
            self.add_section(document.serial, number, fields);
        }
    }

    fn add_section(&mut self, document: u64, number: usize, fields: [&str; FIELDS]) {
        let mut found: HashMap<String, Positions> = HashMap::new();
        let mut lengths = [0; FIELDS];
        for (field, text) in fields.into_iter().enumerate() {
            for word in words_of(text) {
                lengths[field] += 1;
                found.entry(word.text).or_default()[field].push(word.position);
            }
            self.lengths[field] += u64::from(lengths[field]);
        }
        for (word, positions) in found {
            let section = self.sections.len();
            if let Some(postings) = self.words.get_mut(word.as_str()) {
                Arc::make_mut(postings).push(section, &positions);
            } else {
                Arc::make_mut(self.words.entry(word.into()).or_default()).push(section, &positions);
            }
        }
        self.sections.push(IndexedSection { document, number, lengths });
    }

    /// Removes documents.
    pub(super) fn remove(&mut self, documents: &HashSet<u64>) {
        let is_kept = |section: &IndexedSection| !documents.contains(&section.document);
        let mut next = 0..;
        let number = |section| if is_kept(section) { next.next() } else { None };
        let numbers: Vec<Option<usize>> = self.sections.iter().map(number).collect();
        self.sections.retain(is_kept);
        self.words.retain(|_, postings| {
            *postings = Arc::new(postings.renumbered(&numbers));
            !postings.is_empty()
        });
        self.lengths = std::array::from_fn(|field| {
            self.sections.iter().map(|section| u64::from(section.lengths[field])).sum()
        });
    }

    /// Returns the words of all sections.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.words.keys().map(AsRef::as_ref)
    }

    /// Returns the number of sections.
    pub(super) fn len(&self) -> usize {
        self.sections.len()
    }

    /// Returns a section as a match.
    pub(super) fn matched(&self, section: usize, score: f32) -> Match {
        let IndexedSection { document, number, .. } = self.sections[section];
        Match { document, section: number, score }
    }

    /// Returns the sections with a word, in order.
    pub(super) fn counts(&self, word: &str) -> Vec<(usize, Counts)> {
        let postings = self.words.get(word).into_iter().flat_map(|postings| postings.iter());
        postings.map(|posting| (posting.section, posting.counts)).collect()
    }

    /// Returns where a word is in those sections that have it and are wanted, in order.
    pub(super) fn positions(&self, word: &str, is_wanted: &[bool]) -> Vec<(usize, Positions)> {
        let postings = self.words.get(word).into_iter().flat_map(|postings| postings.iter());
        let expected = postings.filter(|posting| is_wanted[posting.section]);
        expected.map(|posting| (posting.section, posting.positions())).collect()
    }

    /// Returns the inverse document frequency of BM25: the fewer sections have a word, the larger it is. The
    /// field counts where most sections have it.
    #[allow(clippy::cast_precision_loss)] // counts of sections, far below 2^24
    pub(super) fn rarity(&self, counts: &[(usize, Counts)]) -> f32 {
        let of_field = |field: usize| counts.iter().filter(|(_, counts)| counts[field] > 0).count();
        let with = (0..FIELDS).map(of_field).max().unwrap_or_default() as f32;
        ((self.sections.len() as f32 - with + 0.5) / (with + 0.5)).ln_1p()
    }

    /// Returns the score of a word of this rarity that each field of a section has so often.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn bm25(&self, section: usize, counts: Counts, rarity: f32) -> f32 {
        let of_field = |field: usize| {
            let average = self.lengths[field] as f32 / self.sections.len() as f32;
            let length = self.sections[section].lengths[field] as f32;
            let count = counts[field] as f32;
            rarity * (1.0 + K1) * count / (count + K1 * (1.0 - B + B * length / average.max(1.0)))
        };
        of_fields(std::array::from_fn(|field| if counts[field] == 0 { 0.0 } else { of_field(field) }))
    }
}

/// Returns the score of the best field and a share of the others. Each field has its weight.
pub(super) fn of_fields(scores: [f32; FIELDS]) -> f32 {
    let weighted: [f32; FIELDS] = std::array::from_fn(|field| scores[field] * WEIGHTS[field]);
    let best = weighted.into_iter().fold(0.0, f32::max);
    best + TIE * (weighted.into_iter().sum::<f32>() - best)
}
