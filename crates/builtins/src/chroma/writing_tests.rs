//! Tests of searches during writes, and of the state after an interrupted write.

use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::{Value, json};

use super::double::Fault;
use super::fixture::{Fixture, ask, reply};
use super::layout::{head_id, now};
use super::{VectorStore, writing};
use crate::embedding::Embedding;

/// Returns a text of `chunks` chunks, each of which contains its version.
fn text(version: usize, chunks: usize) -> String {
    let part = |at| format!("Version {version}, part {at}: the cranes of the harbour rest. ");
    (0..chunks).map(part).collect::<Vec<_>>().concat()
}

async fn add(ours: &VectorStore, text: &str) -> String {
    let added = ask(ours, "add_document", json!({"collection": "docs", "content": text})).await;
    added["document_id"].as_str().expect("an id").to_owned()
}

async fn search(ours: &VectorStore) -> Vec<String> {
    let arguments = json!({"collection": "docs", "query": "cranes of the harbour", "n_results": 10});
    let found = ask(ours, "search", arguments).await;
    let results = found["results"].as_array().expect("a list").iter();
    results.map(|hit| hit["content"].as_str().expect("text").to_owned()).collect()
}

/// Returns the version whose number of chunks matches. Any other result is not a complete document.
fn version(found: &[String], known: &[(usize, usize)]) -> Option<usize> {
    let is_one = |(version, chunks): &&(usize, usize)| {
        let start = format!("Version {version},");
        found.len() == *chunks && found.iter().all(|content| content.starts_with(&start))
    };
    known.iter().find(is_one).map(|(version, _)| *version)
}

/// Returns pseudo-random numbers, equal in every run.
fn numbers(mut seed: u64) -> impl Iterator<Item = u64> {
    std::iter::repeat_with(move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    })
}

/// Versions with their number of chunks. The fourth needs more than one batch.
const VERSIONS: [(usize, usize); 4] = [(0, 3), (1, 1), (2, 4), (3, 9)];

#[tokio::test]
async fn search_during_updates_finds_one_whole_version_in_any_order_of_requests() {
    let fixture = Fixture::new().await;
    fixture.ask("create_collection", json!({"name": "docs"})).await;
    let letters = || Arc::clone(&fixture.letters) as Arc<dyn Embedding>;
    let (writer, reader) = (fixture.other(Some("w"), letters()), fixture.other(Some("r"), letters()));
    let id = add(&fixture.ours, &text(0, 3)).await;
    let mut searches = 0;
    for seed in 0..100 {
        let order = numbers(seed).map(|number| if number % 2 == 0 { 'w' } else { 'r' }).take(60);
        fixture.double.order(order.collect());
        let write = async {
            for (version, chunks) in [VERSIONS[1], VERSIONS[2], VERSIONS[3], VERSIONS[0]] {
                let update = json!({"collection": "docs", "doc_id": id, "content": text(version, chunks)});
                ask(&writer, "update_document", update).await;
            }
            fixture.double.done('w');
        };
        let mut write = std::pin::pin!(write.fuse());
        let mut is_written = false;
        let mut last = 0;
        while !is_written {
            let found = search(&reader);
            let mut found = std::pin::pin!(found);
            let found = loop {
                futures_util::select_biased! {
                    () = write => is_written = true,
                    found = found.as_mut().fuse() => break found,
                }
            };
            let seen = version(&found, &VERSIONS);
            assert!(seen.is_some(), "order {seed}, after version {last}: {found:?}");
            last = seen.unwrap_or_default();
            searches += 1;
        }
        fixture.double.done('r');
        assert_eq!(version(&search(&reader).await, &VERSIONS), Some(0), "order {seed}");
        assert_eq!(fixture.double.records("mcp_docs").len(), 3, "nothing stale is left, order {seed}");
    }
    assert!(searches > 500, "{searches}");
}

