//! The tools from outside, before a Chroma in memory: what they answer and what they refuse.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::double::Fault;
use super::fixture::{Fixture, Letters, ask, options, refused, reply};
use super::{VectorStore, collections, documents, search, tools};
use crate::embedding::{Embedding, EmbeddingFuture, Window};
use crate::hostile;
use crate::tool::Tool;
use upstream::api::Error;

fn id(answer: &Value) -> String {
    answer["document_id"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn a_document_is_added_found_replaced_and_deleted() {
    let fixture = Fixture::new().await;
    let made = fixture.ask("create_collection", json!({"name": "docs", "metadata": {"team": "core"}})).await;
    assert_eq!((&made["created"], &made["metadata"]), (&json!(true), &json!({"team": "core"})));
    assert_eq!(made["embedding"]["model"], "m");
    let add = json!({"collection": "docs", "content": "Zebras sleep while they stand.",
        "metadata": {"lang": "en", "tags": ["animals"]}});
    let added = fixture.ask("add_document", add.clone()).await;
    assert_eq!((&added["chunks"], &added["replaced"]), (&json!(1), &json!(false)));
    fixture.ask("add_document", json!({"collection": "docs", "content": "Pumpkins grow in mud."})).await;
    let again = fixture.ask("add_document", add).await;
    assert_eq!((id(&again), &again["replaced"]), (id(&added), &json!(true)), "the same is the same");
    let found = fixture.ask("search", json!({"collection": "docs", "query": "zebras sleep stand"})).await;
    let best = &found["results"][0];
    assert_eq!(
        (best["document_id"].as_str(), &best["metadata"]),
        (added["document_id"].as_str(), &json!({"lang": "en", "tags": ["animals"]}))
    );
    assert!(best["score"].as_f64().is_some_and(|score| score > 0.8 && score <= 1.0001), "{best}");
    assert_eq!((&best["start_pos"], &best["end_pos"]), (&json!(0), &json!(30)));
    let only = |filters: Value| json!({"collection": "docs", "query": "mud", "filters": filters});
    let found = fixture.ask("search", only(json!({"tags": {"$contains": "animals"}}))).await;
    assert_eq!((&found["count"], &found["results"][0]["document_id"]), (&json!(1), &added["document_id"]));
    let one = json!({"collection": "docs", "doc_id": id(&added)});
    let info = fixture.ask("get_document_info", one.clone()).await;
    assert_eq!((&info["chunks"], &info["metadata"]["lang"]), (&json!(1), &json!("en")));
    let update = json!({"collection": "docs", "doc_id": id(&added), "content": "Zebras run.", "metadata": {"year": 2026}});
    fixture.ask("update_document", update).await;
    let after = fixture.ask("get_document_info", one.clone()).await;
    assert_eq!(after["metadata"], json!({"year": 2026}), "what was said before is not merged in");
    assert_eq!(after["created_at"], info["created_at"]);
    assert!(after["revision"].as_i64() > info["revision"].as_i64());
    fixture
        .ask("update_document", json!({"collection": "docs", "doc_id": id(&added), "content": "Zebras eat."}))
        .await;
    let stored = fixture.ask("get_document_info", one.clone()).await;
    assert_eq!(stored["metadata"], json!({"year": 2026}), "not said: as they are");
    let gone = fixture.ask("delete_document", one.clone()).await;
    assert_eq!(gone["deleted"], 1);
    assert_eq!(fixture.refused("get_document_info", one.clone()).await["error"], "not_found");
    assert_eq!(fixture.refused("delete_document", one).await["field"], "doc_id");
    let listed = fixture.ask("list_collections", json!({})).await;
    assert_eq!(listed["collections"][0]["count"], 1);
    assert_eq!(fixture.ask("delete_collection", json!({"name": "docs"})).await["deleted"], true);
    assert_eq!(fixture.refused("delete_collection", json!({"name": "docs"})).await["field"], "name");
}

#[tokio::test]
async fn content_that_has_become_another_document_is_a_new_one() {
    let fixture = Fixture::new().await;
    fixture.ask("create_collection", json!({"name": "docs"})).await;
    let add = json!({"collection": "docs", "content": "The first text."});
    let first = id(&fixture.ask("add_document", add.clone()).await);
    fixture
        .ask("update_document", json!({"collection": "docs", "doc_id": first, "content": "Another."}))
        .await;
    let second = id(&fixture.ask("add_document", add.clone()).await);
    assert_ne!(first, second, "the update is not undone");
    assert_eq!(id(&fixture.ask("add_document", add).await), second);
}

#[tokio::test]
async fn collections_of_others_are_neither_listed_nor_reached() {
    let fixture = Fixture::new().await;
    let context = &fixture.ours.context;
    context.chroma.create("elsewhere", None).await.expect("made");
    context.chroma.create("mcp_theirs", None).await.expect("made");
    fixture.ask("create_collection", json!({"name": "ours"})).await;
    let listed = fixture.ask("list_collections", json!({})).await;
    let names: Vec<_> = listed["collections"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!((names, &listed["total"]), (vec!["ours", "theirs"], &json!(2)));
    assert_eq!(listed["collections"][1]["created_at"], Value::Null, "nobody said");
    let away = fixture.refused("search", json!({"collection": "elsewhere", "query": "x"})).await;
    assert_eq!(away["error"], "not_found");
    let near = fixture.refused("search", json!({"collection": "their", "query": "x"})).await;
    assert_eq!(near["suggestion"], "Did you mean one of theirs?");
    let prefixed = fixture.refused("search", json!({"collection": "mcp_ours", "query": "x"})).await;
    assert_eq!(prefixed["suggestion"], "Did you mean one of ours?", "Chroma shows names with the prefix");
    for (metadata, created) in [(json!({}), Some(false)), (json!({"team": "x"}), None)] {
        let make = json!({"name": "ours", "metadata": metadata});
        match created {
            Some(created) => assert_eq!(fixture.ask("create_collection", make).await["created"], created),
            None => assert_eq!(fixture.refused("create_collection", make).await["error"], "already_exists"),
        }
    }
    fixture.refused("create_collection", json!({"name": "theirs"})).await;
    let bad = fixture.refused("create_collection", json!({"name": "team docs"})).await;
    assert!(bad["valid_range"].as_str().is_some_and(|range| range.contains("ASCII")), "{bad}");
}

#[tokio::test]
async fn records_of_others_are_found_as_they_are() {
    let fixture = Fixture::new().await;
    let context = &fixture.ours.context;
    let theirs = context.chroma.create("mcp_theirs", None).await.expect("made").id;
    let metadata = json!({"document_id": "d", "note": "x"}).as_object().expect("an object").clone();
    let record =
        super::Record { id: "x".into(), vector: vec![1.0; 16], document: "Of others.".into(), metadata };
    let records = super::Records::new(vec![record], None).expect("good");
    context.chroma.upsert(theirs, &records).await.expect("stored");
    let found = fixture.ask("search", json!({"collection": "theirs", "query": "of others"})).await;
    assert_eq!(found["results"][0]["metadata"], json!({"document_id": "d", "note": "x"}));
}

#[tokio::test]
async fn source_is_a_key_of_the_callers() {
    let fixture = Fixture::new().await;
    fixture.ask("create_collection", json!({"name": "docs"})).await;
    let add = json!({"collection": "docs", "content": "A text.", "metadata": {"source": "wiki"}});
    let added = fixture.ask("add_document", add).await;
    let arguments = json!({"collection": "docs", "query": "text", "filters": {"source": "wiki"}});
    let found = fixture.ask("search", arguments).await;
    assert_eq!(found["results"][0]["metadata"], json!({"source": "wiki"}));
    assert_eq!(found["results"][0]["document_id"], added["document_id"]);
}

#[tokio::test]
async fn vectors_of_another_model_are_refused_before_anything_is_written() {
    let fixture = Fixture::new().await;
    fixture.ask("create_collection", json!({"name": "docs"})).await;
    let add = json!({"collection": "docs", "content": "A text."});
    let added = fixture.ask("add_document", add.clone()).await;
    let before = fixture.double.records("mcp_docs").len();
    let doc = id(&added);
    for other in [Letters::new("n", 16), Letters::new("m", 8)] {
        let ours = fixture.other(None, other as Arc<dyn Embedding>);
        let update = json!({"collection": "docs", "doc_id": doc, "content": "Another."});
        for (tool, arguments) in [
            ("add_document", add.clone()),
            ("update_document", update),
            ("search", json!({"collection": "docs", "query": "text"})),
        ] {
            let refusal = refused(&ours, tool, arguments).await;
            let message = refusal["message"].as_str().expect("text");
            assert_eq!(refusal["error"], "model_mismatch", "{tool}: {refusal}");
            assert!(message.contains("`m` of provider `letters`"), "{message}");
        }
    }
    assert_eq!(fixture.double.records("mcp_docs").len(), before);
    // One that was made without a model takes the first one that writes.
    let without = fixture.without_model();
    assert_eq!(ask(&without, "create_collection", json!({"name": "bare"})).await["embedding"], Value::Null);
    fixture.ask("add_document", json!({"collection": "bare", "content": "A text."})).await;
    let listed = fixture.ask("list_collections", json!({})).await;
    assert_eq!(
        listed["collections"][0]["embedding"],
        json!({"provider": "letters", "model": "m", "dimension": 16})
    );
}

#[tokio::test]
async fn without_vectors_everything_else_works_and_the_reason_is_said() {
    let fixture = Fixture::new().await;
    fixture.ask("create_collection", json!({"name": "docs"})).await;
    let added = fixture.ask("add_document", json!({"collection": "docs", "content": "A text."})).await;
    let bare = fixture.without_model();
    let question = json!({"collection": "docs", "query": "text"});
    let refusal = refused(&bare, "search", question.clone()).await;
    let message = refusal["message"].as_str().expect("text");
    assert_eq!(refusal["error"], "not_configured");
    assert!(
        message.starts_with("search needs vectors") && message.contains("embedding.provider"),
        "{message}"
    );
    fixture.letters.is_down.store(true, Ordering::Relaxed);
    let refusal = fixture.refused("search", question).await;
    assert!(refusal["message"].as_str().is_some_and(|text| text.contains("letters")), "{refusal}");
    let refusal = fixture.refused("add_document", json!({"collection": "docs", "content": "B"})).await;
    assert!(refusal["message"].as_str().is_some_and(|text| text.starts_with("add_document")), "{refusal}");
    for ours in [&bare, &fixture.ours] {
        ask(ours, "create_collection", json!({"name": "docs"})).await;
        ask(ours, "list_collections", json!({})).await;
        ask(ours, "get_document_info", json!({"collection": "docs", "doc_id": id(&added)})).await;
    }
    ask(&bare, "delete_document", json!({"collection": "docs", "doc_id": id(&added)})).await;
    ask(&bare, "delete_collection", json!({"name": "docs"})).await;
}

#[tokio::test]
async fn a_collection_that_was_made_anew_is_found_by_its_name() {
    let fixture = Fixture::new().await;
    fixture.ask("create_collection", json!({"name": "docs"})).await;
    fixture.ask("search", json!({"collection": "docs", "query": "x"})).await;
    fixture.double.drop_collection("mcp_docs");
    let other = fixture.other(None, Arc::clone(&fixture.letters) as Arc<dyn Embedding>);
    ask(&other, "create_collection", json!({"name": "docs"})).await;
    let add = json!({"collection": "docs", "content": "A text."});
    let added = fixture.ask("add_document", add.clone()).await;
    fixture.double.drop_collection("mcp_docs");
    let one = json!({"collection": "docs", "doc_id": id(&added)});
    for (tool, arguments) in [
        ("add_document", add),
        ("get_document_info", one.clone()),
        ("delete_document", one.clone()),
        ("update_document", json!({"collection": "docs", "doc_id": id(&added), "content": "x"})),
        ("search", json!({"collection": "docs", "query": "x"})),
    ] {
        let refusal = fixture.refused(tool, arguments).await;
        assert_eq!(
            (&refusal["error"], &refusal["field"]),
            (&json!("not_found"), &json!("collection")),
            "{tool}"
        );
    }
}

/// A model during whose work another program deletes the collection `docs` and makes it again.
struct MadeAgain {
    letters: Arc<Letters>,
    other: VectorStore,
}

impl Embedding for MadeAgain {
    fn embed<'a>(&'a self, texts: &'a [String], deadline: Instant) -> EmbeddingFuture<'a> {
        async move {
            ask(&self.other, "delete_collection", json!({"name": "docs"})).await;
            ask(&self.other, "create_collection", json!({"name": "docs"})).await;
            self.letters.embed(texts, deadline).await
        }
        .boxed()
    }

    fn provider(&self) -> &'static str {
        self.letters.provider()
    }

    fn model(&self) -> &str {
        self.letters.model()
    }

    fn window(&self) -> Window {
        self.letters.window()
    }
}

#[tokio::test]
async fn a_collection_that_is_made_again_while_texts_are_embedded_is_used() {
    let fixture = Fixture::new().await;
    fixture.ask("create_collection", json!({"name": "docs"})).await;
    let other = fixture.other(None, Arc::clone(&fixture.letters) as Arc<dyn Embedding>);
    let model = MadeAgain { letters: Arc::clone(&fixture.letters), other };
    let ours = fixture.other(None, Arc::new(model));
    let added = ask(&ours, "add_document", json!({"collection": "docs", "content": "A text."})).await;
    assert_eq!(added["chunks"], 1);
    let update = json!({"collection": "docs", "doc_id": id(&added), "content": "Another."});
    assert_eq!(
        refused(&ours, "update_document", update).await["field"],
        "doc_id",
        "it went with the old one"
    );
    let found = ask(&ours, "search", json!({"collection": "docs", "query": "text"})).await;
    assert_eq!(found["count"], 0);
}

#[tokio::test]
async fn when_chroma_is_away_that_counts_against_it_and_what_it_refuses_does_not() {
    let fixture = Fixture::new().await;
    fixture.ask("create_collection", json!({"name": "docs"})).await;
    fixture.double.fail(Some(Fault::Before(0)));
    let search = json!({"collection": "docs", "query": "x"});
    let error = reply(&fixture.ours, "search", &search).await.expect_err("away");
    assert!(matches!(error, Error::Backend { status: 503, .. }) && error.trips_breaker());
    fixture.double.fail(None);
    let bad = json!({"collection": "docs", "query": "x", "filters": {"a": {"$regex": "y"}}});
    let refusal = fixture.refused("search", bad).await;
    assert_eq!(refusal["field"], "filters");
    assert!(
        refusal["message"].as_str().is_some_and(|text| text.contains("`$regex` of `a` is no operator")),
        "{refusal}"
    );
    let nested = json!({"collection": "docs", "content": "x", "metadata": {"a": {"b": 1}}});
    assert_eq!(fixture.refused("add_document", nested).await["field"], "metadata.a");
    let most = fixture.refused("search", json!({"collection": "docs", "query": "x", "n_results": 51})).await;
    assert_eq!(most["field"], "n_results");
}

fn all() -> Vec<Tool> {
    let options = crate::chroma::config::ChromaOptions {
        max_results: 10,
        chunking: crate::chunk::Chunking::default(),
        ..options_of_nobody()
    };
    tools(&options)
}

fn options_of_nobody() -> crate::chroma::config::ChromaOptions {
    let url = url::Url::parse("http://127.0.0.1:9").expect("a URL");
    options(&url, None)
}

fn by_name(name: &str) -> Tool {
    all().into_iter().find(|tool| tool.name() == name).expect("a tool")
}

#[test]
fn names_inputs_defaults_and_effects_are_as_specified() {
    let shown = |name: &str| by_name(name).definition().read::<Value>().expect("JSON");
    for (name, required, others, hints) in [
        ("create_collection", json!(["name"]), "metadata", [false, false, true]),
        ("list_collections", Value::Null, "", [true, false, true]),
        ("delete_collection", json!(["name"]), "", [false, true, true]),
        ("add_document", json!(["collection", "content"]), "chunk_size metadata", [false, false, true]),
        ("update_document", json!(["collection", "doc_id", "content"]), "metadata", [false, true, true]),
        ("delete_document", json!(["collection", "doc_id"]), "", [false, true, true]),
        ("search", json!(["collection", "query"]), "filters n_results", [true, false, true]),
        ("get_document_info", json!(["collection", "doc_id"]), "", [true, false, true]),
    ] {
        let tool = shown(name);
        let schema = &tool["inputSchema"];
        assert_eq!(schema["required"], required, "{name}");
        let is_other =
            |key: &&String| !required.as_array().is_some_and(|all| all.iter().any(|one| one == *key));
        let properties = schema["properties"].as_object().expect("an object");
        let found: Vec<&str> = properties.keys().filter(is_other).map(String::as_str).collect();
        assert_eq!(found.join(" "), others, "{name}");
        let said = ["readOnlyHint", "destructiveHint", "idempotentHint"]
            .map(|hint| tool["annotations"][hint] == true);
        assert_eq!(said, hints, "{name}");
    }
    for (name, number, limits) in
        [("search", "n_results", [1, 10, 5]), ("add_document", "chunk_size", [50, 10_000, 1_000])]
    {
        let schema = shown(name)["inputSchema"]["properties"][number].clone();
        assert_eq!(
            ["minimum", "maximum", "default"].map(|what| schema[what].clone()),
            limits.map(Value::from),
            "{name}"
        );
    }
}

#[test]
fn every_schema_uses_only_words_that_are_checked() {
    for tool in all() {
        assert!(tool.is_known(), "{}", tool.name());
    }
}

#[test]
fn any_arguments_are_judged() {
    hostile::judges::<collections::CreateInput>(&by_name("create_collection"), 200);
    hostile::judges::<collections::CollectionListInput>(&by_name("list_collections"), 200);
    hostile::judges::<collections::DeleteInput>(&by_name("delete_collection"), 200);
    hostile::judges::<documents::OneInput>(&by_name("delete_document"), 200);
    hostile::judges::<documents::OneInput>(&by_name("get_document_info"), 200);
    hostile::judges::<search::SearchInput>(&by_name("search"), 200);
    // Their texts are long.
    hostile::judges::<documents::AddInput>(&by_name("add_document"), 24);
    hostile::judges::<documents::UpdateInput>(&by_name("update_document"), 24);
}
