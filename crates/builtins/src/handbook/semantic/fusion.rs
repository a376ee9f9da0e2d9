//! Combines two rankings: by the words of a query, and by its meaning.
//!
//! The two have different scales, so each score is measured against the best of its ranking. A word score
//! becomes a share of the best one. A cosine becomes the share of its distance above the mean, compared with
//! the best cosine. Each counts for half. For a document without vectors, which may just have changed, words
//! count fully. Among the measured methods this one lost the fewest hits by words and kept the most hits by
//! meaning (`docs/handbook.md` has the table). Reciprocal rank fusion uses ranks only and ignores how certain
//! each ranking is.

use std::collections::HashMap;

use super::super::index::Match;
use super::vectors::{SectionMatch, SectionMatches};

/// Most hits without any word of the query.
const NEAREST: usize = 100;
/// Weight of meaning. Words have the rest.
const MEANING: f32 = 0.5;

/// Scale of cosines between their mean and the best.
struct Scale {
    mean: f32,
    best: f32,
}

impl Scale {
    fn of(nearby: &SectionMatches) -> Self {
        let best = nearby.near.iter().map(|near| near.cosine).fold(f32::MIN, f32::max);
        Self { mean: nearby.mean, best }
    }

    /// Returns a share from 0, at the mean or below, to 1.
    fn share(&self, cosine: f32) -> f32 {
        let range = self.best - self.mean;
        if range > f32::EPSILON { ((cosine - self.mean) / range).clamp(0.0, 1.0) } else { 1.0 }
    }
}

/// Facts about the sections in the two rankings.
pub(in super::super) trait Sections {
    /// Whether this section may be a hit.
    fn is_wanted(&self, near: &SectionMatch) -> bool;

    /// Whether this document has vectors.
    fn is_embedded(&self, document: u64) -> bool;
}

/// Returns the sections of `matches`, which have the words, and the nearest wanted ones of `nearby`, in no
/// order. Each has a score from 0 to 1. A section that `nearby` lacks is ranked by words alone.
pub(in super::super) fn fused(
    matches: &[Match],
    nearby: &SectionMatches,
    sections: &impl Sections,
) -> Vec<Match> {
    let scale = Scale::of(nearby);
    let most = matches.iter().map(|found| found.score).fold(f32::EPSILON, f32::max);
    let by_words = matches.iter().map(|found| {
        let weight = if sections.is_embedded(found.document) { 1.0 - MEANING } else { 1.0 };
        ((found.document, found.section), weight * found.score / most)
    });
    let mut scores: HashMap<(u64, usize), f32> = by_words.collect();
    let place = |near: &SectionMatch| (near.document, near.section);
    let (with_words, without): (Vec<&SectionMatch>, Vec<&SectionMatch>) = nearby
        .near
        .iter()
        .filter(|near| scores.contains_key(&place(near)) || sections.is_wanted(near))
        .partition(|near| scores.contains_key(&place(near)));
    for near in with_words.into_iter().chain(nearest(without)) {
        *scores.entry(place(near)).or_default() += MEANING * scale.share(near.cosine);
    }
    let of = |((document, section), score)| Match { document, section, score };
    scores.into_iter().map(of).collect()
}

/// Returns the nearest ones, in no order. Sorting all would cost as much as the products.
fn nearest(mut all: Vec<&SectionMatch>) -> Vec<&SectionMatch> {
    if all.len() > NEAREST {
        let place = |near: &SectionMatch| (near.document, near.section);
        let order = |a: &&SectionMatch, b: &&SectionMatch| {
            b.cosine.total_cmp(&a.cosine).then_with(|| place(a).cmp(&place(b)))
        };
        all.select_nth_unstable_by(NEAREST, order);
        all.truncate(NEAREST);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_words(document: u64, score: f32) -> Match {
        Match { document, section: 0, score }
    }

    fn near(document: u64, cosine: f32) -> SectionMatch {
        SectionMatch { document, section: 0, cosine, begin: 0 }
    }

    /// Wants all sections except those of document 99. Document 5 has no vectors.
    struct All;

    impl Sections for All {
        fn is_wanted(&self, near: &SectionMatch) -> bool {
            near.document != 99
        }

        fn is_embedded(&self, document: u64) -> bool {
            document != 5
        }
    }

    fn ranked(matches: &[Match], near: &[SectionMatch]) -> Vec<(u64, f32)> {
        let mut fused = fused(matches, &SectionMatches::of_all(near.to_vec()), &All);
        fused.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.document.cmp(&b.document)));
        fused.iter().map(|found| (found.document, (found.score * 100.0).round() / 100.0)).collect()
    }

    #[test]
    fn both_count_against_their_own_best() {
        let all = [near(1, 0.2), near(2, 0.6), near(3, 0.4), near(4, 0.0)];
        // The mean is 0.3, so 3 is a third of the way to the best.
        assert_eq!(
            ranked(&[by_words(1, 8.0), by_words(3, 6.0)], &all),
            [(3, 0.54), (1, 0.5), (2, 0.5), (4, 0.0)]
        );
        assert_eq!(ranked(&[], &all)[0], (2, 0.5));
        assert_eq!(ranked(&[by_words(1, 8.0)], &[]), [(1, 0.5)]);
        assert_eq!(ranked(&[by_words(5, 8.0), by_words(1, 8.0)], &all)[0], (5, 1.0), "it has no vectors");
        assert_eq!(ranked(&[by_words(1, 0.0)], &[near(1, 0.5)]), [(1, 0.5)]);
    }

    #[test]
    fn section_out_of_scope_is_no_hit_and_counts_for_the_mean() {
        let all = [near(1, 0.4), near(2, 0.2), near(99, 0.9)];
        assert_eq!(ranked(&[by_words(1, 1.0)], &all), [(1, 0.5), (2, 0.0)]);
    }

    #[test]
    fn only_the_nearest_are_hits_without_the_words() {
        let all: Vec<SectionMatch> =
            (0..300_u16).map(|at| near(u64::from(at), f32::from(at) / 300.0)).collect();
        let fused = fused(&[by_words(0, 1.0)], &SectionMatches::of_all(all), &All);
        assert_eq!(fused.len(), NEAREST + 1);
    }
}
