//! Routes of documents and collections, and the parser of the form in which a file comes (`multipart/form-data`).

use axum::body::Bytes;
use serde_json::{Value, json};
use uuid::Uuid;

use super::recorded_answer;
use super::routes::{ParsedRequest, Reply};
use super::state::{Collection, Document, State};

/// File extensions that the fake accepts. R2R has more.
const KINDS: [&str; 10] = ["md", "txt", "json", "csv", "html", "py", "ts", "js", "css", "pdf"];
/// Largest Markdown file, in bytes.
const MOST_BYTES: usize = 2_000_000;

pub(super) fn create(state: &mut State, request: &ParsedRequest) -> Reply {
    let parts = parts(request.header("content-type").unwrap_or_default(), &request.body);
    let part = |name: &str| parts.iter().find(|part| part.name == name);
    let text = |name: &str| part(name).map(|part| &*part.text);
    let metadata = match text("metadata").map(serde_json::from_str::<Value>) {
        Some(Ok(metadata @ Value::Object(_))) => metadata,
        Some(_) => return Reply::recorded("document-create-bad-metadata"),
        None => json!({}),
    };
    if !matches!(text("ingestion_mode"), None | Some("hi-res" | "ocr" | "fast" | "custom")) {
        return Reply::recorded("document-create-bad-mode");
    }
    let (name, body) = match (part("file"), text("raw_text"), text("chunks")) {
        (Some(Part { file: Some(name), text, .. }), None, None) => (name.clone(), text.clone()),
        (None, Some(text), None) => ("N/A.txt".into(), text.to_owned()),
        (None, None, Some(chunks)) => {
            let chunks: Vec<String> = serde_json::from_str(chunks).unwrap_or_default();
            ("chunks.txt".into(), chunks.join("\n\n"))
        }
        _ => return Reply::recorded("document-create-nothing"),
    };
    let title = metadata["title"].as_str().map_or(&*name, |title| title).to_owned();
    if let Some(refusal) = unfit(&title, &body) {
        return refusal;
    }
    let id = text("id").map_or_else(|| id_of(&name, &body), str::to_owned);
    if state.documents.iter().any(|document| document.id == id && document.status() != "failed") {
        let (status, answer) = recorded_answer("document-create-again");
        return Reply::of(status, &with_id(answer, &id));
    }
    let collections = collections_of(text("collection_ids"), &metadata);
    let title = title.rsplit('/').next().unwrap_or(&title).to_owned();
    let document = state.add_document(id.clone(), &title, body, metadata);
    document.collections = collections;
    if document.status() == "failed" {
        return Reply::recorded("document-create-embedding-down");
    }
    let is_slow = !state.is_queued && !state.ingestion_time.is_zero();
    let (status, mut answer) = recorded_answer("document-create");
    answer["results"]["document_id"] = json!(id);
    Reply { ingesting: is_slow.then_some(id), ..Reply::of(status, &answer) }
}

/// Refuses a file of an unknown type, or one that is too large.
fn unfit(title: &str, body: &str) -> Option<Reply> {
    let extension = title.rsplit('.').next().unwrap_or_default().to_lowercase();
    if !KINDS.contains(&&*extension) {
        let message = format!("'{extension}' is not a valid DocumentType.");
        return Some(Reply::of(415, &json!({"message": message, "error_type": "R2RException"})));
    }
    (body.len() > MOST_BYTES).then(|| Reply::recorded("document-create-too-large"))
}

/// Derives the id like R2R: from the name of a file, or from the text if there is no file.
fn id_of(name: &str, body: &str) -> String {
    let of = if name == "N/A.txt" || name == "chunks.txt" { body } else { name };
    Uuid::new_v5(&Uuid::NAMESPACE_DNS, of.as_bytes()).to_string()
}

fn with_id(mut answer: Value, id: &str) -> Value {
    let message = answer["message"].as_str().unwrap_or_default();
    let rest = message.split_once(" already").map_or("", |(_, rest)| rest);
    answer["message"] = json!(format!("Document {id} already{rest}"));
    answer
}

/// Returns the collections of the form and of the metadata.
fn collections_of(form: Option<&str>, metadata: &Value) -> Vec<String> {
    let form: Vec<String> = form.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let named = metadata["collection_ids"].as_array().cloned().unwrap_or_default();
    let named = named.iter().filter_map(|id| id.as_str().map(str::to_owned));
    let mut all: Vec<String> = form.into_iter().chain(named).collect();
    all.sort();
    all.dedup();
    all
}

/// Lists documents, the newest first.
fn newest<'a>(documents: impl DoubleEndedIterator<Item = &'a Document>) -> Vec<Value> {
    documents.rev().map(Document::shown).collect()
}

pub(super) fn list(state: &State, request: &ParsedRequest) -> Reply {
    let ids = request.parameters("ids");
    let asked_for = |document: &&Document| ids.is_empty() || ids.contains(&document.id);
    request.page(&newest(state.documents.iter().filter(asked_for)))
}

