//! Naming: the documented examples, and injectivity and stability over random sets of names.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn keys(list: &[(&str, &str)]) -> Vec<ItemKey> {
    list.iter().map(|(s, t)| ItemKey { server: (*s).into(), name: (*t).to_owned() }).collect()
}

/// The names of `keys`, where the servers among them are all there are.
fn assign(keys: &[ItemKey], mode: ToolNames, max_length: usize) -> Names {
    let servers = keys.iter().map(|key| Arc::clone(&key.server)).collect();
    Names::assign(
        keys,
        &Rules { mode, max_length, servers: &servers, keeps_dots: false },
        &mut Owners::default(),
    )
}

fn auto(list: &[(&str, &str)]) -> Names {
    assign(&keys(list), ToolNames::Auto, 64)
}

#[test]
fn bare_while_unique_and_qualified_for_both_on_a_clash() {
    let names = auto(&[("a", "search"), ("b", "search"), ("b", "read")]);
    assert_eq!(names.all(), ["a__search", "b__search", "read"]);
    assert_eq!(names.meaning("read"), Some(&ResolvedName::One(2)));
    assert_eq!(
        names.meaning("b__read"),
        Some(&ResolvedName::One(2)),
        "the qualified form is always accepted"
    );
    let both = vec!["a__search".to_owned(), "b__search".to_owned()];
    assert_eq!(names.meaning("search"), Some(&ResolvedName::Ambiguous(both)));
    assert_eq!(names.meaning("nothing"), None);
}

#[test]
fn prefixed_names_every_tool_with_its_server() {
    let names = assign(&keys(&[("a", "x"), ("b", "y")]), ToolNames::Prefixed, 64);
    assert_eq!(names.all(), ["a__x", "b__y"]);
    assert_eq!(names.meaning("x"), Some(&ResolvedName::One(0)), "a unique bare name is still understood");
}

#[test]
fn verbatim_keeps_names_and_the_first_server_keeps_a_shared_one() {
    let odd = "a name with spaces ".repeat(8);
    let names = assign(&keys(&[("a", &odd), ("a", "x"), ("b", "x")]), ToolNames::Verbatim, 64);
    assert_eq!(names.all(), [odd.as_str(), "x", "b__x"]);
    assert_eq!(names.meaning("x"), Some(&ResolvedName::One(1)));
}

#[test]
fn a_bare_name_never_shadows_a_qualified_one() {
    let names = auto(&[("x", "a__b"), ("a", "b")]);
    assert_eq!(names.all(), ["x__a__b", "b"]);
    assert_eq!(names.meaning("a__b"), Some(&ResolvedName::One(1)), "it reads as tool b of server a");
}

#[test]
fn longer_server_name_wins_between_two_equal_qualified_names() {
    let names = auto(&[("a", "b__c"), ("a__b", "c"), ("z", "c"), ("z", "b__c")]);
    assert_eq!(names.exposed(1), "a__b__c");
    assert!(names.exposed(0).starts_with("a_b_c_"), "{}", names.exposed(0));
    assert_eq!(names.meaning("a__b__c"), Some(&ResolvedName::One(1)));
}

#[test]
fn a_name_that_ends_like_a_shortened_one_is_never_offered_bare() {
    let good = [("good", "repo/create")];
    assert_eq!(auto(&good).all(), ["repo_create_c32a3633"]);
    let hash = hex::encode(Sha256::digest("good\0repo/create"));
    for digits in 8..=64 {
        let squatted = format!("repo_create_{}", &hash[..digits]);
        let names = auto(&[("good", "repo/create"), ("evil", &squatted), ("evil", "release_20240131")]);
        assert_eq!(names.exposed(0), "repo_create_c32a3633");
        assert!(names.exposed(1).starts_with("evil__repo_create_"), "{}", names.exposed(1));
        assert_eq!(names.exposed(2), "release_20240131", "a date is no hash");
        let alone = auto(&[("evil", &squatted)]);
        assert_eq!(alone.meaning(&squatted), None, "it may be the name of a server that is away");
    }
}

