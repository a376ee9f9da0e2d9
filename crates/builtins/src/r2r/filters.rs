//! The filter of a search: the collection's own, combined with the client's.
//!
//! Invariants: the filter that is sent always has the form `{"$and": [{"collection_id": {"$eq": ID}}, <the
//! client's>]}`. This is the only form that works for every kind of R2R account, and it lets the client's
//! filter only narrow the search. The filter has no field that R2R rewrites (`collection_id`,
//! `collection_ids`, `owner_id`), and no operator that R2R treats as "matches nothing". It has no name with
//! characters that R2R would copy into its SQL. It is built from parsed values, never copied from the input.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::model::{Id, has_nul};
use crate::refusal::Refusal;

/// Most conditions in one filter.
const MOST_CONDITIONS: usize = 100;
/// Most values in one list.
const MOST_VALUES: usize = 1_000;
/// Deepest nesting of `$and` and `$or`.
const DEEPEST: usize = 8;
const LONGEST_FIELD: usize = 128;

/// Fields that assign a text to a collection or owner. Only Switchyard sets them.
const OURS: [&str; 3] = ["collection_id", "collection_ids", "owner_id"];
/// R2R looks for these as columns of its table of chunks, which has no such columns.
const NO_COLUMNS: [&str; 2] = ["created_at", "updated_at"];
/// Columns with ids.
const IDS: [&str; 2] = ["id", "document_id"];

/// Operators for a hint in error texts.
const OPERATORS: &str =
    "$eq, $ne, $lt, $lte, $gt, $gte, $in, $nin, $like, $ilike, $contains, $json_contains, $and, $or";

/// Returns the filter for `collection`, combined with the client's checked filters.
pub(super) fn within<'f>(collection: Id, checked: impl IntoIterator<Item = &'f Map<String, Value>>) -> Value {
    let mut all = vec![json!({"collection_id": {"$eq": collection}})];
    all.extend(checked.into_iter().filter(|filter| !filter.is_empty()).cloned().map(Value::Object));
    json!({"$and": all})
}

/// Checks that R2R can use the client's filter as the client means it.
pub(super) fn check(filter: &Map<String, Value>) -> Result<(), Refusal> {
    Check { conditions: 0 }.filter(filter, 0).map_err(InvalidFilter::refusal)
}

/// An invalid part of a filter.
struct InvalidFilter {
    part: Value,
    because: String,
    suggestion: String,
}

impl InvalidFilter {
    fn new(part: Value, because: &str, suggestion: &str) -> Self {
        Self { part, because: because.to_owned(), suggestion: suggestion.to_owned() }
    }

    fn refusal(self) -> Refusal {
        Refusal::new("invalid_argument", "filters", &self.part)
            .because(&self.because)
            .valid(&format!(
                "field names with a value, or with one operator and its operand: {OPERATORS}; \
                 such as {{\"document_type\": \"md\"}} or {{\"year\": {{\"$gte\": 2024}}}}"
            ))
            .suggest(&self.suggestion)
    }
}

struct Check {
    conditions: usize,
}

impl Check {
    fn filter(&mut self, filter: &Map<String, Value>, depth: usize) -> Result<(), InvalidFilter> {
        filter.iter().try_for_each(|(name, value)| match name.as_str() {
            "$and" | "$or" => self.list(name, value, depth),
            name if name.starts_with('$') => Err(unknown_operator(name)),
            name => self.condition(name, value),
        })
    }

    fn list(&mut self, name: &str, value: &Value, depth: usize) -> Result<(), InvalidFilter> {
        let wrong = |because| {
            InvalidFilter::new(json!({name: value}), because, "Write a list such as [{...}, {...}].")
        };
        if depth >= DEEPEST {
            return Err(wrong("The filter is nested too deep."));
        }
        let filters = value.as_array().filter(|list| !list.is_empty());
        let filters = filters.ok_or_else(|| wrong("$and and $or take a list of filters."))?;
        filters.iter().try_for_each(|inner| match inner {
            Value::Object(inner) => self.filter(inner, depth + 1),
            _ => Err(wrong("$and and $or take a list of filters.")),
        })
    }

