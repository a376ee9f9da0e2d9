//! Finds the document, section or folder that a client names.
//!
//! Names are looked up among the known documents. No file is opened, so no name can lead out of the folder.
//! Names that try to (absolute, `..`) are refused with that reason. Invariant: a path that a tool returned
//! always means the document it was returned for, whatever its file is called (`exactly`). Only other names
//! are parsed, checked and guessed.

use std::sync::Arc;

use super::document::{Document, folder_of_index, without_ending};
use super::snapshot::Snapshot;
use crate::refusal::Refusal;

/// Longest name that is looked up, in bytes, with its anchor.
const LONGEST: usize = 1_024;
/// Most names in a suggestion.
const SHOWN: usize = 10;
/// Most `#` in one name that are tried as the start of the anchor.
const MOST_ANCHORS: usize = 4;
/// Suggestion if no name is similar.
const ELSEWHERE: &str = "Call list_handbook_topics or search_handbook to find it.";

/// A document, or one section of it.
pub(super) struct FoundSection {
    /// The document.
    pub document: Arc<Document>,
    /// The section; 0 is the whole document.
    pub section: usize,
}

/// Finds the document or section that `path` names.
pub(super) fn section(snapshot: &Snapshot, path: &str) -> Result<FoundSection, Refusal> {
    if let Some(found) = exactly(snapshot, path) {
        return Ok(found);
    }
    let (page, anchor) = split(path).map_err(|why| escaping("path", path, why))?;
    let page = if is_folder(snapshot, path) { Ok(path) } else { inside(page) };
    let page = page.map_err(|why| escaping("path", path, why))?;
    if let Some(found) = with_mark(snapshot, path.trim()) {
        return Ok(found);
    }
    let Some(document) = document(snapshot, page) else {
        return Err(no_document(snapshot, path, page));
    };
    let section = anchored(&document, anchor).ok_or_else(|| no_section(snapshot, &document, path, anchor))?;
    Ok(FoundSection { document, section })
}

/// Finds the path for a search within a folder, document or section. `name` may also be a title.
pub(super) fn scope(snapshot: &Snapshot, name: &str) -> Result<String, Refusal> {
    if is_folder(snapshot, name) {
        return Ok(name.to_owned());
    }
    if let Some(found) = exactly(snapshot, name) {
        return Ok(found.scope());
    }
    let (page, anchor) = split(name).map_err(|why| escaping("section", name, why))?;
    let page = inside(page).map_err(|why| escaping("section", name, why))?;
    if anchor.is_empty()
        && let Some(folder) = folder(snapshot, page)
    {
        return Ok(folder);
    }
    let found = with_mark(snapshot, name.trim()).or_else(|| found(snapshot, page, anchor));
    let found = found.or_else(|| titled(snapshot, name));
    found.map(|found| found.scope()).ok_or_else(|| no_scope(snapshot, name))
}

impl FoundSection {
    fn all_of(document: &Arc<Document>) -> Self {
        Self { document: Arc::clone(document), section: 0 }
    }

    /// Returns the path that the index uses.
    fn scope(&self) -> String {
        self.document.section_of(&self.document.file_path, self.section)
    }
}

/// Finds the document that was returned with this very path, or else one with this path in the exact letter
/// case.
fn exactly(snapshot: &Snapshot, path: &str) -> Option<FoundSection> {
    let section = |at: usize| {
        let anchor = Some(&path[at + 1..]).filter(|anchor| !anchor.is_empty())?;
        let page = given(snapshot, &path[..at])?;
        Some(FoundSection { document: Arc::clone(page), section: anchored(page, anchor)? })
    };
    let marks = path.rmatch_indices('#').take(MOST_ANCHORS).map(|(at, _)| at);
    let of_section = || marks.filter(|_| path.len() <= LONGEST).find_map(section);
    let whole = given(snapshot, path).map(FoundSection::all_of).or_else(of_section);
    whole.or_else(|| file(snapshot, path).map(FoundSection::all_of))
}

