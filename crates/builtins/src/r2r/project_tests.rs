//! Tests of the collection that is used when a client names none.

use std::fs;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::double;
use super::fixture::{Fixture, SEARCH, open, options};
use upstream::api::Error;

const CREATE: &str = "POST /v3/collections";

#[tokio::test]
async fn however_many_need_it_first_it_is_made_once() {
    let fixture = Fixture::new().await;
    let ask = |n: usize| fixture.ask(SEARCH, json!({"query": format!("q{n}")}));
    join_all((0..32).map(ask)).await;
    assert_eq!(fixture.r2r.count(CREATE), 1);
    let names: Vec<Value> = fixture.r2r.collections().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names.iter().filter(|name| **name == "claude-code-my-app").count(), 1);
}

#[tokio::test]
async fn it_is_remembered_in_the_file_and_found_by_name_without_it() {
    let fixture = Fixture::new().await;
    let own = fixture.own().await;
    let file = fixture.folder.path().join("collections.json");
    let text: Value = serde_json::from_slice(&fs::read(&file).expect("written")).expect("JSON");
    assert_eq!(text["collections"][0]["collection_id"], json!(own));
    assert!(!text.to_string().contains('@'), "the account is not in it");
    for remembered in [true, false] {
        if !remembered {
            fs::remove_file(&file).expect("removed");
        }
        let again = open(&options(&fixture.r2r, &fixture.folder)).await.expect("opened");
        let Ok(found) = again.context.projects.own().own().await else { panic!("not found") };
        assert_eq!(found, own);
    }
    assert_eq!(fixture.r2r.count(CREATE), 1);
}

#[tokio::test]
async fn one_that_is_gone_is_made_anew() {
    let mut fixture = Fixture::new().await;
    let gone = fixture.own().await;
    // Another, empty R2R at this address.
    let fresh = double::R2r::start();
    let mut options = options(&fresh, &fixture.folder);
    let file = fixture.folder.path().join("collections.json");
    let stale = fs::read_to_string(&file).expect("written");
    let identity = super::answers::identity(&options);
    let old: Value = serde_json::from_str(&stale).expect("JSON");
    let old = old["collections"][0]["identity"].as_str().expect("text").to_owned();
    fs::write(&file, stale.replace(&old, &identity)).expect("written");
    options.auto_create_collections = true;
    fixture.ours = open(&options).await.expect("opened");
    let made = fixture.own().await;
    assert_ne!(made, gone);
    assert_eq!(fresh.count(CREATE), 1);
    assert!(fs::read_to_string(&file).expect("read").contains(&made.to_string()));
}

#[tokio::test]
async fn where_it_may_not_be_made_the_caller_is_told_what_to_do() {
    let fixture = Fixture::with(|options| options.auto_create_collections = false).await;
    let refusal = fixture.refused(SEARCH, json!({"query": "x"})).await;
    assert_eq!((&refusal["error"], &refusal["field"]), (&json!("not_found"), &json!("collection_id")));
    assert!(refusal["suggestion"].as_str().expect("text").contains("auto_create_collections"));
    assert_eq!(fixture.r2r.count(CREATE), 0);
    let context = fixture.read("r2r://current-project/context", &super::Report::none()).await;
    assert_eq!((&context["collection_id"], &context["document_count"]), (&Value::Null, &json!(0)));
}

#[tokio::test]
async fn looking_at_the_project_makes_nothing() {
    let fixture = Fixture::new().await;
    let context = fixture.read("r2r://current-project/context", &super::Report::none()).await;
    assert_eq!(context["collection_id"], Value::Null);
    assert_eq!(fixture.r2r.count(CREATE), 0);
}

#[tokio::test]
async fn a_name_with_a_slash_is_looked_for_in_the_list() {
    let fixture = Fixture::with(|options| options.project.name = "a/b".into()).await;
    let own = fixture.own().await;
    fs::remove_file(fixture.folder.path().join("collections.json")).expect("written");
    let mut same = options(&fixture.r2r, &fixture.folder);
    same.project.name = "a/b".into();
    let again = open(&same).await.expect("opened");
    let Ok(found) = again.context.projects.own().own().await else { panic!("not found") };
    assert_eq!((found, fixture.r2r.count(CREATE)), (own, 1));
}

#[tokio::test]
async fn a_broken_file_stops_the_server_with_the_reason() {
    let fixture = Fixture::new().await;
    fs::write(fixture.folder.path().join("collections.json"), "{broken").expect("written");
    let refused = open(&options(&fixture.r2r, &fixture.folder)).await;
    match refused.map(drop) {
        Err(Error::Connect { reason }) => assert!(reason.contains("repair it"), "{reason}"),
        other => panic!("{other:?}"),
    }
    let refusal = fixture.refused(SEARCH, json!({"query": "x"})).await;
    assert_eq!(refusal["error"], "unavailable");
    assert!(!refusal.to_string().contains("collections.json"), "clients need no paths of ours");
}