pub(super) fn one(state: &mut State, id: &str) -> Reply {
    if Uuid::parse_str(id).is_err() {
        return Reply::recorded("document-retrieve-bad-uuid");
    }
    let is_queued = state.is_queued;
    let Some(document) = state.document(id) else { return Reply::recorded("document-retrieve-missing") };
    let shown = document.shown();
    if is_queued {
        document.go_on();
    }
    Reply::results(&shown)
}

pub(super) fn delete(state: &mut State, id: &str) -> Reply {
    let before = state.documents.len();
    state.documents.retain(|document| document.id != id);
    let is_gone = state.documents.len() < before;
    Reply::recorded(if is_gone { "document-delete" } else { "document-delete-again" })
}

pub(super) fn collections(state: &State, request: &ParsedRequest) -> Reply {
    let ours = state.collections.iter().rev().filter(|collection| collection.is_ours);
    let shown: Vec<Value> = ours.map(|collection| counted(state, collection)).collect();
    request.page(&shown)
}

fn counted(state: &State, collection: &Collection) -> Value {
    let mut shown = collection.shown.clone();
    let inside = state.documents.iter().filter(|document| document.is_in(&collection.id));
    shown["document_count"] = json!(inside.count());
    shown["user_count"] = json!(1);
    shown
}

pub(super) fn create_collection(state: &mut State, body: &Value) -> Reply {
    let Some(name) = body["name"].as_str() else { return Reply::recorded("search-missing-query") };
    let is_taken = |one: &Collection| one.is_ours && one.shown["name"] == name;
    if state.collections.iter().any(is_taken) {
        return Reply::recorded("collection-create-duplicate");
    }
    Reply::results(&state.add_collection(name, body["description"].as_str()))
}

pub(super) fn collection_named(state: &State, name: &str) -> Reply {
    let found = state.collections.iter().find(|one| one.is_ours && one.shown["name"] == name);
    found.map_or_else(
        || Reply::recorded("collection-by-name-missing"),
        |collection| Reply::results(&counted(state, collection)),
    )
}

/// Refuses a collection that does not exist or belongs to another account.
fn closed(state: &State, id: &str) -> Option<Reply> {
    match state.collection(id) {
        Some(collection) if collection.is_ours => None,
        Some(_) => Some(Reply::recorded("foreign-collection-documents")),
        None => Some(Reply::recorded("collection-retrieve-missing")),
    }
}

pub(super) fn collection(state: &State, id: &str) -> Reply {
    if let Some(refusal) = closed(state, id) {
        return refusal;
    }
    Reply::results(&state.collection(id).map(|collection| counted(state, collection)).unwrap_or_default())
}

pub(super) fn delete_collection(state: &mut State, id: &str) -> Reply {
    if let Some(refusal) = closed(state, id) {
        return refusal;
    }
    state.collections.retain(|collection| collection.id != id);
    Reply::recorded("document-delete")
}

pub(super) fn of_collection(state: &State, id: &str, request: &ParsedRequest) -> Reply {
    if let Some(refusal) = closed(state, id) {
        return refusal;
    }
    let inside: Vec<&Document> = state.documents.iter().filter(|document| document.is_in(id)).collect();
    let mut shown = newest(inside.into_iter());
    for document in &mut shown {
        // This list shows only the requested collection, and no token counts.
        document["collection_ids"] = json!([id]);
        document["total_tokens"] = Value::Null;
    }
    request.page(&shown)
}

pub(super) fn assign(state: &mut State, id: &str, document: &str) -> Reply {
    if let Some(refusal) = closed(state, id) {
        return refusal;
    }
    let Some(document) = state.document(document) else {
        return Reply::recorded("collection-add-document-missing");
    };
    if document.is_in(id) {
        return Reply::recorded("collection-add-document-again");
    }
    document.collections.push(id.to_owned());
    Reply::recorded("collection-add-document")
}

pub(super) fn remove(state: &mut State, id: &str, document: &str) -> Reply {
    if let Some(refusal) = closed(state, id) {
        return refusal;
    }
    let Some(document) = state.document(document).filter(|document| document.is_in(id)) else {
        return Reply::recorded("collection-add-document-missing");
    };
    document.collections.retain(|other| other != id);
    Reply::recorded("collection-remove-document")
}

/// One part of a form.
#[derive(Debug, Default)]
struct Part {
    pub name: String,
    pub file: Option<String>,
    pub text: String,
}

/// Returns the parts of `body`. `content_type` names the boundary between them.
fn parts(content_type: &str, body: &Bytes) -> Vec<Part> {
    let Some((_, boundary)) = content_type.split_once("boundary=") else { return Vec::new() };
    let text = String::from_utf8_lossy(body);
    let between = format!("--{}", boundary.trim_matches('"'));
    text.split(&*between).filter_map(part).collect()
}

fn part(text: &str) -> Option<Part> {
    let (head, body) = text.strip_prefix("\r\n")?.split_once("\r\n\r\n")?;
    let disposition = head.lines().find(|line| line.to_lowercase().starts_with("content-disposition"))?;
    let value = |name: &str| {
        let (_, rest) = disposition.split_once(&format!("; {name}=\""))?;
        Some(rest.split_once('"')?.0.replace("%22", "\""))
    };
    let text = body.strip_suffix("\r\n").unwrap_or(body).to_owned();
    Some(Part { name: value("name")?, file: value("filename"), text })
}
