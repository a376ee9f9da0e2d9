//! Converts the filter of a search (`where`) from the client's form to Chroma's.
//!
//! Invariants: the result is built here, with one key per object and known operators, so that Chroma never
//! answers "Invalid where clause". Its size is limited. Several keys in one object mean that all must hold,
//! and a bare value means equality.

use serde_json::{Map, Value, json};

/// Most conditions in one filter, and most values in one of its lists.
const MOST: usize = 200;
/// Deepest nesting of `$and` and `$or`.
const DEEPEST: usize = 8;
const LONGEST_FIELD: usize = 128;

const COMPARING: [&str; 4] = ["$gt", "$gte", "$lt", "$lte"];
const EQUALITY: [&str; 4] = ["$eq", "$ne", "$contains", "$not_contains"];
const LISTS: [&str; 2] = ["$in", "$nin"];

/// Why a filter is invalid. The text says what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadFilter(String);

/// Converts `conditions` to Chroma's form. Returns `None` if it has no conditions.
pub(crate) fn filter(conditions: &Map<String, Value>) -> Result<Option<Value>, BadFilter> {
    let mut reader = FilterReader { conditions: 0 };
    let mut all = reader.object(conditions, 0)?;
    Ok(match all.len() {
        0 => None,
        1 => all.pop(),
        _ => Some(json!({"$and": all})),
    })
}

struct FilterReader {
    conditions: usize,
}

impl FilterReader {
    /// Reads the conditions of an object, all of which must hold.
    fn object(&mut self, conditions: &Map<String, Value>, depth: usize) -> Result<Vec<Value>, BadFilter> {
        if depth > DEEPEST {
            return Err(bad(format!("a filter is nested at most {DEEPEST} deep")));
        }
        let mut all = Vec::new();
        for (key, value) in conditions {
            match key.as_str() {
                "$and" | "$or" => all.push(self.joined(key, value, depth)?),
                operator if operator.starts_with('$') => {
                    return Err(bad(format!(
                        "`{}` stands where a field is expected; `$and` and `$or` join filters, other operators \
                         stand behind a field",
                        clipped(operator)
                    )));
                }
                field => self.field(field, value, &mut all)?,
            }
        }
        Ok(all)
    }

    fn joined(&mut self, word: &str, value: &Value, depth: usize) -> Result<Value, BadFilter> {
        let wrong = || bad(format!("`{word}` takes a list of filters, such as [{{\"lang\": \"en\"}}]"));
        let items = value.as_array().filter(|items| !items.is_empty()).ok_or_else(wrong)?;
        let mut parts = Vec::new();
        for item in items {
            let mut all = self.object(item.as_object().ok_or_else(wrong)?, depth + 1)?;
            parts.push(match all.len() {
                0 => return Err(wrong()),
                1 => all.remove(0),
                _ => json!({"$and": all}),
            });
        }
        // Chroma requires at least two parts.
        Ok(if parts.len() == 1 { parts.remove(0) } else { json!({word: parts}) })
    }

    fn field(&mut self, field: &str, value: &Value, all: &mut Vec<Value>) -> Result<(), BadFilter> {
        if field.is_empty() || field.len() > LONGEST_FIELD {
            return Err(bad(format!("the name of a field has 1 to {LONGEST_FIELD} bytes")));
        }
        let Some(operators) = value.as_object() else {
            all.push(self.condition(field, "$eq", value)?);
            return Ok(());
        };
        if operators.is_empty() {
            return Err(bad(format!("`{field}` has no condition; write {{\"{field}\": value}}")));
        }
        for (operator, operand) in operators {
            all.push(self.condition(field, operator, operand)?);
        }
        Ok(())
    }

    fn condition(&mut self, field: &str, operator: &str, operand: &Value) -> Result<Value, BadFilter> {
        self.conditions += 1;
        if self.conditions > MOST {
            return Err(bad(format!("a filter has at most {MOST} conditions; use `$in` with a list")));
        }
        let fits = match operator {
            _ if EQUALITY.contains(&operator) => is_plain(operand),
            _ if COMPARING.contains(&operator) => operand.is_number(),
            _ if LISTS.contains(&operator) => is_list(operand),
            _ => {
                let known = [&EQUALITY[..], &COMPARING, &LISTS].concat().join(", ");
                return Err(bad(format!(
                    "`{}` of `{field}` is no operator; there are {known}",
                    clipped(operator)
                )));
            }
        };
        if has_rounded(operand) {
            let text = format!("`{operator}` of `{field}` has a whole number beyond 64 bits with a sign");
            return Err(bad(text));
        }
        if !fits {
            let takes = match operator {
                _ if COMPARING.contains(&operator) => "a number",
                _ if LISTS.contains(&operator) => "a list of at most 200 values of one type",
                _ => "a text, a number or a boolean",
            };
            return Err(bad(format!("`{operator}` of `{field}` takes {takes}")));
        }
        Ok(json!({field: {operator: operand}}))
    }
}

