//! Tests of the filters that clients may use, and that none of them leads out of the collection.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::hostile;

fn checked(filter: &Value) -> Result<(), Value> {
    let refusal = check(filter.as_object().expect("an object")).err();
    refusal.map_or(Ok(()), |refusal| Err(refusal.raw().read().expect("JSON")))
}

#[test]
fn filter_that_r2r_understands_passes() {
    for filter in [
        json!({}),
        json!({"document_type": "md"}),
        json!({"team": "core", "n": 3}),
        json!({"metadata.team": {"$ne": "core"}}),
        json!({"metadata": {"team": {"$in": ["core", 1, null]}}}),
        json!({"année": {"$gte": 2024.5}, "a-b": true}),
        json!({"$or": [{"a": {"$like": "x%"}}, {"$and": [{"b": {"$contains": ["y"]}}]}]}),
        json!({"document_id": {"$in": ["0b8aa2e5-2b7c-4b5c-9f0e-3a1f2d4c5b6a"]}}),
        json!({"id": "0b8aa2e5-2b7c-4b5c-9f0e-3a1f2d4c5b6a"}),
        json!({"obj": {"$json_contains": {"a": [1]}}}),
    ] {
        assert_eq!(checked(&filter), Ok(()), "{filter}");
    }
}

#[test]
fn filter_that_r2r_would_misread_is_refused_with_the_reason() {
    let deep = (0..9).fold(json!({"a": 1}), |inner, _| json!({"$and": [inner]}));
    let many: Map<String, Value> = (0..101).map(|n| (format!("f{n}"), json!(n))).collect();
    for (filter, said) in [
        (json!({"collection_id": {"$eq": "x"}}), "collection_id beside filters"),
        (json!({"collection_ids": {"$overlap": ["x"]}}), "collection_id beside filters"),
        (json!({"$or": [{"a": 1}, {"owner_id": "x"}]}), "collection_id beside filters"),
        (json!({"metadata": {"collection_ids": ["x"]}}), "collection_id beside filters"),
        (json!({"a": {"$neq": 1}}), "$ne"),
        (json!({"$not": [{"a": 1}]}), "silently match nothing"),
        (json!({"a": {"$where": "1"}}), "silently match nothing"),
        (json!({"a": {"$gt": 1, "$lt": 3}}), "under $and"),
        (json!({"a": {}}), "under $and"),
        (json!({"$and": {"a": 1}}), "list of filters"),
        (json!({"$and": []}), "list of filters"),
        (json!({"$and": [1]}), "list of filters"),
        (json!({"a": {"$in": "x"}}), "a list of values"),
        (json!({"a": {"$eq": ["x"]}}), "one value"),
        (json!({"a": ["x"]}), "one value"),
        (json!({"a": {"$like": 3}}), "takes a text"),
        (json!({"a": {"$overlap": ["x"]}}), "$contains"),
        (json!({"created_at": {"$gt": "2024-01-01"}}), "cannot filter"),
        (json!({"document_id": "7"}), "whole UUIDs"),
        (json!({"document_id": {"$like": "7%"}}), "whole UUIDs"),
        (json!({"x'y": 1}), "letters, digits"),
        (json!({"x\" y": 1}), "letters, digits"),
        (json!({"a.b c": 1}), "letters, digits"),
        (json!({"": 1}), "letters, digits"),
        (json!({"a..b": 1}), "letters, digits"),
        (json!({"a": {"b') OR (1=1": 1}}), "letters, digits"),
        (json!({"a": "x\0"}), "U+0000"),
        (deep, "too deep"),
        (Value::Object(many), "more than 100"),
    ] {
        let refusal = checked(&filter).expect_err(&filter.to_string());
        assert_eq!(refusal["field"], "filters");
        assert!(refusal.to_string().contains(said), "{filter}: {refusal}");
    }
}

/// Collects every name in a filter, operators included.
fn names(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| {
            into.push(name.clone());
            if !name.starts_with('$') || matches!(name.as_str(), "$and" | "$or") {
                names(value, into);
            }
        }),
        Value::Array(list) => list.iter().for_each(|value| names(value, into)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]
    // RULES S28
    #[test]
    fn no_filter_that_passes_says_where_to_search(filter in hostile::filters()) {
        let Value::Object(filter) = filter else { return Ok(()) };
        if check(&filter).is_ok() {
            let mut all = Vec::new();
            names(&Value::Object(filter.clone()), &mut all);
            for name in &all {
                prop_assert!(!OURS.iter().any(|ours| name.split('.').any(|step| step == *ours)), "{name}");
                prop_assert!(name.starts_with('$') || name.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c)));
            }
            let whole = within(Id(uuid::Uuid::nil()), Some(&filter));
            prop_assert_eq!(&whole["$and"][0]["collection_id"]["$eq"], &json!(uuid::Uuid::nil().to_string()));
        }
    }
}
