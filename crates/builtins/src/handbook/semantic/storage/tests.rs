//! Vectors that are at Chroma: what is there, and what a search makes of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::super::super::fixture::*;
use super::super::tests::{Concepts, DIMENSION, Mode, embedded, long_with, ready, search, shown_of_long};
use super::fixture::*;
use crate::chroma::double::Double;
use crate::chroma::{ChromaClient, DatabaseAddress};
use crate::embedding::Embedding;
use crate::handbook::semantic::vector_cache::VectorCache;
use crate::rest::Rest;
use runtime::shutdown::Shutdown;

#[tokio::test]
async fn chroma_has_a_vector_for_each_text_and_nothing_else() {
    let (double, model) = (Double::start().await, Concepts::working());
    let fixture = at(&double, &model).await;
    let embedded = ready(&fixture).await;
    assert_eq!((embedded.documents, embedded.of), (5, 5));
    holds(&double, &texts(model.requested())).await;
    let records = double.records(NAME);
    assert_eq!(records.len(), embedded.passages);
    for stored in records.values() {
        assert!(stored.document.is_empty() && stored.metadata.is_empty(), "{stored:?}");
        let length: f64 = stored.vector.iter().map(|number| number * number).sum();
        assert!((length - 1.0).abs() < 1e-3, "{length}");
    }
    let chroma = ChromaClient::new(
        &DatabaseAddress::usual(double.url.clone()),
        &crate::server_context(&Shutdown::new()),
    )
    .expect("usable");
    let collection = chroma.collection(NAME).await.expect("asked").expect("there");
    let said = collection.metadata.expect("metadata");
    let expected = json!({"kept_by": "switchyard handbook", "embedding_provider": "openai", "embedding_model": "m",
        "embedding_dimension": DIMENSION});
    assert_eq!(Value::Object(said), expected);
}

#[tokio::test]
async fn hits_and_scores_equal_those_in_memory() {
    let (double, model) = (Double::start().await, Concepts::working());
    let mut fixture = Fixture::with(COMPANY).await;
    // Far more than one answer of Chroma has; most of them have words of the questions.
    for number in 0..500 {
        let word = ["night", "laptop", "server", "leave"][number % 4];
        let text = format!(
            "# Note {number}\n\nA {word} is number{number} of many notes.\n\n## More {number}\nNumber{}.\n",
            number / 7
        );
        fixture.write(&format!("{}/{number}.md", ["notes", "people", "engineering"][number % 3]), &text);
    }
    let other = open(fixture.folder.path(), 100).await.expect("it opens");
    let other = Fixture {
        folder: tempfile::tempdir().expect("a folder"),
        handbook: with_storage(other, &double, &model),
    };
    let in_memory: Arc<dyn Embedding> = Arc::<Concepts>::clone(&model);
    let fresh = open(fixture.folder.path(), 100).await.expect("it opens");
    fixture.handbook = fresh.with(Box::pin(async { Ok(in_memory) }), VectorCache::new(None, ""), None);
    let (one, two) = (ready(&fixture).await, ready(&other).await);
    assert!(one == two && one.passages > 1_000, "{one:?} {two:?}");
    for arguments in [
        json!({"query": "vacation"}),
        json!({"query": "notebook number12", "n_results": 20}),
        json!({"query": "night", "section": "people", "n_results": 20}),
        json!({"query": "dark", "section": "people/holidays"}),
        json!({"query": "computer", "section": "engineering/onboarding#first-week"}),
        json!({"query": "zzzz qqqq"}),
    ] {
        let (here, there) = (answer(&fixture, &arguments).await, answer(&other, &arguments).await);
        assert_eq!(here["ranking"], "hybrid", "{arguments}");
        assert_eq!(here["count"], there["count"], "{arguments}");
        let paths = |answer: &Value| -> Vec<(String, f64)> {
            let hits = answer["hits"].as_array().expect("hits").iter();
            hits.map(|hit| {
                let score = hit["metadata"]["score"].as_f64().expect("a score");
                (hit["metadata"]["path"].as_str().expect("a path").to_owned(), score)
            })
            .collect()
        };
        let (here, there) = (paths(&here), paths(&there));
        for ((path, score), (_, other)) in here.iter().zip(&there) {
            // The mean is that of a sample of passages, not of all sections.
            assert!((score - other).abs() < 0.05, "{arguments} {path}: {score} {other}");
        }
        assert_eq!(here[0].0, there[0].0, "{arguments}");
    }
    double.fail(None);
    search(&other, "many notes").await;
    assert_eq!(double.seen(), ["POST query", "POST get"], "what has the words and is far away is read too");
}

