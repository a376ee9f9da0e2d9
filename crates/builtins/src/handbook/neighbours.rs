//! Raises the score of sections in which adjacent words of the query are adjacent too.
//!
//! Only the best sections are examined. Searching for all adjacent pairs of frequent words would cost ten
//! times as much as the search itself.

use tantivy::postings::Postings;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocAddress, DocSet, Score, SegmentReader, Term};

/// Largest distance of two words that count as adjacent: "add a server" matches "add server".
const REACH: u32 = 2;

/// Two adjacent words.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WordPair {
    /// The first word.
    pub left: String,
    /// The second word.
    pub right: String,
    /// Score of a section that has the pair, before the weight of the field.
    pub worth: f32,
}

/// A section that may be among the best.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// Address in the index.
    pub address: DocAddress,
    /// Score so far.
    pub score: Score,
}

/// Adds the worth of matching pairs to the scores. Each field has its weight. The candidates are of one
/// segment, in the order of the index.
pub(super) fn reward(
    segment: &SegmentReader,
    fields: [(Field, Score); 3],
    pairs: &[WordPair],
    candidates: &mut [&mut Candidate],
) -> tantivy::Result<()> {
    for pair in pairs {
        let mut best = vec![0.0; candidates.len()];
        for (field, weight) in fields {
            let left = positions(segment, field, &pair.left, candidates)?;
            let right = positions(segment, field, &pair.right, candidates)?;
            for (best, (left, right)) in best.iter_mut().zip(left.iter().zip(&right)) {
                if meet(left, right) {
                    *best = weight.max(*best);
                }
            }
        }
        for (candidate, best) in candidates.iter_mut().zip(best) {
            candidate.score += best * pair.worth;
        }
    }
    Ok(())
}

/// Returns the positions of the word in each candidate.
fn positions(
    segment: &SegmentReader,
    field: Field,
    word: &str,
    candidates: &[&mut Candidate],
) -> tantivy::Result<Vec<Vec<u32>>> {
    let mut all = vec![Vec::new(); candidates.len()];
    let term = Term::from_field_text(field, word);
    let index = segment.inverted_index(field)?;
    let Some(mut postings) = index.read_postings(&term, IndexRecordOption::WithFreqsAndPositions)? else {
        return Ok(all);
    };
    for (candidate, found) in candidates.iter().zip(&mut all) {
        let target = candidate.address.doc_id;
        if postings.doc() < target {
            postings.seek(target);
        }
        if postings.doc() == target {
            postings.positions(found);
        }
    }
    Ok(all)
}

/// Whether the right word follows the left one closely anywhere. Both lists are sorted.
fn meet(left: &[u32], right: &[u32]) -> bool {
    left.iter().any(|&at| {
        let next = right.partition_point(|&position| position <= at);
        right.get(next).is_some_and(|&position| position - at <= REACH)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_stand_in_order_and_near() {
        assert!(meet(&[1], &[2]) && meet(&[1], &[3]) && meet(&[1, 9], &[0, 10]));
        assert!(!meet(&[1], &[4]) && !meet(&[2], &[1]) && !meet(&[], &[1]) && !meet(&[5], &[5]));
    }
}
