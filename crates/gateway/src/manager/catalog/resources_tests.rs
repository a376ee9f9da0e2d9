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

pub(super) fn led(catalog: &Catalog, uri: &str) -> (bool, Vec<(String, String)>) {
    let places = catalog.resources().places(uri);
    let is_listed = !places.are_guessed();
    let pair = |place: ServerResource| (place.server.to_string(), place.uri);
    (is_listed, places.into_vec().unwrap_or_default().into_iter().map(pair).collect())
}

#[track_caller]
fn leads(uri: &str, is_listed: bool, expected: &[(&str, &str)]) {
    let expected = expected.iter().map(|(server, uri)| ((*server).to_owned(), (*uri).to_owned())).collect();
    assert_eq!(led(&three(), uri), (is_listed, expected), "{uri}");
}

#[test]
fn listed_resource_leads_to_its_server() {
    leads("memo:a", true, &[("alpha", "memo:a")]);
    leads("test://beta/x", true, &[("beta", "test://x")]);
    leads("memo:alpha/a", true, &[("alpha", "memo:a")]);
}

fn ambiguous(catalog: &Catalog, uri: &str, expected: &[&str]) {
    let UriServers::Ambiguous(candidates) = catalog.resources().places(uri) else { panic!("{uri}") };
    assert_eq!(candidates, expected);
}

#[test]
fn a_uri_that_several_servers_have_is_ambiguous() {
    ambiguous(&three(), "test://x", &["test://alpha/x", "test://beta/x"]);
    ambiguous(&three(), "test://t/5", &["test://alpha/t/5", "test://beta/t/5"]);
}

#[test]
fn a_template_leads_to_its_server() {
    assert_eq!(
        shown(&three(), Kind::Templates),
        ["test://alpha/t/{id}", "test://beta/t/{id}", "file:///{+path}"]
    );
    leads("test://beta/t/5", true, &[("beta", "test://t/5")]);
    leads("file:///etc/x", true, &[("beta", "file:///etc/x")]);
}

#[test]
fn templates_that_overlap_clash_and_only_shared_uris_are_ambiguous() {
    let catalog = catalog(&[
        ("wide", Has { templates: &["t://{+all}", "{+anything}"], ..Has::default() }),
        ("narrow", Has { templates: &["t://n/{id}"], ..Has::default() }),
        ("other", Has { templates: &["u://n/{id}"], ..Has::default() }),
    ]);
    let offered = ["t://wide/{+all}", "wide/{+anything}", "t://narrow/n/{id}", "u://n/{id}"];
    assert_eq!(shown(&catalog, Kind::Templates), offered);
    ambiguous(&catalog, "t://n/1", &["t://wide/n/1", "t://narrow/n/1"]);
    assert_eq!(led(&catalog, "t://m/1").1, [("wide".to_owned(), "t://m/1".to_owned())]);
    assert_eq!(led(&catalog, "t://narrow/n/1").1, [("narrow".to_owned(), "t://n/1".to_owned())]);
    assert_eq!(led(&catalog, "u://n/1").1, [("other".to_owned(), "u://n/1".to_owned())]);
}

#[test]
fn a_listed_uri_that_another_servers_template_makes_clashes() {
    for evil in [
        Has { resources: &["db://users"], ..Has::default() },
        Has { templates: &["db://user{x}"], ..Has::default() },
    ] {
        let good = Has { templates: &["db://{table}", "db://{table}/{row}"], ..Has::default() };
        let catalog = catalog(&[("evil", evil), ("good", good)]);
        assert!(shown(&catalog, Kind::Templates).contains(&"db://good/{table}".to_owned()));
        ambiguous(&catalog, "db://users", &["db://evil/users", "db://good/users"]);
        assert_eq!(led(&catalog, "db://good/users").1, [("good".to_owned(), "db://users".to_owned())]);
        assert_eq!(led(&catalog, "db://evil/users").1, [("evil".to_owned(), "db://users".to_owned())]);
        assert_eq!(led(&catalog, "db://orders").1, [("good".to_owned(), "db://orders".to_owned())]);
    }
}