fn given<'a>(snapshot: &'a Snapshot, page: &str) -> Option<&'a Arc<Document>> {
    let by_path = || snapshot.documents.values().find(|document| snapshot.path_of(document) == page);
    snapshot.documents.get(page).or_else(by_path)
}

/// Finds a document with `#` in its name, ignoring letter case and extension.
fn with_mark(snapshot: &Snapshot, path: &str) -> Option<FoundSection> {
    let whole = path.contains('#').then_some((path, ""));
    let readings = whole.into_iter().chain(path.rsplit_once('#'));
    readings.into_iter().find_map(|(page, anchor)| found(snapshot, page, anchor))
}

fn found(snapshot: &Snapshot, page: &str, anchor: &str) -> Option<FoundSection> {
    let document = document(snapshot, page)?;
    let section = anchored(&document, anchor)?;
    Some(FoundSection { document, section })
}

/// Splits page and anchor. The length is checked first, because an anchor is compared with many others.
fn split(path: &str) -> Result<(&str, &str), &'static str> {
    if path.len() > LONGEST {
        return Err("it is longer than any path here");
    }
    Ok(path.trim().split_once('#').unwrap_or((path.trim(), "")))
}

/// Returns the name without a trailing slash, or why it cannot be a document of the handbook.
fn inside(page: &str) -> Result<&str, &'static str> {
    let page = page.strip_suffix('/').unwrap_or(page);
    let drive = || page.as_bytes().get(1) == Some(&b':');
    if page.starts_with(['/', '\\', '~']) || drive() || page.contains("://") {
        return Err("it must be relative to the handbook's folder");
    }
    if page.contains('\\') || page.contains(char::is_control) {
        return Err("folders are separated by /, and names hold no control characters");
    }
    if page.split('/').any(|name| matches!(name, "" | "." | "..")) {
        return Err("it must not leave the handbook's folder, and no part of it is empty, . or ..");
    }
    Ok(page)
}

fn document(snapshot: &Snapshot, page: &str) -> Option<Arc<Document>> {
    let called = || snapshot.documents.values().find(|document| is_called(document, page));
    file(snapshot, page).or_else(called).cloned()
}

/// Finds the document whose file has this name, with or without the extension.
fn file<'a>(snapshot: &'a Snapshot, page: &str) -> Option<&'a Arc<Document>> {
    let endings = ["", ".md", ".markdown", "/README.md", "/index.md", "/_index.md"];
    endings.iter().find_map(|ending| snapshot.documents.get(&format!("{page}{ending}")))
}

/// Whether a name means this document, ignoring letter case and extension.
fn is_called(document: &Document, page: &str) -> bool {
    let same = |own: &str| same_text(own, without_ending(page));
    same(&document.path) || folder_of_index(&document.path).is_some_and(same)
}

fn same_text(a: &str, b: &str) -> bool {
    a.chars().flat_map(char::to_lowercase).eq(b.chars().flat_map(char::to_lowercase))
}

fn anchored(document: &Document, anchor: &str) -> Option<usize> {
    if anchor.is_empty() {
        return Some(0);
    }
    document.sections.iter().position(|section| same_text(&section.anchor, anchor))
}

/// Whether there are documents in the folder of exactly this name.
fn is_folder(snapshot: &Snapshot, name: &str) -> bool {
    let prefix = format!("{name}/");
    let first = snapshot.documents.range(prefix.clone()..).next();
    first.is_some_and(|(path, _)| path.starts_with(&prefix))
}

fn folder(snapshot: &Snapshot, name: &str) -> Option<String> {
    let folders = snapshot.documents.values().flat_map(|document| {
        document.path.match_indices('/').map(|(end, _)| document.path[..end].to_owned())
    });
    folders.into_iter().find(|folder| same_text(folder, name))
}

