//! Makes the results of the tools from a snapshot. All functions may block.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::Serialize;

use super::arguments::Search;
use super::document::{Document, folder_of_index};
use super::excerpt::Fit;
use super::index::Match;
use super::semantic::{ChromaSearch, Question, SectionMatch, SectionMatches, Sections, fused};
use super::snapshot::{Modified, Snapshot, shown};
use super::words::Word;
use super::{excerpt, lookup, query};
use crate::refusal::Refusal;
use json::Raw;

/// Most documents in a list of recent changes.
const MOST_UPDATES: usize = 100;
/// Factor for the score of a section of an index page.
const INDEX_PAGE: f32 = 0.8;

/// Result of `ping`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Pong {
    #[schemars(extend("const" = "ok"))]
    status: &'static str,
    #[schemars(extend("const" = "pong"))]
    message: &'static str,
}

pub(super) const PONG: Pong = Pong { status: "ok", message: "pong" };

/// Result of `search_handbook`.
#[derive(Serialize, JsonSchema)]
pub(super) struct SearchResult<'a> {
    query: &'a str,
    count: usize,
    /// Whether words alone decided, or words and meaning.
    ranking: Ranking,
    /// Best first.
    hits: Vec<SearchHit>,
    /// Advice if nothing was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<&'static str>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Ranking {
    Lexical,
    Hybrid,
}

#[derive(Serialize, JsonSchema)]
struct SearchHit {
    /// Markdown.
    content: String,
    metadata: HitMetadata,
}

#[derive(Serialize, JsonSchema)]
struct HitMetadata {
    #[serde(flatten)]
    place: HitPlace,
    /// Relevance; comparable within one answer.
    score: f64,
    /// The section is longer; get it whole by its path.
    truncated: bool,
}

/// Position of a text in the handbook.
#[derive(Serialize, JsonSchema)]
struct HitPlace {
    /// The file, from the handbook's folder.
    file_path: String,
    /// The path that `get_handbook_section` takes.
    path: String,
    /// The headings that lead to it.
    section: String,
    /// Title of the document.
    title: String,
    /// When it was changed, RFC 3339.
    modified: String,
}

impl HitPlace {
    fn of(snapshot: &Snapshot, document: &Document, section: usize) -> Self {
        Self {
            file_path: document.file_path.clone(),
            path: document.section_of(snapshot.path_of(document), section),
            section: document.trail(section).join(" > "),
            title: document.title.clone(),
            modified: shown(snapshot.modified(document).at),
        }
    }
}

/// First half of `search_handbook`: the part that needs no vectors.
pub(super) struct ByWords {
    scope: Option<String>,
    words: Vec<Word>,
    matches: Vec<Match>,
}

/// Finds sections with the words of `requested`.
pub(super) fn by_words(snapshot: &Snapshot, requested: &Search) -> Result<ByWords, Refusal> {
    let scope = requested.section.as_deref().map(|name| lookup::scope(snapshot, name)).transpose()?;
    let words = query::requested(&requested.query);
    let is_in = |found: &Match, scope: &str| {
        let document = snapshot.by_serial.get(&found.document);
        document.is_some_and(|document| document.is_in(found.section, scope))
    };
    let is_wanted = |found: &Match| scope.as_deref().is_none_or(|scope| is_in(found, scope));
    let matches = query::search(&snapshot.index, &words, is_wanted);
    Ok(ByWords { scope, words, matches })
}

/// Returns the result of `search_handbook`: by words, and also by meaning if there is a query vector and the
/// vectors are in memory.
pub(super) fn search(
    snapshot: &Snapshot,
    requested: &Search,
    question: Option<&Question>,
) -> Result<Raw, Refusal> {
    let found = by_words(snapshot, requested)?;
    Ok(found.answer(snapshot, requested, question, question.and_then(Question::near)))
}

impl ByWords {
    /// Returns what `question` needs from the vector storage.
    pub(super) fn chroma_search(&self, snapshot: &Snapshot, question: &Question) -> ChromaSearch {
        let Some(scope) = self.scope.as_deref() else { return question.chroma_search(&self.matches, None) };
        let sought = SearchScope { snapshot, scope: Some(scope), question: None };
        let is_within = |document, section| match section {
            Some(section) => sought.is_wanted(&SectionMatch { document, section, cosine: 0.0, begin: 0 }),
            None => snapshot.by_serial.get(&document).is_some_and(|document| document.touches(scope)),
        };
        question.chroma_search(&self.matches, Some(&is_within))
    }

