//! Tests of the tools' requests to R2R, and of their results.

use std::time::Duration;

use serde_json::{Value, json};

use super::double::Fault;
use super::fixture::{Fixture, SEARCH};
use super::resources::{CONTEXT, HISTORY};
use crate::{Builtin, Report};
use json::Raw;
use protocol::error::code;
use upstream::api::{Affinity, Call, CallEvent, Error, EventSender};

const RAG: &str = "r2r_rag_query";
const DOCUMENTS: &str = "r2r_list_documents";
const SEARCHES: &str = "POST /v3/retrieval/search";

#[tokio::test]
async fn a_search_finds_the_right_document_and_nothing_of_elsewhere() {
    let fixture = Fixture::filled().await;
    let answer = fixture.ask(SEARCH, json!({"query": "when do access tokens expire"})).await;
    let results = answer["results"].as_array().expect("results");
    assert_eq!(results[0]["title"], "tokens.md");
    assert_eq!(answer["count"], results.len());
    assert_eq!((&answer["cached"], &answer["search_mode"]), (&json!(false), &json!("advanced")));
    assert!(!answer.to_string().contains("secret"), "it is in another collection");
    let again = fixture.ask(SEARCH, json!({"query": "when do access tokens expire", "limit": 10.0})).await;
    assert_eq!(again["cached"], true);
    assert_eq!(again["results"], answer["results"]);
    assert_eq!(fixture.r2r.count(SEARCHES), 1);
}

#[tokio::test]
async fn every_input_makes_another_answer_and_an_ingest_drops_them_all() {
    let fixture = Fixture::filled().await;
    let own = fixture.own().await;
    let questions = [
        json!({"query": "tokens"}),
        json!({"query": "tokens", "limit": 1}),
        json!({"query": "tokens", "search_mode": "basic"}),
        json!({"query": "tokens", "filters": {"team": "core"}}),
        json!({"query": "tokens "}),
    ];
    for question in &questions {
        assert_eq!(fixture.ask(SEARCH, question.clone()).await["cached"], false, "{question}");
    }
    for question in &questions {
        assert_eq!(fixture.ask(SEARCH, question.clone()).await["cached"], true, "{question}");
    }
    let named = json!({"query": "tokens", "collection_id": own.to_string().to_uppercase()});
    assert_eq!(fixture.ask(SEARCH, named).await["cached"], true, "the same collection, by name");
    assert_eq!(fixture.ask("r2r_list_collections", json!({})).await["cached"], false);
    fixture.ours.context.answers.forget(own).await;
    assert_eq!(fixture.ask(SEARCH, questions[0].clone()).await["cached"], false);
    assert_eq!(fixture.ask("r2r_list_collections", json!({})).await["cached"], false);
}

#[tokio::test]
async fn modes_are_said_in_words_that_ask_no_model_and_the_callers_filter_only_narrows() {
    let fixture = Fixture::filled().await;
    let own = fixture.own().await.to_string();
    for mode in ["basic", "advanced", "custom"] {
        let filters = json!({"$or": [{"team": "core"}, {"n": 1}]});
        let question = json!({"query": "to\0kens", "search_mode": mode, "limit": 7, "filters": filters});
        fixture.ask(SEARCH, question).await;
        let sent = fixture.searches().pop().expect("a search");
        assert_eq!((&sent["search_mode"], &sent["query"]), (&json!("custom"), &json!("to kens")));
        let settings = &sent["search_settings"];
        let all = json!({"$and": [{"collection_id": {"$eq": own}}, filters]});
        assert_eq!((&settings["filters"], &settings["limit"]), (&all, &json!(7)));
        let flags = ["use_semantic_search", "use_fulltext_search", "use_hybrid_search"];
        let flags = flags.map(|flag| settings.get(flag).and_then(Value::as_bool));
        match mode {
            "basic" => assert_eq!(flags, [Some(true), None, None]),
            "advanced" => assert_eq!(flags, [Some(true); 3]),
            _ => assert_eq!(flags, [None; 3], "as R2R is configured"),
        }
    }
}