/// Finds a title, such as `Resilience`, or a trail as hits show it: `Resilience > Circuit breaker`.
fn titled(snapshot: &Snapshot, name: &str) -> Option<FoundSection> {
    let name = name.trim();
    snapshot.documents.values().find_map(|document| {
        let fits = |at: &usize| {
            let trail = document.trail(*at);
            trail.last().is_some_and(|own| same_text(own, name)) || same_text(&trail.join(" > "), name)
        };
        let section = (0..document.sections.len()).find(fits)?;
        Some(FoundSection { document: Arc::clone(document), section })
    })
}

fn escaping(field: &'static str, given: &str, why: &str) -> Refusal {
    let given_start = &given[..given.floor_char_boundary(LONGEST)];
    let relative = given_start.trim().trim_start_matches(['/', '\\', '.', '~']);
    Refusal::new("invalid_path", field, &given)
        .because(&format!("This path is refused: {why}."))
        .valid("a path relative to the handbook's folder, such as engineering/onboarding")
        .suggest(&format!(
            "Leave out what leads outside, for example {relative:?}, or call list_handbook_topics."
        ))
}

fn no_document(snapshot: &Snapshot, path: &str, page: &str) -> Refusal {
    let refusal = Refusal::new("not_found", "path", &path)
        .valid("a path from list_handbook_topics or from the metadata of a search hit");
    let Some(folder) = folder(snapshot, page) else {
        let nearest = nearest(page, snapshot.documents.values().map(|document| named(snapshot, document)));
        return refusal.because("There is no such document.").suggest_names(
            "Did you mean",
            &nearest,
            ELSEWHERE,
        );
    };
    let prefix = format!("{folder}/");
    let inside = snapshot.documents.values().filter(|document| document.path.starts_with(&prefix));
    let names: Vec<String> = inside.map(|document| named(snapshot, document)).take(SHOWN).collect();
    refusal.because("This is a folder without a page of its own.").suggest_names(
        "Ask for one of",
        &names,
        ELSEWHERE,
    )
}

fn named(snapshot: &Snapshot, document: &Document) -> String {
    snapshot.path_of(document).to_owned()
}

fn no_section(snapshot: &Snapshot, document: &Document, path: &str, anchor: &str) -> Refusal {
    let page = snapshot.path_of(document);
    let anchors = document.sections.iter().enumerate().filter(|(_, section)| !section.anchor.is_empty());
    let nearest = nearest(anchor, anchors.map(|(at, _)| document.section_of(page, at)));
    Refusal::new("not_found", "path", &path)
        .because(&format!("The document {page:?} has no such section."))
        .valid("the path of the document, or one of its sections behind a #")
        .suggest_names("Did you mean", &nearest, ELSEWHERE)
}

fn no_scope(snapshot: &Snapshot, name: &str) -> Refusal {
    let mut names: Vec<String> = snapshot.documents.values().map(|document| top(&document.path)).collect();
    names.dedup();
    let nearest = nearest(name, names.iter().cloned());
    names.truncate(2 * SHOWN);
    Refusal::new("not_found", "section", &name)
        .because("There is no such folder, document or section.")
        .valid(&format!("a path from list_handbook_topics, among them {}", names.join(", ")))
        .suggest_names("Leave section out to search everything, or did you mean", &nearest, ELSEWHERE)
}

fn top(path: &str) -> String {
    path.split('/').next().unwrap_or(path).to_owned()
}

/// Returns the few names that are most similar to `desired`, or end alike.
fn nearest(desired: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let desired = desired.to_lowercase();
    let last = |path: &str| path.rsplit(['/', '#']).next().unwrap_or(path).to_lowercase();
    let likeness = |name: &String| {
        let whole = strsim::jaro_winkler(&desired, &name.to_lowercase());
        whole.max(strsim::jaro_winkler(&last(&desired), &last(name)))
    };
    let mut ranked: Vec<(f64, String)> =
        names.map(|name| (likeness(&name), name)).filter(|(likeness, _)| *likeness > 0.7).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.into_iter().take(3).map(|(_, name)| name).collect()
}

#[cfg(test)]
#[path = "lookup_tests.rs"]
mod tests;
