//! `r2r_rag_query`: a generated answer with its sources.
//!
//! Invariants: an answer uses only passages of the collection, or says that nothing was found. If R2R used
//! other passages, the answer is withheld. An incomplete answer is marked and not cached. A query is not
//! repeated automatically, unless R2R ended its stream before the first word. R2R gets no model, address or
//! key of a provider, except the name of a model that the client asked for.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answers::Fresh;
use super::model::{Generated, Id, R2rChunk, Results};
use super::project::Project;
use super::rag_stream::{PASSAGES, RagAnswer, passages};
use super::search::{self, LONGEST, SearchMode};
use super::{documents, filters};
use crate::Report;
use crate::answer::Failure;
use crate::r2r::{R2rContext, rag_stream};
use crate::schema_validator::NOT_BLANK;
use crate::tool::{Effect, ToolInfo};
use json::Raw;

/// Answer if no passage was found.
const NOTHING_FOUND: &str =
    "Nothing was found about this in the documents of the collection, so there is no answer from them.";

pub(super) const ABOUT: ToolInfo = ToolInfo {
    name: "r2r_rag_query",
    title: "Ask the documents",
    description: "Ask a question and get an answer in words that R2R's language model writes from the \
        documents of a collection, with the passages that it rests on. Marks such as [4bd5e39] in the \
        answer are the beginnings of the ids of its sources. Without collection_id it asks the \
        project's own collection.",
    effect: Effect::Costs,
};

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub(super) struct RagInput {
    /// The question, in plain words.
    #[schemars(length(min = 1, max = LONGEST), regex(pattern = NOT_BLANK), example = "when do access tokens expire")]
    pub question: String,
    /// The collection to ask, as `r2r_list_collections` gives it. Left out: the project's own.
    pub collection_id: Option<Id>,
    /// A model that R2R's provider knows. Left out: the one R2R is configured with.
    #[schemars(length(min = 1, max = 200), regex(pattern = NOT_BLANK), example = "openai/gpt-4o-mini")]
    pub model: Option<String>,
    /// The length of the answer at most, in tokens.
    #[serde(default = "five_hundred")]
    #[schemars(range(min = 1, max = 32_768))]
    pub max_tokens: u32,
    /// 0: the same answer to the same question, 2: a free one.
    #[serde(default = "seven_tenths")]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: f64,
    /// Whether the passages come with the answer.
    #[serde(default = "yes")]
    pub include_sources: bool,
}

const fn five_hundred() -> u32 {
    500
}

const fn seven_tenths() -> f64 {
    0.7
}

const fn yes() -> bool {
    true
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RagOutput {
    answer: String,
    /// Passages that the answer is based on, best first.
    sources: Vec<AnswerSource>,
    /// The model that wrote it, as its provider says; null where nobody said.
    model_used: Option<String>,
    /// Whether this is an answer of shortly before.
    cached: bool,
    /// The answer broke off: the model reached `max_tokens` or failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[serde(default)]
    incomplete: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct AnswerSource {
    pub text: String,
    /// The title of the document, or its id where it has none.
    document: String,
    score: f64,
    /// The id of the passage.
    id: Id,
    document_id: Id,
}

/// Returns the result of `r2r_rag_query`. Reports the answer to `report` while it grows.
pub(super) async fn ask(
    context: &R2rContext,
    project: &Project,
    input: RagInput,
    report: &Report,
) -> Result<Raw, Failure> {
    let collection = project.or_own(input.collection_id).await?;
    let inputs = (
        (ABOUT.name, &input.question, &input.model),
        (input.max_tokens, input.temperature, input.include_sources),
    );
    let make = async {
        let answer = stream_answer(context, &input, collection, report).await?;
        if answer.chunks.is_empty() && input.collection_id.is_some() {
            documents::check_collection(&context.client, collection).await?;
        }
        let output = output(context, &input, answer).await;
        Ok(if output.incomplete { Fresh::passing(output) } else { Fresh::lasting(output) })
    };
    context.answers.fetch(context.options.cache_ttl.rag, Some(collection), &inputs, make).await
}

async fn stream_answer(
    context: &R2rContext,
    input: &RagInput,
    collection: Id,
    report: &Report,
) -> Result<RagAnswer, Failure> {
    let path = ["retrieval", "rag"];
    let streams = report.wants_progress();
    let mut answered = context.client.answer(&path, &body(input, collection, streams)).await?;
    // A proxy or another version may answer without a stream. The question is paid for, so that answer counts.
    if streams && !answered.is_json() {
        if let Some(answer) = rag_stream::read_answer(answered.events().boxed(), collection, report).await? {
            return Ok(RagAnswer { model: input.model.clone(), ..answer });
        }
        // A stream that ends without an event gives no reason, so the request is repeated without a stream.
        answered = context.client.answer(&path, &body(input, collection, false)).await?;
    }
    let answered: Results<Generated> = Box::pin(answered.json()).await?;
    let Generated { answer, search_results, metadata } = answered.results;
    let chunks = passages(search_results.chunk_search_results, collection)?;
    let is_complete = metadata.has_ended();
    Ok(RagAnswer { answer, chunks, model: metadata.model, is_complete })
}

fn body(input: &RagInput, collection: Id, stream: bool) -> Value {
    let mut generation = json!({
        "temperature": input.temperature,
        "max_tokens_to_sample": input.max_tokens,
        "stream": stream,
    });
    if let Some(model) = &input.model {
        generation["model"] = json!(model);
    }
    json!({
        "query": search::without_nul(&input.question),
        "search_mode": "custom",
        "search_settings": search::settings(SearchMode::Basic, PASSAGES, &filters::within(collection, None)),
        "rag_generation_config": generation,
    })
}

async fn output(context: &R2rContext, input: &RagInput, answer: RagAnswer) -> RagOutput {
    let is_grounded = !answer.chunks.is_empty();
    let shows_sources = is_grounded && input.include_sources;
    let titles = if shows_sources { context.titles(&answer.chunks).await } else { BTreeMap::new() };
    let chunks = if shows_sources { answer.chunks } else { Vec::new() };
    RagOutput {
        answer: if is_grounded { answer.answer } else { NOTHING_FOUND.to_owned() },
        sources: chunks.into_iter().map(|chunk| source(&chunk, &titles)).collect(),
        model_used: answer.model.filter(|_| is_grounded),
        cached: false,
        incomplete: is_grounded && !answer.is_complete,
    }
}

fn source(chunk: &R2rChunk, titles: &BTreeMap<Id, String>) -> AnswerSource {
    AnswerSource {
        text: chunk.bare_text().to_owned(),
        document: titles.get(&chunk.document_id).cloned().unwrap_or_else(|| chunk.document_id.to_string()),
        score: chunk.score.unwrap_or(0.0),
        id: chunk.id,
        document_id: chunk.document_id,
    }
}