#[tokio::test]
async fn a_filter_that_r2r_can_not_use_is_the_callers_fault() {
    let fixture = Fixture::filled().await;
    let filters = json!({"query": "tokens", "filters": {"chunk_order": 1}});
    fixture.r2r.fail_next("/retrieval/search", 1, Fault::Recorded("search-filter-two-operators"));
    let refusal = fixture.refused(SEARCH, filters).await;
    assert_eq!(refusal["field"], "filters");
    assert!(refusal["message"].as_str().expect("text").contains("Invalid filter structure"), "{refusal}");
    fixture.r2r.fail_next("/retrieval/search", 1, Fault::Recorded("search-embedding-401"));
    let error = fixture.reply(SEARCH, &json!({"query": "x", "filters": {"a": 1}}), &Report::none()).await;
    assert!(matches!(error, Err(Error::Backend { .. })), "{error:?}");
    let requested = fixture.r2r.count(SEARCHES);
    fixture.refused(SEARCH, json!({"query": "x", "filters": {"owner_id": "me"}})).await;
    assert_eq!(fixture.r2r.count(SEARCHES), requested, "R2R is not asked");
}

#[tokio::test]
async fn an_answer_has_its_sources_and_the_model_that_wrote_it() {
    let fixture = Fixture::filled().await;
    let question = json!({"question": "when do access tokens expire", "model": "openai/stub-chat"});
    let answer = fixture.ask(RAG, question.clone()).await;
    assert!(answer["answer"].as_str().expect("text").contains("one hour"), "{answer}");
    assert_eq!(answer["sources"][0]["document"], "tokens.md");
    assert_eq!((&answer["model_used"], &answer["cached"]), (&json!("stub-chat"), &json!(false)));
    let sent = fixture.searches().pop().expect("a question");
    let expected = json!({"model": "openai/stub-chat", "max_tokens_to_sample": 500, "temperature": 0.7, "stream": false});
    assert_eq!(sent["rag_generation_config"], expected, "and nothing else");
    assert_eq!(fixture.ask(RAG, question).await["cached"], true);
    let bare = fixture.ask(RAG, json!({"question": "tokens", "include_sources": false})).await;
    assert_eq!(bare["sources"], json!([]));
    let sent = fixture.searches().pop().expect("a question");
    assert!(sent["rag_generation_config"].get("model").is_none(), "R2R's own");
}

#[tokio::test]
async fn where_nothing_is_found_we_say_so_and_not_the_model() {
    let fixture = Fixture::filled().await;
    let (report, _receiver) = listener();
    for report in [&Report::none(), &report] {
        let question = json!({"question": "zebra", "temperature": u8::from(report.wants_progress())});
        let reply = fixture.reply(RAG, &question, report).await.expect("reached").expect("a result");
        let answer: Value = reply.get("structuredContent").expect("an answer").read().expect("JSON");
        assert!(answer["answer"].as_str().expect("text").starts_with("Nothing was found"), "{answer}");
        assert_eq!((&answer["sources"], &answer["model_used"]), (&json!([]), &Value::Null));
    }
}

#[tokio::test]
async fn an_answer_from_outside_the_collection_is_withheld() {
    let fixture = Fixture::filled().await;
    fixture.r2r.fail_next("/retrieval/search", 1, Fault::Recorded("search-other-collection-leak"));
    let answer = fixture.ask(SEARCH, json!({"query": "leak"})).await;
    assert_eq!((&answer["count"], &answer["results"]), (&json!(0), &json!([])), "it is dropped");
    fixture.r2r.fail_next("/retrieval/rag", 1, Fault::Recorded("rag"));
    let answer = fixture.reply(RAG, &json!({"question": "leak"}), &Report::none()).await;
    assert!(answer.is_err(), "{answer:?}");
}

fn listener() -> (Report, upstream::api::EventReceiver) {
    let (event_sender, receiver) = EventSender::new(64);
    (Report::new(&event_sender, true), receiver)
}

fn progress(receiver: &mut upstream::api::EventReceiver) -> Vec<Value> {
    let mut all = Vec::new();
    while let Ok(said) = receiver.try_recv() {
        let CallEvent::Notice(notice) = said else { panic!("{said:?}") };
        assert_eq!(notice.method.as_str(), "notifications/progress");
        all.push(notice.params.expect("params").read().expect("JSON"));
    }
    all
}

#[tokio::test]
async fn an_answer_grows_before_the_eyes_of_whoever_wants_to_see_it() {
    let fixture = Fixture::filled().await;
    let (report, mut receiver) = listener();
    let question = json!({"question": "when do access tokens expire"});
    let reply = fixture.reply(RAG, &question, &report).await.expect("reached").expect("a result");
    let answer: Value = reply.get("structuredContent").expect("an answer").read().expect("JSON");
    let said = progress(&mut receiver);
    assert_eq!(said.last().expect("progress")["message"], answer["answer"]);
    let steps: Vec<_> = said.iter().map(|said| said["progress"].as_f64().expect("a number")).collect();
    assert!(steps.is_sorted_by(|a, b| a < b), "{steps:?}");
    assert_eq!((&answer["cached"], answer.get("incomplete")), (&json!(false), None));
    assert_eq!(answer["sources"][0]["document"], "tokens.md");
    assert_eq!(fixture.ask(RAG, question).await["answer"], answer["answer"], "it is the same and was kept");
    assert_eq!(fixture.r2r.count("POST /v3/retrieval/rag"), 1);
}

