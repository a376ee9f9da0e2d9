//! `r2r_search`.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::answers::Fresh;
use super::model::{Id, R2rChunk, Results, SearchResults};
use super::project::Project;
use super::{documents, filters, settings};
use crate::answer::Failure;
use crate::r2r::R2rContext;
use crate::r2r::config::AdvancedSearch;
use crate::refusal::Refusal;
use crate::schema_validator::NOT_BLANK;
use crate::tool::{Effect, ToolInfo};
use json::Raw;
use upstream::api::Error;

/// Longest query, in characters. Models read a few thousand words at most.
pub(super) const LONGEST: u64 = 20_000;

pub(super) const ABOUT: ToolInfo = ToolInfo {
    name: "r2r_search",
    title: "Search documents",
    description: "Search the documents of a collection in R2R and get the passages that fit best, best \
        first, each with its document. Use it to find what the project's documents say; use \
        r2r_rag_query for an answer in words. Without collection_id it searches the project's own \
        collection.",
    effect: Effect::Reads,
};

/// Returns the description of the tool. If R2R's own advanced mode is set, it asks a language model, which
/// costs money.
pub(super) const fn about(of: AdvancedSearch) -> ToolInfo<'static> {
    match of {
        AdvancedSearch::Hybrid => ABOUT,
        AdvancedSearch::R2r => ToolInfo { effect: Effect::Costs, ..ABOUT },
    }
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub(super) struct R2rSearchInput {
    /// The query: a question or keywords.
    #[schemars(length(min = 1, max = LONGEST), regex(pattern = NOT_BLANK), example = "how are access tokens renewed")]
    pub query: String,
    /// The collection to search, as `r2r_list_collections` gives it. Left out: the project's own.
    pub collection_id: Option<Id>,
    /// basic: by meaning. advanced: by meaning and by words together, or in R2R's own way if the gateway is
    /// set so. custom: as R2R is configured, and as `search_settings` says.
    #[serde(default)]
    pub search_mode: SearchMode,
    /// How many passages at most.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 100))]
    pub limit: u32,
    /// Search only documents whose metadata fit: `{"document_type": "md"}`, `{"year": {"$gte": 2024}}`,
    /// several under `$and` or `$or`. It narrows the collection and never widens it.
    pub filters: Option<Map<String, Value>>,
    /// R2R's own settings for `search_mode` custom: `use_semantic_search`, `use_fulltext_search`,
    /// `use_hybrid_search`, `offset`, `search_strategy`, `num_sub_queries`, `hybrid_settings`,
    /// `chunk_settings` and `filters`. `hybrid_settings` has `full_text_weight`, `semantic_weight`,
    /// `full_text_limit` and `rrf_k`. `chunk_settings` has `index_measure`, `probes` and `ef_search`.
    /// `filters` narrows the search, as the parameter `filters` does.
    pub search_settings: Option<Map<String, Value>>,
}

impl R2rSearchInput {
    /// Returns the client's filters.
    fn own_filters(&self) -> impl Iterator<Item = &Map<String, Value>> {
        self.filters.iter().chain(settings::filter(self.search_settings.as_ref()))
    }

