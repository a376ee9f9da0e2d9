//! Properties of [`super::Raw`]: it keeps bytes, and an edit changes only the edited members.

use proptest::prelude::*;

use super::*;

fn raw(text: &str) -> Raw {
    Raw::parse(&Bytes::copy_from_slice(text.as_bytes())).expect("valid JSON")
}

#[test]
fn values_that_serde_would_lose_are_kept() {
    let text = r#"{"big":1180591620717411303424,"e":1e400,"f":1.0,"n":null,"u":"\u0041","z":1,"a":2}"#;
    assert_eq!(raw(text).as_str(), text);
    assert_eq!(raw(text).get("e").expect("there").as_str(), "1e400");
    assert_eq!(raw(text).get("n").expect("there").as_str(), "null");
}

#[test]
fn white_space_around_the_value_is_dropped_and_inside_it_kept() {
    assert_eq!(raw(" \n{ \"a\" : 1 }\t").as_str(), "{ \"a\" : 1 }");
}

#[test]
fn with_replaces_in_place_or_appends() {
    assert_eq!(raw(r#"{"a":1, "b" : {"a":2} }"#).with("b", &raw("3")).as_str(), r#"{"a":1, "b" : 3 }"#);
    assert_eq!(raw(r#"{"a":1 }"#).with("b", &raw("3")).as_str(), r#"{"a":1,"b":3 }"#);
    assert_eq!(raw("{}").with("b", &raw("3")).as_str(), r#"{"b":3}"#);
    assert_eq!(raw("[1]").with("b", &raw("3")).as_str(), "[1]");
}

#[test]
fn an_escaped_key_is_the_same_key() {
    assert_eq!(raw(r#"{"n\u0061me":1}"#).get("name").expect("found").as_str(), "1");
    assert_eq!(raw(r#"{"n\u0061me":1,"name":2}"#).duplicate_key().as_deref(), Some("name"));
    assert_eq!(raw(r#"{"name":1,"x":{"name":2}}"#).duplicate_key(), None);
}

#[test]
fn depth_counts_brackets_outside_strings() {
    assert_eq!(raw("1").depth(), 0);
    assert_eq!(raw(r#"{"a":"[[[[{"}"#).depth(), 1);
    assert_eq!(raw(r#"[[{"a":[]}]]"#).depth(), 4);
}

#[test]
fn numbers_are_found_outside_strings() {
    let value = raw(r#"{"1":[-2.5e3,"4\"5",true],"a":{"b":60}, "c" : 7 }"#);
    assert_eq!(value.numbers().collect::<Vec<_>>(), ["-2.5e3", "60", "7"]);
    assert_eq!(raw("-1").numbers().collect::<Vec<_>>(), ["-1"]);
    assert_eq!(raw(r#""8""#).numbers().count(), 0);
}

/// Any value, with `keys` in its objects.
pub(crate) fn json(keys: &'static str) -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        ".{0,8}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::btree_map(keys, inner, 0..5)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Keys with many duplicates and with characters that have a meaning in JSON.
const KEYS: &str = "[a-d\\\\\"{},: ]{0,3}";

fn object() -> impl Strategy<Value = serde_json::Map<String, serde_json::Value>> {
    prop::collection::btree_map(KEYS, json(KEYS), 0..6).prop_map(|map| map.into_iter().collect())
}

proptest! {
    #[test]
    fn members_are_what_serde_reads(map in object(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&map) } else { serde_json::to_string(&map) };
        let value = raw(&text.expect("prints"));
        let read: serde_json::Map<String, serde_json::Value> = value
            .members()
            .map(|(key, value)| (key.into_owned(), value.read().expect("a member is JSON")))
            .collect();
        prop_assert_eq!(read, map);
    }

    #[test]
    fn an_edit_changes_what_it_says_and_nothing_else(
        map in object(),
        set in prop::collection::btree_map("[a-d]{1,2}", prop::option::of(json(KEYS)), 0..4),
        pretty in any::<bool>(),
    ) {
        let text = if pretty { serde_json::to_string_pretty(&map) } else { serde_json::to_string(&map) };
        let before = raw(&text.expect("prints"));
        let values: Vec<(String, Option<Raw>)> =
            set.iter().map(|(k, v)| (k.clone(), v.as_ref().map(Raw::of))).collect();
        let changes: Vec<(&str, Option<&Raw>)> =
            values.iter().map(|(k, v)| (k.as_str(), v.as_ref())).collect();
        let after = before.edit(&changes);
        let reparsed = Raw::parse(after.bytes());
        prop_assert!(reparsed.is_ok(), "{}", after.as_str());
        let mut expected = map.clone();
        for (key, value) in &set {
            match value {
                Some(value) => expected.insert(key.clone(), value.clone()),
                None => expected.remove(key),
            };
        }
        let read: serde_json::Map<String, serde_json::Value> = after.read().expect("an object");
        prop_assert_eq!(read, expected);
        for (key, value) in before.members().filter(|(key, _)| !set.contains_key(key.as_ref())) {
            prop_assert_eq!(after.get(&key), Some(value));
        }
    }

    #[test]
    fn elements_are_what_serde_reads(values in prop::collection::vec(json(KEYS), 0..6)) {
        let list = Raw::of(&values);
        let read: Vec<serde_json::Value> = list.elements().map(|e| e.read().expect("JSON")).collect();
        prop_assert_eq!(read, values);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(value) = Raw::parse(&Bytes::from(bytes)) {
            let _ = (value.depth(), value.duplicate_key(), value.get("a"), value.with("a", &value));
        }
    }
}

#[test]
fn an_object_of_members_has_them_where_it_says() {
    let (one, two) = (raw("[1e400]"), raw("\"x\""));
    let object = Raw::object(&[("a", &one), ("bc", &two)]);
    assert_eq!(object.as_str(), r#"{"a":[1e400],"bc":"x"}"#);
    assert_eq!((object.get("a"), object.get("bc"), object.get("b")), (Some(one), Some(two), None));
    assert_eq!(object.text("bc").as_deref(), Some("x"));
    assert_eq!(object.with("a", &raw("7")).as_str(), r#"{"a":7,"bc":"x"}"#);
    assert_eq!(Raw::object(&[]), Raw::empty_object());
}

#[test]
fn parts_at_any_depth_are_replaced_and_nothing_else_is() {
    let value = raw(r#"{ "a":[1e400 , {"b":"x","b2":null}], "c":"x" }"#);
    let b = value.get("a").and_then(|a| a.elements().nth(1)?.get("b")).expect("there");
    let c = value.get("c").expect("there");
    let stranger = raw("\"x\"");
    let changes = [(c.clone(), raw("[2]")), (b, raw("\"longer\"")), (stranger, raw("0")), (c, raw("9"))];
    assert_eq!(
        value.replacing(&changes).as_str(),
        r#"{ "a":[1e400 , {"b":"longer","b2":null}], "c":[2] }"#,
        "the first change of a part counts, and what is no part is left alone"
    );
    assert_eq!(value.replacing(&[]), value);
}
