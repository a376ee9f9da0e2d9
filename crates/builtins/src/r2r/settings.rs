//! Checks `search_settings`: how R2R searches in the mode `custom`.
//!
//! Invariants: R2R gets only settings that are listed in [`SETTINGS`], with valid types and bounds. None of
//! them changes where R2R searches: `filters` in them only narrow the collection's own filter (`filters`). A
//! setting that makes R2R ask a language model is refused, unless the operator allows that for searches.
//!
//! Not here: what the modes send to R2R (`search`).

use serde_json::{Map, Value};

use super::filters;
use crate::refusal::Refusal;

/// Name of the setting that contains a filter.
const FILTERS: &str = "filters";
/// Name of the setting for how R2R derives queries.
const STRATEGY: &str = "search_strategy";
/// The strategy that asks no language model.
const PLAIN: &str = "vanilla";
/// The kinds of search, and whether R2R uses each by default.
const WAYS: [(&str, bool); 3] =
    [("use_semantic_search", true), ("use_fulltext_search", false), ("use_hybrid_search", false)];

/// Valid values of a setting.
enum Rule {
    Flag,
    Whole(u32, u32),
    Number(f64, f64),
    Word(&'static [&'static str]),
    Part(&'static [(&'static str, Rule)]),
}

/// Known settings, by name.
static SETTINGS: [(&str, Rule); 8] = [
    (WAYS[0].0, Rule::Flag),
    (WAYS[1].0, Rule::Flag),
    (WAYS[2].0, Rule::Flag),
    ("offset", Rule::Whole(0, 10_000)),
    (STRATEGY, Rule::Word(&[PLAIN, "hyde", "rag_fusion"])),
    ("num_sub_queries", Rule::Whole(1, 10)),
    (
        "hybrid_settings",
        Rule::Part(&[
            ("full_text_weight", Rule::Number(0.0, 100.0)),
            ("semantic_weight", Rule::Number(0.0, 100.0)),
            ("full_text_limit", Rule::Whole(1, 1_000)),
            ("rrf_k", Rule::Whole(1, 1_000)),
        ]),
    ),
    (
        "chunk_settings",
        Rule::Part(&[
            ("index_measure", Rule::Word(&["cosine_distance", "l2_distance", "max_inner_product"])),
            ("probes", Rule::Whole(1, 1_000)),
            ("ef_search", Rule::Whole(1, 1_000)),
        ]),
    ),
];

/// Checks that R2R can use the client's settings. `asks_model`: searches may ask R2R's language model.
pub(super) fn check(settings: &Map<String, Value>, asks_model: bool) -> Result<(), Refusal> {
    for (name, value) in settings {
        match value.as_object() {
            Some(filter) if name == FILTERS => filters::check(filter)?,
            _ if name == FILTERS => {
                return Err(wrong(
                    FILTERS,
                    value,
                    "A filter is an object.",
                    "such as {\"document_type\": \"md\"}",
                ));
            }
            _ => member(&SETTINGS, name, name, value)?,
        }
    }
    if let Some(strategy) = settings.get(STRATEGY).filter(|strategy| !asks_model && *strategy != PLAIN) {
        return Err(wrong(STRATEGY, strategy, "It would ask R2R's language model.", PLAIN)
            .suggest("Leave it out; whoever runs the gateway may allow it with advanced_search: r2r."));
    }
    let goes =
        |(way, usual): &(&str, bool)| settings.get(*way).map_or(*usual, |said| said == &Value::Bool(true));
    if !WAYS.iter().any(goes) {
        let because = "With all of them off there is no search.";
        return Err(wrong(WAYS[0].0, &Value::Bool(false), because, "true for one at least")
            .suggest("Set use_semantic_search, use_fulltext_search or use_hybrid_search to true."));
    }
    Ok(())
}

/// Returns the filter among the settings.
pub(super) fn filter(settings: Option<&Map<String, Value>>) -> Option<&Map<String, Value>> {
    settings?.get(FILTERS)?.as_object()
}

