//! One document of the handbook: its text, its title and its sections.
//!
//! Invariant: the ranges of a section lie within the text, on character boundaries. A section's own text ends
//! at the next heading. Its whole text ends at the next heading that is not below it.

use std::ops::Range;
use std::time::SystemTime;

use super::git::Blob;
use super::markdown::{self, MarkdownSection};

/// A document in the index.
#[derive(Debug)]
pub(super) struct Document {
    /// Number in the index. A changed document gets a new one.
    pub serial: u64,
    /// Path of the file in the folder.
    pub file_path: String,
    /// Path without the extension, which clients use unless it is ambiguous (`Snapshot::path_of`).
    pub path: String,
    /// Title from the front matter, the first heading or the file name.
    pub title: String,
    /// Last change of the file.
    pub modified: SystemTime,
    /// Content id in git.
    pub blob: Blob,
    /// The Markdown text of the file.
    pub source: String,
    /// Sections of the document, at least one.
    pub sections: Vec<Section>,
}

/// A heading and the text below it.
#[derive(Debug)]
pub(super) struct Section {
    /// The heading. Without one, the title of the document.
    pub heading: String,
    /// Fragment of a link to the section.
    pub anchor: String,
    /// Range of its text up to the next heading, with its own heading.
    pub own: Range<usize>,
    /// End of the last section below it.
    pub end: usize,
    /// The section that contains it.
    pub parent: Option<usize>,
}

/// A file to be parsed.
pub(super) struct Origin {
    /// Number for the index.
    pub serial: u64,
    /// Path of the file in the folder.
    pub file_path: String,
    /// Last change of the file.
    pub modified: SystemTime,
    /// Content id in git.
    pub blob: Blob,
}

impl Document {
    /// Parses a document. Also returns the words of each section, for the index.
    pub(super) fn parse(origin: Origin, source: String) -> (Self, Vec<String>) {
        let outline = markdown::outline(&source);
        let path = without_ending(&origin.file_path).to_owned();
        let first = outline.sections.iter().find(|part| !part.heading.is_empty());
        let heading = first.map(|part| part.heading.clone());
        let title = outline.title.or(heading).unwrap_or_else(|| title_from_path(&path));
        let sections = sections(&outline.sections, &title, source.len());
        let bodies = outline.sections.into_iter().map(|part| part.body).collect();
        let Origin { serial, file_path, modified, blob } = origin;
        (Self { serial, file_path, path, title, modified, blob, source, sections }, bodies)
    }

    /// Returns the path of section `index` of a document called `name`. Section 0 is the whole document.
    pub(super) fn section_of(&self, name: &str, index: usize) -> String {
        let anchor = &self.sections[index].anchor;
        if index == 0 || anchor.is_empty() {
            return name.to_owned();
        }
        format!("{name}#{anchor}")
    }

    /// Returns the headings that lead to section `index`, outermost first, beginning with the title.
    pub(super) fn trail(&self, index: usize) -> Vec<&str> {
        let mut trail: Vec<&str> = self.lineage(index).map(|i| self.sections[i].heading.as_str()).collect();
        trail.push(&self.title);
        trail.reverse();
        trail.dedup();
        trail
    }

    /// Whether a section may be in `scope`. Cheaper than checking each section.
    pub(super) fn touches(&self, scope: &str) -> bool {
        let is_section = scope.strip_prefix(&self.file_path).is_some_and(|rest| rest.starts_with('#'));
        is_section || self.is_in(0, scope)
    }

    /// Whether a section is in `scope`: a folder, a document or a section. The path of the file identifies its
    /// document. The path without extension means a folder, which may share it with a document.
    pub(super) fn is_in(&self, index: usize, scope: &str) -> bool {
        let (file, path) = (self.file_path.as_str(), self.path.as_str());
        let is_document = scope == file || scope == path && without_ending(path) == path;
        let is_folder = || path.strip_prefix(scope).is_some_and(|rest| rest.starts_with('/'));
        let is_above = |at: usize| at > 0 && self.section_of(file, at) == scope;
        is_document
            || is_folder()
            || folder_of_index(path) == Some(scope)
            || scope.contains('#') && self.lineage(index).any(is_above)
    }

    /// Returns the section and all that contain it, innermost first.
    pub(super) fn lineage(&self, index: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(index), |&at| self.sections[at].parent)
    }

    /// Returns the text of a section up to the next heading.
    pub(super) fn own_text(&self, index: usize) -> &str {
        self.source[self.sections[index].own.clone()].trim()
    }

    /// Returns the text of a section with all sections below it. For section 0 this is the whole document.
    pub(super) fn whole_text(&self, index: usize) -> &str {
        let section = &self.sections[index];
        let end = if index == 0 { self.source.len() } else { section.end };
        self.source[section.own.start..end].trim()
    }

    /// Returns the sections directly below section `index`.
    pub(super) fn children(&self, index: usize) -> impl Iterator<Item = usize> {
        let parent = move |at: &usize| self.sections[*at].parent == Some(index);
        (index + 1..self.sections.len()).filter(parent)
    }
}

