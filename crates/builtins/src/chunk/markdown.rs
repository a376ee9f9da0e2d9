//! Outline of a Markdown text for chunks: its headings, and the code blocks that must not be cut.
//!
//! Only headings at the top level count; in a quotation or a list they are text. Invariants: sections and
//! blocks are sorted and begin between graphemes. Every lookup moves forward or uses binary search, so that a
//! million headings cost no more than text of that length.

use std::ops::Range;
use std::sync::Arc;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// Longest heading, in characters. Longer ones are shortened.
const LONGEST_HEADING: usize = 200;
/// Most spaces before a heading.
const MOST_INDENT: usize = 3;

/// Outline of a text. Empty if the text has no headings and fences.
#[derive(Debug, Default)]
pub(super) struct HeadingOutline {
    sections: Vec<HeadingSection>,
    /// Fenced code blocks that fit the budget.
    blocks: Vec<Range<usize>>,
}

/// A heading and the text up to the next one.
#[derive(Debug)]
struct HeadingSection {
    start: usize,
    level: usize,
    /// `None` before the first heading.
    heading: Option<Arc<str>>,
    /// The section that contains it.
    parent: Option<usize>,
    /// Whether it has text besides its heading.
    has_text: bool,
}

impl HeadingOutline {
    /// Returns the section of `byte`, which is `from` or a later one.
    pub(super) fn section_at(&self, from: usize, byte: usize) -> usize {
        let later = self.sections.iter().skip(from + 1);
        from + later.take_while(|section| section.start <= byte).count()
    }

    /// Returns where a chunk of at most `most` bytes that begins at byte `start` must end: after the first
    /// section with text. A result beyond `most` is inexact. `len` is the length of the text.
    pub(super) fn end(&self, section: usize, start: usize, most: usize, len: usize) -> usize {
        let later = self.sections.iter().skip(section);
        let ends = self.sections.iter().skip(section + 1).map(|next| next.start);
        let found = later.zip(ends).find(|(section, end)| section.has_text || end - start > most);
        found.map_or(len, |(_, end)| end)
    }

    /// Returns the blocks that end after `byte`.
    pub(super) fn blocks_from(&self, byte: usize) -> &[Range<usize>] {
        &self.blocks[self.blocks.partition_point(|block| block.end <= byte)..]
    }

    /// Returns the headings of `section`, outermost first.
    pub(super) fn headings(&self, section: usize) -> Vec<Arc<str>> {
        let parent = |section: &&HeadingSection| section.parent.and_then(|at| self.sections.get(at));
        let lineage = std::iter::successors(self.sections.get(section), parent);
        let mut headings: Vec<_> = lineage.filter_map(|section| section.heading.clone()).collect();
        headings.reverse();
        headings
    }
}

/// Reads `text`. Fenced code of at most `most` characters must not be cut.
pub(super) fn outline(text: &str, most: usize) -> HeadingOutline {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_HEADING_ATTRIBUTES
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS
        | Options::ENABLE_PLUSES_DELIMITED_METADATA_BLOCKS;
    let mut reader =
        OutlineReader { text, most, outline: HeadingOutline::default(), heading: None, depth: 0, behind: 0 };
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        reader.read(&event, range);
    }
    reader.finish()
}

struct OutlineReader<'t> {
    text: &'t str,
    most: usize,
    outline: HeadingOutline,
    /// Words of the current heading.
    heading: Option<String>,
    /// Number of open elements around it.
    depth: usize,
    /// Where the last heading ended.
    behind: usize,
}

