//! The tree of topics: folders, their documents, and the sections of those.
//!
//! A tree that is too large loses its deepest levels.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::document::{Document, folder_of_index, title_from_name};
use super::snapshot::Snapshot;
use json::Raw;

/// Most topics in one result.
pub(super) const MOST_TOPICS: usize = 500;

/// Result of `list_handbook_topics`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Tree {
    topics: Vec<Topic>,
    documents: usize,
    sections: usize,
    /// Files that are not searched: links, no text, or beyond the limits.
    skipped_files: usize,
    /// The deepest levels are left out.
    truncated: bool,
}

/// A folder, a document or a section.
#[derive(Debug, Serialize, JsonSchema)]
struct Topic {
    title: String,
    /// For `get_handbook_section`, and for section of `search_handbook`.
    path: String,
    kind: TopicKind,
    /// Topics of the same form.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Map<String, Value>>")]
    subtopics: Vec<Topic>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TopicKind {
    Folder,
    Document,
    Section,
}

/// Returns the result of `list_handbook_topics`.
pub(super) fn topics(snapshot: &Snapshot) -> Raw {
    let mut topics = TopicFolder::of(snapshot).topics(snapshot, "");
    let truncated = cut(&mut topics, MOST_TOPICS);
    Raw::of(&Tree {
        topics,
        documents: snapshot.documents.len(),
        sections: snapshot.sections,
        skipped_files: snapshot.left_out,
        truncated,
    })
}

#[derive(Default)]
struct TopicFolder<'a> {
    folders: BTreeMap<&'a str, TopicFolder<'a>>,
    documents: Vec<&'a Arc<Document>>,
}

impl<'a> TopicFolder<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        let mut root = TopicFolder::default();
        for document in snapshot.documents.values() {
            let mut folder = &mut root;
            let mut names: VecDeque<&str> = document.path.split('/').collect();
            names.pop_back();
            for name in names {
                folder = folder.folders.entry(name).or_default();
            }
            folder.documents.push(document);
        }
        root
    }

    /// Returns documents first, the index page before the others, and then folders.
    fn topics(&self, snapshot: &Snapshot, path: &str) -> Vec<Topic> {
        let mut documents: Vec<&Document> = self.documents.iter().map(AsRef::as_ref).collect();
        documents.sort_by_key(|document| folder_of_index(&document.path).is_none());
        let documents = documents.into_iter().map(|document| document_topic(snapshot, document));
        let folders = self.folders.iter().map(|(name, folder)| folder.topic(snapshot, path, name));
        documents.chain(folders).collect()
    }

    fn topic(&self, snapshot: &Snapshot, above: &str, name: &str) -> Topic {
        let path = if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") };
        let page = self.documents.iter().find(|document| folder_of_index(&document.path).is_some());
        let title = page.map_or_else(|| title_from_name(name), |document| document.title.clone());
        Topic { title, kind: TopicKind::Folder, subtopics: self.topics(snapshot, &path), path }
    }
}

fn document_topic(snapshot: &Snapshot, document: &Document) -> Topic {
    let (title, path) = (document.title.clone(), snapshot.path_of(document).to_owned());
    // Returns the sections below the only first heading, or those of the top level.
    let below_first: Vec<usize> = document.children(0).collect();
    let sections = if below_first.is_empty() { top_sections(document) } else { below_first };
    let section = |at: usize| Topic {
        title: document.sections[at].heading.clone(),
        path: document.section_of(&path, at),
        kind: TopicKind::Section,
        subtopics: Vec::new(),
    };
    let subtopics = sections.into_iter().map(section).collect();
    Topic { title, path, kind: TopicKind::Document, subtopics }
}

fn top_sections(document: &Document) -> Vec<usize> {
    (1..document.sections.len()).filter(|&at| document.sections[at].parent.is_none()).collect()
}

/// Keeps at most `limit` topics, those nearest to the root. Returns whether some were removed.
fn cut(topics: &mut Vec<Topic>, limit: usize) -> bool {
    let mut level: Vec<&mut Vec<Topic>> = vec![topics];
    let mut left = limit;
    let mut is_cut = false;
    while !level.is_empty() {
        let count: usize = level.iter().map(|list| list.len()).sum();
        if count > left && left < limit {
            // A level that does not fit is removed completely, because a part of it would look complete.
            for list in level {
                list.clear();
            }
            return true;
        }
        for list in &mut level {
            is_cut |= list.len() > left;
            list.truncate(left);
            left -= list.len();
        }
        level = level.into_iter().flatten().map(|topic| &mut topic.subtopics).collect();
    }
    is_cut
}