#[tokio::test]
async fn nearest_passage_of_a_long_section_is_shown() {
    let (double, model) = (Double::start().await, Concepts::working());
    let mut fixture = Fixture::with(COMPANY).await;
    fixture.write("long.md", &long_with("The nocturnal nocturnal nocturnal otter."));
    let fresh = open(fixture.folder.path(), 100).await.expect("it opens");
    fixture.handbook = with_storage(fresh, &double, &model);
    ready(&fixture).await;
    let shown = shown_of_long(&fixture, "dark").await;
    assert!(shown.starts_with("# Long\n…\n") && shown.ends_with("nocturnal otter."), "{shown}");
}

#[tokio::test]
async fn after_a_restart_one_text_is_embedded_to_know_the_model_by() {
    let (double, model, first, before) = stored().await;
    first.handbook.tasks.begin();
    let second = restarted(&first, &double, &model).await;
    ready(&second).await;
    assert_eq!(model.requested().concat().len(), 1);
    let (ranking, hits) = search(&second, "vacation").await;
    assert_eq!((ranking.as_str(), hits[0].as_str()), ("hybrid", "people/holidays"));
    holds(&double, &before).await;
}

#[tokio::test]
async fn vectors_of_another_model_under_the_same_name_are_not_searched() {
    let (double, model, first, before) = stored().await;
    first.handbook.tasks.begin();
    model.set(Mode::Mirrored);
    let second = restarted(&first, &double, &model).await;
    let requested = || model.requested().len();
    eventually(|| requested() > 0).await;
    eventually(|| requested() > 0).await;
    assert_eq!(search(&second, "laptop").await.0, "lexical");
    holds(&double, &before).await;
    model.set(Mode::Works);
    eventually(|| embedded(&second).is_ready).await;
    assert_eq!(search(&second, "vacation").await.0, "hybrid");
}

#[tokio::test]
async fn a_folder_without_documents_deletes_nothing() {
    let (double, model, fixture, known) = stored().await;
    for (name, _) in COMPANY {
        std::fs::remove_file(fixture.folder.path().join(name)).expect("removed");
    }
    walked().await;
    until(&fixture, |state| state.embedded.of == 0).await;
    for _ in 0..2_000 {
        tokio::task::yield_now().await;
    }
    holds(&double, &known).await;
    fixture.write("people/holidays.md", "# Holidays\nThirty days a year.\n");
    walked().await;
    while double.records(NAME).len() > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(model.requested(), Vec::<Vec<String>>::new(), "what came back was there");
}

#[tokio::test]
async fn a_change_writes_what_is_new_and_drops_what_is_of_no_document() {
    let (double, model, fixture, mut known) = stored().await;
    fixture.write(
        "people/holidays.md",
        "# Holidays\nThirty days a year.\n\n## Pets\nA dog may come at night.\n",
    );
    fixture.write("people/copy.md", "# Holidays\nThirty days a year.\n");
    std::fs::remove_file(fixture.folder.path().join("engineering/on-call.md")).expect("removed");
    walked().await;
    let pets = "Holidays > Pets\n## Pets\nA dog may come at night.".to_owned();
    known.retain(|text| !text.starts_with("On call") && !text.contains("Request leave"));
    known.insert(pets.clone());
    holds(&double, &known).await;
    assert_eq!(model.requested(), [[pets]], "a text in two documents is one");
    until(&fixture, |state| state.embedded.of == 5 && state.embedded.documents == 5).await;
    let (_, hits) = search(&fixture, "vacation thirty").await;
    assert_eq!(
        BTreeSet::from_iter(&hits[..2]),
        BTreeSet::from_iter(&["people/copy".into(), "people/holidays".into()])
    );
    assert_eq!(search(&fixture, "nocturnal pets").await.1[0], "people/holidays#pets");
}

