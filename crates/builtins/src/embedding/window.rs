//! Estimates how much of a text an embedding model reads, and how large chunks for it may be.
//!
//! A model silently ignores text beyond its window, so callers cut long texts with [`Window::chunking`]
//! first. The number of tokens is estimated, rather too high. Exact tokenizers exist only for built-in
//! models, which also accept longer texts and embed them in parts.

use crate::chunk::Chunking;

/// Letters, and digits, of one run that count as a token. Measured with the tokenizer of MiniLM for
/// documentation, Rust, JSON and lock files: nine of ten parts have fewer tokens than estimated, and none has
/// over 8 % more.
const LETTERS: usize = 5;
const DIGITS: usize = 2;

/// Window of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    tokens: usize,
}

/// Kind of a character, as tokenizers treat it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CharKind {
    Letter,
    Digit,
    /// A token of its own: punctuation, and every letter that is not Latin.
    Single,
    Space,
}

impl Window {
    /// The window of a model that reads `tokens` tokens.
    pub(crate) const fn of_tokens(tokens: usize) -> Self {
        Self { tokens }
    }

    /// Reduces `chunking` to chunks that this model reads as a whole, for the text `sample` or a similar one.
    pub(crate) fn chunking(self, chunking: Chunking, sample: &str) -> Chunking {
        chunking.at_most(self.characters(sample))
    }

    /// Returns how many characters of a text like `sample` fit, at least 1. The part with the most tokens
    /// decides.
    pub(crate) fn characters(self, sample: &str) -> usize {
        let size = self.tokens.saturating_mul(2).max(1);
        let (mut rest, mut least) = (sample, self.tokens.saturating_mul(LETTERS));
        // The last part has the full size too, because a few letters alone say too little.
        let full = sample.char_indices().rev().nth(size - 1).map_or(0, |(at, _)| at);
        while !rest.is_empty() {
            let end = rest.char_indices().nth(size).map_or(rest.len(), |(at, _)| at);
            let (mut part, behind) = rest.split_at(end);
            if behind.is_empty() {
                part = &sample[full..];
            }
            let (tokens, characters) = (estimate(part).max(1), part.chars().count());
            least = least.min(self.tokens.saturating_mul(characters) / tokens);
            rest = behind;
        }
        least.max(1)
    }
}

/// Returns the approximate number of tokens of `text`, rather too high.
fn estimate(text: &str) -> usize {
    let (mut tokens, mut run, mut before) = (0, 0, CharKind::Space);
    for letter in text.chars() {
        let kind = CharKind::of(letter);
        run = if kind == before { run + 1 } else { 0 };
        before = kind;
        let begins_a_token = match kind {
            CharKind::Letter => run % LETTERS == 0,
            CharKind::Digit => run % DIGITS == 0,
            CharKind::Single => true,
            CharKind::Space => false,
        };
        tokens += usize::from(begins_a_token);
    }
    tokens
}

impl CharKind {
    fn of(letter: char) -> Self {
        match letter {
            'a'..='z' | 'A'..='Z' => Self::Letter,
            '0'..='9' => Self::Digit,
            _ if letter.is_whitespace() => Self::Space,
            _ => Self::Single,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::{Format, chunks};

    const RUSSIAN: &str = "Шлюз слушает порт девять тысяч и отвечает всем.";

    #[test]
    fn a_window_is_smaller_for_what_tokenizers_cut_small() {
        let window = Window::of_tokens(254);
        let of = |text: &str| window.characters(&text.repeat(100));
        let english = of("The gateway answers every client that asks it for something. ");
        assert!((800..=1_270).contains(&english), "{english}");
        assert_eq!(window.characters(""), 1_270);
        assert!((254..330).contains(&of(RUSSIAN)), "{}", of(RUSSIAN));
        assert_eq!(of("日本語"), 254);
        assert!(of("0123456789abcdef") < 700 && of("{}[]();") == 254);
        assert_eq!(Window::of_tokens(0).characters("x"), 1);
        assert!(Window::of_tokens(usize::MAX).characters(RUSSIAN) > 100_000);
    }

    #[test]
    fn the_part_with_the_most_tokens_counts() {
        let plain = "plain words and no more ".repeat(400);
        let text = format!("{plain}{}{plain}", RUSSIAN.repeat(20));
        assert!(Window::of_tokens(254).characters(&text) < 330);
    }

    #[test]
    fn no_chunk_is_beyond_the_window() {
        let text =
            format!("{}{}{}", "plain words. ".repeat(300), RUSSIAN.repeat(30), "{\"a\":[0,1]} ".repeat(99));
        let window = Window::of_tokens(100);
        let chunking = window.chunking(Chunking::default(), &text);
        let most = chunks(&text, chunking, Format::Plain).map(|chunk| estimate(chunk.content)).max();
        assert!(most.is_some_and(|most| (50..=100).contains(&most)), "{most:?}");
        let small = Chunking::new(40, 0).expect("sizes");
        assert_eq!(window.chunking(small, &text), small, "what is asked for is never made bigger");
    }
}
