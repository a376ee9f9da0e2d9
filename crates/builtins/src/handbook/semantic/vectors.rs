//! The vectors of the documents, and a search for the sections that are nearest to a query.
//!
//! If vectors are stored elsewhere (`storage`), a document has only the digests of its texts here.
//!
//! Invariants: all vectors have one dimension and are normalized, so that their product is a cosine. The
//! vectors of a document are one block of memory, which all states with the document share. A search reads
//! every vector: 40,000 vectors of 384 numbers take about 10 ms.

use std::collections::HashMap;
use std::sync::Arc;

use super::passages::Digested;
use crate::embedding::product;

/// Vectors of one document.
#[derive(Debug, Default)]
pub(in super::super) struct DocumentVectors {
    /// Path of the file.
    pub(super) file_path: String,
    /// For each vector, its section.
    pub(super) sections: Vec<usize>,
    /// For each vector, the start of its text in the section's own text, in bytes.
    pub(super) begins: Vec<usize>,
    /// For each vector, the digest of its text.
    pub(super) digests: Vec<Digested>,
    /// The numbers of all vectors, one vector after another.
    pub(super) numbers: Vec<f32>,
}

/// The vectors of one state, by the serial number of their document.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Vectors {
    pub(super) by_serial: HashMap<u64, Arc<DocumentVectors>>,
}

/// Similarity of a section to a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) struct SectionMatch {
    /// Serial number of the document.
    pub document: u64,
    /// Number of the section in it.
    pub section: usize,
    /// Cosine of its best passage.
    pub cosine: f32,
    /// Start of that passage in the section's own text, in bytes.
    pub begin: usize,
}

/// Sections with their similarity to a query.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in super::super) struct SectionMatches {
    /// The nearest and the requested sections, or all of them.
    pub(super) near: Vec<SectionMatch>,
    /// Mean of all cosines, including those that `near` lacks.
    pub(super) mean: f32,
}

impl SectionMatches {
    /// Makes the list from all sections.
    #[allow(clippy::cast_precision_loss)] // of sections, far below 2^24
    pub(super) fn of_all(near: Vec<SectionMatch>) -> Self {
        let sum: f32 = near.iter().map(|near| near.cosine).sum();
        let mean = sum / near.len().max(1) as f32;
        Self { near, mean }
    }

    /// Returns where the nearest passage of a section begins, in the section's own text.
    pub(in super::super) fn best_passage(&self, document: u64, section: usize) -> Option<usize> {
        let is_it = |near: &&SectionMatch| near.document == document && near.section == section;
        self.near.iter().find(is_it).map(|near| near.begin)
    }

    /// Whether there are no sections.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.near.is_empty()
    }
}

impl DocumentVectors {
    /// Returns the vector of the text with this digest, if it is in memory.
    pub(super) fn find(&self, digest: &Digested) -> Option<&[f32]> {
        if self.numbers.is_empty() {
            return None;
        }
        let at = self.digests.iter().position(|other| other == digest)?;
        let length = self.numbers.len() / self.digests.len();
        self.numbers.get(at * length..(at + 1) * length)
    }

    fn nearest(&self, question: &[f32], document: u64, near: &mut Vec<SectionMatch>) {
        let begin = near.len();
        let places = self.sections.iter().zip(&self.begins);
        for (vector, (section, at)) in self.numbers.chunks_exact(question.len()).zip(places) {
            let passage =
                SectionMatch { document, section: *section, cosine: product(question, vector), begin: *at };
            match near[begin..].last_mut() {
                Some(last) if last.section == *section => {
                    if last.cosine < passage.cosine {
                        *last = passage;
                    }
                }
                _ => near.push(passage),
            }
        }
    }
}

impl Vectors {
    /// Returns every section that has a vector, in no order; none if the query has another dimension.
    pub(super) fn near(&self, question: &[f32]) -> Vec<SectionMatch> {
        let mut near = Vec::new();
        if question.is_empty() {
            return near;
        }
        let fits = |of: &DocumentVectors| of.numbers.len() == of.sections.len() * question.len();
        for (document, of) in self.by_serial.iter().filter(|(_, of)| fits(of)) {
            of.nearest(question, *document, &mut near);
        }
        near
    }

    /// Returns the number of all numbers.
    pub(super) fn numbers(&self) -> usize {
        self.by_serial.values().map(|of| of.numbers.len()).sum()
    }

    /// Returns the number of vectors.
    pub(super) fn passages(&self) -> usize {
        self.by_serial.values().map(|of| of.sections.len()).sum()
    }
}

/// Scales `vector` to length 1. A vector of zeros stays unchanged.
pub(super) fn normalized(mut vector: Vec<f32>) -> Vec<f32> {
    let length = product(&vector, &vector).sqrt();
    if length > 0.0 && length.is_finite() {
        for number in &mut vector {
            *number /= length;
        }
    }
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sections: &[usize], numbers: &[f32]) -> Arc<DocumentVectors> {
        let digests = (0..sections.len()).map(|at| [u8::try_from(at).expect("few"); 16]).collect();
        Arc::new(DocumentVectors {
            file_path: String::new(),
            sections: sections.to_vec(),
            begins: (0..sections.len()).map(|at| 100 * at).collect(),
            digests,
            numbers: numbers.to_vec(),
        })
    }

    #[test]
    fn a_section_is_as_near_as_its_best_passage() {
        let by_serial = [(7, of(&[0, 0, 2], &[1.0, 0.0, 0.6, 0.8, 0.0, -1.0])), (8, of(&[1], &[0.8, 0.6]))];
        let vectors = Vectors { by_serial: by_serial.into() };
        let mut near = vectors.near(&[0.0, 1.0]);
        near.sort_by_key(|near| (near.document, near.section));
        let place = |near: &SectionMatch| (near.document, near.section, near.cosine, near.begin);
        let found: Vec<_> = near.iter().map(place).collect();
        assert_eq!(found, [(7, 0, 0.8, 100), (7, 2, -1.0, 200), (8, 1, 0.6, 0)]);
        let nearby = SectionMatches::of_all(near);
        assert_eq!((nearby.best_passage(7, 0), nearby.best_passage(8, 0)), (Some(100), None));
        assert!(vectors.near(&[1.0, 0.0, 0.0]).is_empty() && vectors.near(&[]).is_empty());
        assert_eq!((vectors.numbers(), vectors.passages()), (8, 4));
        assert_eq!(vectors.by_serial[&7].find(&[1; 16]), Some(&[0.6, 0.8][..]));
        assert_eq!(vectors.by_serial[&7].find(&[9; 16]), None);
    }

    #[test]
    fn products_are_right_at_every_length() {
        for length in [1, 15, 16, 17, 384] {
            let vector: Vec<f32> = (0..length).map(|at| if at % 2 == 0 { 1.0 } else { -2.0 }).collect();
            let expected: f32 = vector.iter().map(|number| number * number).sum();
            assert!((product(&vector, &vector) - expected).abs() < 1e-3);
            let unit = normalized(vector);
            assert!((product(&unit, &unit) - 1.0).abs() < 1e-5);
        }
        assert_eq!(normalized(vec![0.0, 0.0]), [0.0, 0.0]);
    }
}
