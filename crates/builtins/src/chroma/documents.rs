//! `add_document`, `update_document`, `delete_document` and `get_document_info`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::layout::{self, ChunkRecord, Draft, Head};
use super::metadata::{self, Subject};
use super::model::{Collection, Metadata};
use super::model_check;
use super::writing::DocumentPlace;
use crate::answer::Failure;
use crate::chroma::context::ChromaContext;
use crate::chunk::{Chunking, Format, chunks};
use crate::progress::Report;
use crate::refusal::Refusal;
use crate::schema_validator::NOT_BLANK;
use crate::tool::{Effect, ToolInfo};
use json::Raw;

/// Smallest size of chunks that a caller may ask for, unless a smaller one is configured.
pub(super) const LEAST_CHUNK: usize = 50;
/// Longest document, in characters.
const LONGEST: u64 = 10_000_000;
/// How many documents of equal content may have been updated since, before `add_document` fails.
const TURNS: usize = 16;

pub(super) const ABOUT_ADD: ToolInfo = ToolInfo {
    name: "add_document",
    title: "Add a document",
    description: "Add a text to a collection so that search finds it. It is cut into chunks that overlap. \
        The same content with the same metadata is the same document, so adding it twice makes one.",
    effect: Effect::Puts,
};

pub(super) const ABOUT_UPDATE: ToolInfo = ToolInfo {
    name: "update_document",
    title: "Update a document",
    description: "Replace the content of a document. Until it is done, search finds the old one, and then the \
        new one. Metadata stay as they are, or are replaced as a whole where they are given.",
    effect: Effect::Replaces,
};

pub(super) const ABOUT_DELETE: ToolInfo = ToolInfo {
    name: "delete_document",
    title: "Delete a document",
    description: "Delete a document with all its chunks.",
    effect: Effect::Replaces,
};

