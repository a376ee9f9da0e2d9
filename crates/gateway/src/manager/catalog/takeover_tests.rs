//! URIs against a server that lists what other servers have, and templates that make it.

use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;

use super::super::fixture::{Has, after, shown};
use super::super::{Catalog, History, Kind, Tools};
use super::tests::part;
use super::*;

/// The URIs and templates of one server.
type Lists = (Vec<String>, Vec<String>);

fn merged(servers: &[(&str, Lists)], history: &mut History) -> Catalog {
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
    after(&has.collect::<Vec<_>>(), &Tools::default(), history)
}

/// The lists of the server of `place`.
fn lists_of<'a>(servers: &'a [(&str, Lists)], place: &ServerResource) -> &'a Lists {
    let found = servers.iter().find(|(name, _)| *name == &*place.server);
    found.map(|(_, lists)| lists).expect("a server")
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
        (place, keeps) in (any::<usize>(), any::<u16>()),
    ) {
        let mut servers: Vec<(&str, Lists)> = ["a", "b"].into_iter().zip(parts).collect();
        let mut history = History::default();
        let before = merged(&servers, &mut history);
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
        // The others may drop what they had.
        let had = servers.clone();
        for (server, (_, (uris, templates))) in servers.iter_mut().enumerate() {
            let mut place = 0;
            let mut stays = |_: &String| {
                place += 1;
                keeps >> ((place + 8 * server) % 16) & 1 == 1
            };
            uris.retain(&mut stays);
            templates.retain(stays);
        }
        // URIs that only a template made are remembered for as long as the template is listed.
        let is_remembered = |place: &ServerResource| {
            let (had, has) = (lists_of(&had, place), lists_of(&servers, place));
            had.1 == has.1 || had.0.contains(&place.uri)
        };
        let remembered: Vec<(&String, ServerResource)> = probes
            .iter()
            .filter_map(|uri| match before.resources().places(uri) {
                UriServers::Listed(was) if is_remembered(&was) => Some((uri, was)),
                _ => None,
            })
            .collect();
        servers.insert(place % (servers.len() + 1), ("e", evil));
        let after = merged(&servers, &mut history);
        for kind in [Kind::Resources, Kind::Templates] {
            let shown = shown(&after, kind);
            let distinct: HashSet<&String> = shown.iter().collect();
            prop_assert_eq!(distinct.len(), shown.len(), "{:?}", shown);
        }
        for (uri, was) in remembered {
            match after.resources().places(uri) {
                UriServers::Listed(now) => prop_assert_eq!(&now.server, &was.server, "{}", uri),
                UriServers::Ambiguous(_) => {}
                UriServers::Guessed(all) => {
                    prop_assert!(all.iter().all(|place| place.server == was.server), "{}: {:?}", uri, all);
                }
            }
        }
    }
}