impl OutlineReader<'_> {
    fn read(&mut self, event: &Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(Tag::Heading { level, .. }) if self.depth == 0 => {
                self.open(*level, &range);
                self.heading = Some(String::new());
                self.depth += 1;
            }
            Event::End(TagEnd::Heading(_)) if self.depth == 1 && self.heading.is_some() => {
                self.depth = 0;
                self.close();
            }
            Event::Start(tag) => {
                self.depth += 1;
                if matches!(tag, Tag::CodeBlock(CodeBlockKind::Fenced(_))) {
                    self.keep_whole(range);
                }
            }
            Event::End(_) => self.depth = self.depth.saturating_sub(1),
            Event::Text(text) | Event::Code(text) => self.say(text),
            Event::SoftBreak | Event::HardBreak => self.say(" "),
            _ => {}
        }
    }

    fn open(&mut self, level: HeadingLevel, range: &Range<usize>) {
        let start = self.line_start(range.start);
        self.end_section(start);
        if start > 0 && self.outline.sections.is_empty() {
            let has_text = !self.text[..start].trim().is_empty();
            let (start, level, heading, parent) = (0, 0, None, None);
            self.outline.sections.push(HeadingSection { start, level, heading, parent, has_text });
        }
        let level = level as usize;
        let parent = self.parent(level);
        self.outline.sections.push(HeadingSection { start, level, heading: None, parent, has_text: false });
        self.behind = range.end;
    }

    /// Returns where the line of a heading begins, if its indentation ends at `at`.
    fn line_start(&self, at: usize) -> usize {
        let spaces = self.text[..at].bytes().rev().take(MOST_INDENT).take_while(|byte| *byte == b' ').count();
        let start = at - spaces;
        if start == 0 || self.text[..start].ends_with(['\n', '\r']) { start } else { at }
    }

    /// Records whether the last section has text, now that its end is known.
    fn end_section(&mut self, end: usize) {
        let text = self.text.get(self.behind..end).unwrap_or_default();
        if let Some(last) = self.outline.sections.last_mut().filter(|last| last.level > 0) {
            last.has_text = !text.trim().is_empty();
        }
    }

    /// Returns the nearest earlier section of a lower level. Needs at most as many steps as there are levels.
    fn parent(&self, level: usize) -> Option<usize> {
        let sections = &self.outline.sections;
        let last = sections.len().checked_sub(1);
        std::iter::successors(last, |at| sections[*at].parent)
            .find(|at| sections[*at].level < level && sections[*at].level > 0)
    }

    fn close(&mut self) {
        let Some(words) = self.heading.take() else { return };
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(section) = self.outline.sections.last_mut() {
            section.heading = Some(words.into());
        }
    }

    fn say(&mut self, words: &str) {
        if let Some(heading) = &mut self.heading {
            let room = LONGEST_HEADING.saturating_sub(heading.chars().count());
            heading.extend(words.chars().take(room));
        }
    }

    fn keep_whole(&mut self, block: Range<usize>) {
        if self.text[block.clone()].chars().take(self.most + 1).count() <= self.most {
            self.outline.blocks.push(block);
        }
    }

    fn finish(mut self) -> HeadingOutline {
        self.end_section(self.text.len());
        self.outline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_know_where_they_stand_and_whether_they_say_anything() {
        let text =
            "intro\n\n# One *two* `three`\n## Down\ntext\n### Deep\n  # Up\n> # quoted\n\nUnder\n=====\n";
        let outline = outline(text, 100);
        let seen: Vec<_> = (0..outline.sections.len())
            .map(|at| (outline.headings(at).join(" > "), outline.sections[at].has_text))
            .collect();
        let expected = [
            ("", true),
            ("One two three", false),
            ("One two three > Down", true),
            ("One two three > Down > Deep", false),
            ("Up", true),
            ("Under", false),
        ];
        assert_eq!(seen, expected.map(|(path, has_text)| (path.to_owned(), has_text)));
        assert!(text[outline.sections[4].start..].starts_with("  # Up"));
        assert_eq!(outline.section_at(1, text.len()), 5);
        assert_eq!(outline.end(1, 7, 100, text.len()), outline.sections[3].start);
        assert_eq!(outline.end(5, 60, 100, text.len()), text.len());
    }

    #[test]
    fn fenced_code_that_fits_is_kept_whole() {
        let text = "---\ntitle: x\n---\na\n\n```rust\n# no heading\n```\n- item\n  ~~~\n  é\n  ~~~\n\n    indented\n";
        let outline = outline(text, 16);
        let blocks: Vec<_> = outline.blocks.iter().map(|block| &text[block.clone()]).collect();
        assert_eq!(blocks, ["~~~\n  é\n  ~~~"]);
        assert!(outline.sections.is_empty());
        assert!(outline.blocks_from(text.len()).is_empty());
        assert_eq!(super::outline(text, 40).blocks.len(), 2);
    }

    #[test]
    fn a_heading_is_clipped() {
        let outline = outline(&format!("# {}", "é ".repeat(10_000)), 10);
        assert!(outline.headings(0)[0].chars().count() <= LONGEST_HEADING);
    }
}