pub(super) const ABOUT_GET: ToolInfo = ToolInfo {
    name: "get_document_info",
    title: "Look at a document",
    description: "See what is known of a document: its metadata, its chunks, when it was added and updated.",
    effect: Effect::Reads,
};

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct AddInput {
    /// The collection, as `list_collections` gives it.
    #[schemars(length(min = 1, max = 512))]
    collection: String,
    /// The text.
    #[schemars(length(min = 1, max = LONGEST), regex(pattern = NOT_BLANK))]
    content: String,
    /// Metadata of the document, for filters of a search: flat, with texts, numbers, booleans and lists of
    /// them.
    metadata: Option<Map<String, Value>>,
    /// Characters of a chunk, at most; less where the embedding model reads less.
    #[schemars(range(min = LEAST_CHUNK, max = 10_000))]
    chunk_size: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct UpdateInput {
    /// The collection, as `list_collections` gives it.
    #[schemars(length(min = 1, max = 512))]
    collection: String,
    /// The document, as `add_document` or a search gives it.
    #[schemars(length(min = 1, max = 200), regex(pattern = NOT_BLANK))]
    doc_id: String,
    /// The new text.
    #[schemars(length(min = 1, max = LONGEST), regex(pattern = NOT_BLANK))]
    content: String,
    /// All of the new metadata. Left out: as they are.
    metadata: Option<Map<String, Value>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct OneInput {
    /// The collection, as `list_collections` gives it.
    #[schemars(length(min = 1, max = 512))]
    collection: String,
    /// The document, as `add_document` or a search gives it.
    #[schemars(length(min = 1, max = 200), regex(pattern = NOT_BLANK))]
    doc_id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct WriteOutput {
    document_id: String,
    collection: String,
    /// Chunks it has now.
    chunks: usize,
    /// Whether there was one of this id before.
    replaced: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RemoveOutput {
    document_id: String,
    collection: String,
    /// Records that are gone with it.
    deleted: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DocumentInfo {
    document_id: String,
    collection: String,
    chunks: u64,
    metadata: Metadata,
    created_at: Option<String>,
    updated_at: Option<String>,
    /// Grows with every update.
    revision: i64,
}

/// A text that is ready to be written.
struct EmbeddedText {
    pieces: Vec<ChunkRecord>,
    chunk_size: Option<usize>,
}

impl EmbeddedText {
    fn draft(self, content: &str, metadata: Metadata) -> Draft {
        let source = layout::source(content, &metadata);
        Draft { pieces: self.pieces, metadata, source, chunk_size: self.chunk_size }
    }
}

/// Returns the result of `add_document`.
pub(super) async fn add(context: &ChromaContext, input: AddInput, report: &Report) -> Result<Raw, Failure> {
    let said = metadata::check(input.metadata.unwrap_or_default(), Subject::Document)?;
    let collection = context.open(&input.collection).await?;
    model_check::check(context, &collection, None)?;
    let _turn = context.writers.acquire().await;
    let size = input.chunk_size.map(|size| size as usize);
    let text = embedded(context, ABOUT_ADD.name, &input.content, size, report).await?;
    let draft = text.draft(&input.content, said);
    let mut written = put_new(context, &collection, &draft).await;
    if let Some(collection) = context.reopened(&input.collection, &written).await? {
        written = put_new(context, &collection, &draft).await;
    }
    let (document_id, replaced) = written?;
    Ok(Raw::of(&WriteOutput {
        document_id,
        collection: input.collection,
        chunks: draft.pieces.len(),
        replaced,
    }))
}

/// Writes a document under the id of its content. If an update has changed the document with that id, uses
/// the next id.
async fn put_new(
    context: &ChromaContext,
    collection: &Collection,
    draft: &Draft,
) -> Result<(String, bool), Failure> {
    model_check::agree(context, collection, draft.dimension()).await?;
    for turn in 0..TURNS {
        let document = layout::document_id(&draft.source, turn);
        let place = DocumentPlace { chroma: &context.chroma, collection: collection.id, document: &document };
        let _writer = context.locks.lock(collection.id, &document).await;
        let found = place.look().await?;
        let is_other = |head: &Head| head.source().as_deref() != Some(&draft.source);
        if !found.head.as_ref().is_some_and(is_other) {
            let replaced = found.head.is_some();
            place.put(found, draft).await?;
            return Ok((document, replaced));
        }
    }
    Err(Refusal::new("already_exists", "content", "…")
        .because(&format!("{TURNS} documents began as this one and were updated since."))
        .valid("content that is not there many times over")
        .suggest("Say in the metadata what tells this one from the others.")
        .into())
}

/// Returns the result of `update_document`.
pub(super) async fn update(
    context: &ChromaContext,
    mut input: UpdateInput,
    report: &Report,
) -> Result<Raw, Failure> {
    let said = input.metadata.take().map(|said| metadata::check(said, Subject::Document)).transpose()?;
    let collection = context.open(&input.collection).await?;
    model_check::check(context, &collection, None)?;
    let head = head(context, &collection, &input.doc_id).await?;
    let _turn = context.writers.acquire().await;
    let size = head.number("chunk_size").and_then(|size| usize::try_from(size).ok());
    let text = embedded(context, ABOUT_UPDATE.name, &input.content, size, report).await?;
    let mut draft = text.draft(&input.content, said.clone().unwrap_or_else(|| head.caller_metadata()));
    let mut written = put_update(context, &collection, &input, said.as_ref(), &mut draft).await;
    if let Some(collection) = context.reopened(&input.collection, &written).await? {
        written = put_update(context, &collection, &input, said.as_ref(), &mut draft).await;
    }
    written?;
    Ok(Raw::of(&WriteOutput {
        document_id: input.doc_id,
        collection: input.collection,
        chunks: draft.pieces.len(),
        replaced: true,
    }))
}

/// Replaces the document of `input` by `draft`. Without `said`, the document keeps its metadata.
async fn put_update(
    context: &ChromaContext,
    collection: &Collection,
    input: &UpdateInput,
    said: Option<&Metadata>,
    draft: &mut Draft,
) -> Result<(), Failure> {
    model_check::agree(context, collection, draft.dimension()).await?;
    let place = DocumentPlace { chroma: &context.chroma, collection: collection.id, document: &input.doc_id };
    let _writer = context.locks.lock(collection.id, &input.doc_id).await;
    let found = place.look().await?;
    // The current head, because others may have written the document while this one was embedded.
    let Some(now) = &found.head else { return Err(no_document(&input.doc_id).into()) };
    let kept = said.is_none().then(|| now.caller_metadata());
    if let Some(kept) = kept.filter(|kept| *kept != draft.metadata) {
        draft.source = layout::source(&input.content, &kept);
        draft.metadata = kept;
    }
    place.put(found, draft).await
}

/// Returns the result of `delete_document`.
pub(super) async fn delete(context: &ChromaContext, input: OneInput) -> Result<Raw, Failure> {
    let collection = context.open(&input.collection).await?;
    let deleted = remove(context, &collection, &input.doc_id).await?;
    if deleted == 0 {
        return Err(no_document(&input.doc_id).into());
    }
    Ok(Raw::of(&RemoveOutput { document_id: input.doc_id, collection: input.collection, deleted }))
}

async fn remove(context: &ChromaContext, collection: &Collection, document: &str) -> Result<u64, Failure> {
    let place = DocumentPlace { chroma: &context.chroma, collection: collection.id, document };
    let _writer = context.locks.lock(collection.id, document).await;
    let found = place.look().await?;
    Ok(place.remove(&found).await?)
}

/// Returns the result of `get_document_info`.
pub(super) async fn get(context: &ChromaContext, input: OneInput) -> Result<Raw, Failure> {
    let collection = context.open(&input.collection).await?;
    let head = head(context, &collection, &input.doc_id).await?;
    Ok(Raw::of(&DocumentInfo {
        document_id: input.doc_id,
        collection: input.collection,
        chunks: head.number("chunk_count").unwrap_or_default(),
        metadata: head.caller_metadata(),
        created_at: head.text("created_at"),
        updated_at: head.text("updated_at"),
        revision: head.revision,
    }))
}

async fn head(context: &ChromaContext, collection: &Collection, document: &str) -> Result<Head, Failure> {
    let place = DocumentPlace { chroma: &context.chroma, collection: collection.id, document };
    Ok(place.any_head().await?.ok_or_else(|| no_document(document))?)
}

async fn embedded(
    context: &ChromaContext,
    tool: &str,
    text: &str,
    size: Option<usize>,
    report: &Report,
) -> Result<EmbeddedText, Refusal> {
    let mut pieces = cut(context, text, size)?;
    let texts: Vec<String> = pieces.iter().map(|piece| piece.content.clone()).collect();
    let vectors = context.embed(tool, &texts, report).await?;
    for (piece, vector) in pieces.iter_mut().zip(vectors) {
        piece.vector = vector;
    }
    Ok(EmbeddedText { pieces, chunk_size: size })
}

fn no_document(id: &str) -> Refusal {
    Refusal::new("not_found", "doc_id", id)
        .because("There is no such document in the collection.")
        .valid("the id of a document, or of a record that belongs to none")
        .suggest("Take document_id from the answer of add_document or from a search; chunk_id where document_id is null.")
}

/// Most chunks of a document. With their vectors they are in memory until the last is written.
const MOST: usize = 10_000;

/// Cuts `text` into chunks of at most `size` characters (default: as configured), and of at most the
/// model's window. They have no vectors yet.
fn cut(context: &ChromaContext, text: &str, size: Option<usize>) -> Result<Vec<ChunkRecord>, Refusal> {
    let chunking = chunking(context, text, size);
    let format = if context.options.markdown { Format::Markdown } else { Format::Plain };
    let mut cuts = Vec::new();
    // A blank chunk can never be a hit.
    for chunk in chunks(text, chunking, format).filter(|chunk| !chunk.is_blank()) {
        if cuts.len() == MOST {
            return Err(too_many(text, chunking));
        }
        cuts.push(ChunkRecord {
            content: chunk.content.to_owned(),
            start: chunk.start_pos,
            end: chunk.end_pos,
            headings: chunk.headings.iter().map(ToString::to_string).collect(),
            vector: Vec::new(),
        });
    }
    Ok(cuts)
}

fn chunking(context: &ChromaContext, text: &str, size: Option<usize>) -> Chunking {
    let usual = context.options.chunking;
    let desired = match size {
        Some(size) if size > usual.size() => {
            // The overlap grows in proportion.
            Chunking::new(size, usual.overlap() * size / usual.size()).unwrap_or(usual)
        }
        Some(size) => usual.at_most(size),
        None => usual,
    };
    context.embedding.window().chunking(desired, text)
}

fn too_many(content: &str, chunking: Chunking) -> Refusal {
    let characters = content.chars().count();
    Refusal::new("invalid_argument", "content", &format!("{characters} characters"))
        .because(&format!(
            "The document has more than {MOST} chunks of at most {} characters.",
            chunking.size()
        ))
        .valid(&format!("at most {MOST} chunks"))
        .suggest("Add it in several documents, or with a larger chunk_size if the model reads that much.")
}
