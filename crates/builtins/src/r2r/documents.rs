//! `r2r_list_documents` and `r2r_monitor_task`.
//!
//! R2R lists the documents of a collection only after they were ingested or failed, and cannot list documents by
//! status. Documents with another status are found by reading all documents of the account, newest first. The result
//! names the limit of that scan.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answers::Fresh;
use super::client::Client;
use super::model::{Id, R2rDocument, Results, Stage};
use super::project::Project;
use crate::answer::Failure;
use crate::r2r::R2rContext;
use crate::refusal::Refusal;
use crate::tool::{Effect, ToolInfo};
use json::Raw;
use upstream::api::Error;

/// Documents per page, and most pages that are read.
const PAGE: u64 = 500;
const PAGES: u64 = 6;

pub(super) const ABOUT_LIST: ToolInfo = ToolInfo {
    name: "r2r_list_documents",
    title: "List documents",
    description: "List the documents of a collection in R2R. With status_filter all it lists those that R2R \
        has ended with; success shows those that can be searched, pending those that are being taken in, and \
        failed those that could not be. \
        Without collection_id it lists the project's own collection.",
    effect: Effect::Reads,
};

pub(super) const ABOUT_MONITOR: ToolInfo = ToolInfo {
    name: "r2r_monitor_task",
    title: "Follow an ingestion",
    description: "See how far R2R is with a document that r2r_ingest_document sent: its status, its progress \
        from 0 to 1, and why it failed if it did.",
    effect: Effect::Reads,
};

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub(super) struct DocumentListInput {
    /// The collection, as `r2r_list_collections` gives it. Left out: the project's own.
    collection_id: Option<Id>,
    /// How many to leave out before the first one that is shown.
    #[serde(default)]
    offset: u64,
    /// How many at most.
    #[serde(default = "fifty")]
    #[schemars(range(min = 1, max = 100))]
    limit: u32,
    /// Which ones.
    #[serde(default)]
    status_filter: Filter,
}

