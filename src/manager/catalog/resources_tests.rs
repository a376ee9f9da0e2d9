//! Where a URI leads: listed, made by a template, with its owner, or guessed.

use proptest::prelude::*;

use super::super::fixture::{Has, catalog, shown};
use super::super::{Catalog, Kind};
use super::*;

fn three() -> Catalog {
    let alpha = Has { resources: &["test://x", "memo:a"], templates: &["test://t/{id}"], ..Has::default() };
    let beta =
        Has { resources: &["test://x"], templates: &["test://t/{id}", "file:///{+path}"], ..Has::default() };
    catalog(&[("alpha", alpha), ("beta", beta), ("gamma", Has::default())])
}

fn led(catalog: &Catalog, uri: &str) -> (bool, Vec<(String, String)>) {
    let places = catalog.resources().places(uri);
    let is_listed = !places.are_guessed();
    let told = |place: Place| (place.server.to_string(), place.uri);
    (is_listed, places.into_vec().into_iter().map(told).collect())
}

#[track_caller]
fn leads(uri: &str, is_listed: bool, expected: &[(&str, &str)]) {
    let expected = expected.iter().map(|(server, uri)| ((*server).to_owned(), (*uri).to_owned())).collect();
    assert_eq!(led(&three(), uri), (is_listed, expected), "{uri}");
}

#[test]
fn what_is_listed_leads_to_its_server() {
    leads("memo:a", true, &[("alpha", "memo:a")]);
    leads("test://beta/x", true, &[("beta", "test://x")]);
    leads("test://x", true, &[("alpha", "test://x")]);
    leads("memo:alpha/a", true, &[("alpha", "memo:a")]);
}

#[test]
fn then_the_template_that_says_most() {
    assert_eq!(
        shown(&three(), Kind::Templates),
        ["test://alpha/t/{id}", "test://beta/t/{id}", "file:///{+path}"]
    );
    leads("test://beta/t/5", true, &[("beta", "test://t/5")]);
    leads("test://t/5", true, &[("alpha", "test://t/5")]);
    leads("file:///etc/x", true, &[("beta", "file:///etc/x")]);
    let catalog = catalog(&[
        ("wide", Has { templates: &["t://{+all}"], ..Has::default() }),
        ("narrow", Has { templates: &["t://n/{id}"], ..Has::default() }),
    ]);
    assert_eq!(led(&catalog, "t://n/1").1[0].0, "narrow");
    assert_eq!(led(&catalog, "t://wide/1").1, [("wide".to_owned(), "t://wide/1".to_owned())], "its own");
}

#[test]
fn then_the_owner_behind_the_scheme_and_then_whoever_may_have_it() {
    leads("file://beta//etc/x", true, &[("beta", "file:///etc/x")]);
    leads("memo:gamma/z", false, &[("gamma", "memo:z"), ("alpha", "memo:gamma/z")]);
    leads("memo:z", false, &[("alpha", "memo:z")]);
    leads("new://z", false, &[("alpha", "new://z"), ("beta", "new://z"), ("gamma", "new://z")]);
    let many: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    let many: Vec<(&str, Has<'_>)> = many.iter().map(|name| (name.as_str(), Has::default())).collect();
    assert_eq!(led(&catalog(&many), "new://z").1.len(), 8, "not all the world is asked");
    assert!(led(&catalog(&[]), "new://z").1.is_empty());
}

#[test]
fn what_is_completed_is_found_by_its_template() {
    let catalog = three();
    let place = |text: &str| match catalog.resources().template(text) {
        Places::Listed(place) => (place.server.to_string(), place.uri),
        Places::Guessed(places) => panic!("{text} is guessed: {places:?}"),
    };
    let pair = |server: &str, uri: &str| (server.to_owned(), uri.to_owned());
    assert_eq!(place("test://beta/t/{id}"), pair("beta", "test://t/{id}"));
    assert_eq!(place("test://t/{id}"), pair("alpha", "test://t/{id}"));
    assert_eq!(place("file://beta//{+path}"), pair("beta", "file:///{+path}"));
    assert_eq!(place("memo:a"), pair("alpha", "memo:a"), "a resource can be completed too");
}

#[test]
fn what_a_server_calls_its_own_is_offered_where_it_leads_back_to_it() {
    let catalog = three();
    let exposed = |server: &str, uri: &str| catalog.resources().exposed(server, uri);
    assert_eq!(exposed("alpha", "test://x").as_deref(), Some("test://alpha/x"));
    assert_eq!(exposed("beta", "test://t/5").as_deref(), Some("test://beta/t/5"), "alpha's would be read");
    assert_eq!(exposed("alpha", "test://t/5"), None, "it leads back as it is");
    assert_eq!(exposed("alpha", "memo:a"), None);
    assert_eq!(exposed("gamma", "new://z"), None, "nobody else has it");
}

fn part() -> impl Strategy<Value = (Vec<String>, Vec<String>)> {
    let set = |texts: &'static str, most| {
        prop::collection::btree_set(texts, 0..most).prop_map(|set| set.into_iter().collect::<Vec<String>>())
    };
    (set("[xy]:(//)?([ab]/){0,2}[ab]", 5), set("[xy]:(//)?([ab]/)?\\{[+]?[ab]\\}", 3))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn what_is_offered_leads_to_whoever_offers_it(parts in prop::collection::vec(part(), 1..4)) {
        let texts: Vec<(Vec<&str>, Vec<&str>)> = parts
            .iter()
            .map(|(uris, forms)| (uris.iter().map(String::as_str).collect(), forms.iter().map(String::as_str).collect()))
            .collect();
        let servers = ["a", "b", "c"].iter().zip(&texts).map(|(name, (resources, templates))| {
            (*name, Has { resources, templates, ..Has::default() })
        });
        let catalog = catalog(&servers.collect::<Vec<_>>());
        for entry in catalog.listing(Kind::Resources).entries() {
            let (is_listed, places) = led(&catalog, &entry.exposed);
            prop_assert!(is_listed);
            prop_assert_eq!(&places, &[(entry.route.server.to_string(), entry.route.subject.to_string())]);
            let shown = catalog.resources().exposed(&entry.route.server, &entry.route.subject);
            prop_assert_eq!(shown.unwrap_or_else(|| entry.route.subject.to_string()), entry.exposed.clone());
        }
        for entry in catalog.listing(Kind::Templates).entries() {
            let completed = catalog.resources().template(&entry.exposed).into_vec();
            prop_assert_eq!(completed.len(), 1);
            prop_assert_eq!((&*completed[0].server, &*completed[0].uri), (&*entry.route.server, &*entry.route.subject));
        }
    }
}
