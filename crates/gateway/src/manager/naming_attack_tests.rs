//! Naming against a server that knows the function: it lists names that other servers have, may have or had.

use proptest::prelude::*;

use super::tests::set;
use super::*;

/// `name` with `_` in the place of each character that no model service accepts.
fn plain(name: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    name.chars().map(|c| if is_safe(c) { c } else { '_' }).collect()
}

/// One of the names of a catalog, changed in the way that `how` says.
fn squatted(names: &Names, keys: &[ItemKey], (which, how): (usize, usize)) -> String {
    if keys.is_empty() {
        return "x".to_owned();
    }
    let index = which % keys.len();
    let key = &keys[index];
    let mut hash = Sha256::new();
    hash.update(key.server.as_bytes());
    hash.update([0]);
    hash.update(key.name.as_bytes());
    let digits = hex::encode(hash.finalize());
    let exposed = names.exposed(index);
    let (head, _) = exposed.rsplit_once('_').unwrap_or((exposed, ""));
    match how % 6 {
        0 => exposed.to_owned(),
        1 => key.name.clone(),
        2 => key.qualified(),
        3 => format!("{head}_{}", &digits[..8 + how % 57]),
        4 => format!("{}_{}", plain(&key.name), &digits[..8 + how % 57]),
        _ => format!("{}_{}", plain(&key.qualified()), &digits[..8 + how % 57]),
    }
}

/// The owners of everything that `name` can reach.
fn reached<'a>(names: &Names, keys: &'a [ItemKey], name: &str) -> Option<&'a ItemKey> {
    match names.meaning(name) {
        Some(ResolvedName::One(index)) => Some(&keys[*index]),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_name_reaches_a_server_that_did_not_have_it_and_none_is_listed_twice(
        keys in set(6),
        attack in prop::collection::vec((any::<usize>(), any::<usize>()), 1..12),
        (place, mode, max_length) in (any::<usize>(), 0..3_usize, 20..65_usize),
        (keeps, remembers) in (any::<u16>(), any::<bool>()),
    ) {
        let mode = [ToolNames::Auto, ToolNames::Prefixed, ToolNames::Verbatim][mode];
        let evil: Arc<str> = "e".into();
        let servers = keys.iter().map(|key| Arc::clone(&key.server)).chain([Arc::clone(&evil)]).collect();
        let rules = Rules { mode, max_length, servers: &servers, keeps_dots: false };
        let mut owners = Owners::default();
        let before = Names::assign(&keys, &rules, &mut owners);

        let mut seen = HashSet::new();
        let bad = attack.iter().map(|how| ItemKey { server: Arc::clone(&evil), name: squatted(&before, &keys, *how) });
        let bad: Vec<ItemKey> = bad.filter(|key| seen.insert(key.name.clone())).collect();
        // The attacker may come first in the file, and the others may drop what they had.
        let left = |(index, _): &(usize, &ItemKey)| keeps >> (index % 16) & 1 == 1;
        let mut all: Vec<ItemKey> = keys.iter().enumerate().filter(left).map(|(_, key)| key.clone()).collect();
        let place = place % (all.len() + 1);
        all.splice(place..place, bad);
        // Without a memory (a restart) the names that do not depend on it must hold all the same.
        let mut known = if remembers { owners } else { Owners::default() };
        let after = Names::assign(&all, &rules, &mut known);

        let distinct: HashSet<&String> = after.all().iter().collect();
        prop_assert_eq!(distinct.len(), all.len(), "{:?}", after.all());
        for (name, meaning) in &before.meanings {
            let ResolvedName::One(index) = meaning else { continue };
            let key = &keys[*index];
            // A name without its dots is a bare name too.
            let is_bare = key.name == *name || key.name.replace('.', "_") == *name;
            let is_there = mode == ToolNames::Auto && all.contains(key);
            if is_bare && !remembers && !is_there {
                continue;
            }
            let found = reached(&after, &all, name);
            prop_assert!(found.is_none_or(|found| found.server == key.server), "{name:?}: {key:?} -> {found:?}");
            let is_qualified = *name == key.qualified() && all.contains(key);
            prop_assert!(!is_qualified || found == Some(key), "{name:?} must hold: {found:?}");
        }
    }
}
