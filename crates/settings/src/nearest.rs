//! The known names that an unknown one was probably meant to be.
//!
//! Names are compared word by word, because whole names of unrelated things are often alike letter by letter. A name
//! with another word that is not a misspelling is another name: no suggestion is better than a wrong one. The
//! [`THRESHOLD`] was chosen with a labeled list of misspelled names (`nearest_tests`).
//!
//! Invariant: the work is bounded in the number of names and in their lengths, so that an unknown name never costs
//! more than a call. Not here: where suggestions are shown.

use std::cmp::Ordering;

/// The least likeness of a suggested name; 1 is the same name.
const THRESHOLD: f64 = 0.7;
/// The most names that are suggested.
const SUGGESTED: usize = 3;
/// The most names that are scanned.
const MAX_SCANNED: usize = 2_000;
/// The most names that are compared word by word.
const MAX_COMPARED: usize = 200;
/// The longest name that is compared, in bytes.
const MAX_BYTES: usize = 64;
/// Words of a name that are compared.
const MAX_WORDS: usize = 8;

/// Returns the one of `names` that `asked` was most likely meant to be.
pub fn nearest<'n>(requested: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    nearest_few(requested, names).first().copied()
}

/// Returns those of `names` that `asked` was probably meant to be, the most likely first.
pub fn nearest_few<'n>(requested: &str, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    nearest_from(THRESHOLD, requested, names)
}

fn nearest_from<'n>(threshold: f64, requested: &str, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    if requested.len() > MAX_BYTES {
        return Vec::new(); // nobody mistypes that much
    }
    let (asked_letters, requested) = (letters(requested), Words::of(requested));
    let is_near = |name: &&str| name.len() <= MAX_BYTES && share_letters(asked_letters, letters(name));
    let near = names.take(MAX_SCANNED).filter(is_near).take(MAX_COMPARED);
    let mut scored: Vec<(f64, &str)> =
        near.map(|name| (requested.likeness(&Words::of(name)), name)).collect();
    scored.retain(|(score, _)| *score >= threshold);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.dedup_by(|a, b| a.1 == b.1);
    scored.into_iter().take(SUGGESTED).map(|(_, name)| name).collect()
}

/// One bit for each letter and digit of `name`, whatever its case.
fn letters(name: &str) -> u64 {
    let bit = |byte: u8| match byte.to_ascii_lowercase() {
        letter @ b'a'..=b'z' => 1 << (letter - b'a'),
        digit @ b'0'..=b'9' => 1 << (26 + digit - b'0'),
        _ => 0,
    };
    name.bytes().fold(0, |bits, byte| bits | bit(byte))
}

/// Whether at least half of the letters of both are letters of the other one.
const fn share_letters(one: u64, other: u64) -> bool {
    (one & other).count_ones() * 2 >= one.count_ones() && (one & other).count_ones() * 2 >= other.count_ones()
}

/// A name as its words, in lower case.
struct Words(Vec<String>);

impl Words {
    /// Words end at every character that is no letter or digit, and before a capital that follows a small letter.
    fn of(name: &str) -> Self {
        let (mut words, mut was_small) = (vec![String::new()], false);
        for character in name.chars() {
            let begins = character.is_uppercase() && was_small;
            was_small = character.is_lowercase();
            if begins || !character.is_alphanumeric() {
                words.push(String::new());
            }
            if let (true, Some(word)) = (character.is_alphanumeric(), words.last_mut()) {
                word.extend(character.to_lowercase());
            }
        }
        words.retain(|word| !word.is_empty());
        words.truncate(MAX_WORDS);
        Self(words)
    }

    /// How alike two names are, from 0 to 1.
    fn likeness(&self, other: &Self) -> f64 {
        let by_words = self.by_words(other);
        if self.0.len() == other.0.len() { by_words } else { by_words.max(self.run_together(other)) }
    }

    /// Pairs the words that are alike. If both names have a word that the other one lacks, they name different things.
    /// A word too much in `self` counts twice: it was written for a reason.
    fn by_words(&self, other: &Self) -> f64 {
        let mut left: Vec<Option<&str>> = other.0.iter().map(|word| Some(word.as_str())).collect();
        let (mut matched, mut alone) = (0.0, 0.0);
        for word in &self.0 {
            let scores =
                left.iter().enumerate().filter_map(|(at, other)| Some((at, word_likeness(word, (*other)?))));
            let best = scores.max_by(|a, b| a.1.total_cmp(&b.1).then(Ordering::Greater));
            match best.filter(|(_, score)| *score > 0.0) {
                Some((at, score)) => matched += score * length(&[word, left[at].take().unwrap_or_default()]),
                None => alone += length(&[word]),
            }
        }
        let differ = alone > 0.0 && left.iter().any(Option::is_some);
        let all = length(&self.0) + length(&other.0) + alone;
        if differ || all == 0.0 { 0.0 } else { matched / all }
    }

    /// Compares the names without the boundaries of their words, which may differ between the names.
    fn run_together(&self, other: &Self) -> f64 {
        let (one, other) = (self.0.concat(), other.0.concat());
        let longest = one.chars().count().max(other.chars().count());
        let distance = strsim::osa_distance(&one, &other);
        if distance > longest / 8 { 0.0 } else { share(distance, longest) }
    }
}

/// How alike two words are. Short words are alike only if a letter is missing or two letters changed places, because
/// `get` is not a misspelled `set`; words with digits only if they are equal.
fn word_likeness(one: &str, other: &str) -> f64 {
    if one == other {
        return 1.0;
    }
    let has_digit = |word: &str| word.bytes().any(|byte| byte.is_ascii_digit());
    let lengths = [one.chars().count(), other.chars().count()];
    let (longest, difference) = (lengths[0].max(lengths[1]), lengths[0].abs_diff(lengths[1]));
    let allowed = match longest {
        0..=5 => 1,
        6..=9 => 2,
        _ => 3,
    };
    if has_digit(one) || has_digit(other) || difference > allowed {
        return 0.0;
    }
    let distance = strsim::osa_distance(one, other);
    let is_replaced = longest <= 3 && difference == 0 && !has_same_letters(one, other);
    if distance > allowed || is_replaced || longest < 3 { 0.0 } else { share(distance, longest) }
}

fn has_same_letters(one: &str, other: &str) -> bool {
    let sorted = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    sorted(one) == sorted(other)
}

#[expect(clippy::cast_precision_loss, reason = "names are short")]
fn share(distance: usize, length: usize) -> f64 {
    1.0 - distance as f64 / length as f64
}

#[expect(clippy::cast_precision_loss, reason = "names are short")]
fn length<T: AsRef<str>>(words: &[T]) -> f64 {
    words.iter().map(|word| word.as_ref().chars().count()).sum::<usize>() as f64
}

#[cfg(test)]
#[path = "nearest_tests.rs"]
mod tests;
