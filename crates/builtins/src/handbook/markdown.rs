//! Splits a Markdown text into sections: the start of each heading's text, and the words in it.
//!
//! Only headings at the top level split a text; one inside a quotation or a list is text. Invariant: sections
//! are sorted and cover all text after the front matter that is not blank.

use std::collections::HashMap;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// Most sections. Further headings are text of the last section.
pub(super) const MOST_SECTIONS: usize = 2_000;

/// Sections of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outline {
    /// The `title` of the front matter.
    pub title: Option<String>,
    /// The sections, at least one.
    pub sections: Vec<MarkdownSection>,
}

/// A heading and the text up to the next heading.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MarkdownSection {
    /// Level from 1 to 6; 0 for text before the first heading.
    pub level: usize,
    /// Heading without markup; empty for text before the first heading.
    pub heading: String,
    /// Fragment of a link to the section, unique in its text.
    pub anchor: String,
    /// Index of the first byte.
    pub start: usize,
    /// Words without markup, with those of code.
    pub body: String,
}

/// Splits `source` into its sections.
pub(super) fn outline(source: &str) -> Outline {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_HEADING_ATTRIBUTES
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS
        | Options::ENABLE_PLUSES_DELIMITED_METADATA_BLOCKS;
    let mut reader = MarkdownReader::default();
    for (event, range) in Parser::new_ext(source, options).into_offset_iter() {
        reader.read(&event, range.start, range.end);
    }
    reader.finish(source)
}

#[derive(Default)]
struct MarkdownReader {
    title: Option<String>,
    sections: Vec<MarkdownSection>,
    anchors: HashMap<String, usize>,
    /// Open elements that are not headings.
    depth: usize,
    in_heading: bool,
    in_front_matter: bool,
    own_anchor: Option<String>,
    /// Start of the text after the front matter.
    begin: usize,
}

impl MarkdownReader {
    fn read(&mut self, event: &Event<'_>, start: usize, end: usize) {
        match event {
            Event::Start(Tag::Heading { level, id, .. }) if self.splits() => {
                self.open(*level, start);
                self.own_anchor = id.as_ref().map(ToString::to_string);
            }
            Event::End(TagEnd::Heading(_)) if self.in_heading && self.depth == 0 => self.close_heading(),
            Event::Start(Tag::MetadataBlock(_)) => self.in_front_matter = true,
            Event::End(TagEnd::MetadataBlock(_)) => {
                self.in_front_matter = false;
                self.begin = end;
            }
            Event::Start(_) => self.depth += 1,
            Event::End(_) => {
                self.depth = self.depth.saturating_sub(1);
                self.say(if self.in_heading { "" } else { "\n" });
            }
            Event::Text(text) if self.in_front_matter => self.read_front_matter(text),
            Event::Text(text) | Event::Code(text) => self.say(text),
            Event::Html(html) | Event::InlineHtml(html) => self.say(&without_tags(html)),
            Event::SoftBreak | Event::HardBreak => self.say(" "),
            _ => {}
        }
    }

    fn splits(&self) -> bool {
        self.depth == 0 && self.sections.len() < MOST_SECTIONS
    }

    fn open(&mut self, level: HeadingLevel, start: usize) {
        self.in_heading = true;
        self.sections.push(MarkdownSection { level: level as usize, start, ..MarkdownSection::default() });
    }

    fn close_heading(&mut self) {
        self.in_heading = false;
        if let Some(section) = self.sections.last_mut() {
            section.heading = section.heading.split_whitespace().collect::<Vec<_>>().join(" ");
            let desired = self.own_anchor.take().unwrap_or_else(|| slug(&section.heading));
            section.anchor = unique(&mut self.anchors, desired);
        }
    }

    fn say(&mut self, text: &str) {
        if self.sections.is_empty() {
            self.sections.push(MarkdownSection { start: self.begin, ..MarkdownSection::default() });
        }
        if let Some(section) = self.sections.last_mut() {
            let target = if self.in_heading { &mut section.heading } else { &mut section.body };
            target.push_str(text);
        }
    }

    fn read_front_matter(&mut self, text: &str) {
        let value = text.lines().find_map(|line| {
            let (key, value) = line.split_once([':', '='])?;
            (key.trim() == "title").then(|| value.trim().trim_matches(['"', '\'']).to_owned())
        });
        self.title = value.filter(|title| !title.is_empty()).or(self.title.take());
    }

