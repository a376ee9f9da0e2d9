//! Finds the passages of a Chroma collection that are similar to a query.
//!
//! One request returns the nearest passages of all. If only a part of the handbook is searched, a second one
//! returns the nearest of that part. Sections that have the words but are not among the nearest get their
//! cosines too, from their stored vectors. Reading these is quicker for Chroma than a query among ids, and
//! skips missing ids where a query fails. All other sections are ranked by their words alone.
//!
//! Invariants: requests and responses are bounded. A hit is always a section of the state that is searched. A
//! number that is not a cosine distance is ignored.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use uuid::Uuid;

use super::super::super::index::Match;
use super::super::passages::Digested;
use super::super::vectors::{SectionMatch, SectionMatches, Vectors, normalized};
use super::link::Link;
use super::places::{IdPrefix, Places};
use crate::chroma::Distant;
use crate::embedding::product;
use upstream::api::Error;

/// Passages to request: more than the sections that become hits, because a section has several.
const NEAREST: usize = 300;
/// Passages to request if the searched part is too large to list its texts.
const WIDE: usize = 1_000;
/// Most texts of a part that are listed in a request.
const MOST_NAMED: usize = 2_000;
/// Most vectors, and numbers in them, that are read for sections with the words: a third of a megabyte of
/// JSON.
const MOST_READ: usize = 64;
pub(super) const MOST_NUMBERS: usize = 32 << 10;
/// Tolerance for cosines outside of their range, because of rounding.
const ROUNDING: f64 = 1e-3;

/// Access to the vectors of one collection.
pub(in super::super) struct StoredVectors {
    pub(in super::super) link: Arc<Link>,
    pub(super) collection: Uuid,
    pub(super) naming: IdPrefix,
    /// The approximate mean of all vectors.
    pub(super) mean: Vec<f32>,
}

/// The documents of one state, and the positions of their texts.
#[derive(Clone, Default)]
pub(in super::super) struct KnownVectors {
    pub(in super::super) vectors: Arc<Vectors>,
    places: Arc<OnceLock<Places>>,
}

/// Inputs of a search at Chroma in addition to the query vector.
pub(in super::super::super) struct ChromaSearch {
    /// Sections that have the words, the best first.
    sections: Vec<(u64, usize)>,
    scope: Scope,
}

/// The part of the handbook to search.
#[derive(Debug, PartialEq)]
pub(in super::super::super) enum Scope {
    /// The whole handbook.
    All,
    /// These texts only.
    Among(Vec<Digested>),
    /// A part with too many texts to list.
    Large,
}

/// Best cosine of each section, and where that passage begins.
#[derive(Default)]
struct Cosines(HashMap<(u64, usize), (f32, usize)>);

impl KnownVectors {
    /// Makes the state for `vectors`.
    pub(in super::super) fn new(vectors: Arc<Vectors>) -> Self {
        Self { vectors, places: Arc::default() }
    }

    /// Returns the positions, computed at the first call. May block.
    fn places(&self) -> &Places {
        self.places.get_or_init(|| Places::of(&self.vectors))
    }

    /// Returns what a search needs. `is_within` tells whether a document has a part to search (`None`), or
    /// whether a section is in it. Without `is_within` the whole handbook is searched. May block.
    pub(in super::super) fn chroma_search(
        &self,
        matches: &[Match],
        is_within: Option<&dyn Fn(u64, Option<usize>) -> bool>,
    ) -> ChromaSearch {
        self.places();
        let sections = matches.iter().map(|found| (found.document, found.section)).collect();
        ChromaSearch { sections, scope: is_within.map_or(Scope::All, |is_within| self.scope(is_within)) }
    }

    fn scope(&self, is_within: &dyn Fn(u64, Option<usize>) -> bool) -> Scope {
        let mut among = Vec::new();
        for (document, of) in
            self.vectors.by_serial.iter().filter(|(document, _)| is_within(**document, None))
        {
            let own = of.digests.iter().zip(&of.sections).filter(|(_, at)| is_within(*document, Some(**at)));
            among.extend(own.map(|(digest, _)| *digest));
            if among.len() > MOST_NAMED {
                return Scope::Large;
            }
        }
        Scope::Among(among)
    }

    fn digests(&self, (document, section): (u64, usize)) -> Vec<Digested> {
        let Some(of) = self.vectors.by_serial.get(&document) else { return Vec::new() };
        let own = of.digests.iter().zip(&of.sections).filter(|(_, at)| **at == section);
        own.map(|(digest, _)| *digest).collect()
    }
}

impl Cosines {
    fn raise(&mut self, places: &Places, digest: &Digested, cosine: f32) {
        for (place, begin) in places.having(digest) {
            let known = self.0.entry(place).or_insert((cosine, begin));
            if known.0 < cosine {
                *known = (cosine, begin);
            }
        }
    }
}

impl StoredVectors {
    /// Whether a vector can be compared with those of the collection.
    pub(in super::super) fn fits(&self, vector: &[f32]) -> bool {
        vector.len() == self.mean.len() && vector.iter().all(|number| number.is_finite())
    }

