//! Finds the boundaries at which a text may be cut, with the quality of each.
//!
//! Invariant: one pass over the text.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

/// Quality of a boundary as the end of a chunk, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strength {
    /// Between two graphemes.
    Letter,
    /// After the space behind a word, or after a comma in a script without spaces.
    Word,
    /// At the beginning of a line.
    Line,
    /// After a sentence.
    Sentence,
    /// After an empty line.
    Paragraph,
}

/// One boundary, relative to the start of the searched text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Boundary {
    pub(super) byte: usize,
    pub(super) chars: usize,
    pub(super) strength: Strength,
}

/// Collects into `found` the boundaries of `text` after its start and up to `most` characters, in order.
/// Skips those within one of `blocks`. The blocks are sorted, and their positions begin `from` bytes before
/// the start of `text`.
pub(super) fn find(text: &str, most: usize, blocks: &[Range<usize>], from: usize, found: &mut Vec<Boundary>) {
    found.clear();
    let (mut before, mut chars, mut blocks) = (Before::default(), 0, blocks.iter().peekable());
    for (byte, grapheme) in text.grapheme_indices(true) {
        if chars > most {
            break;
        }
        while blocks.next_if(|block| block.end <= from + byte).is_some() {}
        let is_inside = blocks.peek().is_some_and(|block| block.start < from + byte);
        if byte > 0 && !is_inside {
            found.push(Boundary { byte, chars, strength: before.strength(grapheme) });
        }
        before.read(grapheme);
        chars += if grapheme.len() == 1 { 1 } else { grapheme.chars().count() };
    }
}

/// State of the text before a position.
#[derive(Default)]
struct Before {
    end: SentenceEnd,
    /// Line ends since the last letter.
    lines: u32,
    is_blank: bool,
}

/// How the last character before the position, spaces ignored, may end a sentence.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum SentenceEnd {
    #[default]
    Not,
    /// A full stop, which may belong to an abbreviation.
    Stop,
    /// `!`, `?` and similar characters.
    Sure,
    /// The end of a sentence in a script without spaces.
    Wide,
    /// A comma in such a script.
    WideComma,
}

impl Before {
    /// Returns the quality of the position before `next`.
    fn strength(&self, next: &str) -> Strength {
        if is_blank(next) {
            return Strength::Letter;
        }
        let starts_lower = || next.starts_with(char::is_lowercase);
        match self.end {
            _ if self.is_blank && self.lines > 1 => Strength::Paragraph,
            SentenceEnd::Sure if self.is_blank => Strength::Sentence,
            SentenceEnd::Stop if self.is_blank && !starts_lower() => Strength::Sentence,
            SentenceEnd::Wide if self.is_blank || (!is_closing(next) && end(next) == SentenceEnd::Not) => {
                Strength::Sentence
            }
            _ if self.is_blank && self.lines == 1 => Strength::Line,
            _ if self.is_blank || self.end == SentenceEnd::WideComma => Strength::Word,
            _ => Strength::Letter,
        }
    }

    fn read(&mut self, grapheme: &str) {
        if is_blank(grapheme) {
            self.lines = self.lines.saturating_add(u32::from(is_line_end(grapheme)));
            self.is_blank = true;
            return;
        }
        let is_closing = !self.is_blank && self.end != SentenceEnd::Not && is_closing(grapheme);
        if !is_closing {
            self.end = end(grapheme);
        }
        (self.lines, self.is_blank) = (0, false);
    }
}

fn is_line_end(grapheme: &str) -> bool {
    matches!(grapheme, "\n" | "\r\n" | "\r" | "\u{85}" | "\u{2028}" | "\u{2029}")
}

/// Whether a grapheme is white space. A space with an accent counts as a letter.
fn is_blank(grapheme: &str) -> bool {
    grapheme.chars().all(char::is_whitespace)
}

fn end(grapheme: &str) -> SentenceEnd {
    match grapheme {
        "." => SentenceEnd::Stop,
        "!" | "?" | "…" | "؟" | "۔" | "।" | "॥" | "‼" | "⁇" | "⁈" | "⁉" | "።" | "။" => {
            SentenceEnd::Sure
        }
        "。" | "！" | "？" | "｡" | "．" => SentenceEnd::Wide,
        "，" | "、" | "；" | "：" => SentenceEnd::WideComma,
        _ => SentenceEnd::Not,
    }
}

/// Whether a grapheme may stand between the end of a sentence and the next space, such as a quote or Markdown
/// emphasis.
fn is_closing(grapheme: &str) -> bool {
    matches!(
        grapheme,
        ")" | "]" | "}" | "\"" | "'" | "”" | "’" | "»" | "›" | "」" | "』" | "）" | "】" | "*" | "_" | "`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks in `text` every boundary that is better than one between two letters.
    fn marked(text: &str) -> String {
        let mut found = Vec::new();
        find(text, usize::MAX, &[], 0, &mut found);
        let mut marked = text.to_owned();
        for boundary in found.iter().rev() {
            let mark = match boundary.strength {
                Strength::Letter => continue,
                Strength::Word => "|",
                Strength::Line => "<line>",
                Strength::Sentence => "<sentence>",
                Strength::Paragraph => "<paragraph>",
            };
            marked.insert_str(boundary.byte, mark);
        }
        marked
    }

    #[test]
    fn every_place_is_as_good_as_a_reader_would_say() {
        for (text, expected) in [
            ("one two  three ", "one |two  |three "),
            ("One. Two! Three? (Four.) five", "One. <sentence>Two! <sentence>Three? <sentence>(Four.) |five"),
            (
                "i.e. this costs 3.50 or so. \"Yes.\" No.",
                "i.e. |this |costs |3.50 |or |so. <sentence>\"Yes.\" <sentence>No.",
            ),
            ("a\nb\n\nc\r\nd\r\n \r\ne", "a\n<line>b\n\n<paragraph>c\r\n<line>d\r\n \r\n<paragraph>e"),
            ("End.\nNext", "End.\n<sentence>Next"),
            ("今日は。明日、雨。」さ", "今日は。<sentence>明日、|雨。」<sentence>さ"),
            ("Что? Да. Нет", "Что? <sentence>Да. <sentence>Нет"),
            ("", ""),
        ] {
            assert_eq!(marked(text), expected);
        }
    }

    #[test]
    fn letters_of_many_characters_are_not_cut_and_blocks_neither() {
        let places = |text: &str, most, blocks: &[Range<usize>]| {
            let mut found = Vec::new();
            find(text, most, blocks, 10, &mut found);
            found.iter().map(|boundary| (boundary.byte, boundary.chars)).collect::<Vec<_>>()
        };
        assert_eq!(places("e\u{301}x\r\ny", 9, &[]), [(3, 2), (4, 3), (6, 5)]);
        assert_eq!(places("🇩🇪🇫🇷", 9, &[]), [(8, 2)]);
        assert_eq!(places("abcdef", 9, &[0..9, 11..14]), [(1, 1), (4, 4), (5, 5)]);
        assert_eq!(places("abcdef", 2, &[]), [(1, 1), (2, 2)]);
    }
}