#[test]
fn a_name_stays_with_the_server_that_had_it_first() {
    let servers = ["evil", "good"].map(Arc::from).into();
    let (mut owners, one) = (Owners::default(), |index| Some(ResolvedName::One(index)));
    for mode in [ToolNames::Auto, ToolNames::Verbatim, ToolNames::Prefixed] {
        let mut names = |list: &[(&str, &str)]| {
            Names::assign(
                &keys(list),
                &Rules { mode, max_length: 64, servers: &servers, keeps_dots: false },
                &mut owners,
            )
        };
        assert_eq!(names(&[("good", "x")]).meaning("x").cloned(), one(0));
        let both = names(&[("evil", "x"), ("good", "x")]);
        assert!(mode == ToolNames::Verbatim || matches!(both.meaning("x"), Some(ResolvedName::Ambiguous(_))));
        assert!(mode != ToolNames::Verbatim || both.all() == ["evil__x", "x"], "{:?}", both.all());
        let moved = names(&[("evil", "x")]);
        assert_eq!(
            (moved.all(), moved.meaning("x")),
            (&["evil__x".to_owned()][..], Some(&ResolvedName::Moved(0)))
        );
        assert_eq!(moved.moved(), [Moved { index: 0, name: "x".into(), owner: "good".into() }]);
        assert_eq!(moved.meaning("evil__x").cloned(), one(0), "its qualified name always works");
        assert_eq!(names(&[("good", "x")]).meaning("x").cloned(), one(0), "the first one takes it up again");
    }
}

#[test]
fn long_and_odd_names_are_shortened_with_a_stable_hash() {
    let long = "t".repeat(100);
    let names = auto(&[("s", &long), ("s", "löschen"), ("s", "ok")]);
    assert_eq!(names.exposed(0).len(), 64);
    assert_eq!(names.exposed(0), format!("{}_10e5bf18", "t".repeat(55)), "the same in every version");
    assert!(names.exposed(1).starts_with("l_schen_"), "{}", names.exposed(1));
    assert_eq!(names.meaning(&long), Some(&ResolvedName::One(0)), "the server's own spelling is understood");
}

#[test]
fn dots_become_underscores_and_the_own_spelling_is_understood() {
    let list =
        [("a", "calendar.list"), ("a", "x.y"), ("a", "x_y"), ("a", "p.q_r"), ("a", "p_q.r"), ("b", "c.d")];
    let names = auto(&list);
    assert_eq!([names.exposed(0), names.exposed(2), names.exposed(5)], ["calendar_list", "x_y", "c_d"]);
    for (index, start) in [(1, "x_y_"), (3, "p_q_r_"), (4, "p_q_r_")] {
        assert!(names.exposed(index).starts_with(start), "{}", names.exposed(index));
    }
    for (index, (server, own)) in list.into_iter().enumerate() {
        for spelling in [own.to_owned(), format!("{server}__{own}"), names.exposed(index).to_owned()] {
            assert_eq!(names.meaning(&spelling), Some(&ResolvedName::One(index)), "{spelling}");
        }
    }
    let prefixed = assign(&keys(&list), ToolNames::Prefixed, 64);
    assert_eq!(prefixed.exposed(0), "a__calendar_list");
    assert_eq!(prefixed.meaning("a__calendar.list"), Some(&ResolvedName::One(0)));
    assert_eq!(assign(&keys(&list), ToolNames::Verbatim, 64).all()[..2], ["calendar.list", "x.y"]);
}

#[test]
fn a_dotted_name_clashes_like_any_other_and_takes_no_name() {
    let names = auto(&[("a", "x.y"), ("b", "x_y")]);
    assert_eq!(names.all(), ["a__x_y", "b__x_y"]);
    assert_eq!(names.meaning("x.y"), Some(&ResolvedName::One(0)));
    assert!(matches!(names.meaning("x_y"), Some(ResolvedName::Ambiguous(both)) if both.len() == 2));
    let names = auto(&[("evil", "issues..create"), ("issues", "create"), ("evil", "fix.deadbeef")]);
    assert_eq!(names.meaning("issues__create"), Some(&ResolvedName::One(1)));
    assert!(names.exposed(0).starts_with("evil__issues__create"), "{}", names.exposed(0));
    assert!(names.exposed(2).starts_with("evil__fix_deadbeef"), "{}", names.exposed(2));
}