/// Returns the settings without their filter.
pub(super) fn rest(settings: Option<&Map<String, Value>>) -> Map<String, Value> {
    let others = settings.into_iter().flatten().filter(|(name, _)| *name != FILTERS);
    others.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Checks that `value` is valid for the setting `name` of `rules`. `at` is its full name.
fn member(rules: &[(&str, Rule)], name: &str, at: &str, value: &Value) -> Result<(), Refusal> {
    let Some((_, rule)) = rules.iter().find(|(known, _)| *known == name) else {
        let names: Vec<_> = rules.iter().map(|(known, _)| *known).collect();
        let refusal = wrong(at, value, "There is no such setting for callers.", &names.join(", "));
        let beside = matches!(name, "limit" | "query" | "search_mode" | "collection_id");
        return Err(if beside { refusal.suggest("It stands beside search_settings.") } else { refusal });
    };
    let said = match rule {
        Rule::Flag if value.is_boolean() => return Ok(()),
        Rule::Flag => "true or false".to_owned(),
        Rule::Whole(least, most)
            if value
                .as_u64()
                .is_some_and(|number| (u64::from(*least)..=u64::from(*most)).contains(&number)) =>
        {
            return Ok(());
        }
        Rule::Whole(least, most) => {
            let because = format!("R2R takes a whole number from {least} to {most}.");
            return Err(out_of_range(at, value, &because, [f64::from(*least), f64::from(*most)]));
        }
        Rule::Number(least, most)
            if value.as_f64().is_some_and(|number| (*least..=*most).contains(&number)) =>
        {
            return Ok(());
        }
        Rule::Number(least, most) => {
            let because = format!("R2R takes a number from {least} to {most}.");
            return Err(out_of_range(at, value, &because, [*least, *most]));
        }
        Rule::Word(words) if value.as_str().is_some_and(|word| words.contains(&word)) => return Ok(()),
        Rule::Word(words) => format!("one of {}", words.join(", ")),
        Rule::Part(rules) => match value.as_object() {
            Some(part) => {
                return part
                    .iter()
                    .try_for_each(|(name, value)| member(rules, name, &format!("{at}.{name}"), value));
            }
            None => "an object".to_owned(),
        },
    };
    Err(wrong(at, value, "R2R could not search with that.", &said))
}

fn out_of_range(at: &str, value: &Value, because: &str, [least, most]: [f64; 2]) -> Refusal {
    wrong(at, value, because, "").between(least, most)
}

fn wrong(at: &str, value: &Value, because: &str, valid: &str) -> Refusal {
    let at: String = at.chars().take(100).collect();
    Refusal::new("invalid_argument", &format!("search_settings.{at}"), value)
        .because(because)
        .valid(valid)
        .suggest("Leave it out to search as R2R is configured.")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(settings: &Value, asks_model: bool) -> Option<Value> {
        let refusal = check(settings.as_object().expect("an object"), asks_model).err();
        refusal.map(|refusal| refusal.raw().read().expect("JSON"))
    }

    #[test]
    fn listed_setting_passes_within_its_bounds() {
        for settings in [
            json!({}),
            json!({"use_fulltext_search": true, "use_semantic_search": false, "offset": 20}),
            json!({"use_hybrid_search": true, "hybrid_settings": {"rrf_k": 60, "semantic_weight": 2.5}}),
            json!({"chunk_settings": {"index_measure": "l2_distance", "probes": 20, "ef_search": 100}}),
            json!({"search_strategy": "vanilla", "filters": {"team": "core"}}),
        ] {
            assert_eq!(checked(&settings, false), None, "{settings}");
        }
        let strategy = json!({"search_strategy": "hyde", "num_sub_queries": 3});
        assert_eq!(checked(&strategy, true), None);
    }

    #[test]
    fn everything_else_is_refused_by_its_name() {
        for (settings, field, said) in [
            (json!({"graph_settings": {"enabled": true}}), "graph_settings", "no such setting"),
            (json!({"limit": 5}), "limit", "beside search_settings"),
            (json!({"collection_id": "x"}), "collection_id", "beside search_settings"),
            (json!({"selected_collection_ids": ["x"]}), "selected_collection_ids", "no such setting"),
            (json!({"use_web_search": true}), "use_web_search", "no such setting"),
            (json!({"use_hybrid_search": "yes"}), "use_hybrid_search", "true or false"),
            (json!({"offset": -1}), "offset", "from 0 to 10000"),
            (json!({"offset": 1.5}), "offset", "from 0 to 10000"),
            (json!({"hybrid_settings": {"rrf_k": 0}}), "hybrid_settings.rrf_k", "from 1 to 1000"),
            (json!({"hybrid_settings": {"x": 0}}), "hybrid_settings.x", "no such setting"),
            (
                json!({"hybrid_settings": {"semantic_weight": 1e9}}),
                "hybrid_settings.semantic_weight",
                "to 100",
            ),
            (json!({"chunk_settings": []}), "chunk_settings", "an object"),
            (json!({"chunk_settings": {"enabled": false}}), "chunk_settings.enabled", "no such setting"),
            (json!({"chunk_settings": {"index_measure": "l3"}}), "chunk_settings.index_measure", "one of"),
            (json!({"search_strategy": "agent"}), "search_strategy", "one of"),
            (json!({"search_strategy": "hyde"}), "search_strategy", "language model"),
            (json!({"use_semantic_search": false}), "use_semantic_search", "no search"),
            (json!({"filters": []}), "filters", "an object"),
        ] {
            let refusal = checked(&settings, false).unwrap_or_else(|| panic!("{settings} passed"));
            assert_eq!(refusal["field"], format!("search_settings.{field}"), "{refusal}");
            assert!(refusal.to_string().contains(said), "{settings}: {refusal}");
        }
        let escape = json!({"filters": {"$or": [{"collection_ids": {"$overlap": ["x"]}}]}});
        assert!(checked(&escape, true).expect("refused").to_string().contains("collection_id"));
    }
}
