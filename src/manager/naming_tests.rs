//! Naming: the documented examples, and injectivity and stability over random sets of names.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn keys(list: &[(&str, &str)]) -> Vec<Key> {
    list.iter().map(|(s, t)| Key { server: (*s).to_owned(), name: (*t).to_owned() }).collect()
}

fn auto(list: &[(&str, &str)]) -> Names {
    Names::assign(&keys(list), ToolNames::Auto, 64)
}

#[test]
fn bare_while_unique_and_qualified_for_both_on_a_clash() {
    let names = auto(&[("a", "search"), ("b", "search"), ("b", "read")]);
    assert_eq!(names.all(), ["a__search", "b__search", "read"]);
    assert_eq!(names.meaning("read"), Some(&Meaning::One(2)));
    assert_eq!(names.meaning("b__read"), Some(&Meaning::One(2)), "the qualified form is always accepted");
    let both = vec!["a__search".to_owned(), "b__search".to_owned()];
    assert_eq!(names.meaning("search"), Some(&Meaning::Ambiguous(both)));
    assert_eq!(names.meaning("nothing"), None);
}

#[test]
fn prefixed_names_every_tool_with_its_server() {
    let names = Names::assign(&keys(&[("a", "x"), ("b", "y")]), ToolNames::Prefixed, 64);
    assert_eq!(names.all(), ["a__x", "b__y"]);
    assert_eq!(names.meaning("x"), Some(&Meaning::One(0)), "a unique bare name is still understood");
}

#[test]
fn verbatim_keeps_names_and_the_first_server_keeps_a_shared_one() {
    let odd = "a name with spaces ".repeat(8);
    let names = Names::assign(&keys(&[("a", &odd), ("a", "x"), ("b", "x")]), ToolNames::Verbatim, 64);
    assert_eq!(names.all(), [odd.as_str(), "x", "b__x"]);
    assert_eq!(names.meaning("x"), Some(&Meaning::One(1)));
}

#[test]
fn a_bare_name_never_shadows_a_qualified_one() {
    let names = auto(&[("x", "a__b"), ("a", "b")]);
    assert_eq!(names.all(), ["x__a__b", "b"]);
    assert_eq!(names.meaning("a__b"), Some(&Meaning::One(1)), "it reads as tool b of server a");
}

#[test]
fn two_equal_qualified_names_are_told_apart_by_a_hash() {
    let names = auto(&[("a", "b__c"), ("a__b", "c"), ("z", "c"), ("z", "b__c")]);
    assert_ne!(names.exposed(0), names.exposed(1));
    assert!(names.exposed(0).starts_with("a__b__c_") && names.exposed(1).starts_with("a__b__c_"));
    assert!(matches!(names.meaning("a__b__c"), Some(Meaning::Ambiguous(both)) if both.len() == 2));
}

#[test]
fn long_and_odd_names_are_shortened_with_a_stable_hash() {
    let long = "t".repeat(100);
    let names = auto(&[("s", &long), ("s", "löschen"), ("s", "ok")]);
    assert_eq!(names.exposed(0).len(), 64);
    assert_eq!(names.exposed(0), format!("{}_10e5bf18", "t".repeat(55)), "the same in every version");
    assert!(names.exposed(1).starts_with("l_schen_"), "{}", names.exposed(1));
    assert_eq!(names.meaning(&long), Some(&Meaning::One(0)), "the server's own spelling is understood");
}

fn name() -> impl Strategy<Value = String> {
    // A tiny alphabet, so that clashes of every kind are common.
    prop_oneof!["[ab_]{1,6}", "[a-c]{1,2}", "a__b", "[aä ]{1,3}", "x{60,70}"]
}

fn set() -> impl Strategy<Value = Vec<Key>> {
    let key = ("[ab_]{1,4}", name()).prop_map(|(server, name)| Key { server, name });
    prop::collection::vec(key, 0..14).prop_map(|keys| {
        let mut seen = HashSet::new();
        keys.into_iter().filter(|key| seen.insert(key.clone())).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    // RULES S21
    #[test]
    fn injective_bounded_and_understood(keys in set(), prefixed in any::<bool>(), max in 16_usize..65) {
        let mode = if prefixed { ToolNames::Prefixed } else { ToolNames::Auto };
        let names = Names::assign(&keys, mode, max);
        let distinct: HashSet<&String> = names.all().iter().collect();
        prop_assert_eq!(distinct.len(), keys.len(), "{:?}", names.all());
        for (index, key) in keys.iter().enumerate() {
            prop_assert!(fits(names.exposed(index), max), "{}", names.exposed(index));
            prop_assert_eq!(names.meaning(names.exposed(index)), Some(&Meaning::One(index)));
            // No spelling of a tool ever leads to a tool it is not a spelling of.
            for spelling in [key.qualified(), key.name.clone()] {
                if let Some(Meaning::One(found)) = names.meaning(&spelling) {
                    let found = &keys[*found];
                    let is_one = [found.qualified(), found.name.clone()].contains(&spelling);
                    prop_assert!(is_one || names.all().contains(&spelling));
                }
            }
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_order_of_arrival_changes_nothing(keys in set(), seed in any::<u64>()) {
        let before = Names::assign(&keys, ToolNames::Auto, 64);
        let mut shuffled = keys.clone();
        shuffled.sort_by_key(|key| {
            let mut hash = Sha256::new();
            hash.update(seed.to_le_bytes());
            hash.update(key.qualified());
            hash.update(&key.server);
            hash.finalize().to_vec()
        });
        let after = Names::assign(&shuffled, ToolNames::Auto, 64);
        for (index, key) in keys.iter().enumerate() {
            let place = shuffled.iter().position(|other| other == key).expect("same set");
            prop_assert_eq!(before.exposed(index), after.exposed(place));
        }
    }

    #[test]
    fn verbatim_is_injective_too(keys in set()) {
        let names = Names::assign(&keys, ToolNames::Verbatim, 64);
        let distinct: HashSet<&String> = names.all().iter().collect();
        prop_assert_eq!(distinct.len(), keys.len(), "{:?}", names.all());
    }
}