#[test]
fn a_dotted_name_that_another_server_had_is_refused_under_both_spellings() {
    let servers = ["evil", "good"].map(Arc::from).into();
    let rules = Rules { mode: ToolNames::Auto, max_length: 64, servers: &servers, keeps_dots: false };
    let mut owners = Owners::default();
    Names::assign(&keys(&[("good", "x.y")]), &rules, &mut owners);
    let names = Names::assign(&keys(&[("evil", "x.y")]), &rules, &mut owners);
    assert_eq!(names.all(), ["evil__x_y"]);
    for spelling in ["x_y", "x.y"] {
        assert_eq!(names.meaning(spelling), Some(&ResolvedName::Moved(0)), "{spelling}");
    }
}

fn name() -> impl Strategy<Value = String> {
    // A tiny alphabet, so that clashes of every kind are common.
    prop_oneof!["[ab_]{1,6}", "[a-c]{1,2}", "a__b", "[aä ]{1,3}", "x{60,70}", "[ab._]{1,4}"]
}

/// Up to `most` different keys.
pub(super) fn set(most: usize) -> impl Strategy<Value = Vec<ItemKey>> {
    let key = ("[ab_]{1,4}", name()).prop_map(|(server, name)| ItemKey { server: server.into(), name });
    prop::collection::vec(key, 0..=most).prop_map(|keys| {
        let mut seen = HashSet::new();
        keys.into_iter().filter(|key| seen.insert(key.clone())).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    // RULES S21
    #[test]
    fn injective_bounded_and_understood(keys in set(13), prefixed in any::<bool>(), max in 16_usize..65) {
        let mode = if prefixed { ToolNames::Prefixed } else { ToolNames::Auto };
        let names = assign(&keys, mode, max);
        let distinct: HashSet<&String> = names.all().iter().collect();
        prop_assert_eq!(distinct.len(), keys.len(), "{:?}", names.all());
        for (index, key) in keys.iter().enumerate() {
            let exposed = names.exposed(index);
            let is_safe = exposed.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
            prop_assert!(is_safe && exposed.len() <= max, "{exposed}");
            prop_assert_eq!(names.meaning(names.exposed(index)), Some(&ResolvedName::One(index)));
            // No spelling of a tool ever leads to a tool it is not a spelling of.
            // A spelling with dots stands for the one without.
            let undotted = |text: &String| text.replace('.', "_");
            for spelling in [key.qualified(), key.name.clone()] {
                if let Some(ResolvedName::One(found)) = names.meaning(&spelling) {
                    let found = &keys[*found];
                    let is_one = [found.qualified(), found.name.clone()].iter().any(|own| undotted(own) == undotted(&spelling));
                    prop_assert!(is_one || names.all().contains(&spelling));
                }
            }
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_order_of_arrival_changes_nothing(keys in set(13), seed in any::<u64>()) {
        let before = assign(&keys, ToolNames::Auto, 64);
        let mut shuffled = keys.clone();
        shuffled.sort_by_key(|key| {
            let mut hash = Sha256::new();
            hash.update(seed.to_le_bytes());
            hash.update(key.qualified());
            hash.update(key.server.as_bytes());
            hash.finalize().to_vec()
        });
        let after = assign(&shuffled, ToolNames::Auto, 64);
        for (index, key) in keys.iter().enumerate() {
            let place = shuffled.iter().position(|other| other == key).expect("same set");
            prop_assert_eq!(before.exposed(index), after.exposed(place));
        }
    }

    #[test]
    fn verbatim_is_injective_too(keys in set(13)) {
        let names = assign(&keys, ToolNames::Verbatim, 64);
        let distinct: HashSet<&String> = names.all().iter().collect();
        prop_assert_eq!(distinct.len(), keys.len(), "{:?}", names.all());
    }
}
