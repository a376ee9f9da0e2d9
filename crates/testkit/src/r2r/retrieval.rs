//! Search by the words that a query and a document share. The responses have the recorded form.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Value, json};
use uuid::Uuid;

use super::routes::Reply;
use super::state::{Document, State};
use super::{recorded_results, recorded_stream};

/// Constant of the reciprocal rank, as in R2R's hybrid search.
const RRF: f64 = 50.0;

pub(super) fn search(state: &State, body: &Value) -> Reply {
    if let Some(refusal) = unfit(body, "search-empty-query") {
        return refusal;
    }
    let mut results = recorded_results("search-no-hit");
    results["chunk_search_results"] = json!(chunks(state, body));
    Reply::results(&results)
}

pub(super) fn rag(state: &State, body: &Value) -> Reply {
    if let Some(refusal) = unfit(body, "rag-empty-query") {
        return refusal;
    }
    let question = body["query"].as_str().unwrap_or_default();
    let chunks = chunks(state, body);
    let cited = chunks.first().cloned();
    let answer = match &cited {
        Some(chunk) => format!("{} [{}].", sentence(chunk, question), short(chunk)),
        None => format!("No relevant context was found for: {question}"),
    };
    let model = body["rag_generation_config"]["model"]
        .as_str()
        .map(|model| model.rsplit('/').next().unwrap_or(model));
    let stops = model == Some("stub-length");
    let streams = body["rag_generation_config"]["stream"] == json!(true) && model != Some("stub-no-stream");
    if streams {
        return Reply::stream(streamed(&answer, &chunks, stops));
    }
    let mut results = recorded_results("rag");
    let answer = if stops { half(&answer) } else { answer };
    if stops {
        results["metadata"]["choices"][0]["finish_reason"] = json!("length");
    }
    results["generated_answer"] = json!(answer);
    results["completion"] = json!(answer);
    results["search_results"]["chunk_search_results"] = json!(chunks);
    results["citations"] = cited.as_ref().map_or_else(
        || json!([]),
        |chunk| {
            let mut citation = recorded_results("rag")["citations"][0].clone();
            citation["id"] = json!(short(chunk));
            citation["payload"] = chunk.clone();
            json!([citation])
        },
    );
    if let Some(model) = model {
        results["metadata"]["model"] = json!(model);
    }
    Reply::results(&results)
}

fn unfit(body: &Value, empty: &str) -> Option<Reply> {
    let settings = &body["search_settings"];
    match (body["query"].as_str(), settings["limit"].as_u64().unwrap_or(10)) {
        (None, _) => Some(Reply::recorded("search-missing-query")),
        (Some(""), _) => Some(Reply::recorded(empty)),
        (_, 0 | 1001..) => Some(Reply::recorded("search-limit-too-big")),
        _ if !matches!(body["search_mode"].as_str(), None | Some("basic" | "advanced" | "custom")) => {
            Some(Reply::recorded("search-bad-mode"))
        }
        _ => None,
    }
}

/// Returns the matching chunks, the best first.
fn chunks(state: &State, body: &Value) -> Vec<Value> {
    let question = body["query"].as_str().unwrap_or_default();
    let settings = &body["search_settings"];
    let wanted = words(question);
    let mut scored: Vec<(f64, &Document)> = (state.documents.iter())
        .filter(|document| document.status() == "success" && fits(document, &settings["filters"]))
        .map(|document| (score(&wanted, &document.text), document))
        .filter(|(score, _)| *score > 0.0)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    let limit = usize::try_from(settings["limit"].as_u64().unwrap_or(10)).expect("small");
    scored.truncate(limit);
    let is_hybrid = settings["use_hybrid_search"] == json!(true);
    let shown = |(rank, (score, document)): (usize, (f64, &Document))| {
        #[allow(clippy::cast_precision_loss)] // there are few
        let score = if is_hybrid { 1.0 / (RRF + rank as f64 + 1.0) } else { score };
        chunk(document, question, score)
    };
    let found: Vec<Value> = scored.into_iter().enumerate().map(shown).collect();
    if body["search_mode"] != json!("advanced") {
        return found;
    }
    // R2R searches once per answer that its model invents: equal results again, with slightly better scores
    // the second time.
    let mut again = found.clone();
    for chunk in &mut again {
        chunk["score"] = json!(chunk["score"].as_f64().expect("a score") + 1e-6);
    }
    [found, again].concat()
}

fn chunk(document: &Document, question: &str, score: f64) -> Value {
    let mut chunk = recorded_results("search-basic")["chunk_search_results"][0].clone();
    let mut metadata = document.metadata.clone();
    metadata["version"] = json!("v0");
    metadata["chunk_order"] = json!(0);
    metadata["document_type"] = document.shown()["document_type"].clone();
    metadata["associated_query"] = json!(question);
    let text = match document.metadata["title"].as_str() {
        Some(title) => format!("Document Title: {title}\n\nText: {}", document.text),
        None => document.text.clone(),
    };
    let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, document.id.as_bytes());
    for (member, value) in [
        ("id", json!(id.to_string())),
        ("document_id", json!(document.id)),
        ("collection_ids", json!(document.collections)),
        ("score", json!(score)),
        ("text", json!(text)),
        ("metadata", metadata),
    ] {
        chunk[member] = value;
    }
    chunk
}

