//! `search`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::consistent_search::{NearestSearch, seek};
use super::filter::filter;
use super::layout::RecordMark;
use super::metadata::Subject;
use super::model::{Collection, Hit, Metadata, Space};
use super::model_check;
use crate::answer::Failure;
use crate::chroma::context::ChromaContext;
use crate::progress::Report;
use crate::refusal::Refusal;
use crate::schema_validator::NOT_BLANK;
use crate::tool::{Effect, ToolInfo};
use json::Raw;

/// Longest query, in characters.
const LONGEST: u64 = 20_000;

pub(super) const ABOUT: ToolInfo = ToolInfo {
    name: "search",
    title: "Search a collection",
    description: "Search a collection by meaning and get the chunks of documents that fit best, best first. \
        The question may be in other words than the document.",
    effect: Effect::Reads,
};

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct SearchInput {
    /// The collection, as `list_collections` gives it.
    #[schemars(length(min = 1, max = 512))]
    collection: String,
    /// The query: a question or keywords.
    #[schemars(length(min = 1, max = LONGEST), regex(pattern = NOT_BLANK), example = "how are access tokens renewed")]
    query: String,
    /// How many chunks at most.
    #[serde(default = "usual")]
    #[schemars(range(min = 1, max = 100))]
    n_results: u32,
    /// Only chunks whose metadata fit: `{"lang": "en"}`, `{"year": {"$gte": 2024}}`, `{"document_id": "…"}`,
    /// joined by `$and` and `$or`. There are $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, and for lists
    /// $contains and $`not_contains`.
    filters: Option<Map<String, Value>>,
}

/// Default number of results, if the configured maximum allows it.
pub(super) const USUAL: u32 = 5;

const fn usual() -> u32 {
    USUAL
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SearchOutput {
    /// Best first.
    results: Vec<ChunkItem>,
    count: usize,
    collection: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ChunkItem {
    chunk_id: String,
    content: String,
    /// Metadata of the document.
    metadata: Metadata,
    /// Larger is better; 1 is the same.
    score: f64,
    /// Null where others put it there.
    document_id: Option<String>,
    /// Its place among the chunks of the document, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    chunk_index: Option<u64>,
    /// Its first character in the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_pos: Option<u64>,
    /// The character behind its last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    end_pos: Option<u64>,
    /// The headings it stands under.
    #[serde(skip_serializing_if = "Option::is_none")]
    headings: Option<Vec<String>>,
}

/// Returns the result of `search`.
pub(super) async fn search(
    context: &ChromaContext,
    input: SearchInput,
    report: &Report,
) -> Result<Raw, Failure> {
    let conditions = input.filters.unwrap_or_default();
    let filter = filter(&conditions).map_err(|bad| bad_filter(&conditions, &bad.to_string()))?;
    let mut collection = context.open(&input.collection).await?;
    model_check::check(context, &collection, None)?;
    let mut vectors = context.embed(ABOUT.name, std::slice::from_ref(&input.query), report).await?;
    let vector = vectors.pop().unwrap_or_default();
    let most = input.n_results.min(context.options.max_results);
    let nearest = NearestSearch { vector, filter, desired: most as usize };
    let mut hits = found(context, &collection, &nearest).await;
    if let Some(made_again) = context.reopened(&input.collection, &hits).await? {
        collection = made_again;
        hits = found(context, &collection, &nearest).await;
    }
    let space = collection.space();
    let results: Vec<ChunkItem> = hits?.into_iter().map(|hit| passage(hit, space)).collect();
    Ok(Raw::of(&SearchOutput { count: results.len(), results, collection: input.collection }))
}

async fn found(
    context: &ChromaContext,
    collection: &Collection,
    nearest: &NearestSearch,
) -> Result<Vec<Hit>, Failure> {
    model_check::check(context, collection, Some(nearest.vector.len()))?;
    Ok(seek(&context.chroma, collection.id, nearest.clone()).await?)
}

fn passage(hit: Hit, space: Space) -> ChunkItem {
    let is_ours = RecordMark::of(&hit).is_some();
    let number = |key: &str| hit.metadata.get(key).and_then(Value::as_u64);
    let text = |key: &str| hit.metadata.get(key).and_then(Value::as_str).map(str::to_owned);
    let headings = hit
        .metadata
        .get("headings")
        .and_then(Value::as_array)
        .map(|headings| headings.iter().filter_map(Value::as_str).map(str::to_owned).collect());
    ChunkItem {
        document_id: text("document_id"),
        chunk_index: number("chunk_index"),
        start_pos: number("start_pos"),
        end_pos: number("end_pos"),
        headings,
        metadata: if is_ours { Subject::Document.without_reserved(&hit.metadata) } else { hit.metadata },
        chunk_id: hit.id,
        content: hit.document.unwrap_or_default(),
        score: hit.distance.map_or(0.0, |distance| space.score(distance)),
    }
}

fn bad_filter(conditions: &Map<String, Value>, why: &str) -> Refusal {
    Refusal::new("invalid_argument", "filters", conditions)
        .because(&format!("The filter cannot be used: {why}."))
        .valid("{\"field\": value} or {\"field\": {\"$operator\": value}}, joined by $and and $or")
        .suggest("Compare each field with a value of the type that it has in the documents.")
}