    /// Returns the result, by words and also by similarity if that is known.
    pub(super) fn answer(
        self,
        snapshot: &Snapshot,
        requested: &Search,
        question: Option<&Question>,
        nearby: Option<SectionMatches>,
    ) -> Raw {
        let Self { scope, words, matches } = self;
        let nearby = nearby.filter(|nearby| !nearby.is_empty());
        let (found, ranking) = match &nearby {
            Some(nearby) => (
                fused(&matches, nearby, &SearchScope { snapshot, scope: scope.as_deref(), question }),
                Ranking::Hybrid,
            ),
            None => (matches.clone(), Ranking::Lexical),
        };
        // If a hit has none of the words, its excerpt is the similar passage.
        let fit = |found: &Match| {
            let has_words = matches.iter().any(|other| other.is_of(found));
            let near = nearby.as_ref().filter(|_| !has_words);
            near.and_then(|near| near.best_passage(found.document, found.section))
                .map_or(Fit::Words(&words), Fit::Passage)
        };
        let hit = |(found, document): (Match, &Arc<Document>)| {
            let (content, truncated) = excerpt::excerpt(document, found.section, fit(&found));
            let place = HitPlace::of(snapshot, document, found.section);
            SearchHit { content, metadata: HitMetadata { place, score: rounded(found.score), truncated } }
        };
        let hits: Vec<SearchHit> = ranked(snapshot, found).take(requested.n_results).map(hit).collect();
        let suggestion = hits.is_empty().then_some(
            "Nothing matches. Try fewer or other words, leave out section, or call list_handbook_topics.",
        );
        Raw::of(&SearchResult { query: &requested.query, count: hits.len(), ranking, hits, suggestion })
    }
}

/// Restrictions of a search by meaning.
struct SearchScope<'a> {
    snapshot: &'a Snapshot,
    scope: Option<&'a str>,
    question: Option<&'a Question>,
}

impl Sections for SearchScope<'_> {
    fn is_wanted(&self, near: &SectionMatch) -> bool {
        let document = self.snapshot.by_serial.get(&near.document);
        let document = document.filter(|document| near.section < document.sections.len());
        document.is_some_and(|document| self.scope.is_none_or(|scope| document.is_in(near.section, scope)))
    }

    fn is_embedded(&self, document: u64) -> bool {
        self.question.is_some_and(|question| question.knows(document))
    }
}

/// Ranks hits, best first. An index page names everything and explains little, so it comes after the pages it
/// links to.
fn ranked(snapshot: &Snapshot, matches: Vec<Match>) -> impl Iterator<Item = (Match, &Arc<Document>)> {
    let placed = |found: Match| {
        let document = snapshot.by_serial.get(&found.document)?;
        let weight = if folder_of_index(&document.path).is_some() { INDEX_PAGE } else { 1.0 };
        Some((Match { score: found.score * weight, ..found }, document))
    };
    let mut ranked: Vec<(Match, &Arc<Document>)> = matches.into_iter().filter_map(placed).collect();
    let place = |found: &Match| (found.document, found.section);
    ranked.sort_by(|(a, _), (b, _)| b.score.total_cmp(&a.score).then_with(|| place(a).cmp(&place(b))));
    ranked.into_iter()
}

fn rounded(score: f32) -> f64 {
    (f64::from(score) * 1_000.0).round() / 1_000.0
}

/// Result of `get_handbook_section`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Whole<'a> {
    /// Markdown.
    content: &'a str,
    metadata: WholeMetadata,
}

#[derive(Serialize, JsonSchema)]
struct WholeMetadata {
    #[serde(flatten)]
    place: HitPlace,
    subsections: Vec<Subsection>,
}

#[derive(Serialize, JsonSchema)]
struct Subsection {
    path: String,
    section: String,
}

/// Returns the result of `get_handbook_section`.
pub(super) fn section(snapshot: &Snapshot, path: &str) -> Result<Raw, Refusal> {
    let lookup::FoundSection { document, section } = lookup::section(snapshot, path)?;
    let below = |at: usize| Subsection {
        path: document.section_of(snapshot.path_of(&document), at),
        section: document.sections[at].heading.clone(),
    };
    let subsections = document.children(section).map(below).collect();
    let metadata = WholeMetadata { place: HitPlace::of(snapshot, &document, section), subsections };
    Ok(Raw::of(&Whole { content: document.whole_text(section), metadata }))
}

/// Result of `get_recent_updates`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Recent {
    days: u32,
    /// RFC 3339.
    since: String,
    count: usize,
    /// More documents were changed.
    truncated: bool,
    /// Newest first.
    updates: Vec<Update>,
}

#[derive(Serialize, JsonSchema)]
struct Update {
    #[serde(flatten)]
    place: HitPlace,
    /// Whether modified is the time of the last commit that changed it, or that of the file, where there is no commit.
    dated_by: DatedBy,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum DatedBy {
    Commit,
    File,
}

/// Returns the result of `get_recent_updates`.
pub(super) fn updates(snapshot: &Snapshot, days: u32, now: SystemTime) -> Raw {
    let since = now - Duration::from_secs(u64::from(days) * 24 * 60 * 60);
    let dated = snapshot.documents.values().map(|document| (snapshot.modified(document), document));
    let mut recent: Vec<_> = dated.filter(|(modified, _)| modified.at >= since).collect();
    // The sort is stable: documents with equal times stay in the order of their paths.
    recent.sort_by_key(|(modified, _)| std::cmp::Reverse(modified.at));
    let update = |(modified, document): &(Modified, &Arc<Document>)| Update {
        place: HitPlace::of(snapshot, document, 0),
        dated_by: if modified.is_committed { DatedBy::Commit } else { DatedBy::File },
    };
    let updates: Vec<Update> = recent.iter().take(MOST_UPDATES).map(update).collect();
    let (count, truncated) = (updates.len(), recent.len() > updates.len());
    Raw::of(&Recent { days, since: shown(since), count, truncated, updates })
}