fn sections(parts: &[MarkdownSection], title: &str, len: usize) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::with_capacity(parts.len());
    let mut open: Vec<usize> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        while open.last().is_some_and(|&above| parts[above].level >= part.level) {
            close(&mut sections, &mut open, part.start);
        }
        let end = parts.get(index + 1).map_or(len, |next| next.start);
        let heading = if part.heading.is_empty() { title.to_owned() } else { part.heading.clone() };
        let parent = open.last().copied();
        let anchor = part.anchor.clone();
        sections.push(Section { heading, anchor, own: part.start..end, end, parent });
        open.push(index);
    }
    while !open.is_empty() {
        close(&mut sections, &mut open, len);
    }
    sections
}

fn close(sections: &mut [Section], open: &mut Vec<usize>, end: usize) {
    if let Some(index) = open.pop() {
        sections[index].end = end;
    }
}

/// Returns a path without `.md` or `.markdown`.
pub(super) fn without_ending(path: &str) -> &str {
    for ending in [".md", ".markdown"] {
        if let Some(cut) = path.len().checked_sub(ending.len())
            && path.is_char_boundary(cut)
            && path[cut..].eq_ignore_ascii_case(ending)
        {
            return &path[..cut];
        }
    }
    path
}

/// Returns the folder of an index page, or `None` for other documents.
pub(super) fn folder_of_index(path: &str) -> Option<&str> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    ["readme", "index", "_index"].iter().any(|index| name.eq_ignore_ascii_case(index)).then_some(folder)
}

fn title_from_path(path: &str) -> String {
    let path = folder_of_index(path).filter(|folder| !folder.is_empty()).unwrap_or(path);
    title_from_name(path.rsplit('/').next().unwrap_or(path))
}

/// `on-call_rules` → `On call rules`.
pub(super) fn title_from_name(name: &str) -> String {
    let spaced = name.replace(['-', '_'], " ");
    let mut letters = spaced.trim().chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    first + letters.as_str()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn document(file_path: &str, source: &str) -> Document {
        let modified = SystemTime::UNIX_EPOCH;
        let blob = Blob::of(source.as_bytes());
        let origin = Origin { serial: 1, file_path: file_path.to_owned(), modified, blob };
        Document::parse(origin, source.to_owned()).0
    }

    #[test]
    fn a_section_is_cut_at_the_next_heading_of_its_rank() {
        let document = document("a/b.md", "# T\nin\n## One\n1\n### Deep\nd\n## Two\n2\n");
        assert_eq!(document.own_text(1), "## One\n1");
        assert_eq!(document.whole_text(1), "## One\n1\n### Deep\nd");
        assert_eq!(document.whole_text(0), document.source.trim());
        assert_eq!(document.trail(2), ["T", "One", "Deep"]);
        assert_eq!(document.section_of("a/b", 2), "a/b#deep");
        assert_eq!(document.section_of("a/b", 0), "a/b");
        assert_eq!(document.children(0).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn a_title_is_found_somewhere() {
        assert_eq!(document("a.md", "---\ntitle: F\n---\n# H").title, "F");
        assert_eq!(document("a.md", "text\n\n## H2\n").title, "H2");
        assert_eq!(document("guides/on-call_rules.md", "text").title, "On call rules");
        assert_eq!(document("guides/README.md", "").title, "Guides");
        assert_eq!(document("README.markdown", "").title, "README");
    }

    #[test]
    fn endings_are_markdown_s() {
        assert_eq!(without_ending("a.b.MD"), "a.b");
        assert_eq!(without_ending("a.markdown"), "a");
        assert_eq!(without_ending("é.txt"), "é.txt");
        assert_eq!(folder_of_index("a/b/_index"), Some("a/b"));
        assert_eq!(folder_of_index("Readme"), Some(""));
        assert_eq!(folder_of_index("a/readme-first"), None);
    }

    proptest! {
        #[test]
        fn every_section_of_any_text_can_be_read(source in "(\\PC|[\n #`>*_\\-=]){0,200}") {
            let document = document("x.md", &source);
            for index in 0..document.sections.len() {
                prop_assert!(document.whole_text(index).starts_with(document.own_text(index)));
            }
        }
    }
}