fn is_plain(value: &Value) -> bool {
    value.is_string() || value.is_number() || value.is_boolean()
}

/// Chroma's whole numbers have 64 bits with a sign.
fn has_rounded(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_rounded),
        Value::Number(number) => number.is_u64() && !number.is_i64(),
        _ => false,
    }
}

fn is_list(value: &Value) -> bool {
    let Some(items) = value.as_array().filter(|items| (1..=MOST).contains(&items.len())) else {
        return false;
    };
    let kind = std::mem::discriminant(&items[0]);
    items.iter().all(|item| is_plain(item) && std::mem::discriminant(item) == kind)
}

fn clipped(text: &str) -> &str {
    &text[..text.floor_char_boundary(80)]
}

fn bad(text: String) -> BadFilter {
    BadFilter(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hostile;

    fn of(conditions: Value) -> Result<Option<Value>, String> {
        let Value::Object(conditions) = conditions else { panic!("no object: {conditions}") };
        filter(&conditions).map_err(|error| error.to_string())
    }

    #[test]
    fn filter_is_written_as_chroma_takes_it() {
        for (conditions, written) in [
            (json!({}), None),
            (json!({"lang": "en"}), Some(json!({"lang": {"$eq": "en"}}))),
            (
                json!({"lang": "en", "year": {"$gte": 2020, "$lt": 2025}}),
                Some(json!({"$and": [
                    {"lang": {"$eq": "en"}}, {"year": {"$gte": 2020}}, {"year": {"$lt": 2025}},
                ]})),
            ),
            (
                json!({"$or": [{"a": 1, "b": true}, {"c": {"$in": ["x", "y"]}}]}),
                Some(json!({"$or": [
                    {"$and": [{"a": {"$eq": 1}}, {"b": {"$eq": true}}]}, {"c": {"$in": ["x", "y"]}},
                ]})),
            ),
            (json!({"$and": [{"a": 1}]}), Some(json!({"a": {"$eq": 1}}))),
        ] {
            assert_eq!(of(conditions), Ok(written));
        }
    }

    #[test]
    fn filter_that_chroma_would_refuse_is_refused_with_what_to_write() {
        let deep = (0..20).fold(json!({"a": 1}), |inner, _| json!({"$and": [inner]}));
        for (conditions, says) in [
            (json!({"a": {"$regexp": "x"}}), "`$regexp` of `a` is no operator; there are $eq, $ne"),
            (json!({"a": null}), "`$eq` of `a` takes a text, a number or a boolean"),
            (json!({"a": {}}), "`a` has no condition"),
            (json!({"a": {"b": 1}}), "`b` of `a` is no operator"),
            (json!({"a": {"$gt": "x"}}), "`$gt` of `a` takes a number"),
            (json!({"a": {"$in": []}}), "takes a list"),
            (json!({"a": {"$ne": 1_u64 << 63}}), "64 bits"),
            (json!({"a": {"$in": [1, "x"]}}), "values of one type"),
            (json!({"$not": [{"a": 1}]}), "`$not` stands where a field is expected"),
            (json!({"$and": []}), "`$and` takes a list of filters"),
            (json!({"$or": [{}]}), "`$or` takes a list of filters"),
            (json!({"": 1}), "the name of a field"),
            (deep, "nested at most"),
            (json!({"$or": vec![json!({"a": 1}); 300]}), "at most 200 conditions"),
        ] {
            let error = of(conditions).expect_err("refused");
            assert!(error.contains(says), "{error}");
        }
    }

    /// Checks a filter against Chroma's grammar.
    fn is_written_well(filter: &Value) -> bool {
        let Some((key, value)) =
            filter.as_object().filter(|one| one.len() == 1).and_then(|one| one.iter().next())
        else {
            return false;
        };
        match value {
            Value::Array(items) => {
                key.starts_with('$') && items.len() > 1 && items.iter().all(is_written_well)
            }
            Value::Object(condition) => {
                condition.len() == 1 && condition.keys().all(|operator| operator.starts_with('$'))
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn accepted_filters_are_written_well(conditions in hostile::filters()) {
            if let Some(Ok(Some(written))) = conditions.as_object().map(filter) {
                prop_assert!(is_written_well(&written), "{}", written);
            }
        }
    }
}