const fn fifty() -> u32 {
    50
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Filter {
    Pending,
    Success,
    Failed,
    #[default]
    All,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DocumentListOutput {
    documents: Vec<DocumentItem>,
    /// How many there are; with a `status_filter` other than all, how many were found.
    total: u64,
    offset: u64,
    limit: u32,
    /// Whether this is an answer of shortly before.
    cached: bool,
    /// How many documents were looked through for the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    scanned: Option<u64>,
    /// There are more documents than were looked through: total may be too small.
    #[serde(skip_serializing_if = "Option::is_none")]
    incomplete: Option<bool>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct DocumentItem {
    document_id: Id,
    title: String,
    /// success, failed, or how far R2R is.
    ingestion_status: String,
    created_at: Option<String>,
    size_bytes: u64,
}

impl DocumentItem {
    fn of(document: R2rDocument) -> Self {
        Self {
            document_id: document.id,
            title: document.title.unwrap_or_default(),
            ingestion_status: document.ingestion_status,
            created_at: document.created_at,
            size_bytes: document.size_in_bytes.unwrap_or(0),
        }
    }
}

/// Returns the result of `r2r_list_documents`.
pub(super) async fn list(
    context: &R2rContext,
    project: &Project,
    input: DocumentListInput,
) -> Result<Raw, Failure> {
    let mut collection = project.or_own(input.collection_id).await?;
    let mut answer = listed(context, &input, collection).await;
    if is_gone(&answer) {
        project.forget(collection);
        if input.collection_id.is_none() {
            // The project's was deleted: another one is found or made.
            collection = project.own().await?;
            answer = listed(context, &input, collection).await;
        }
    }
    if is_gone(&answer) { Err(no_collection(collection).into()) } else { answer }
}

/// Whether R2R does not know the collection, or not for this account.
const fn is_gone(answer: &Result<Raw, Failure>) -> bool {
    matches!(answer, Err(Failure::Failed(Error::Backend { status: 403 | 404, .. })))
}

async fn listed(context: &R2rContext, input: &DocumentListInput, collection: Id) -> Result<Raw, Failure> {
    let inputs = (ABOUT_LIST.name, input.offset, input.limit, input.status_filter);
    let make = async {
        match input.status_filter {
            Filter::All => page(context, input, collection).await,
            filter => looked_through(context, input, collection, filter).await,
        }
    };
    context.answers.fetch(context.options.cache_ttl.list, Some(collection), &inputs, make).await
}

async fn page(
    context: &R2rContext,
    input: &DocumentListInput,
    collection: Id,
) -> Result<Fresh<DocumentListOutput>, Failure> {
    let (id, part) = (collection.to_string(), (input.offset, input.limit.into()));
    let page = context.client.page::<R2rDocument>(&["collections", &id, "documents"], part, &[]).await?;
    let is_settled = page.results.iter().all(|document| document.stage() != Stage::Pending);
    let documents: Vec<_> = page.results.into_iter().map(DocumentItem::of).collect();
    let total = page.total_entries.unwrap_or(input.offset + documents.len() as u64);
    let output = DocumentListOutput {
        documents,
        total,
        offset: input.offset,
        limit: input.limit,
        cached: false,
        scanned: None,
        incomplete: None,
    };
    Ok(if is_settled { Fresh::lasting(output) } else { Fresh::passing(output) })
}

async fn looked_through(
    context: &R2rContext,
    input: &DocumentListInput,
    collection: Id,
    filter: Filter,
) -> Result<Fresh<DocumentListOutput>, Failure> {
    let requested = match filter {
        Filter::Pending => Stage::Pending,
        Filter::Success | Filter::All => Stage::Success,
        Filter::Failed => Stage::Failed,
    };
    // For a missing collection this request fails, while the scan would return an empty list.
    let id = collection.to_string();
    let _: Results<Value> = context.client.get(&["collections", &id], &[]).await?;
    let scan = scan(context, collection).await?;
    let fits = |document: &R2rDocument| document.stage() == requested;
    let found: Vec<_> = scan.documents.into_iter().filter(fits).map(DocumentItem::of).collect();
    let offset = usize::try_from(input.offset).unwrap_or(usize::MAX);
    let output = DocumentListOutput {
        total: found.len() as u64,
        documents: found.into_iter().skip(offset).take(input.limit as usize).collect(),
        offset: input.offset,
        limit: input.limit,
        cached: false,
        scanned: Some(scan.scanned),
        incomplete: Some(!scan.is_complete),
    };
    // Documents under way change soon, so the result is not cached.
    Ok(if requested == Stage::Pending { Fresh::passing(output) } else { Fresh::lasting(output) })
}

/// Documents of a collection, with any status.
pub(super) struct Scan {
    pub documents: Vec<R2rDocument>,
    /// How many documents of the account were read.
    pub scanned: u64,
    /// Whether these were all documents.
    pub is_complete: bool,
}

/// Reads the documents of the account, newest first, for those of `collection`.
pub(super) async fn scan(context: &R2rContext, collection: Id) -> Result<Scan, Error> {
    let mut scan = Scan { documents: Vec::new(), scanned: 0, is_complete: false };
    for page in 0..PAGES {
        let found = context.client.page::<R2rDocument>(&["documents"], (page * PAGE, PAGE), &[]).await?;
        let count = found.results.len() as u64;
        scan.scanned += count;
        scan.documents.extend(found.results.into_iter().filter(|document| document.belongs_to(collection)));
        if count < PAGE || found.total_entries.is_some_and(|total| scan.scanned >= total) {
            scan.is_complete = true;
            break;
        }
    }
    Ok(scan)
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct MonitorInput {
    /// The document, as `r2r_ingest_document` or `r2r_list_documents` gives it.
    pub document_id: Id,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct MonitorOutput {
    document_id: Id,
    /// pending, parsing, extracting, chunking, embedding, augmenting, storing, enriching, success or failed.
    ingestion_status: String,
    /// Status of the graph, which R2R builds only on request. Searches do not depend on it.
    extraction_status: String,
    title: String,
    /// From 0 to 1; 1 when it can be searched.
    progress: f64,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

/// Returns the result of `r2r_monitor_task`. It is never cached, because it is requested for its changes.
/// `under_way` is the file name of the document while Switchyard ingests it.
pub(super) async fn monitor(
    context: &R2rContext,
    input: MonitorInput,
    under_way: Option<String>,
) -> Result<Raw, Failure> {
    let id = input.document_id.to_string();
    let found: Result<Results<R2rDocument>, Error> = context.client.get(&["documents", &id], &[]).await;
    let mut document = match (found, under_way) {
        (Ok(found), under_way) => {
            let mut document = found.results;
            if under_way.is_some() && document.stage() == Stage::Success {
                // It may be the version to be replaced. Or it is not in its collection yet, and cached results
                // were not dropped yet: a search may still return an old one.
                "storing".clone_into(&mut document.ingestion_status);
            }
            document
        }
        (Err(Error::Backend { status: 403 | 404, .. }), Some(file_name)) => {
            R2rDocument::promised(input.document_id, file_name)
        }
        (Err(Error::Backend { status: 403 | 404, .. }), None) => return Err(no_document(&id).into()),
        (Err(error), _) => return Err(error.into()),
    };
    let failure = document.reason().filter(|_| document.stage() == Stage::Failed);
    Ok(Raw::of(&MonitorOutput {
        document_id: document.id,
        progress: document.progress(),
        failure,
        title: document.title.take().unwrap_or_default(),
        ingestion_status: document.ingestion_status,
        extraction_status: document.extraction_status,
    }))
}

/// Refuses a collection that does not exist or that Switchyard may not read. R2R itself finds nothing there, and accepts
/// documents for it.
pub(super) async fn check_collection(client: &Client, id: Id) -> Result<(), Failure> {
    if client.has_collection(id.0).await? { Ok(()) } else { Err(no_collection(id).into()) }
}

fn no_collection(id: Id) -> Refusal {
    Refusal::new("not_found", "collection_id", &id)
        .because("There is no such collection, or it is not ours to read.")
        .valid("the id of a collection that is there")
        .suggest("Take one from r2r_list_collections, or leave it out for the project's own.")
}

fn no_document(id: &str) -> Refusal {
    Refusal::new("not_found", "document_id", id)
        .because("There is no such document, or it is not ours to read.")
        .valid("the id of a document that is there")
        .suggest("Take one from r2r_list_documents, or from the answer of r2r_ingest_document.")
}
