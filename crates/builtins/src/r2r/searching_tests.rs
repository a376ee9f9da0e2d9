//! The modes of a search that an operator or a caller chooses: R2R's own `advanced`, and `custom`.

use serde_json::{Value, json};

use super::fixture::{Fixture, SEARCH};
use crate::r2r::config::AdvancedSearch;

async fn r2rs_own() -> Fixture {
    Fixture::filled_with(|options| options.advanced_search = AdvancedSearch::R2r).await
}

#[tokio::test]
async fn r2rs_own_advanced_gives_each_passage_once_and_no_more_than_asked_for() {
    let fixture = r2rs_own().await;
    let own = fixture.own().await.to_string();
    let question = json!({"query": "access tokens backups", "limit": 2, "filters": {"team": "core"}});
    let answer = fixture.ask(SEARCH, question).await;
    let sent = fixture.searches().pop().expect("a search");
    assert_eq!(sent["search_mode"], "advanced");
    let all = json!({"$and": [{"collection_id": {"$eq": own}}, {"team": "core"}]});
    assert_eq!(sent["search_settings"], json!({"limit": 2, "filters": all}), "the rest is R2R's own");
    let found = answer["results"].as_array().expect("results");
    let mut ids: Vec<_> = found.iter().map(|passage| passage["id"].to_string()).collect();
    ids.dedup();
    assert_eq!(
        (ids.len(), &answer["count"], &answer["search_mode"]),
        (2, &json!(2), &json!("advanced")),
        "{answer}"
    );
    assert!(!answer.to_string().contains("secret"), "it is in another collection");
    let client = &fixture.ours.context.client;
    let bare: Value = client.post(&["retrieval", "search"], &sent).await.expect("found");
    let bare = bare["results"]["chunk_search_results"].as_array().expect("chunks").clone();
    assert_eq!(bare.len(), 4, "as R2R gives it");
    let best = bare.iter().map(|chunk| chunk["score"].as_f64().expect("a score")).fold(0.0, f64::max);
    assert_eq!(found[0]["score"], json!(best), "of the same twice the better one");
    for mode in ["basic", "custom"] {
        fixture.ask(SEARCH, json!({"query": "tokens", "search_mode": mode})).await;
        assert_eq!(fixture.searches().pop().expect("a search")["search_mode"], "custom", "{mode}");
    }
}

#[tokio::test]
async fn a_custom_search_is_as_the_caller_says_and_within_the_collection() {
    let fixture = Fixture::filled().await;
    let own = fixture.own().await.to_string();
    let settings = json!({"use_hybrid_search": true, "hybrid_settings": {"rrf_k": 60}, "offset": 0,
        "filters": {"$or": [{"note": "secret"}, {"team": "core"}]}});
    let question = json!({"query": "access tokens", "search_mode": "custom", "limit": 5,
        "filters": {"team": "core"}, "search_settings": settings});
    let answer = fixture.ask(SEARCH, question.clone()).await;
    assert_eq!(answer["results"][0]["title"], "tokens.md");
    assert!(!answer.to_string().contains("secret"), "it is in another collection: {answer}");
    let sent = fixture.searches().pop().expect("a search");
    let all = json!({"$and": [{"collection_id": {"$eq": own}}, {"team": "core"}, settings["filters"]]});
    let expected = json!({"use_hybrid_search": true, "hybrid_settings": {"rrf_k": 60}, "offset": 0, "limit": 5,
        "filters": all});
    assert_eq!((&sent["search_mode"], &sent["search_settings"]), (&json!("custom"), &expected));
    // Other settings are another answer.
    let mut other = question.clone();
    other["search_settings"]["offset"] = json!(1);
    assert_eq!(fixture.ask(SEARCH, other).await["cached"], false);
    assert_eq!(fixture.ask(SEARCH, question).await["cached"], true);
}

#[tokio::test]
async fn settings_that_lead_elsewhere_or_cost_are_refused_before_r2r_is_asked() {
    let fixture = Fixture::filled().await;
    let custom =
        |settings: Value| json!({"query": "x", "search_mode": "custom", "search_settings": settings});
    for (question, field) in [
        (json!({"query": "x", "search_settings": {}}), "search_settings"),
        (json!({"query": "x", "search_mode": "basic", "search_settings": {"offset": 1}}), "search_settings"),
        (custom(json!({"filters": {"collection_id": {"$eq": "x"}}})), "filters"),
        (custom(json!({"filters": {"$or": [{"owner_id": "x"}]}})), "filters"),
        (custom(json!({"limit": 1000})), "search_settings.limit"),
        (custom(json!({"search_strategy": "hyde"})), "search_settings.search_strategy"),
    ] {
        assert_eq!(fixture.refused(SEARCH, question.clone()).await["field"], field, "{question}");
    }
    assert_eq!(fixture.searches().len(), 0);
    let fixture = r2rs_own().await;
    fixture.ask(SEARCH, custom(json!({"search_strategy": "hyde"}))).await;
    let sent = fixture.searches().pop().expect("a search");
    assert_eq!(sent["search_settings"]["search_strategy"], "hyde", "the operator lets searches ask a model");
}

#[tokio::test]
async fn a_collection_that_is_not_there_is_named_and_not_an_empty_answer() {
    let fixture = Fixture::filled().await;
    let foreign = fixture.r2r.foreign_collection("theirs");
    for collection in ["00000000-0000-0000-0000-000000000000", &foreign] {
        for (tool, what) in [(SEARCH, "query"), ("r2r_rag_query", "question")] {
            let requested = json!({what: "access tokens", "collection_id": collection});
            let refused = fixture.refused(tool, requested).await;
            assert_eq!((&refused["type"], &refused["field"]), (&json!("not_found"), &json!("collection_id")));
        }
    }
    let own = fixture.own().await;
    let nothing = json!({"query": "zebras", "filters": {"team": "nobody"}, "collection_id": own});
    assert_eq!(fixture.ask(SEARCH, nothing).await["count"], 0);
}
