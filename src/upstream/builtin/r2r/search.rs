//! `r2r_search`.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::answers::Fresh;
use super::client::Results;
use super::desk::Desk;
use super::filters;
use super::id::Id;
use super::model::{Chunk, Found};
use crate::protocol::Raw;
use crate::upstream::builtin::answer::Failure;
use crate::upstream::builtin::shape::NOT_BLANK;
use crate::upstream::builtin::tool::{About, Effect};
use crate::upstream::error::Error;

/// Longest query, in characters: models read no more than a few thousand words.
pub(super) const LONGEST: u64 = 20_000;

pub(super) const ABOUT: About = About {
    name: "r2r_search",
    title: "Search documents",
    description: "Search the documents of a collection in R2R and get the passages that fit best, best \
        first, each with its document. Use it to find what the project's documents say; use \
        r2r_rag_query for an answer in words. Without collection_id it searches the project's own \
        collection.",
    effect: Effect::Reads,
};

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub(super) struct Input {
    /// What to look for: a question or keywords.
    #[schemars(length(min = 1, max = LONGEST), regex(pattern = NOT_BLANK), example = "how are access tokens renewed")]
    pub query: String,
    /// The collection to search, as `r2r_list_collections` gives it. Left out: the project's own.
    pub collection_id: Option<Id>,
    /// basic: by meaning. advanced: by meaning and by words together. custom: as R2R is configured.
    #[serde(default)]
    pub search_mode: Mode,
    /// How many passages at most.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 100))]
    pub limit: u32,
    /// Search only documents whose metadata fit: `{"document_type": "md"}`, `{"year": {"$gte": 2024}}`,
    /// several under `$and` or `$or`. It narrows the collection and never widens it.
    pub filters: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    Basic,
    #[default]
    Advanced,
    Custom,
}

const fn ten() -> u32 {
    10
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    /// Best first.
    results: Vec<Passage>,
    count: usize,
    /// Whether this is an answer of shortly before.
    cached: bool,
    /// How it was searched. Scores of different modes can not be compared.
    search_mode: Mode,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Passage {
    /// The id of the passage.
    id: Id,
    document_id: Id,
    /// The title of the document, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    text: String,
    /// Larger is better, within one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    /// What the uploader and R2R noted of the document.
    metadata: Map<String, Value>,
}

/// The answer of `r2r_search`.
pub(super) async fn search(desk: &Desk, input: Input) -> Result<Raw, Failure> {
    if let Some(filter) = &input.filters {
        filters::check(filter)?;
    }
    let collection = desk.project.or_own(input.collection_id).await?;
    let inputs = (ABOUT.name, &input.query, input.search_mode, input.limit, &input.filters);
    let make = async { ask(desk, &input, collection).await.map(Fresh::lasting) };
    desk.answers.fetch(desk.options.cache_ttl.search, Some(collection), &inputs, make).await
}

async fn ask(desk: &Desk, input: &Input, collection: Id) -> Result<Output, Failure> {
    let settings = settings(input.search_mode, input.limit, collection, input.filters.as_ref());
    let body = json!({
        "query": without_nul(&input.query),
        "search_mode": "custom",
        "search_settings": settings,
    });
    let found: Result<Results<Found>, Error> = desk.client.post(&["retrieval", "search"], &body).await;
    let found = found.map_err(|error| blamed(error, input.filters.as_ref()))?;
    let chunks = own(found.results.chunk_search_results, collection, input.limit as usize);
    let titles = desk.titles.of(&chunks).await;
    let results: Vec<_> = chunks.into_iter().map(|chunk| passage(chunk, &titles)).collect();
    Ok(Output { count: results.len(), results, cached: false, search_mode: input.search_mode })
}

fn passage(chunk: Chunk, titles: &BTreeMap<Id, String>) -> Passage {
    Passage {
        id: chunk.id,
        document_id: chunk.document_id,
        title: titles.get(&chunk.document_id).cloned(),
        text: chunk.bare_text().to_owned(),
        score: chunk.score,
        metadata: chunk.metadata,
    }
}

/// The `search_settings` for `mode` within `collection`. R2R's own words for modes are not used: its
/// `advanced` asks a language model for invented answers first.
pub(super) fn settings(mode: Mode, limit: u32, collection: Id, filter: Option<&Map<String, Value>>) -> Value {
    let filters = filters::within(collection, filter);
    match mode {
        Mode::Basic => json!({"use_semantic_search": true, "limit": limit, "filters": filters}),
        Mode::Advanced => json!({
            "use_hybrid_search": true,
            "use_semantic_search": true,
            "use_fulltext_search": true,
            "limit": limit,
            "filters": filters,
        }),
        Mode::Custom => json!({"limit": limit, "filters": filters}),
    }
}

/// Those of `collection`, each once, at most `limit`. R2R was asked for just that; it is seen to here
/// as well.
pub(super) fn own(chunks: Vec<Chunk>, collection: Id, limit: usize) -> Vec<Chunk> {
    let mut seen = BTreeSet::new();
    let is_own = |chunk: &Chunk| chunk.collection_ids.contains(&collection);
    let mut own: Vec<_> = chunks.into_iter().filter(is_own).collect();
    // Of the same chunk twice the better one; otherwise R2R's order stays.
    own.sort_by(|a, b| b.score.partial_cmp(&a.score).unwrap_or(std::cmp::Ordering::Equal));
    own.retain(|chunk| seen.insert(chunk.id));
    own.truncate(limit);
    own
}

/// `PostgreSQL` takes no text with this character, and it means nothing in a question.
pub(super) fn without_nul(text: &str) -> String {
    text.replace('\0', " ")
}

/// R2R finds out that a filter is of no use when it runs it, and says that it failed.
fn blamed(error: Error, filter: Option<&Map<String, Value>>) -> Failure {
    match (error, filter) {
        (Error::Backend { status: 500, detail, .. }, Some(filter)) if filters::is_blamed(&detail) => {
            filters::refused_by_r2r(filter, &detail).into()
        }
        (error, _) => error.into(),
    }
}
