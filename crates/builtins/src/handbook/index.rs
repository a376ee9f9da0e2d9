//! The full-text index: which sections have a word, and how well they match several.
//!
//! It is in memory, contains only numbers of documents and sections, and is built at each start. A copy shares what was
//! not changed. The sections of a removed document stay in the lists of words and are skipped. When they are more than
//! the others, all sections are numbered again. So the cost of this is shared by as many removals as there are sections.
//!
//! Scores are those of BM25, per field. The rarity of a word is the same in all fields: a word that every text
//! has tells little, even if few headings have it.
//!
//! Not here: which words are looked for (`query`), and the form of a hit (`answers`).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use super::document::Document;
use super::postings::{Counts, FIELDS, Positions, Posting, Postings};
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
    /// How many of them were removed.
    removed: usize,
    /// Number of words in each field of all sections.
    lengths: [u64; FIELDS],
}

#[derive(Debug, Clone, Copy)]
struct IndexedSection {
    document: u64,
    number: usize,
    /// Number of words in each field.
    lengths: [u32; FIELDS],
    is_removed: bool,
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
        self.sections.push(IndexedSection { document, number, lengths, is_removed: false });
    }

    /// Removes documents.
    pub(super) fn remove(&mut self, documents: &HashSet<u64>) {
        let is_gone =
            |section: &&mut IndexedSection| !section.is_removed && documents.contains(&section.document);
        for section in self.sections.iter_mut().filter(is_gone) {
            section.is_removed = true;
            self.removed += 1;
            for (sum, length) in self.lengths.iter_mut().zip(section.lengths) {
                *sum -= u64::from(length);
            }
        }
        if self.removed > self.sections.len() / 2 {
            self.renumber();
        }
    }

    /// Numbers the sections again, without those that were removed.
    fn renumber(&mut self) {
        let mut next = 0..;
        let number = |section: &IndexedSection| if section.is_removed { None } else { next.next() };
        let numbers: Vec<Option<usize>> = self.sections.iter().map(number).collect();
        self.sections.retain(|section| !section.is_removed);
        self.removed = 0;
        self.words.retain(|_, postings| {
            *postings = Arc::new(postings.renumbered(&numbers));
            !postings.is_empty()
        });
    }

    /// Returns the words from a bound on, in order. Some may be in no section any more.
    pub(super) fn words_from(&self, from: Bound<&str>) -> impl Iterator<Item = &str> {
        self.words.range::<str, _>((from, Bound::Unbounded)).map(|(word, _)| word.as_ref())
    }

    /// Returns a number above those of all sections.
    pub(super) fn len(&self) -> usize {
        self.sections.len()
    }

    /// Returns the number of sections.
    #[allow(clippy::cast_precision_loss)] // far below 2^24
    fn count(&self) -> f32 {
        (self.sections.len() - self.removed) as f32
    }

    /// Returns a section as a match.
    pub(super) fn matched(&self, section: usize, score: f32) -> Match {
        let IndexedSection { document, number, .. } = self.sections[section];
        Match { document, section: number, score }
    }

    /// Returns the sections with a word, in order.
    pub(super) fn counts(&self, word: &str) -> Vec<(usize, Counts)> {
        self.postings(word).map(|posting| (posting.section, posting.counts)).collect()
    }

    /// Returns where a word is in those sections that have it and are wanted, in order.
    pub(super) fn positions(&self, word: &str, is_wanted: &[bool]) -> Vec<(usize, Positions)> {
        let expected = self.postings(word).filter(|posting| is_wanted[posting.section]);
        expected.map(|posting| (posting.section, posting.positions())).collect()
    }

    fn postings(&self, word: &str) -> impl Iterator<Item = Posting<'_>> {
        let postings = self.words.get(word).into_iter().flat_map(|postings| postings.iter());
        postings.filter(|posting| !self.sections[posting.section].is_removed)
    }

    /// Returns the inverse document frequency of BM25: the fewer sections have a word, the larger it is. The
    /// field counts where most sections have it.
    #[allow(clippy::cast_precision_loss)] // counts of sections, far below 2^24
    pub(super) fn rarity(&self, counts: &[(usize, Counts)]) -> f32 {
        let of_field = |field: usize| counts.iter().filter(|(_, counts)| counts[field] > 0).count();
        let with = (0..FIELDS).map(of_field).max().unwrap_or_default() as f32;
        ((self.count() - with + 0.5) / (with + 0.5)).ln_1p()
    }

    /// Returns the score of a word of this rarity that each field of a section has so often.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn bm25(&self, section: usize, counts: Counts, rarity: f32) -> f32 {
        let lengths = self.sections[section].lengths;
        let of_field = |field: usize| {
            let average = self.lengths[field] as f32 / self.count();
            let length = lengths[field] as f32;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An index of one section for each text, without those in `gone`.
    fn index(texts: &[&str], gone: &[u64]) -> Index {
        let mut index = Index::default();
        for (document, text) in (0..).zip(texts).filter(|(document, _)| !gone.contains(document)) {
            index.add_section(document, 0, ["", "", text]);
        }
        index
    }

    /// The documents with a word, with their scores.
    fn scores(index: &Index, word: &str) -> Vec<(u64, f32)> {
        let counts = index.counts(word);
        let rarity = index.rarity(&counts);
        let score = |(at, counts)| (index.matched(at, 0.0).document, index.bm25(at, counts, rarity));
        counts.into_iter().map(score).collect()
    }

    const TEXTS: [&str; 5] = ["gate and door", "gate gate", "a long wall with a gate", "door", "wall"];

    #[test]
    fn index_without_removed_documents_is_as_if_they_had_never_been_added() {
        for gone in [&[1][..], &[0, 2], &[0, 1, 2], &[0, 1, 2, 3, 4]] {
            let mut index_left = index(&TEXTS, &[]);
            for document in gone {
                index_left.remove(&HashSet::from([*document]));
            }
            let expected = index(&TEXTS, gone);
            for word in ["gate", "door", "wall", "long"] {
                assert_eq!(scores(&index_left, word), scores(&expected, word), "{word} without {gone:?}");
            }
            index_left.add_section(9, 0, ["", "", "gate"]);
            assert_eq!(scores(&index_left, "gate").last().expect("it is found").0, 9, "after {gone:?}");
        }
    }

    #[test]
    fn removing_encodes_nothing_again_until_half_is_gone() {
        let mut changed = index(&TEXTS, &[]);
        let before = changed.clone();
        changed.remove(&HashSet::from([1, 3]));
        assert!(before.words.iter().all(|(word, postings)| Arc::ptr_eq(postings, &changed.words[word])));
        changed.remove(&HashSet::from([0]));
        assert_eq!((changed.len(), changed.removed), (2, 0), "all sections have a new number");
        assert!(!changed.words.contains_key("door"));
    }
}
