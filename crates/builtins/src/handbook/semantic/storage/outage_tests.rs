//! Tests of a handbook whose Chroma fails, is slow, returns, or answers nonsense.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, pause};

use super::super::WAIT;
use super::super::outage::REST;
use super::super::tests::{Concepts, ready, search};
use super::fixture::*;
use crate::chroma::double::{Double, Fault, Tampering};

#[tokio::test]
async fn without_chroma_the_handbook_opens_and_vectors_come_when_it_is_there() {
    let (double, model) = (Double::start().await, Concepts::working());
    double.fail(Some(Fault::Before(0)));
    let fixture = at(&double, &model).await;
    assert_eq!(search(&fixture, "laptop").await.0, "lexical");
    eventually(|| double.seen().len() > 3).await;
    assert!(model.requested().is_empty(), "nothing is embedded that cannot be kept");
    double.fail(None);
    eventually(|| !double.seen().is_empty()).await;
    ready(&fixture).await;
    assert_eq!(search(&fixture, "notebook").await.1[0], "engineering/onboarding#first-week");
}

#[tokio::test]
async fn chroma_that_fails_costs_meaning_and_no_search_and_is_left_alone() {
    let (double, model, fixture, _) = stored().await;
    double.fail(Some(Fault::Before(0)));
    for query in ["laptop", "leave", "escalation"] {
        let (ranking, hits) = search(&fixture, query).await;
        assert!(ranking == "lexical" && !hits.is_empty(), "{query}");
    }
    assert_eq!(double.seen().len(), 1, "one has asked");
    assert_eq!(model.requested().len(), 1, "and without Chroma no vector is of use");
    double.fail(None);
    later(REST).await;
    assert_eq!(search(&fixture, "leave").await.0, "hybrid", "what was answered meanwhile was not kept");
    assert_eq!(search(&fixture, "laptop").await.0, "hybrid");
}

#[tokio::test]
async fn chroma_that_does_not_answer_is_waited_for_no_longer_than_said() {
    let (double, _, fixture, _) = stored().await;
    double.mute(true);
    pause();
    let started = Instant::now();
    let (ranking, hits) = search(&fixture, "laptop").await;
    assert!(ranking == "lexical" && !hits.is_empty());
    assert_eq!(started.elapsed().as_secs(), WAIT.as_secs());
    let again = Instant::now();
    assert_eq!(search(&fixture, "night").await.0, "lexical");
    assert!(again.elapsed() < WAIT);
}

#[tokio::test]
async fn changes_during_an_outage_of_chroma_are_applied_when_a_search_sees_it_back() {
    let (double, _, fixture, mut known) = stored().await;
    double.fail(Some(Fault::Before(0)));
    fixture.write("people/new.md", "# Commuting\nBy bicycle.\n");
    walked().await;
    while double.seen().is_empty() {
        tokio::task::yield_now().await; // until the new text is written
    }
    assert_eq!(search(&fixture, "bicycle").await.1[0], "people/new");
    double.fail(None);
    later(REST).await;
    assert_eq!(search(&fixture, "vacation").await.0, "hybrid");
    known.insert("Commuting\n# Commuting\nBy bicycle.".into());
    holds(&double, &known).await;
}

#[tokio::test]
async fn no_answer_of_chroma_fails_a_search_or_yields_a_wrong_hit() {
    let null: fn(&mut Value) = |answer| answer["distances"] = json!([[null, null, null]]);
    let unknown: fn(&mut Value) = |answer| {
        let ids: Vec<String> = (0..5_000).map(|number| format!("unknown-{number}")).collect();
        let distances = vec![0.0; ids.len()];
        *answer = json!({"ids": [ids], "distances": [distances]});
    };
    let far: fn(&mut Value) = |answer| {
        let count = answer["ids"][0].as_array().map_or(0, Vec::len);
        answer["distances"] = json!([vec![-1e300; count]]);
    };
    let short: fn(&mut Value) = |answer| answer["distances"] = json!([[0.5]]);
    let none: fn(&mut Value) = |answer| *answer = json!({"ids": []});
    let nonsense: fn(&mut Value) = |answer| *answer = json!(["nonsense"]);
    for (at_path, with) in [
        ("/query", null),
        ("/query", unknown),
        ("/query", far),
        ("/query", short),
        ("/query", none),
        ("/query", nonsense),
        ("/get", |answer: &mut Value| answer["embeddings"] = json!([[1.0], [], null])),
        ("/get", |answer: &mut Value| answer["embeddings"] = json!(null)),
        ("/get", nonsense),
    ] {
        let (double, _, fixture, _) = stored().await;
        double.tamper(Some(Tampering { at: at_path, with }));
        let (_, hits) = search(&fixture, "escalation").await;
        assert_eq!(hits[0], "engineering/on-call#escalation");
        let (_, hits) = search(&fixture, "vacation").await;
        assert!(
            hits.iter().all(|path| path.starts_with("people")
                || path.starts_with("engineering")
                || path == "readme"
                || path == "README"),
            "{hits:?}"
        );
    }
}

#[tokio::test]
async fn a_list_of_nonsense_makes_all_be_written_again_and_never_ends_in_a_loop() {
    let (double, model, fixture, _) = stored().await;
    fixture.handbook.tasks.begin();
    let with: fn(&mut Value) = |answer| {
        if answer["embeddings"].is_null() {
            answer["ids"] = json!(vec!["x"; 5_000]);
        }
    };
    double.tamper(Some(Tampering { at: "/get", with }));
    let second = restarted(&fixture, &double, &model).await;
    ready(&second).await;
    let pages = double.seen().iter().filter(|seen| seen.ends_with("get")).count();
    assert!(pages < 250, "{pages}");
    assert_eq!(search(&second, "vacation").await.1[0], "people/holidays");
}

#[tokio::test]
async fn the_task_ends_while_chroma_does_not_answer() {
    let (double, model) = (Double::start().await, Concepts::working());
    double.mute(true);
    let fixture = at(&double, &model).await;
    while double.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    let tasks = fixture.handbook.tasks.clone();
    drop(fixture.handbook);
    assert!(tasks.wait(Duration::from_secs(5)).await);
}