    fn finish(mut self, source: &str) -> Outline {
        let blank = |section: &MarkdownSection| section.level == 0 && section.body.trim().is_empty();
        if self.sections.len() > 1 && blank(&self.sections[0]) {
            self.sections.remove(0);
        }
        if self.sections.is_empty() {
            self.sections
                .push(MarkdownSection { start: self.begin.min(source.len()), ..MarkdownSection::default() });
        }
        Outline { title: self.title, sections: self.sections }
    }
}

/// Returns the fragment of a heading, as common renderers make it.
fn slug(heading: &str) -> String {
    let stored = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    stored.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn unique(taken: &mut HashMap<String, usize>, desired: String) -> String {
    let count = taken.entry(desired.clone()).or_insert(0);
    *count += 1;
    if *count == 1 {
        return desired;
    }
    let numbered = format!("{desired}-{}", *count - 1);
    unique(taken, numbered)
}

fn without_tags(html: &str) -> String {
    let mut outside = String::with_capacity(html.len());
    let mut inside = false;
    for letter in html.chars() {
        match letter {
            '<' => inside = true,
            '>' => inside = false,
            _ if !inside => outside.push(letter),
            _ => {}
        }
    }
    outside
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headings(source: &str) -> Vec<(usize, String, String)> {
        let sections = outline(source).sections.into_iter();
        sections.map(|part| (part.level, part.heading, part.anchor)).collect()
    }

    #[test]
    fn a_text_splits_at_its_headings() {
        let source = "intro\n\n# One *two* `three`\ntext\n\n## Down\n```\n# not a heading\n```\n> # quoted\n\nUnder\n=====\n";
        let outline = outline(source);
        let seen: Vec<_> = outline.sections.iter().map(|s| (s.level, s.heading.as_str())).collect();
        assert_eq!(seen, [(0, ""), (1, "One two three"), (2, "Down"), (1, "Under")]);
        assert!(outline.sections[2].body.contains("# not a heading"), "code is text");
        assert!(outline.sections[2].body.contains("quoted"));
        assert!(source[outline.sections[3].start..].starts_with("Under"));
    }

    #[test]
    fn anchors_are_as_renderers_make_them_and_unique() {
        let seen = headings("# `POST /call`: go!\n# A B\n# a b\n# a b\n# a-b-1\n# X {#own}\n");
        let anchors: Vec<_> = seen.into_iter().map(|(_, _, anchor)| anchor).collect();
        assert_eq!(anchors, ["post-call-go", "a-b", "a-b-1", "a-b-2", "a-b-1-1", "own"]);
    }

    #[test]
    fn front_matter_gives_the_title_and_is_no_text() {
        for source in ["---\ntitle: \"Our way\"\ndraft: yes\n---\nBody", "+++\ntitle = 'Our way'\n+++\nBody"]
        {
            let outline = outline(source);
            assert_eq!(outline.title.as_deref(), Some("Our way"));
            assert_eq!(outline.sections[0].body.trim(), "Body");
            assert_eq!(source[outline.sections[0].start..].trim(), "Body");
        }
    }

    #[test]
    fn markup_is_not_searched() {
        let part = &outline("[text](http://example.com/hidden) <b class='x'>bold</b> a\\\nb ![alt](i.png)")
            .sections[0];
        let words: Vec<_> = part.body.split_whitespace().collect();
        assert_eq!(words, ["text", "bold", "a", "b", "alt"]);
    }

    #[test]
    fn an_endless_list_of_headings_has_an_end() {
        assert_eq!(outline(&"# x\n".repeat(MOST_SECTIONS * 2)).sections.len(), MOST_SECTIONS);
        assert_eq!(headings(""), [(0, String::new(), String::new())]);
    }

    proptest! {
        #[test]
        fn sections_are_in_order_and_cut_between_letters(source in "(\\PC|[\n #`>*_\\-=\\[\\]()<]){0,200}") {
            let outline = outline(&source);
            prop_assert!(!outline.sections.is_empty());
            prop_assert!(outline.sections.is_sorted_by_key(|part| part.start));
            prop_assert!(outline.sections.iter().all(|part| source.is_char_boundary(part.start)));
        }
    }
}
