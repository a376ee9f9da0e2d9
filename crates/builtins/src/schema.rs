//! JSON Schema (2020-12) of a Rust type, for the definition of a tool.
//!
//! The schema is self-contained (no `$ref`), closed (no unknown members where the known ones are listed), and
//! short. An optional member is not required, and its type does not include `null`. Readers accept `null` as
//! "missing" anyway, because language models write it.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// Returns the schema of `T` for reading, as the input of a tool.
pub(super) fn of_input<T: JsonSchema>() -> Value {
    tidied(SchemaSettings::draft2020_12().for_deserialize(), &T::json_schema)
}

/// Returns the schema of `T` for writing, as the output of a tool.
pub(super) fn of_output<T: JsonSchema>() -> Value {
    tidied(SchemaSettings::draft2020_12().for_serialize(), &T::json_schema)
}

type Make<'a> = &'a dyn Fn(&mut schemars::SchemaGenerator) -> schemars::Schema;

fn tidied(settings: SchemaSettings, make: Make<'_>) -> Value {
    let settings = settings.with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = make(&mut settings.into_generator()).to_value();
    tidy(&mut schema);
    if let Some(root) = schema.as_object_mut() {
        root.remove("description"); // the tool has one
        root.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        root.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    schema
}

fn tidy(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    members.remove("title");
    say_width(members);
    if let Some(Value::String(text)) = members.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    join_words(members);
    if members.contains_key("properties") {
        members.entry("additionalProperties").or_insert(Value::Bool(false));
        tidy_members(members);
    }
    if let Some(items) = members.get_mut("items") {
        tidy(items);
    }
}

/// Replaces the width of a Rust number by minimum and maximum, because other languages do not know it.
fn say_width(schema: &mut Map<String, Value>) {
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    let (least, most) = match format {
        "uuid" | "date-time" => return,
        "uint8" => (None, Some(i64::from(u8::MAX))),
        "uint16" => (None, Some(i64::from(u16::MAX))),
        "uint32" => (None, Some(i64::from(u32::MAX))),
        "int8" => (Some(i64::from(i8::MIN)), Some(i64::from(i8::MAX))),
        "int16" => (Some(i64::from(i16::MIN)), Some(i64::from(i16::MAX))),
        "int32" => (Some(i64::from(i32::MIN)), Some(i64::from(i32::MAX))),
        _ => (None, None), // 64 bits exceed what JSON readers support
    };
    schema.remove("format");
    for (name, end) in [("minimum", least), ("maximum", most)] {
        if let Some(end) = end {
            schema.entry(name).or_insert_with(|| end.into());
        }
    }
}

fn tidy_members(object: &mut Map<String, Value>) {
    let required: Vec<String> = object
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect())
        .unwrap_or_default();
    let Some(Value::Object(properties)) = object.get_mut("properties") else { return };
    for (name, schema) in properties {
        if !required.contains(name) {
            without_null(schema);
        }
        tidy(schema);
    }
}

/// Removes `null` from the type of an optional member.
fn without_null(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    if let Some(Value::Array(types)) = members.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            members.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(words)) = members.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    if members.get("default").is_some_and(Value::is_null) {
        members.remove("default");
    }
    unwrap_choice(members);
}

/// Replaces `anyOf` of a type and `null` by the type.
fn unwrap_choice(members: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = members.get_mut("anyOf") else { return };
    choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
    if let [Value::Object(only)] = choices.as_mut_slice() {
        let only = std::mem::take(only);
        members.remove("anyOf");
        for (name, value) in only {
            members.entry(name).or_insert(value);
        }
    }
}

/// Joins constants that each have a description into one `enum`.
fn join_words(members: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = members.get("oneOf") else { return };
    let words: Vec<Value> = choices.iter().filter_map(word).flatten().collect();
    if choices.iter().all(|choice| word(choice).is_some()) {
        members.remove("oneOf");
        members.insert("type".to_owned(), "string".into());
        members.insert("enum".to_owned(), Value::Array(words));
    }
}

fn word(choice: &Value) -> Option<Vec<Value>> {
    match (choice.get("const"), choice.get("enum")) {
        (Some(word), _) if word.is_string() => Some(vec![word.clone()]),
        (_, Some(Value::Array(words))) => Some(words.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::*;

    #[derive(Deserialize, Serialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Mode {
        /// One.
        Fast,
        /// Two.
        Slow,
    }

    fn ten() -> u32 {
        10
    }

    /// Not shown.
    #[derive(Deserialize, Serialize, JsonSchema)]
    struct Sample {
        /// Said over
        /// two lines.
        #[schemars(length(min = 1))]
        query: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        filters: Option<Map<String, Value>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        mode: Option<Mode>,
        #[serde(default = "ten")]
        #[schemars(range(min = 1, max = 100))]
        limit: u32,
        list: Vec<Item>,
        missing: Option<String>,
    }

    #[derive(Deserialize, Serialize, JsonSchema)]
    struct Item {
        score: f64,
    }

    #[test]
    fn the_schema_of_a_type_is_complete_closed_and_short() {
        let item = json!({"type": "object", "additionalProperties": false, "required": ["score"],
            "properties": {"score": {"type": "number"}}});
        let mut schema = json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "query": {"type": "string", "minLength": 1, "description": "Said over two lines."},
                "filters": {"type": "object", "additionalProperties": true},
                "mode": {"type": "string", "enum": ["fast", "slow"]},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
                "list": {"type": "array", "items": item},
                "missing": {"type": "string"},
            },
            "required": ["query", "list"],
        });
        assert_eq!(of_input::<Sample>(), schema);
        schema["properties"]["missing"] = json!({"type": ["string", "null"]});
        schema["required"] = json!(["query", "limit", "list", "missing"]);
        assert_eq!(of_output::<Sample>(), schema);
    }
}
