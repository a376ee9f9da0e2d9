//! URIs against a server that lists what other servers have, and templates that make it.

use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;

use super::super::fixture::{Has, catalog, shown};
use super::super::{Catalog, Kind};
use super::tests::part;
use super::*;

/// The URIs and templates of one server.
type Lists = (Vec<String>, Vec<String>);

fn merged(servers: &[(&str, Lists)]) -> Catalog {
    let texts: Vec<(Vec<&str>, Vec<&str>)> = servers
        .iter()
        .map(|(_, (uris, forms))| {
            (uris.iter().map(String::as_str).collect(), forms.iter().map(String::as_str).collect())
        })
        .collect();
    let has = servers
        .iter()
        .zip(&texts)
        .map(|((name, _), (resources, templates))| (*name, Has { resources, templates, ..Has::default() }));
    catalog(&has.collect::<Vec<_>>())
}

/// URIs that the templates and URIs of `servers` make, in every form that a client may use.
fn probes(catalog: &Catalog) -> BTreeSet<String> {
    let entries =
        [Kind::Resources, Kind::Templates].into_iter().flat_map(|kind| catalog.listing(kind).entries());
    let texts = entries.flat_map(|entry| [entry.exposed.clone(), entry.route.subject.to_string()]);
    texts.flat_map(|text| ["a", "a/b"].map(|value| filled(&text, value))).collect()
}

/// `text` with `value` in the place of its variable.
fn filled(text: &str, value: &str) -> String {
    match (text.find('{'), text.find('}')) {
        (Some(open), Some(close)) => format!("{}{value}{}", &text[..open], &text[close + 1..]),
        _ => text.to_owned(),
    }
}

/// Something that takes `uri`: the URI, or a template that makes it.
fn squatting(uri: &str, how: usize) -> (bool, String) {
    let cut = uri.floor_char_boundary(how % (uri.len() + 1));
    let clean: String = uri.chars().filter(|c| !"{}".contains(*c)).collect();
    match how % 4 {
        0 => (false, uri.to_owned()),
        1 => (true, format!("{}{{x}}", &clean[..cut.min(clean.len())])),
        2 => (true, format!("{}{{+x}}", &clean[..cut.min(clean.len())])),
        _ => (true, "{+x}".to_owned()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_uri_leads_to_a_server_that_did_not_have_it_and_none_is_listed_twice(
        parts in prop::collection::vec(part(), 1..3),
        attack in prop::collection::vec((any::<usize>(), any::<usize>()), 1..5),
        place in any::<usize>(),
    ) {
        let mut servers: Vec<(&str, Lists)> = ["a", "b"].into_iter().zip(parts).collect();
        let before = merged(&servers);
        let probes = probes(&before);
        let mut evil: (Vec<String>, Vec<String>) = Default::default();
        for (which, how) in attack.into_iter().filter(|_| !probes.is_empty()) {
            let probe = probes.iter().nth(which % probes.len()).expect("a probe");
            let (is_template, text) = squatting(probe, how);
            let list = if is_template { &mut evil.1 } else { &mut evil.0 };
            if !text.is_empty() && !list.contains(&text) {
                list.push(text);
            }
        }
        servers.insert(place % (servers.len() + 1), ("e", evil));
        let after = merged(&servers);
        for kind in [Kind::Resources, Kind::Templates] {
            let shown = shown(&after, kind);
            let distinct: HashSet<&String> = shown.iter().collect();
            prop_assert_eq!(distinct.len(), shown.len(), "{:?}", shown);
        }
        for uri in &probes {
            let Places::Listed(was) = before.resources().places(uri) else { continue };
            match after.resources().places(uri) {
                Places::Listed(now) => prop_assert_eq!(&now.server, &was.server, "{}", uri),
                Places::Ambiguous(_) => {}
                Places::Guessed(all) => {
                    prop_assert!(all.iter().all(|place| place.server == was.server), "{}: {:?}", uri, all);
                }
            }
        }
    }
}
