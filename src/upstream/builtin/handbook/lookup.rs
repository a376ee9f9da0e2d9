//! From a name a caller gives to a document, a section or a folder.
//!
//! Names are looked up among the documents that were found; no file is opened for them, so none
//! can lead out of the folder. Those that try (absolute, `..`) are told so.

use std::sync::Arc;

use super::corpus::Snapshot;
use super::document::{Document, folder_of_index, without_ending};
use crate::upstream::builtin::refusal::Refusal;

/// Longest name that is looked at, in bytes, its anchor included.
const LONGEST: usize = 1_024;
/// Names shown where one has to be chosen.
const SHOWN: usize = 10;
/// What to do when no name is like it.
const ELSEWHERE: &str = "Call list_handbook_topics or search_handbook to find it.";

/// A document, or one section of it.
pub(super) struct Found {
    /// The document.
    pub document: Arc<Document>,
    /// The section; 0 is the whole document.
    pub section: usize,
}

/// The document or section that `path` names.
pub(super) fn section(snapshot: &Snapshot, path: &str) -> Result<Found, Refusal> {
    let (page, anchor) = split(path).map_err(|why| escaping("path", path, why))?;
    let page = inside(page).map_err(|why| escaping("path", path, why))?;
    let Some(document) = document(snapshot, page) else {
        return Err(no_document(snapshot, path, page));
    };
    let section = anchored(&document, anchor).ok_or_else(|| no_section(&document, path, anchor))?;
    Ok(Found { document, section })
}

/// The path that `name` means where a search is narrowed: a folder, a document, a section, or the
/// title of one.
pub(super) fn scope(snapshot: &Snapshot, name: &str) -> Result<String, Refusal> {
    let (page, anchor) = split(name).map_err(|why| escaping("section", name, why))?;
    let page = inside(page).map_err(|why| escaping("section", name, why))?;
    if anchor.is_empty()
        && let Some(folder) = folder(snapshot, page)
    {
        return Ok(folder);
    }
    let by_path = document(snapshot, page)
        .and_then(|document| anchored(&document, anchor).map(|at| document.section_path(at)));
    by_path.or_else(|| titled(snapshot, name)).ok_or_else(|| no_scope(snapshot, name))
}

/// Page and anchor. The whole is measured first: an anchor is compared with many others too.
fn split(path: &str) -> Result<(&str, &str), &'static str> {
    if path.len() > LONGEST {
        return Err("it is longer than any path here");
    }
    Ok(path.trim().split_once('#').unwrap_or((path.trim(), "")))
}

/// The name without a trailing slash, or why it can not be one of ours.
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
    let exact = ["", ".md", ".markdown", "/README.md", "/index.md", "/_index.md"];
    let by_file = exact.iter().find_map(|ending| snapshot.documents.get(&format!("{page}{ending}")));
    by_file.or_else(|| snapshot.documents.values().find(|document| is_called(document, page))).cloned()
}

/// Whether a name means this document when case and ending do not count.
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

fn folder(snapshot: &Snapshot, name: &str) -> Option<String> {
    let folders = snapshot.documents.values().flat_map(|document| {
        document.path.match_indices('/').map(|(end, _)| document.path[..end].to_owned())
    });
    folders.into_iter().find(|folder| same_text(folder, name))
}

/// `Resilience`, or `Resilience > Circuit breaker` as hits show it.
fn titled(snapshot: &Snapshot, name: &str) -> Option<String> {
    let name = name.trim();
    snapshot.documents.values().find_map(|document| {
        let fits = |at: &usize| {
            let trail = document.trail(*at);
            trail.last().is_some_and(|own| same_text(own, name)) || same_text(&trail.join(" > "), name)
        };
        (0..document.sections.len()).find(fits).map(|at| document.section_path(at))
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
        let nearest = nearest(page, snapshot.documents.values().map(|document| document.path.clone()));
        return refusal.because("There is no such document.").suggest_names(
            "Did you mean",
            &nearest,
            ELSEWHERE,
        );
    };
    let prefix = format!("{folder}/");
    let inside = snapshot.documents.values().filter(|document| document.path.starts_with(&prefix));
    let names: Vec<String> = inside.map(|document| document.path.clone()).take(SHOWN).collect();
    refusal.because("This is a folder without a page of its own.").suggest_names(
        "Ask for one of",
        &names,
        ELSEWHERE,
    )
}

fn no_section(document: &Document, path: &str, anchor: &str) -> Refusal {
    let anchors = document.sections.iter().enumerate().filter(|(_, section)| !section.anchor.is_empty());
    let nearest = nearest(anchor, anchors.map(|(at, _)| document.section_path(at)));
    Refusal::new("not_found", "path", &path)
        .because(&format!("The document {:?} has no such section.", document.path))
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

/// The few names that look most like `wanted`, or end like it.
fn nearest(wanted: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    let last = |path: &str| path.rsplit(['/', '#']).next().unwrap_or(path).to_lowercase();
    let likeness = |name: &String| {
        let whole = strsim::jaro_winkler(&wanted, &name.to_lowercase());
        whole.max(strsim::jaro_winkler(&last(&wanted), &last(name)))
    };
    let mut ranked: Vec<(f64, String)> =
        names.map(|name| (likeness(&name), name)).filter(|(likeness, _)| *likeness > 0.7).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.into_iter().take(3).map(|(_, name)| name).collect()
}