/// Cuts a call off at each of its requests, and checks the state before and after the call is repeated.
async fn cut_off_everywhere(call: impl Fn(&str) -> (&'static str, Value), after: Option<usize>) {
    for at in 0..30 {
        for fault in [Fault::Before(at), Fault::After(at)] {
            let fixture = Fixture::new().await;
            fixture.ask("create_collection", json!({"name": "docs"})).await;
            let old = add(&fixture.ours, &text(0, 3)).await;
            let (tool, arguments) = call(&old);
            // Reads the facts about the server that are cached.
            search(&fixture.ours).await;
            fixture.double.fail(Some(fault));
            let outcome = reply(&fixture.ours, tool, &arguments).await;
            if fixture.double.seen().len() <= at {
                assert!(outcome.is_ok() && at > 2, "all of its requests were cut off");
                return;
            }
            outcome.expect_err("the server was gone");
            fixture.double.fail(None);
            let between = search(&fixture.ours).await;
            let known = [(0, 3), (7, 9), (0, 0)];
            let is_whole = version(&between, &known).is_some() || is_both(&between);
            assert!(is_whole, "{fault:?}: {between:?}");
            let again = reply(&fixture.ours, tool, &arguments).await.expect("reached").expect("a result");
            let is_error = again.get("isError").expect("said").as_str() == "true";
            assert!(!is_error || tool == "delete_document", "{fault:?}: {again:?}");
            let found = search(&fixture.ours).await;
            match after {
                // The new document is beside the old one.
                None => assert!(is_both(&found), "{fault:?}: {found:?}"),
                Some(chunks) => {
                    assert_eq!(
                        version(&found, &known).is_some().then_some(found.len()),
                        Some(chunks),
                        "{fault:?}"
                    );
                    assert_eq!(fixture.double.records("mcp_docs").len(), chunks, "{fault:?}");
                }
            }
        }
    }
    panic!("it never ended");
}

fn is_both(found: &[String]) -> bool {
    let of = |start: &str| found.iter().filter(|content| content.starts_with(start)).count();
    found.len() == 10 && of("Version 0,") >= 1 && of("Version 7,") + of("Version 0,") == 10
}

#[tokio::test]
async fn an_update_that_was_cut_off_at_any_request_is_made_whole_by_the_next() {
    let call =
        |id: &str| ("update_document", json!({"collection": "docs", "doc_id": id, "content": text(7, 9)}));
    cut_off_everywhere(call, Some(9)).await;
}

#[tokio::test]
async fn a_document_whose_adding_was_cut_off_at_any_request_is_made_whole_by_the_next() {
    let call = |_: &str| ("add_document", json!({"collection": "docs", "content": text(7, 9)}));
    cut_off_everywhere(call, None).await;
}

#[tokio::test]
async fn a_deletion_that_was_cut_off_at_any_request_leaves_nothing_after_the_next() {
    let call = |id: &str| ("delete_document", json!({"collection": "docs", "doc_id": id}));
    cut_off_everywhere(call, Some(0)).await;
}

#[tokio::test]
async fn unfinished_update_hides_nothing_and_costs_a_few_queries() {
    let fixture = Fixture::new().await;
    fixture.ask("create_collection", json!({"name": "docs"})).await;
    let old = add(&fixture.ours, &text(0, 3)).await;
    // Every chunk of it is as near as the old ones, and there are many more.
    fixture.double.fail(Some(Fault::After(60)));
    let many = json!({"collection": "docs", "doc_id": old, "content": text(7, 800)});
    reply(&fixture.ours, "update_document", &many).await.expect_err("cut off");
    fixture.double.fail(None);
    assert!(fixture.double.records("mcp_docs").len() > 300);
    assert_eq!(version(&search(&fixture.ours).await, &VERSIONS), Some(0));
    let queries = fixture.double.seen().iter().filter(|seen| seen.ends_with("query")).count();
    assert!(queries <= 3, "{queries}");
}

#[tokio::test]
async fn two_gateways_that_write_one_document_leave_one_of_the_two() {
    let fixture = Fixture::new().await;
    fixture.ask("create_collection", json!({"name": "docs"})).await;
    let letters = || Arc::clone(&fixture.letters) as Arc<dyn Embedding>;
    let (one, two) = (fixture.other(Some("a"), letters()), fixture.other(Some("b"), letters()));
    let id = add(&fixture.ours, &text(0, 3)).await;
    for seed in 0..200 {
        let order = numbers(seed + 9_000).map(|number| if number % 2 == 0 { 'a' } else { 'b' }).take(60);
        fixture.double.order(order.collect());
        let write = |who: char, version: usize, chunks: usize| {
            let (ours, double) = (if who == 'a' { &one } else { &two }, &fixture.double);
            let update = json!({"collection": "docs", "doc_id": id, "content": text(version, chunks)});
            async move {
                let done = reply(ours, "update_document", &update).await.expect("reached").expect("a result");
                double.done(who);
                done.get("isError").expect("said").as_str() == "false"
            }
        };
        let (first, second) = tokio::join!(write('a', 2, 4), write('b', 3, 9));
        assert!(first && second, "order {seed}");
        let found = search(&fixture.ours).await;
        assert!(matches!(version(&found, &VERSIONS), Some(2 | 3)), "order {seed}: {found:?}");
    }
}

#[tokio::test]
async fn a_clock_that_stepped_back_does_not_hide_what_is_written_then() {
    let fixture = Fixture::new().await;
    fixture.ask("create_collection", json!({"name": "docs"})).await;
    let id = add(&fixture.ours, &text(0, 3)).await;
    let context = &fixture.ours.context;
    let collection = context.open("docs").await.expect("there").id;
    let place = writing::DocumentPlace { chroma: &context.chroma, collection, document: &id };
    // A gateway whose clock is an hour ahead was killed during an update.
    let mut record = fixture.double.records("mcp_docs")[&head_id(&id)].metadata.clone();
    record.insert("revision".into(), (now() + 3_600_000_000).into());
    record.insert("chunk_index".into(), 1.into());
    let ahead = super::Record {
        id: format!("{id}#00001@9"),
        vector: vec![1.0; 16],
        document: text(9, 1),
        metadata: record,
    };
    let ahead = super::Records::new(vec![ahead], None).expect("good");
    context.chroma.upsert(collection, &ahead).await.expect("stored");
    assert_eq!(version(&search(&fixture.ours).await, &VERSIONS), Some(0));
    assert!(place.head().await.expect("read").is_some());
    let update = json!({"collection": "docs", "doc_id": id, "content": text(2, 4)});
    fixture.ask("update_document", update).await;
    assert_eq!(version(&search(&fixture.ours).await, &VERSIONS), Some(2));
    assert_eq!(fixture.double.records("mcp_docs").len(), 4);
}

#[tokio::test]
async fn documents_of_another_program_are_read_updated_and_deleted() {
    let fixture = Fixture::new().await;
    let context = &fixture.ours.context;
    let theirs = context.chroma.create("mcp_theirs", None).await.expect("made").id;
    let record = |id: &str, metadata: Value| super::Record {
        id: id.into(),
        vector: vec![1.0; 16],
        document: format!("Of others, {id}."),
        metadata: metadata.as_object().expect("an object").clone(),
    };
    // A document in two records with ids of the usual form, one in records with other ids, and a bare record.
    let records = vec![
        record("d#00000", json!({"document_id": "d", "note": "x", "title": "T"})),
        record("d#00001", json!({"document_id": "d", "note": "x", "title": "T"})),
        record("e_chunk_0", json!({"document_id": "e"})),
        record("e_chunk_1", json!({"document_id": "e"})),
        record("bare", json!({"note": "y"})),
        record("other", json!({"document_id": "f"})),
    ];
    let records = super::Records::new(records, None).expect("good");
    context.chroma.upsert(theirs, &records).await.expect("stored");
    let one = |id: &str| json!({"collection": "theirs", "doc_id": id});
    let info = fixture.ask("get_document_info", one("d")).await;
    assert_eq!((&info["chunks"], &info["revision"]), (&json!(2), &json!(0)));
    assert_eq!(info["metadata"], json!({"note": "x", "title": "T"}));
    let update = json!({"collection": "theirs", "doc_id": "d", "content": "New.", "metadata": {"note": "z"}});
    assert_eq!(fixture.ask("update_document", update).await["replaced"], true);
    let info = fixture.ask("get_document_info", one("d")).await;
    assert_eq!((&info["chunks"], &info["metadata"]), (&json!(1), &json!({"note": "z"})), "{info}");
    for id in ["e", "bare"] {
        let update = json!({"collection": "theirs", "doc_id": id, "content": format!("New {id}.")});
        fixture.ask("update_document", update).await;
        assert_eq!(fixture.ask("get_document_info", one(id)).await["chunks"], 1, "{id}");
    }
    let found =
        fixture.ask("search", json!({"collection": "theirs", "query": "of others"})).await.to_string();
    assert!(
        found.contains("other") && !found.contains("Of others, d") && !found.contains("Of others, e"),
        "{found}"
    );
    assert_eq!(fixture.double.records("mcp_theirs").len(), 4, "one of each document");
    for id in ["d", "e", "bare", "f"] {
        assert_eq!(fixture.ask("delete_document", one(id)).await["deleted"], 1, "{id}");
        fixture.refused("delete_document", one(id)).await;
    }
    assert_eq!(fixture.double.records("mcp_theirs").len(), 0);
}
