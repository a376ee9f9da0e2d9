//! Tests of reading the list of techniques: when it is read, what is offered, and how clients are notified.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::bridge::TechniqueNames;
use super::double::{Fault, HEALTH, LIST};
use super::fixture::Fixture;
use super::techniques::Offer;
use crate::Builtin;
use json::Raw;
use protocol::feature::List;
use upstream::api::Event;

fn listed(body: &str) -> Option<TechniqueNames> {
    TechniqueNames::of(&Raw::parse(&Bytes::copy_from_slice(body.as_bytes())).ok()?)
}

fn offered(body: &str, most: usize) -> (Vec<String>, Vec<(String, &'static str)>, usize) {
    let offer = Offer::of(listed(body).expect("a list"), most);
    let left_out = offer.left_out.iter().map(|one| (one.name.clone(), one.reason)).collect();
    (offer.names().map(str::to_owned).collect(), left_out, offer.more_left_out)
}

#[test]
fn a_list_is_a_list_or_an_object_with_one() {
    let plain = listed(r#"["b","a"]"#).expect("a list");
    assert_eq!(
        listed(r#"{"count":2,"techniques":["a","b"],"more":{"techniques":1}}"#).expect("wrapped"),
        plain
    );
    for garbage in [r#""a""#, "7", "null", "{}", r#"{"techniques":{"a":1}}"#, r#"{"techniques":"a"}"#, "["] {
        assert!(listed(garbage).is_none(), "{garbage}");
    }
}

#[test]
fn only_names_are_offered_each_once_and_not_more_than_allowed() {
    let (names, left_out, more) = offered(r#"["b","a","b","A","a.b-c_1"]"#, 64);
    assert_eq!((names.join(" "), left_out.len(), more), ("A a a.b-c_1 b".to_owned(), 0, 0));

    let long = "x".repeat(61);
    let fits = "y".repeat(60);
    let body = json!(["a\nb\u{1b}[31m", "ä", "", " a", "a b", "../x", "health", long, fits, 7, null, ["a"], {"name": "a"}]);
    let (names, left_out, more) = offered(&body.to_string(), 64);
    assert_eq!(names, [fits]);
    assert_eq!((left_out.len(), more), (8, 4));
    assert!(left_out.iter().all(|(name, _)| !name.contains(char::is_control)), "{left_out:?}");
    let health = left_out.iter().find(|(name, _)| name == "health").expect("left out");
    assert!(health.1.contains("rag_health"));

    let (names, left_out, _) = offered(r#"["c","a","b","d"]"#, 2);
    assert_eq!(names, ["a", "b"]);
    assert!(left_out.iter().all(|(_, reason)| reason.contains("max_techniques")) && left_out.len() == 2);
}

#[test]
fn a_list_without_end_is_bounded() {
    let names: Vec<String> = (0..50_000).map(|number| format!("!{number}{}", "x".repeat(200))).collect();
    let list = listed(&json!(names).to_string()).expect("a list");
    assert!(list.names.len() == 10_000 && list.names.iter().all(|name| name.len() <= 64));
    let offer = Offer::of(list, 64);
    assert_eq!((offer.techniques.len(), offer.left_out.len(), offer.more_left_out), (0, 20, 49_980));
}

#[tokio::test]
async fn a_change_is_told_once_and_what_stays_the_same_is_not() {
    let mut fixture = Fixture::new().await;
    fixture.bridge.has(&[
        "iris_global_graphrag",
        "pylate_colbert",
        "graphrag",
        "crag",
        "basic_rerank",
        "basic",
    ]);
    fixture.read_again().await;
    assert!(fixture.is_silent(), "another order is no change");
    fixture.bridge.has(&["basic", "hyde"]);
    fixture.ours.health().await.expect("well");
    assert_eq!(fixture.event().await, Event::Changed(List::Tools));
    assert_eq!(fixture.names(), ["rag_basic", "rag_hyde", "rag_health"]);
    fixture.ask("rag_hyde", json!({"query": "q"})).await;
    fixture.read_again().await;
    assert!(fixture.is_silent());
    let gone = fixture.reply("rag_crag", &json!({"query": "q"})).await.expect("ours");
    assert_eq!(gone.expect_err("it is gone").code(), -32602);
    fixture.bridge.has(&[]);
    fixture.read_again().await;
    assert_eq!(fixture.event().await, Event::Changed(List::Tools));
    assert_eq!(fixture.names(), ["rag_health"]);
}

#[tokio::test]
async fn it_is_read_by_itself_where_health_checks_are_rare() {
    let mut fixture = Fixture::with(|_, options| options.refresh = Duration::from_millis(50)).await;
    fixture.bridge.has(&["basic"]);
    assert_eq!(fixture.event().await, Event::Changed(List::Tools));
    assert_eq!((fixture.names().len(), fixture.bridge.count(HEALTH)), (2, 1));
}

#[tokio::test]
async fn a_list_that_can_not_be_read_changes_nothing() {
    let mut fixture = Fixture::new().await;
    let before = fixture.names();
    for fault in [Fault::status(500, "{}"), Fault::body("<html>"), Fault::body("{}")] {
        fixture.bridge.fail(LIST, Some(fault));
        fixture.read_again().await;
        assert_eq!(fixture.names(), before);
        assert!(fixture.is_silent());
        let told = fixture.ask("rag_health", json!({})).await;
        assert!(told["list_error"].is_string() && told["status"] == "healthy", "{told}");
        fixture.ours.health().await.expect("it is well all the same");
    }
    fixture.bridge.fail(LIST, None);
    fixture.read_again().await;
    assert!(fixture.ask("rag_health", json!({})).await["list_error"].is_null());
}

#[tokio::test]
async fn omitted_techniques_are_shown() {
    let fixture = Fixture::with(|bridge, options| {
        bridge.has(&["basic", "no name", "crag"]);
        options.max_techniques = 1;
    })
    .await;
    let told = fixture.ask("rag_health", json!({})).await;
    assert_eq!(told["techniques"], json!(["basic"]));
    let left_out: Vec<&str> =
        told["left_out"].as_array().expect("a list").iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(left_out, ["crag", "no name"]);
}

#[tokio::test]
async fn dropping_the_server_ends_what_follows_the_list() {
    let fixture = Fixture::with(|_, options| options.refresh = Duration::from_millis(1)).await;
    let list = std::sync::Arc::downgrade(&fixture.ours.list);
    let Fixture { bridge, ours, .. } = fixture;
    drop(ours);
    let gone = async {
        while list.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(super::fixture::WAIT, gone).await.expect("the task ends");
    drop(bridge);
}