#[tokio::test]
async fn an_answer_that_breaks_off_says_so_and_is_not_kept() {
    let fixture = Fixture::filled().await;
    let question = json!({"question": "when do access tokens expire", "model": "openai/stub-length"});
    let (listening, _receiver) = listener();
    // R2R tells it in two ways: its stream just ends, and its answer in one piece has a reason.
    for (requested, report) in
        [&listening, &listening, &Report::none(), &Report::none()].into_iter().enumerate()
    {
        let requested = requested + 1;
        let reply = fixture.reply(RAG, &question, report).await.expect("reached").expect("a result");
        let answer: Value = reply.get("structuredContent").expect("an answer").read().expect("JSON");
        assert_eq!((&answer["incomplete"], &answer["cached"]), (&json!(true), &json!(false)), "{answer}");
        assert!(answer["answer"].as_str().is_some_and(|text| !text.is_empty()));
        assert_eq!(fixture.r2r.count("POST /v3/retrieval/rag"), requested);
    }
}

#[tokio::test]
async fn documents_are_listed_by_status_with_true_numbers() {
    let fixture = Fixture::filled().await;
    let own = fixture.own().await;
    fixture.r2r.queued();
    let pending = fixture.put(own, "late.md", "It is under way.").await;
    let trace = "Traceback (most recent call last):\n  File \"/srv/app.py\", line 3, in f\nno embeddings";
    fixture.r2r.fail_ingestion(Some(trace));
    let failed = fixture.put(own, "bad.md", "It will fail.").await;
    for _ in 0..6 {
        fixture.ask("r2r_monitor_task", json!({"document_id": failed})).await;
    }
    let all = fixture.ask(DOCUMENTS, json!({"limit": 2})).await;
    assert_eq!((&all["total"], all["documents"].as_array().map(Vec::len)), (&json!(4), Some(2)));
    for (tool, total) in [(DOCUMENTS, 4), ("r2r_list_collections", 2)] {
        let behind = fixture.ask(tool, json!({"offset": 50})).await;
        assert_eq!(behind["total"], total, "R2R says 0 behind the end of a list");
    }
    let listed = fixture.ask(DOCUMENTS, json!({"status_filter": "pending"})).await;
    assert_eq!((&listed["total"], &listed["documents"][0]["document_id"]), (&json!(1), &json!(pending)));
    assert_eq!((&listed["scanned"], &listed["incomplete"]), (&json!(6), &json!(false)));
    let listed = fixture.ask(DOCUMENTS, json!({"status_filter": "failed"})).await;
    assert_eq!((&listed["total"], &listed["documents"][0]["document_id"]), (&json!(1), &json!(failed)));
    let listed = fixture.ask(DOCUMENTS, json!({"status_filter": "success", "offset": 2, "limit": 2})).await;
    assert_eq!((&listed["total"], listed["documents"].as_array().map(Vec::len)), (&json!(3), Some(1)));
    let context = fixture.read(CONTEXT, &Report::none()).await;
    let counts = &context["ingestion_status"];
    assert_eq!(
        (&counts["pending"], &counts["success"], &counts["failed"]),
        (&json!(1), &json!(3), &json!(1))
    );
    assert_eq!((&context["document_count"], &context["project_name"]), (&json!(3), &json!("my-app")));
    assert_eq!(context["collection_id"], json!(own));
    let collections = fixture.ask("r2r_list_collections", json!({})).await;
    let listed = collections["collections"].as_array().expect("collections");
    let ours = listed.iter().find(|listed| listed["collection_id"] == json!(own)).expect("ours");
    assert_eq!((&ours["document_count"], &ours["name"]), (&json!(4), &json!("claude-code-my-app")));
}