#[tokio::test]
async fn stale_entry_is_no_hit_and_is_removed_at_the_next_start() {
    let (double, model, fixture, known) = stored().await;
    let stale = id("Vacation\nvacation vacation");
    let foreign = "somebody-elses".to_owned();
    let other_model = stale.replace(&stale[..8], "00000000");
    insert(&double, &[stale.clone(), foreign.clone(), other_model.clone()], "vacation").await;
    let (ranking, hits) = search(&fixture, "vacation").await;
    assert_eq!((ranking.as_str(), hits[0].as_str()), ("hybrid", "people/holidays"));
    let second = restarted(&fixture, &double, &model).await;
    ready(&second).await;
    while double.records(NAME).contains_key(&stale) {
        tokio::task::yield_now().await;
    }
    let left = double.records(NAME);
    assert!(left.contains_key(&foreign) && left.contains_key(&other_model), "not ours to delete");
    assert_eq!(left.len(), known.len() + 2);
}

#[tokio::test]
async fn a_collection_that_is_deleted_is_made_anew_and_filled_again() {
    let (double, _, fixture, known) = stored().await;
    double.drop_collection(NAME);
    let (ranking, hits) = search(&fixture, "laptop").await;
    assert!(ranking == "lexical" && !hits.is_empty());
    holds(&double, &known).await;
    until(&fixture, |state| state.embedded.is_ready).await;
    let (ranking, hits) = search(&fixture, "vacation").await;
    assert_eq!((ranking.as_str(), hits[0].as_str()), ("hybrid", "people/holidays"));
}

#[tokio::test]
async fn records_that_somebody_deleted_are_written_again_when_it_is_looked() {
    let (double, model, fixture, known) = stored().await;
    let (chroma, collection) = collection(&double).await;
    let lost = known.iter().find(|text| text.contains("Thirty")).expect("there");
    chroma.delete(collection, &[id(lost)]).await.expect("deleted");
    assert_eq!(search(&fixture, "vacation").await.0, "hybrid");
    let scoped = answer(&fixture, &json!({"query": "vacation", "section": "people/holidays"})).await;
    assert_eq!((&scoped["ranking"], scoped["count"].as_u64()), (&json!("hybrid"), Some(1)), "{scoped}");
    later(Duration::from_mins(11)).await;
    holds(&double, &known).await;
    assert_eq!(texts(model.requested()), BTreeSet::from([lost.clone(), "vacation".into()]));
}

#[tokio::test]
async fn a_collection_of_others_is_not_touched() {
    let marked = json!({"kept_by": "switchyard handbook", "embedding_provider": "openai", "embedding_model": "m",
        "embedding_dimension": DIMENSION});
    let with = |key: &str, value: Value| {
        let mut metadata = marked.clone();
        metadata[key] = value;
        metadata
    };
    for (space, metadata) in [
        ("cosine", json!({"a": 1})),
        ("l2", marked.clone()),
        ("cosine", with("embedding_model", json!("another"))),
        ("cosine", with("embedding_dimension", json!(3))),
        ("cosine", with("kept_by", json!("somebody"))),
        ("cosine", with("embedding_dimension", json!(null))),
    ] {
        let (double, model) = (Double::start().await, Concepts::working());
        let body = json!({"name": NAME, "metadata": metadata, "configuration": {"hnsw": {"space": space}}});
        let path = "api/v2/tenants/default_tenant/databases/default_database/collections";
        let rest = Rest::new(&double.url, &crate::server_context(&Shutdown::new())).expect("a client");
        let path: Vec<_> = path.split('/').collect();
        rest.request(Method::POST, &path).json(&body).send().await.expect("made");
        let fixture = at(&double, &model).await;
        let looks = || double.seen().iter().filter(|seen| **seen == format!("GET {NAME}")).count();
        eventually(|| looks() > 1).await;
        assert_eq!(search(&fixture, "laptop").await.0, "lexical", "{space} {metadata}");
        assert!(double.records(NAME).is_empty() && model.requested().is_empty(), "{space} {metadata}");
        assert!(!double.seen().iter().any(|seen| seen.ends_with("upsert")), "{space} {metadata}");
    }
}

#[tokio::test]
async fn gateways_over_one_folder_share_a_collection() {
    let (double, model) = (Double::start().await, Concepts::working());
    let one = at(&double, &model).await;
    let two = restarted(&one, &double, &model).await;
    ready(&one).await;
    ready(&two).await;
    let known = texts(model.requested());
    holds(&double, &known).await;
    for fixture in [&one, &two] {
        assert_eq!(search(fixture, "vacation").await.1[0], "people/holidays");
    }
}
