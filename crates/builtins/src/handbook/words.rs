//! Splits a text into words, for the index and for queries.
//!
//! A word is a run of letters and digits. Words may be joined by `_`, `-`, `.` or a change of case, such as
//! `retry_attempts`, `mcp-server-time`, `structuredContent` or `1.2.3`. A joined word is kept in parts and as
//! a whole without the joints. So `circuitbreaker` finds `circuit_breaker`, and vice versa. Then words are
//! made lower case, accents are removed, and so are English and Russian endings (each stemmer skips the
//! letters of the other language). Scripts without spaces are split into single letters.
//!
//! Not here: which words of a query count (`query`).

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use frostem::{Algorithm, Stemmer};
use icu_normalizer::DecomposingNormalizerBorrowed;

/// Longest word, in bytes. Longer runs, such as encoded keys, are never searched for.
const LONGEST: usize = 64;
/// Most parts of a joined word. A longer one is a path or a sentence, and is found by its parts.
const MOST_PARTS: usize = 8;

/// One word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// The word after normalization.
    pub text: String,
    /// Number of the word in the text.
    pub position: usize,
    /// Whether it is a joined word as a whole.
    pub whole: bool,
}

/// Returns the words of `text`. A joined word precedes its parts, with the position of the first part.
pub(super) fn words_of(text: &str) -> impl Iterator<Item = Word> {
    let stemmers = [Algorithm::English, Algorithm::Russian].map(Stemmer::new);
    let words = Words { text, position: 0, pending: VecDeque::new() };
    words.filter(|word| word.text.len() < LONGEST).map(move |word| Word {
        text: stemmers.iter().fold(folded(&word.text.to_lowercase()), |text, stemmer| {
            unless_it_panics(text, |text| stemmer.stem(text).into_owned())
        }),
        ..word
    })
}

/// Returns what `stem` makes of a word, and the word itself if it panics. The stemmers are generated code that counts
/// bytes by hand. A word of a document or of a query must not end the search for all others.
fn unless_it_panics(word: String, stem: impl Fn(&str) -> String) -> String {
    catch_unwind(AssertUnwindSafe(|| stem(&word))).unwrap_or(word)
}

/// Replaces letters that are made from a letter of ASCII. Others stay: й is not an и with an accent.
fn folded(word: &str) -> String {
    if word.is_ascii() {
        return word.to_owned();
    }
    let decomposing = DecomposingNormalizerBorrowed::new_nfkd();
    let mut folded = String::with_capacity(word.len());
    for letter in word.chars() {
        let mut parts = decomposing.normalize_iter(std::iter::once(letter)).peekable();
        match letter {
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            'ø' => folded.push('o'),
            'ł' => folded.push('l'),
            'đ' | 'ð' => folded.push('d'),
            'þ' => folded.push_str("th"),
            'ı' => folded.push('i'),
            '\u{300}'..='\u{36f}' if folded.ends_with(|last: char| last.is_ascii()) => {}
            _ if parts.peek().is_some_and(char::is_ascii) => folded.extend(parts.filter(char::is_ascii)),
            _ => folded.push(letter),
        }
    }
    folded
}

/// Splits text into words and joined words, without normalizing them.
struct Words<'a> {
    /// The text after the last word.
    text: &'a str,
    position: usize,
    pending: VecDeque<Word>,
}

impl Iterator for Words<'_> {
    type Item = Word;

    fn next(&mut self) -> Option<Word> {
        if self.pending.is_empty() {
            self.read_joined()?;
        }
        self.pending.pop_front()
    }
}

impl Words<'_> {
    /// Adds the next joined word and its parts to `pending`.
    fn read_joined(&mut self) -> Option<()> {
        let text = &self.text[self.text.find(char::is_alphanumeric)?..];
        let (joined, rest) = text.split_at(joined_len(text));
        self.text = rest;
        let first = self.position;
        for (from, to) in parts(joined) {
            let text = joined[from..to].to_owned();
            self.pending.push_back(Word { text, position: self.position, whole: false });
            self.position += 1;
        }
        if (2..=MOST_PARTS).contains(&self.pending.len()) {
            let text = join(self.pending.iter().map(|part| part.text.as_str()));
            self.pending.push_front(Word { text, position: first, whole: true });
        }
        Some(())
    }
}

/// Joins parts. Numbers keep a dot between them, or a search for 10 would find version 1.0.
fn join<'a>(parts: impl Iterator<Item = &'a str> + Clone) -> String {
    let numbers = parts.clone().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    parts.collect::<Vec<_>>().join(if numbers { "." } else { "" })
}