#[tokio::test]
async fn a_document_is_followed_to_its_end() {
    let fixture = Fixture::new().await;
    let own = fixture.own().await;
    fixture.r2r.queued();
    let id = fixture.put(own, "late.md", "It is under way.").await;
    let mut seen = Vec::new();
    for _ in 0..10 {
        let answer = fixture.ask("r2r_monitor_task", json!({"document_id": id})).await;
        seen.push(answer["progress"].as_f64().expect("a number"));
    }
    assert!(seen.is_sorted() && seen.last() == Some(&1.0), "{seen:?}");
    let result = fixture.result("r2r_monitor_task", &json!({"document_id": id})).await;
    assert_eq!(result["ttlMs"], 0, "kept nowhere, whatever an operator has kept");
    fixture.r2r.fail_ingestion(Some("no embeddings"));
    let id = fixture.put(own, "bad.md", "It will fail.").await;
    let mut answer = Value::Null;
    for _ in 0..10 {
        answer = fixture.ask("r2r_monitor_task", json!({"document_id": id})).await;
    }
    assert_eq!(
        (&answer["ingestion_status"], &answer["failure"]),
        (&json!("failed"), &json!("no embeddings"))
    );
    assert_eq!(answer["progress"], 0.0);
}

#[tokio::test]
async fn missing_or_foreign_document_is_named() {
    let fixture = Fixture::filled().await;
    let foreign = fixture.r2r.foreign_collection("theirs");
    for (tool, field, id) in [
        ("r2r_monitor_task", "document_id", "00000000-0000-0000-0000-000000000001"),
        (DOCUMENTS, "collection_id", "00000000-0000-0000-0000-000000000001"),
        (DOCUMENTS, "collection_id", &foreign),
    ] {
        let refusal = fixture.refused(tool, json!({field: id})).await;
        assert_eq!((&refusal["error"], &refusal["field"]), (&json!("not_found"), &json!(field)), "{refusal}");
        assert_eq!(refusal["rejected_value"], id);
    }
    let unknown = fixture.reply("r2r_delete", &json!({}), &Report::none()).await.expect("reached");
    assert_eq!(unknown.expect_err("unknown").code(), code::INVALID_PARAMS);
    let unknown = fixture.ours.read("r2r://other", &Report::none()).await.expect("reached");
    assert_eq!(unknown.expect_err("unknown").code(), code::INVALID_PARAMS);
}

#[tokio::test]
async fn list_of_the_project_survives_the_end_of_its_collection() {
    let fixture = Fixture::filled().await;
    for filter in ["all", "success"] {
        let gone = fixture.own().await;
        let client = &fixture.ours.context.client;
        client.delete::<Value>(&["collections", &gone.to_string()]).await.expect("deleted");
        let listed = fixture.ask(DOCUMENTS, json!({"status_filter": filter})).await;
        assert_eq!(listed["total"], 0, "{listed}");
        assert_ne!(fixture.own().await, gone);
        let refusal = fixture.refused(DOCUMENTS, json!({"collection_id": gone, "offset": 1})).await;
        assert_eq!(refusal["rejected_value"], json!(gone), "{refusal}");
    }
}

#[tokio::test]
async fn everybody_is_shown_their_own_queries() {
    let fixture = Fixture::filled().await;
    let of = |affinity: &Affinity| {
        let call = Call { affinity: Some(affinity.clone()), ..Call::of_gateway("tools/call", None) };
        Report::of(&call, &EventSender::none())
    };
    let (one, other) =
        (of(&Affinity::session()), of(&Affinity::of_principal("p".into(), &Raw::empty_object())));
    fixture.reply(SEARCH, &json!({"query": "tokens"}), &one).await.expect("reached").expect("found");
    fixture.reply(RAG, &json!({"question": "backups"}), &one).await.expect("reached").expect("found");
    let history = fixture.read(HISTORY, &one).await;
    assert_eq!(
        (&history["queries"][0]["query"], &history["queries"][1]["query"]),
        (&json!("backups"), &json!("tokens"))
    );
    assert!(history["queries"][0]["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')));
    for other in [&other, &Report::none()] {
        assert_eq!(fixture.read(HISTORY, other).await["queries"], json!([]));
    }
    let uris: Vec<_> =
        fixture.ours.resources().expect("resources").iter().map(|one| one.get_as::<String>("uri")).collect();
    assert_eq!(uris, [CONTEXT, HISTORY].map(|uri| Some(uri.to_owned())));
}

#[tokio::test]
async fn nothing_is_kept_where_the_configuration_says_so() {
    let fixture = Fixture::with(|options| options.cache_ttl.search = Duration::ZERO).await;
    for requested in 1..=2 {
        assert_eq!(fixture.ask(SEARCH, json!({"query": "tokens"})).await["cached"], false);
        assert_eq!(fixture.r2r.count(SEARCHES), requested);
    }
}