    fn condition(&mut self, field: &str, value: &Value) -> Result<(), InvalidFilter> {
        self.conditions += 1;
        if self.conditions > MOST_CONDITIONS {
            let because = format!("The filter has more than {MOST_CONDITIONS} conditions.");
            return Err(InvalidFilter::new(Value::Null, &because, "Use $in with a list."));
        }
        check_field(field)?;
        match value {
            Value::Object(map) => match map.iter().next().filter(|_| map.len() == 1) {
                Some((name, operand)) if name.starts_with('$') => check_operand(field, name, operand),
                Some((name, inner)) => self.condition(&format!("{field}.{name}"), inner),
                None => Err(InvalidFilter::new(
                    json!({field: value}),
                    "A field takes one operator; R2R takes no more than one at a time.",
                    "Put each into an object of its own under $and.",
                )),
            },
            value => check_operand(field, "$eq", value),
        }
    }
}

fn check_field(field: &str) -> Result<(), InvalidFilter> {
    let steps = || field.split('.');
    let plain = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let wrong =
        |because: &str, suggestion: &str| Err(InvalidFilter::new(json!(clipped(field)), because, suggestion));
    if field.len() > LONGEST_FIELD || steps().any(|step| step.is_empty() || !step.chars().all(plain)) {
        return wrong(
            "The name of a field has letters, digits, _ and -, and a dot between the steps of a path.",
            "Filter on another field.",
        );
    }
    if steps().any(|step| OURS.contains(&step)) {
        return wrong(
            "Where is searched is not said by the filter.",
            "Leave it out, and give the collection as collection_id beside filters.",
        );
    }
    if steps().next().is_some_and(|step| NO_COLUMNS.contains(&step)) {
        return wrong(
            "R2R cannot filter a search by this time.",
            "Leave it out; r2r_list_documents shows when documents were made.",
        );
    }
    Ok(())
}

fn check_operand(field: &str, operator: &str, operand: &Value) -> Result<(), InvalidFilter> {
    let wrong = |because: &str, suggestion: &str| {
        Err(InvalidFilter::new(json!({clipped(field): {operator: operand}}), because, suggestion))
    };
    if has_nul(operand) {
        return wrong("A text holds the character U+0000.", "Leave that character out.");
    }
    if IDS.contains(&field) {
        return match operator {
            "$eq" | "$ne" if is_id(operand) => Ok(()),
            "$in" | "$nin" if operand.as_array().is_some_and(|ids| ids.iter().all(is_id)) => Ok(()),
            _ => wrong("This field is compared with ids.", "Use $eq, $ne, $in or $nin with whole UUIDs."),
        };
    }
    match operator {
        "$eq" | "$ne" | "$lt" | "$lte" | "$gt" | "$gte" if is_scalar(operand) => Ok(()),
        "$eq" | "$ne" | "$lt" | "$lte" | "$gt" | "$gte" => {
            wrong("This operator takes one value.", "Use $in for several values, or $contains for lists.")
        }
        "$in" | "$nin" | "$contains" => match operand.as_array() {
            Some(list) if list.len() <= MOST_VALUES && list.iter().all(is_scalar) => Ok(()),
            _ => wrong("This operator takes a list of values.", "Write a list such as [\"a\", \"b\"]."),
        },
        "$like" | "$ilike" if operand.is_string() => Ok(()),
        "$like" | "$ilike" => wrong("This operator takes a text.", "Write a pattern such as \"%word%\"."),
        "$json_contains" if operand.is_object() || operand.is_array() || is_scalar(operand) => Ok(()),
        "$overlap" => wrong("R2R cannot use this operator on such a field.", "Use $contains or $in."),
        other => Err(unknown_operator(other)),
    }
}

fn unknown_operator(name: &str) -> InvalidFilter {
    InvalidFilter::new(
        json!(clipped(name)),
        "There is no such operator; R2R would silently match nothing.",
        "Use one of those that are known ($neq is written $ne).",
    )
}

fn is_id(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.len() == 36 && Uuid::try_parse(text).is_ok())
}

fn is_scalar(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

fn clipped(name: &str) -> &str {
    &name[..name.floor_char_boundary(LONGEST_FIELD)]
}

/// Whether R2R's error is about the client's filter. R2R notices such errors only when it queries its
/// database.
pub(super) fn is_blamed(detail: &str) -> bool {
    ["ilter", "perator", "invalid input", "cannot cast", "does not exist"]
        .iter()
        .any(|word| detail.contains(word))
}

/// Returns the refusal for that case.
pub(super) fn refused_by_r2r(filter: &Map<String, Value>, detail: &str) -> Refusal {
    let said = &detail[..detail.floor_char_boundary(300)];
    InvalidFilter::new(
        Value::Object(filter.clone()),
        &format!("R2R cannot use this filter: {said}"),
        "Compare each field with a value of the type that it has in the documents.",
    )
    .refusal()
}

#[cfg(test)]
#[path = "filters_tests.rs"]
mod tests;
