//! Makes the excerpt of a hit: the whole section, or the best part of a long one.

use std::collections::HashSet;

use super::document::Document;
use super::words::{Word, words_of};

/// Longest excerpt, in bytes.
pub(super) const MOST_BYTES: usize = 2_000;
/// A section with less own text is shown with the sections below it.
const LEAST_BYTES: usize = 80;
/// Lines before the best one.
const LINES_BEFORE: usize = 2;
/// Most bytes between the start of a line and its passage. If there are more, the excerpt starts at the
/// passage.
const MOST_BEFORE: usize = 200;

/// Part of a long section to be shown.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fit<'a> {
    /// The line with most of these words.
    Words(&'a [Word]),
    /// The passage that begins at this byte of the section's own text.
    Passage(usize),
}

/// Returns the excerpt of a section, and whether there is more of it.
pub(super) fn excerpt(document: &Document, section: usize, fit: Fit<'_>) -> (String, bool) {
    let own = document.own_text(section);
    let body = own.split_once('\n').map_or("", |(_, body)| body.trim());
    let text = if body.len() < LEAST_BYTES { document.whole_text(section) } else { own };
    if text.len() <= MOST_BYTES {
        return (text.to_owned(), false);
    }
    (part(text, fit), true)
}

/// Returns the heading, and as much text from the best part on as fits.
fn part(text: &str, fit: Fit<'_>) -> String {
    let heading = text.lines().next().unwrap_or_default();
    let heading = &heading[..heading.floor_char_boundary(MOST_BYTES / 4)];
    let start = match fit {
        Fit::Words(requested) => start_of_best(text, requested),
        Fit::Passage(begin) => start_of_line(text, begin),
    };
    if start <= heading.len() + 1 {
        return format!("{}\n…", clip(text, MOST_BYTES));
    }
    let rest = clip(&text[start..], MOST_BYTES - heading.len());
    let ends = start + rest.len() >= text.trim_end().len();
    format!("{heading}\n…\n{rest}{}", if ends { "" } else { "\n…" })
}

/// Cuts after a whole line, unless that keeps less than half of the limit: a paragraph is often one line.
fn clip(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    let cut = &text[..text.floor_char_boundary(limit)];
    cut.rfind('\n').filter(|end| 2 * end >= limit).map_or(cut, |end| &cut[..end])
}

/// Returns where the excerpt of a passage begins.
fn start_of_line(text: &str, begin: usize) -> usize {
    let begin = text.floor_char_boundary(begin.min(text.len()));
    let line = text[..begin].rfind('\n').map_or(0, |end| end + 1);
    if begin - line > MOST_BEFORE { begin } else { line }
}

/// Returns where the excerpt with the best line begins.
fn start_of_best(text: &str, requested: &[Word]) -> usize {
    let desired: HashSet<&str> = requested.iter().map(|word| word.text.as_str()).collect();
    let mut starts = vec![0];
    starts.extend(text.match_indices('\n').map(|(at, _)| at + 1));
    let (mut best, mut most) = (0, 0);
    for (number, line) in text.split('\n').enumerate() {
        let words: HashSet<String> = words_of(line).take(1_000).map(|word| word.text).collect();
        let held = words.iter().filter(|word| desired.contains(word.as_str())).count();
        if held > most {
            (best, most) = (number, held);
        }
    }
    starts[best.saturating_sub(LINES_BEFORE)]
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use proptest::prelude::*;

    use super::*;
    use crate::handbook::document::Origin;
    use crate::handbook::git::Blob;

    fn document(source: &str) -> Document {
        let (modified, blob) = (SystemTime::UNIX_EPOCH, Blob::of(source.as_bytes()));
        let origin = Origin { serial: 1, file_path: "a.md".to_owned(), modified, blob };
        Document::parse(origin, source.to_owned()).0
    }

    #[test]
    fn a_short_section_is_shown_whole_and_an_empty_one_with_what_is_below() {
        let document = document("# T\n\n## One\nshort\n## Two\nother\n");
        assert_eq!(excerpt(&document, 1, Fit::Words(&[])), ("## One\nshort".to_owned(), false));
        assert_eq!(excerpt(&document, 0, Fit::Passage(7)).0, document.source.trim());
    }

    #[test]
    fn excerpt_of_a_long_section_is_the_part_that_fits() {
        let filler = "nothing to see here\n".repeat(300);
        let document = document(&format!("# Title\n{filler}the lever opens the gate\n{filler}"));
        let (text, is_part) = excerpt(&document, 0, Fit::Words(&words_of("open gate").collect::<Vec<_>>()));
        assert!(is_part && text.starts_with("# Title\n…\n") && text.ends_with("\n…"));
        assert!(text.contains("the lever opens") && text.len() <= MOST_BYTES + 20);
        let (text, _) = excerpt(&document, 0, Fit::Words(&words_of("unknown").collect::<Vec<_>>()));
        assert!(text.starts_with("# Title\nnothing"));
    }

    #[test]
    fn excerpt_of_a_long_section_is_the_passage_that_begins_somewhere() {
        let (filler, wide) = ("nothing to see here\n".repeat(300), "all in one line. ".repeat(300));
        let document =
            document(&format!("# Title\n{filler}It is the lever. {filler}{wide}Or the wheel. {wide}"));
        for (passage, shown) in
            [("is the lever", "\n…\nIt is the lever"), ("Or the wheel", "\n…\nOr the wheel")]
        {
            let begin = document.source.find(passage).expect("there");
            let (text, is_part) = excerpt(&document, 0, Fit::Passage(begin));
            assert!(is_part && text.starts_with("# Title\n…\n") && text.contains(shown), "{text}");
        }
        assert!(excerpt(&document, 0, Fit::Passage(0)).0.starts_with("# Title\nnothing"));
    }

    #[test]
    fn long_line_is_shown_as_far_as_it_fits() {
        let document = document(&format!("# Title\n\n{}", "all in one line. ".repeat(300)));
        let (text, _) = excerpt(&document, 0, Fit::Words(&words_of("line").collect::<Vec<_>>()));
        assert!(text.starts_with("# Title\n\nall in one") && text.len() >= MOST_BYTES, "{text}");
    }

    proptest! {
        #[test]
        fn any_text_is_cut_between_letters(line in "\\PC{0,40}", count in 0_usize..200, query in "\\PC{0,20}") {
            let document = document(&format!("# é\n{}", format!("{line}\n").repeat(count)));
            let requested: Vec<Word> = words_of(&query).take(10).collect();
            for fit in [Fit::Words(&requested), Fit::Passage(17 * count), Fit::Passage(usize::MAX)] {
                let (text, _) = excerpt(&document, 0, fit);
                prop_assert!(text.len() <= MOST_BYTES + 20);
            }
        }
    }
}
