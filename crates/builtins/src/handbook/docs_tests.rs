//! Tests of the repository's documentation: its links are valid, and the handbook answers questions about
//! Switchyard with the right page.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::config;
use super::fixture::*;
use super::markdown;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Questions about Switchyard's documentation. `in_their_words` uses the words of the page. `in_other_words`
/// was written by people who had not read it, before any answers were known, and the code was not tuned for
/// it. `of_users` are forty about the product, as newcomers, operators and programmers ask them.
#[derive(serde::Deserialize)]
struct Questions {
    in_their_words: Vec<Question>,
    in_other_words: Vec<Question>,
    of_users: Vec<Question>,
}

/// A question and the document that answers it. `a|b` allows either.
type Question = (String, String);

fn questions() -> Questions {
    serde_json::from_str(include_str!("questions.json")).expect("questions")
}

#[tokio::test]
async fn questions_are_answered_by_the_right_page() {
    are_answered(&questions().in_their_words, 90, 100).await;
}

/// A search by words finds only some of these, because a synonym is a different word for it.
#[tokio::test]
async fn questions_in_other_words_are_often_answered_by_one_of_the_first_three() {
    are_answered(&questions().in_other_words, 30, 55).await;
}

#[tokio::test]
async fn questions_of_users_are_answered_by_the_right_page_first() {
    are_answered(&questions().of_users, 80, 90).await;
}

/// Checks how many of a hundred questions are answered by the first hit, and how many by the first three.
async fn are_answered(questions: &[Question], by_the_first: usize, by_three: usize) {
    // The exclusion is that of the repository's configuration file.
    let config = config::HandbookOptions {
        exclude: vec!["contributing".into(), "clients".into()],
        ..config(&docs(), 0)
    };
    let handbook = open_with(&config).await.expect("the documentation is there");
    let (mut first, mut late, mut wrong) = (0, 0, Vec::new());
    for (question, expected) in questions {
        let answer = call(&handbook, "search_handbook", &json!({"query": question})).await;
        let hits = answer["structuredContent"]["hits"].as_array().cloned().unwrap_or_default();
        let page = |hit: &serde_json::Value| hit["metadata"]["path"].as_str().unwrap_or_default().to_owned();
        let pages: Vec<String> = hits.iter().map(page).collect();
        let place = pages
            .iter()
            .position(|path| expected.split('|').any(|page| path.split('#').next() == Some(page)));
        first += usize::from(place == Some(0));
        if place != Some(0) {
            wrong.push(format!("{question:?} {place:?}: {:?}", &pages[..pages.len().min(3)]));
        }
        late += usize::from(place.is_none_or(|place| place > 2));
    }
    eprintln!("{first} of {} first, {late} not among the first three: {wrong:#?}", questions.len());
    let share = |count: usize| count * 100 / questions.len();
    let three = questions.len() - late;
    assert!(share(three) >= by_three, "{three} of {} among the first three: {wrong:#?}", questions.len());
    assert!(share(first) >= by_the_first, "{first} of {} are first: {wrong:#?}", questions.len());
}

#[test]
fn links_of_the_documentation_lead_somewhere() {
    let mut anchors: HashMap<PathBuf, Vec<String>> = HashMap::new();
    let mut links = 0;
    for page in pages_below(&docs()) {
        let text = fs::read_to_string(&page).expect("text");
        for link in links_of(&text).filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            if target.is_dir() {
                continue;
            }
            let known = anchors.entry(target.clone()).or_insert_with(|| anchors_of(&target));
            let leads = anchor.is_empty() || known.iter().any(|known| known == anchor);
            assert!(leads, "{}: {link} leads nowhere; there is {known:?}", page.display());
            links += 1;
        }
    }
    assert!(links > 20, "only {links} links were found");
}

/// Every page is found from the first one, by one link or several.
#[test]
fn every_page_is_linked_from_the_first_one() {
    let (mut seen, mut open) = (vec![docs().join("README.md")], vec![docs().join("README.md")]);
    while let Some(page) = open.pop() {
        let text = fs::read_to_string(&page).unwrap_or_default();
        for link in links_of(&text).filter(|link| !link.contains("://")) {
            let file = link.split('#').next().unwrap_or_default();
            let Ok(target) = page.with_file_name(file).canonicalize() else { continue };
            if target.extension().is_some_and(|end| end == "md") && !seen.contains(&target) {
                seen.push(target.clone());
                open.push(target);
            }
        }
    }
    let is_seen = |page: &PathBuf| page.canonicalize().is_ok_and(|page| seen.contains(&page));
    let lost: Vec<PathBuf> = pages_below(&docs())
        .into_iter()
        .filter(|page| !page.ends_with("docs/README.md") && !is_seen(page))
        .collect();
    assert!(lost.is_empty(), "no page links to {lost:?}");
}

fn pages_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("readable").map(|entry| entry.expect("an entry").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let is_page = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "md");
    let below = folders.iter().flat_map(|folder| pages_below(folder));
    files.into_iter().filter(is_page).chain(below).collect()
}

fn links_of(text: &str) -> impl Iterator<Item = String> + '_ {
    pulldown_cmark::Parser::new(text).filter_map(|event| match event {
        pulldown_cmark::Event::Start(pulldown_cmark::Tag::Link { dest_url, .. }) => {
            Some(dest_url.to_string())
        }
        _ => None,
    })
}

fn anchors_of(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let sections = markdown::outline(&text).sections.into_iter().map(|section| section.anchor);
    // Table rows have their own anchors.
    let rows = text.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next());
    sections.chain(rows.map(str::to_owned)).collect()
}