    /// Returns the cosines of sections of `known` to `vector`, which must fit: the nearest sections, and
    /// those of `chroma_search`.
    pub(in super::super) async fn nearby(
        &self,
        vector: &[f32],
        chroma_search: &ChromaSearch,
        known: &KnownVectors,
    ) -> Result<SectionMatches, Error> {
        let most = if chroma_search.scope == Scope::Large { WIDE } else { NEAREST };
        let (all, own) =
            tokio::try_join!(self.nearest(vector, most, None), self.within(vector, &chroma_search.scope))?;
        let (mut cosines, places) = (Cosines::default(), known.places());
        for hit in all.iter().chain(&own) {
            if let (Some(digest), Some(cosine)) = (self.naming.digest(&hit.id), cosine(hit.distance)) {
                cosines.raise(places, &digest, cosine);
            }
        }
        let requested = self.missing(chroma_search, known, &cosines);
        for stored in self.link.chroma.vectors(self.collection, &requested).await? {
            let digest = self.naming.digest(&stored.id).filter(|_| self.fits(&stored.numbers));
            if let Some(digest) = digest {
                cosines.raise(places, &digest, product(vector, &normalized(stored.numbers)));
            }
        }
        let near = |((document, section), (cosine, begin))| SectionMatch { document, section, cosine, begin };
        Ok(SectionMatches {
            near: cosines.0.into_iter().map(near).collect(),
            mean: product(vector, &self.mean),
        })
    }

    async fn nearest(
        &self,
        vector: &[f32],
        most: usize,
        ids: Option<&[String]>,
    ) -> Result<Vec<Distant>, Error> {
        self.link.chroma.nearest(self.collection, vector, most, ids).await
    }

    /// Returns the nearest passages of a part of the handbook. Chroma fails if one of the texts is missing.
    /// In that case the part is looked for in a larger result for the whole handbook.
    async fn within(&self, vector: &[f32], scope: &Scope) -> Result<Vec<Distant>, Error> {
        let Scope::Among(digests) = scope else { return Ok(Vec::new()) };
        if digests.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<String> = digests.iter().map(|digest| self.naming.id(digest)).collect();
        match self.nearest(vector, NEAREST, Some(&ids)).await {
            Err(Error::Backend { status: 500, .. }) => self.nearest(vector, WIDE, None).await,
            found => found,
        }
    }

    /// Returns the ids of the texts of sections that have the words but are not among the nearest.
    fn missing(&self, chroma_search: &ChromaSearch, known: &KnownVectors, cosines: &Cosines) -> Vec<String> {
        let most = (MOST_NUMBERS / self.mean.len().max(1)).clamp(1, MOST_READ);
        let missing = chroma_search.sections.iter().filter(|place| !cosines.0.contains_key(place));
        let digests = missing.flat_map(|place| known.digests(*place));
        digests.take(most).map(|digest| self.naming.id(&digest)).collect()
    }
}

/// Converts a distance to a cosine, if it is valid.
#[allow(clippy::cast_possible_truncation)] // it is between -1 and 1
fn cosine(distance: f64) -> Option<f32> {
    let cosine = 1.0 - distance;
    (cosine.abs() <= 1.0 + ROUNDING).then(|| cosine.clamp(-1.0, 1.0) as f32)
}

#[cfg(test)]
mod tests {
    use super::super::super::vectors::DocumentVectors;
    use super::*;

    fn known(passages: usize) -> KnownVectors {
        let digest = |at: usize| {
            let mut digest = Digested::default();
            digest[..8].copy_from_slice(&at.to_le_bytes());
            digest
        };
        let of = |digests: Vec<Digested>| {
            let sections = (0..digests.len()).map(|at| at / 2).collect();
            let begins = vec![0; digests.len()];
            Arc::new(DocumentVectors { sections, begins, digests, ..DocumentVectors::default() })
        };
        let many = of((0..passages).map(digest).collect());
        let by_serial = [(1, many), (2, of(vec![digest(1_000_000)]))];
        KnownVectors::new(Arc::new(Vectors { by_serial: by_serial.into() }))
    }

    #[test]
    fn a_part_is_named_text_by_text_unless_it_is_too_large() {
        let chroma_search = |passages: usize, is_within: Option<&dyn Fn(u64, Option<usize>) -> bool>| {
            known(passages).chroma_search(&[], is_within).scope
        };
        assert_eq!(chroma_search(9, None), Scope::All);
        let section_1 =
            |document: u64, section: Option<usize>| document == 1 && section.is_none_or(|at| at == 1);
        let Scope::Among(texts) = chroma_search(9, Some(&section_1)) else { panic!("it is small") };
        assert_eq!(texts.iter().map(|digest| digest[0]).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(chroma_search(9, Some(&|_, _| false)), Scope::Among(Vec::new()));
        assert!(matches!(chroma_search(MOST_NAMED - 1, Some(&|_, _| true)), Scope::Among(_)));
        assert_eq!(chroma_search(MOST_NAMED + 1, Some(&|_, _| true)), Scope::Large);
    }

    #[test]
    fn a_distance_is_a_cosine_or_nothing() {
        assert_eq!((cosine(0.0), cosine(1.0), cosine(2.0)), (Some(1.0), Some(0.0), Some(-1.0)));
        assert_eq!((cosine(-1e-6), cosine(2.0 + 1e-6)), (Some(1.0), Some(-1.0)));
        for none in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.1, 2.1, 1e300] {
            assert_eq!(cosine(none), None, "{none}");
        }
    }
}