/// Returns the length in bytes of the joined word at the start of `text`: letters, digits, and joints between
/// them.
fn joined_len(text: &str) -> usize {
    let mut end = 0;
    for (index, letter) in text.char_indices() {
        if letter.is_alphanumeric() {
            end = index + letter.len_utf8();
        } else if !matches!(letter, '_' | '-' | '.') {
            break;
        }
    }
    end
}

/// Returns the ranges of the parts of a joined word.
fn parts(joined: &str) -> Vec<(usize, usize)> {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    let mut previous: Option<char> = None;
    let mut letters = joined.char_indices().peekable();
    while let Some((index, letter)) = letters.next() {
        let end = index + letter.len_utf8();
        if !letter.is_alphanumeric() {
            previous = None;
            continue;
        }
        let next = letters.peek().map(|(_, next)| *next);
        match (previous, parts.last_mut()) {
            (Some(before), Some(part)) if !is_boundary(before, letter, next) => part.1 = end,
            _ => parts.push((index, end)),
        }
        previous = Some(letter);
    }
    parts
}

/// Whether a word begins at `letter`: as in `toolName` and `HTTPServer`, and at every letter of a script
/// without spaces.
fn is_boundary(before: char, letter: char, next: Option<char>) -> bool {
    let small = |c: char| c.is_lowercase() || c.is_ascii_digit();
    has_no_spaces(letter)
        || has_no_spaces(before)
        || letter.is_uppercase()
            && (small(before) || before.is_uppercase() && next.is_some_and(char::is_lowercase))
}

/// Whether a letter is Kana or a unified ideograph.
const fn has_no_spaces(letter: char) -> bool {
    matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(text: &str) -> Vec<String> {
        words_of(text).map(|word| word.text).collect()
    }

    #[test]
    fn joined_words_are_kept_whole_and_in_parts() {
        assert_eq!(texts("circuit_breaker"), ["circuitbreak", "circuit", "breaker"]);
        assert_eq!(texts("mcp-server-time"), ["mcpservertim", "mcp", "server", "time"]);
        assert_eq!(texts("server__tool"), ["servertool", "server", "tool"]);
        assert_eq!(texts("structuredContent"), ["structuredcont", "structur", "content"]);
        assert_eq!(texts("HTTPServer2"), ["httpserver2", "http", "server2"]);
        assert_eq!(texts("v1.0, 10"), ["v10", "v1", "0", "10"]);
        assert_eq!(texts("1.0"), ["1.0", "1", "0"]);
        assert_eq!(texts("-x- .y. __"), ["x", "y"]);
    }

    #[test]
    fn every_spelling_of_a_joined_word_meets_in_one() {
        for spelling in ["circuit-breaker", "circuit_breaker", "circuitBreaker", "CircuitBreaker"] {
            assert!(texts(spelling).contains(&texts("circuitbreaker")[0]), "{spelling}");
        }
    }

    #[test]
    fn endings_case_and_accents_do_not_matter() {
        assert_eq!(texts("Retries RETRY retried"), ["retri", "retri", "retri"]);
        assert_eq!(texts("café"), texts("cafe"));
        assert_eq!(texts("Straße Ærø Øresund Łódź ﬁle ＡＢＣ"), texts("strasse aero oresund lodz file abc"));
        assert_eq!(texts("cafe\u{301}"), texts("cafe"), "an accent of its own is no letter");
        assert_eq!((folded("йё"), folded("ά가")), ("йё".into(), "ά가".into()), "other letters stay");
        assert_eq!(texts("серверы"), texts("сервером"));
        assert_eq!(texts("設定方法").len(), 5, "four letters and the whole");
    }

    #[test]
    fn word_at_which_a_stemmer_panics_stays_as_it_is() {
        assert_eq!(unless_it_panics("odd".to_owned(), |word| panic!("no stem of {word}")), "odd");
        assert_eq!(unless_it_panics("gates".to_owned(), |word| word.replace('s', "")), "gate");
    }

    #[test]
    fn positions_count_parts() {
        let seen: Vec<_> = words_of("a retry_attempts b").map(|word| (word.position, word.whole)).collect();
        assert_eq!(seen, [(0, false), (1, true), (1, false), (2, false), (3, false)]);
    }

    proptest! {
        #[test]
        fn any_text_has_words_in_order(text in any::<String>()) {
            let words: Vec<Word> = words_of(&text).collect();
            prop_assert!(words.is_sorted_by_key(|word| word.position));
            prop_assert!(words.iter().all(|word| word.text.len() <= 4 * LONGEST));
        }
    }
}
