//! The words of a sorted dictionary that resemble a word.
//!
//! The dictionary is walked as a tree. Words with the same beginning share the rows of their distances. A beginning from
//! which no word can be near is skipped with all its words. So a misspelled word costs a part of the dictionary, and
//! no second index is kept for it.
//!
//! Not here: how much a resemblance counts (`query`).

use std::ops::Bound;

/// Returns the words within `most` edits of `word`, with the number of edits, in order. An edit inserts, removes or
/// replaces a letter, or swaps two adjacent ones (optimal string alignment). `next` returns the first word of the
/// dictionary from a bound on.
pub(super) fn near<'a>(
    word: &str,
    most: usize,
    next: impl Fn(Bound<&str>) -> Option<&'a str>,
) -> Vec<(&'a str, usize)> {
    let mut walk = Walk::new(word);
    let mut found = Vec::new();
    let mut candidate = next(Bound::Unbounded);
    while let Some(known) = candidate {
        candidate = match walk.distance(known, most) {
            Ok(edits) => {
                if edits <= most {
                    found.push((known, edits));
                }
                next(Bound::Excluded(known))
            }
            Err(beginning) => match after(beginning) {
                Some(bound) => next(Bound::Included(&bound)),
                None => next(Bound::Excluded(known)),
            },
        };
    }
    found
}

/// The least text that is greater than all that begin with `letters`, if their last letter has a successor.
fn after(letters: &[char]) -> Option<String> {
    let (&last, before) = letters.split_last()?;
    let next = (last..=char::MAX).nth(1)?;
    Some(before.iter().copied().chain([next]).collect())
}

/// The rows of distances for the beginnings of one word after the other.
struct Walk {
    word: Vec<char>,
    /// The letters of the known word so far.
    letters: Vec<char>,
    /// The distances of each beginning of the known word from all beginnings of the word; one more than letters.
    rows: Vec<Vec<usize>>,
}

impl Walk {
    fn new(word: &str) -> Self {
        let word: Vec<char> = word.chars().collect();
        let rows = vec![(0..=word.len()).collect()];
        Self { word, letters: Vec::new(), rows }
    }

    /// Returns the distance of `known`, or its beginning from which no word is within `most`.
    fn distance(&mut self, known: &str, most: usize) -> Result<usize, &[char]> {
        let shared =
            self.letters.iter().zip(known.chars()).take_while(|(ours, theirs)| *ours == theirs).count();
        self.letters.truncate(shared);
        self.rows.truncate(shared + 1);
        for letter in known.chars().skip(shared) {
            self.push(letter);
            if self.least(1) > most && self.least(2) >= most {
                return Err(&self.letters);
            }
        }
        Ok(self.rows[self.letters.len()][self.word.len()])
    }

    /// The least distance in the `back`-th row from the end. A swap continues from the row before the last one.
    fn least(&self, back: usize) -> usize {
        let row = self.rows.len().checked_sub(back).and_then(|at| self.rows.get(at));
        row.and_then(|row| row.iter().min()).copied().unwrap_or_default()
    }

    fn push(&mut self, letter: char) {
        let (at, before) = (self.rows.len(), &self.rows[self.rows.len() - 1]);
        let mut row = Vec::with_capacity(before.len());
        row.push(at);
        for (column, &wanted) in self.word.iter().enumerate() {
            let replaced = before[column] + usize::from(wanted != letter);
            let mut least = replaced.min(before[column + 1] + 1).min(row[column] + 1);
            let is_swap =
                at > 1 && column > 0 && self.word[column - 1] == letter && self.letters[at - 2] == wanted;
            if is_swap {
                least = least.min(self.rows[at - 2][column - 1] + 1);
            }
            row.push(least);
        }
        self.letters.push(letter);
        self.rows.push(row);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn found<'a>(words: &'a BTreeSet<String>, word: &str, most: usize) -> (Vec<(&'a str, usize)>, usize) {
        let visited = Cell::new(0);
        let next = |from: Bound<&str>| {
            visited.set(visited.get() + 1);
            words.range::<str, _>((from, Bound::Unbounded)).next().map(String::as_str)
        };
        (near(word, most, next), visited.get())
    }

    #[test]
    fn misspelled_word_visits_a_part_of_the_dictionary() {
        let syllables = ["ka", "lo", "mi", "ten", "sur", "ve", "dran", "pol", "ish", "or"];
        let word =
            |number: usize| (0..4).map(|at| syllables[number / 10_usize.pow(at) % 10]).collect::<String>();
        let words: BTreeSet<String> = (0..10_000).map(word).collect();
        let (near, visited) = found(&words, "kalotnesur", 2);
        assert!(near.contains(&("kalotensur", 1)), "{near:?}");
        assert!(visited < words.len() / 5, "{visited} of {}", words.len());
    }

    proptest! {
        #[test]
        fn all_words_within_the_distance_are_found(
            words in proptest::collection::btree_set("[abcя\u{10ffff}]{0,6}", 0..60),
            word in "[abcя\u{10ffff}]{1,6}",
            most in 1_usize..3,
        ) {
            let expected: Vec<(&str, usize)> = words
                .iter()
                .map(|known| (known.as_str(), strsim::osa_distance(known, &word)))
                .filter(|(_, edits)| *edits <= most)
                .collect();
            prop_assert_eq!(found(&words, &word, most).0, expected);
        }
    }
}