    /// Checks that R2R can do what the client wants. `advanced` is the configured advanced mode.
    fn check(&self, advanced: AdvancedSearch) -> Result<(), Refusal> {
        if let Some(filter) = &self.filters {
            filters::check(filter)?;
        }
        match &self.search_settings {
            Some(said) if self.search_mode != SearchMode::Custom => {
                Err(Refusal::new("invalid_argument", "search_settings", said)
                    .because("Settings go with search_mode custom.")
                    .valid("none with basic and advanced")
                    .suggest("Set search_mode to custom, or leave search_settings out."))
            }
            Some(said) => settings::check(said, advanced == AdvancedSearch::R2r),
            None => Ok(()),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum SearchMode {
    Basic,
    #[default]
    Advanced,
    Custom,
}

const fn ten() -> u32 {
    10
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct R2rSearchOutput {
    /// Best first.
    results: Vec<R2rPassage>,
    count: usize,
    /// Whether this is an answer of shortly before.
    cached: bool,
    /// The mode of the search. Scores of different modes cannot be compared.
    search_mode: SearchMode,
}

#[derive(Debug, Serialize, JsonSchema)]
struct R2rPassage {
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
    /// Metadata of the document, from its uploader and from R2R.
    metadata: Map<String, Value>,
}

/// Returns the result of `r2r_search`.
pub(super) async fn search(
    context: &R2rContext,
    project: &Project,
    input: R2rSearchInput,
) -> Result<Raw, Failure> {
    let advanced = context.options.advanced_search;
    input.check(advanced)?;
    let collection = project.or_own(input.collection_id).await?;
    let is_r2rs = input.search_mode == SearchMode::Advanced && advanced == AdvancedSearch::R2r;
    let how = (input.search_mode, is_r2rs, input.limit, &input.filters, &input.search_settings);
    let inputs = (ABOUT.name, &input.query, how);
    let make = async { ask(context, &input, (collection, is_r2rs)).await.map(Fresh::lasting) };
    context.answers.fetch(context.options.cache_ttl.search, Some(collection), &inputs, make).await
}

/// Searches. `is_r2rs` selects R2R's own advanced mode, which asks its language model.
async fn ask(
    context: &R2rContext,
    input: &R2rSearchInput,
    (collection, is_r2rs): (Id, bool),
) -> Result<R2rSearchOutput, Failure> {
    let filters = filters::within(collection, input.own_filters());
    let mut said = if is_r2rs {
        json!({"limit": input.limit, "filters": filters})
    } else {
        settings(input.search_mode, input.limit, &filters)
    };
    for (name, value) in settings::rest(input.search_settings.as_ref()) {
        said[name] = value;
    }
    let body = json!({
        "query": without_nul(&input.query),
        "search_mode": if is_r2rs { "advanced" } else { "custom" },
        "search_settings": said,
    });
    let found: Result<Results<SearchResults>, Error> =
        context.client.post(&["retrieval", "search"], &body).await;
    let found = found.map_err(|error| blamed(error, input.own_filters().next()))?;
    let chunks = own(found.results.chunk_search_results, collection, input.limit as usize);
    if chunks.is_empty() && input.collection_id.is_some() {
        documents::check_collection(&context.client, collection).await?;
    }
    let titles = context.titles(&chunks).await;
    let results: Vec<_> = chunks.into_iter().map(|chunk| passage(chunk, &titles)).collect();
    Ok(R2rSearchOutput { count: results.len(), results, cached: false, search_mode: input.search_mode })
}

fn passage(chunk: R2rChunk, titles: &BTreeMap<Id, String>) -> R2rPassage {
    R2rPassage {
        id: chunk.id,
        document_id: chunk.document_id,
        title: titles.get(&chunk.document_id).cloned(),
        text: chunk.bare_text().to_owned(),
        score: chunk.score,
        metadata: chunk.metadata,
    }
}

/// Returns the `search_settings` for `mode` within `filters`. They are for R2R's mode `custom`, because its
/// own `advanced` first asks a language model for invented answers.
pub(super) fn settings(mode: SearchMode, limit: u32, filters: &Value) -> Value {
    match mode {
        SearchMode::Basic => json!({"use_semantic_search": true, "limit": limit, "filters": filters}),
        SearchMode::Advanced => json!({
            "use_hybrid_search": true,
            "use_semantic_search": true,
            "use_fulltext_search": true,
            "limit": limit,
            "filters": filters,
        }),
        SearchMode::Custom => json!({"limit": limit, "filters": filters}),
    }
}

/// Returns the chunks of `collection`, each once, at most `limit`. R2R was asked for exactly this. But its
/// own advanced mode searches once per invented answer and concatenates the results.
pub(super) fn own(chunks: Vec<R2rChunk>, collection: Id, limit: usize) -> Vec<R2rChunk> {
    let mut seen = BTreeSet::new();
    let is_own = |chunk: &R2rChunk| chunk.collection_ids.contains(&collection);
    let mut own: Vec<_> = chunks.into_iter().filter(is_own).collect();
    // If a chunk occurs twice, the better score counts. Otherwise R2R's order stays.
    own.sort_by(|a, b| b.score.partial_cmp(&a.score).unwrap_or(std::cmp::Ordering::Equal));
    own.retain(|chunk| seen.insert(chunk.id));
    own.truncate(limit);
    own
}

/// Replaces NUL characters, which `PostgreSQL` refuses and which mean nothing in a query.
pub(super) fn without_nul(text: &str) -> String {
    text.replace('\0', " ")
}

/// Blames the filter for an error. R2R notices an unusable filter only when it runs it, and then reports a
/// failure.
fn blamed(error: Error, filter: Option<&Map<String, Value>>) -> Failure {
    match (error, filter) {
        (Error::Backend { status: 500, detail, .. }, Some(filter)) if filters::is_blamed(&detail) => {
            filters::refused_by_r2r(filter, &detail).into()
        }
        (error, _) => error.into(),
    }
}