#[test]
fn the_server_behind_the_scheme_is_the_only_one_that_is_asked() {
    leads("file://beta//etc/x", true, &[("beta", "file:///etc/x")]);
    leads("memo:gamma/z", false, &[("gamma", "memo:z"), ("gamma", "memo:gamma/z")]);
    let catalog =
        catalog(&[("alpha", Has { resources: &["t://beta/x"], ..Has::default() }), ("beta", Has::default())]);
    assert_eq!(shown(&catalog, Kind::Resources), ["t://alpha/beta/x"]);
}

#[test]
fn a_uri_that_no_server_has_is_asked_for_where_it_may_be() {
    leads("memo:z", false, &[("alpha", "memo:z")]);
    leads("new://z", false, &[("alpha", "new://z"), ("beta", "new://z"), ("gamma", "new://z")]);
    let many: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    let many: Vec<(&str, Has<'_>)> = many.iter().map(|name| (name.as_str(), Has::default())).collect();
    assert_eq!(led(&catalog(&many), "new://z").1.len(), 8, "not all the world is asked");
    assert!(led(&catalog(&[]), "new://z").1.is_empty());
}

#[test]
fn completion_is_routed_by_its_template() {
    let catalog = three();
    let place = |text: &str| match catalog.resources().template(text) {
        UriServers::Listed(place) => (place.server.to_string(), place.uri),
        others => panic!("{text}: {others:?}"),
    };
    let pair = |server: &str, uri: &str| (server.to_owned(), uri.to_owned());
    assert_eq!(place("test://beta/t/{id}"), pair("beta", "test://t/{id}"));
    assert!(
        matches!(catalog.resources().template("test://t/{id}"), UriServers::Ambiguous(both) if both.len() == 2)
    );
    assert_eq!(place("file://beta//{+path}"), pair("beta", "file:///{+path}"));
    assert_eq!(place("memo:a"), pair("alpha", "memo:a"), "a resource can be completed too");
}

#[test]
fn uri_of_a_server_is_offered_where_it_leads_back_to_it() {
    let catalog = three();
    let exposed =
        |server: &str, uri: &str| catalog.resources().exposed(server, uri, &mut LinkBudget::default());
    assert_eq!(exposed("alpha", "test://x").as_deref(), Some("test://alpha/x"));
    assert_eq!(exposed("beta", "test://t/5").as_deref(), Some("test://beta/t/5"), "alpha's would be read");
    assert_eq!(exposed("beta", "file:///x"), None, "it leads back as it is");
    assert_eq!(
        exposed("beta", "test://alpha/9").as_deref(),
        Some("test://beta/alpha/9"),
        "alpha would be asked"
    );
    assert_eq!(exposed("alpha", "memo:a"), None);
    assert_eq!(exposed("gamma", "new://z"), None, "nobody else has it");
}

pub(super) fn part() -> impl Strategy<Value = (Vec<String>, Vec<String>)> {
    let set = |texts: &'static str, most| {
        prop::collection::btree_set(texts, 0..most).prop_map(|set| set.into_iter().collect::<Vec<String>>())
    };
    (set("[xy]:(//)?([ab]/){0,2}[ab]", 5), set("[xy]:(//)?([ab]/)?\\{[+]?[ab]\\}", 3))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn offered_resource_leads_to_the_server_that_offers_it(parts in prop::collection::vec(part(), 1..4)) {
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
            let shown = catalog.resources().exposed(&entry.route.server, &entry.route.subject, &mut LinkBudget::default());
            prop_assert_eq!(shown.unwrap_or_else(|| entry.route.subject.to_string()), entry.exposed.clone());
        }
        for entry in catalog.listing(Kind::Templates).entries() {
            let completed = catalog.resources().template(&entry.exposed).into_vec().expect("one");
            prop_assert_eq!(completed.len(), 1);
            prop_assert_eq!((&*completed[0].server, &*completed[0].uri), (&*entry.route.server, &*entry.route.subject));
        }
    }
}
