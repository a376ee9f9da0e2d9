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

use tantivy::tokenizer::{
    AsciiFoldingFilter, Language, LowerCaser, RemoveLongFilter, Stemmer, TextAnalyzer, Token, TokenStream,
    Tokenizer,
};

/// Longest word, in bytes. Longer runs, such as encoded keys, are never searched for.
const LONGEST: usize = 64;
/// Most parts of a joined word. A longer one is a path or a sentence, and is found by its parts.
const MOST_PARTS: usize = 8;

/// Makes the chain from text to words, for documents and queries alike.
pub(super) fn analyzer() -> TextAnalyzer {
    TextAnalyzer::builder(Words)
        .filter(RemoveLongFilter::limit(LONGEST))
        .filter(LowerCaser)
        .filter(AsciiFoldingFilter)
        .filter(Stemmer::new(Language::English))
        .filter(Stemmer::new(Language::Russian))
        .build()
}

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

/// Returns the words of `text`, at most `limit`.
pub(super) fn words_of(text: &str, limit: usize) -> Vec<Word> {
    let mut analyzer = analyzer();
    let mut stream = analyzer.token_stream(text);
    let mut words = Vec::new();
    while words.len() < limit && stream.advance() {
        let token = stream.token();
        let whole = token.position_length > 1;
        words.push(Word { text: token.text.clone(), position: token.position, whole });
    }
    words
}

/// Splits text into words and joined words. A joined word precedes its parts, with the position of the first
/// part and the length of all.
#[derive(Clone)]
struct Words;

struct WordStream<'a> {
    text: &'a str,
    /// Start of the search for the next word.
    at: usize,
    position: usize,
    pending: VecDeque<Token>,
    token: Token,
}

impl Tokenizer for Words {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        WordStream { text, at: 0, position: 0, pending: VecDeque::new(), token: Token::default() }
    }
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        while self.pending.is_empty() {
            if !self.read_joined() {
                return false;
            }
        }
        self.pending.pop_front().map(|token| self.token = token).is_some()
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

impl WordStream<'_> {
    /// Adds the next joined word and its parts to `pending`. Returns false at the end of the text.
    fn read_joined(&mut self) -> bool {
        let Some(skipped) = self.text[self.at..].find(char::is_alphanumeric) else {
            return false;
        };
        let start = self.at + skipped;
        self.at = start + joined_len(&self.text[start..]);
        let first = self.position;
        for (from, to) in parts(&self.text[start..self.at]) {
            let text = &self.text[start + from..start + to];
            self.pending.push_back(token(text.to_owned(), self.position, (start + from, start + to), 1));
            self.position += 1;
        }
        let count = self.position - first;
        if (2..=MOST_PARTS).contains(&count) {
            let whole = join(self.pending.iter().map(|part| part.text.as_str()));
            self.pending.push_front(token(whole, first, (start, self.at), count));
        }
        true
    }
}

fn token(text: String, position: usize, (offset_from, offset_to): (usize, usize), length: usize) -> Token {
    Token { offset_from, offset_to, position, text, position_length: length }
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
        words_of(text, 100).into_iter().map(|word| word.text).collect()
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
        assert_eq!(texts("серверы"), texts("сервером"));
        assert_eq!(texts("設定方法").len(), 5, "four letters and the whole");
    }

    #[test]
    fn positions_count_parts() {
        let words = words_of("a retry_attempts b", 10);
        let seen: Vec<_> = words.iter().map(|word| (word.position, word.whole)).collect();
        assert_eq!(seen, [(0, false), (1, true), (1, false), (2, false), (3, false)]);
    }

    proptest! {
        #[test]
        fn any_text_has_words_in_order(text in any::<String>()) {
            let words = words_of(&text, usize::MAX);
            prop_assert!(words.is_sorted_by_key(|word| word.position));
            prop_assert!(words.iter().all(|word| word.text.len() <= 4 * LONGEST));
        }
    }
}