/// Applies R2R's filters, as far as Switchyard sends them. An unknown operator matches nothing.
/// `collection_ids` matches every document.
fn fits(document: &Document, filters: &Value) -> bool {
    let Some(filters) = filters.as_object() else { return true };
    filters.iter().all(|(name, wanted)| match &**name {
        "$and" => wanted.as_array().is_some_and(|all| all.iter().all(|one| fits(document, one))),
        "$or" => wanted.as_array().is_some_and(|all| all.iter().any(|one| fits(document, one))),
        "collection_id" => wanted["$eq"].as_str().is_some_and(|id| document.is_in(id)),
        "collection_ids" => true,
        "document_id" => matches(wanted, &json!(document.id)),
        name => {
            let path = name.strip_prefix("metadata.").unwrap_or(name);
            let shown = document.shown();
            matches(wanted, if path == "document_type" { &shown[path] } else { &document.metadata[path] })
        }
    })
}

fn matches(wanted: &Value, value: &Value) -> bool {
    let among = |list: &Value| list.as_array().is_some_and(|list| list.contains(value));
    match wanted.as_object() {
        None => wanted == value,
        Some(operators) => operators.iter().all(|(operator, wanted)| match &**operator {
            "$eq" => wanted == value,
            "$ne" => wanted != value,
            "$in" => among(wanted),
            "$nin" => !among(wanted),
            _ => false,
        }),
    }
}

fn words(text: &str) -> BTreeSet<String> {
    let all = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    // Lets `tokens` match `token`.
    all.filter(|word| word.chars().count() > 2).map(|word| word.trim_end_matches('s').to_owned()).collect()
}

#[allow(clippy::cast_precision_loss)] // there are few
fn score(wanted: &BTreeSet<String>, text: &str) -> f64 {
    let there = words(text);
    let both = wanted.intersection(&there).count() as f64;
    both / (wanted.len() as f64).max(1.0) - there.len() as f64 * 1e-9
}

/// Returns the first half of an answer, for one that its length limit cuts off.
fn half(answer: &str) -> String {
    let words: Vec<&str> = answer.split_inclusive(' ').collect();
    words[..words.len() / 2].concat()
}

/// Returns the short form of a chunk id in R2R's answers.
fn short(chunk: &Value) -> String {
    chunk["id"].as_str().unwrap_or_default().chars().take(7).collect()
}

/// Returns the sentence with most words of the query.
fn sentence(chunk: &Value, question: &str) -> String {
    let wanted = words(question);
    let text = chunk["text"].as_str().unwrap_or_default();
    let best = text.split(['.', '\n']).max_by(|a, b| score(&wanted, a).total_cmp(&score(&wanted, b)));
    best.unwrap_or_default().trim().to_owned()
}

/// Streams an answer word by word, with the chunks before and the whole answer after it. If `stops`, the
/// stream just ends, as at the length limit.
fn streamed(answer: &str, chunks: &[Value], stops: bool) -> String {
    let recorded = recorded_stream("rag-stream");
    let data = |event: &str| -> Value {
        let (_, rest) = recorded.split_once(&format!("event: {event}\ndata: ")).expect("it was recorded");
        serde_json::from_str(rest.lines().next().unwrap_or_default()).expect("an event is JSON")
    };
    let mut text = String::new();
    let mut say =
        |event: &str, data: &Value| write!(text, "event: {event}\ndata: {data}\n\n").expect("a text");
    let mut found = data("search_results");
    found["data"]["chunk_search_results"] = json!(chunks);
    say("search_results", &found);
    let words: Vec<&str> = answer.split_inclusive(' ').collect();
    let said = if stops { words.len() / 2 } else { words.len() };
    for word in &words[..said] {
        let mut message = data("message");
        message["delta"]["content"][0]["payload"]["value"] = json!(word);
        say("message", &message);
    }
    if stops {
        return text;
    }
    let mut last = data("final_answer");
    last["generated_answer"] = json!(answer);
    match chunks.first() {
        Some(chunk) => {
            let mut citation = data("citation");
            citation["id"] = json!(short(chunk));
            citation["payload"] = chunk.clone();
            say("citation", &citation);
            last["citations"][0]["id"] = json!(short(chunk));
            last["citations"][0]["payload"] = chunk.clone();
        }
        None => last["citations"] = json!([]),
    }
    say("final_answer", &last);
    text.push_str("event: done\ndata: [DONE]\n\n");
    text
}
