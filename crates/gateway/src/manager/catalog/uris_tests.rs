//! URIs: the documented examples, and injectivity and stability over random sets.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use protocol::uri::split_owner;

fn keys(list: &[(&str, &str)]) -> Vec<ResourceKey> {
    list.iter()
        .map(|(server, uri)| ResourceKey { server: (*server).into(), uri: (*uri).to_owned() })
        .collect()
}

fn exposed(list: &[(&str, &str)]) -> Vec<String> {
    assign(&keys(list)).exposed
}

/// The forms of `keys` where none clashes for a reason of its own.
fn assign(keys: &[ResourceKey]) -> Uris {
    Uris::assign(keys, &[])
}

#[test]
fn bare_while_unique_and_with_the_owner_for_all_on_a_clash() {
    let all = [("alpha", "test://x"), ("beta", "test://x"), ("beta", "memo:y"), ("gamma", "test://x/y")];
    let uris = assign(&keys(&all));
    assert_eq!(uris.exposed, ["test://alpha/x", "test://beta/x", "memo:y", "test://x/y"]);
    assert_eq!((uris.offered("test://x"), uris.bare("test://x")), (None, &[0, 1][..]));
    assert_eq!((uris.offered("test://beta/x"), uris.offered("test://delta/x")), (Some(1), None));
    assert_eq!(uris.of_owner("beta", "test://x"), Some(1));
    assert_eq!(uris.of_owner("gamma", "test://x"), None);
}

#[test]
fn one_server_alone_is_verbatim_whatever_it_has() {
    let all = [("a", "test://a/x"), ("a", "test://x"), ("a", "a/"), ("a", "")];
    assert_eq!(exposed(&all), ["test://a/x", "test://x", "a/", ""]);
}

#[test]
fn a_real_uri_that_reads_like_an_offered_one_gives_way() {
    let clash =
        [("alpha", "t://x"), ("beta", "t://x"), ("gamma", "t://alpha/x"), ("delta", "t://gamma/alpha/x")];
    assert_eq!(
        exposed(&clash),
        ["t://alpha/x", "t://beta/x", "t://gamma/alpha/x", "t://delta/gamma/alpha/x"],
        "each in turn"
    );
    let uris = assign(&keys(&clash));
    assert_eq!(uris.offered("t://alpha/x"), Some(0), "what is offered is what is meant");
    assert_eq!(exposed(&[("alpha", "t://x"), ("gamma", "t://alpha/x")]), ["t://x", "t://alpha/x"]);
}

fn uri() -> impl Strategy<Value = String> {
    // A tiny alphabet, so that clashes of every kind are common.
    prop_oneof!["[xy]:(//)?([ab]/){0,3}[ab]?", "([ab]/){0,3}[ab]?", "x://([ab]/)?\\{[ab]\\}"]
}

fn set() -> impl Strategy<Value = Vec<ResourceKey>> {
    let key = ("[abc]", uri()).prop_map(|(server, uri)| ResourceKey { server: server.into(), uri });
    prop::collection::vec(key, 0..16).prop_map(|keys| {
        let mut seen = HashSet::new();
        keys.into_iter().filter(|key| seen.insert(key.clone())).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn injective_understood_and_taken_apart_again(keys in set()) {
        let uris = assign(&keys);
        let distinct: HashSet<&String> = uris.exposed.iter().collect();
        prop_assert_eq!(distinct.len(), keys.len(), "{:?}", uris.exposed);
        for (index, key) in keys.iter().enumerate() {
            let shown = uris.exposed(index);
            prop_assert_eq!(uris.offered(shown), Some(index));
            prop_assert_eq!(uris.of_owner(&key.server, &key.uri), Some(index));
            let is_alone = keys.iter().all(|other| other.server == key.server);
            prop_assert!(!is_alone || shown == key.uri);
            if shown != key.uri {
                prop_assert_eq!(split_owner(shown), Some((key.server.as_ref(), key.uri.clone())));
            }
            prop_assert!(uris.bare(&key.uri).contains(&index));
        }
    }

    #[test]
    fn the_order_of_arrival_changes_nothing(keys in set(), seed in any::<u64>()) {
        let before = assign(&keys);
        let mut shuffled: Vec<usize> = (0..keys.len()).collect();
        shuffled.sort_by_key(|index| (*index as u64 + 1).wrapping_mul(seed | 1).rotate_left(17));
        let after: Vec<ResourceKey> = shuffled.iter().map(|index| keys[*index].clone()).collect();
        let after = assign(&after);
        for (place, index) in shuffled.into_iter().enumerate() {
            prop_assert_eq!(before.exposed(index), after.exposed(place));
        }
    }
}
