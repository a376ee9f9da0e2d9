//! JSON with comments: edits the syntax tree that keeps every byte.
//!
//! Not here: parsing for values (`config::import::json`), which also refuses duplicate keys.

use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};

use super::{Edit, not_servers};
use crate::config::import::json::{Json, SYNTAX};

/// Applies `edit` to the object at `key`, and makes the objects on the way.
pub(super) fn apply(text: &str, key: &[&str], edit: &Edit<'_>) -> Result<String, String> {
    let root = CstRootNode::parse(text, &SYNTAX).map_err(|error| error.to_string())?;
    let mut servers = root.object_value_or_create().ok_or_else(|| not_servers("the file"))?;
    for key in key {
        servers = object_at(&servers, key)?;
    }
    for property in edit.remove.iter().filter_map(|name| servers.get(name)) {
        property.remove();
    }
    match servers.get(edit.name) {
        Some(property) => property.set_value(input(edit.entry)),
        None => drop(servers.append(edit.name, input(edit.entry))),
    }
    Ok(root.to_string())
}

/// Returns the object at `key`. Null and nothing become an empty object.
fn object_at(parent: &CstObject, key: &str) -> Result<CstObject, String> {
    let is_null = |object: &CstObject| {
        object
            .get(key)
            .and_then(|property| property.value())
            .is_some_and(|value| value.as_null_keyword().is_some())
    };
    if is_null(parent) {
        return Ok(parent.object_value_or_set(key));
    }
    parent.object_value_or_create(key).ok_or_else(|| not_servers(key))
}

/// Whether `text` has no value: at most blanks and comments.
pub(super) fn is_empty(text: &str) -> bool {
    CstRootNode::parse(text, &SYNTAX).is_ok_and(|root| root.value().is_none())
}

/// Converts a value for insertion.
fn input(value: &Json) -> CstInputValue {
    match value {
        Json::Null => CstInputValue::Null,
        Json::Bool(value) => CstInputValue::Bool(*value),
        Json::Number(number) => CstInputValue::Number(number.clone()),
        Json::Text(text) => CstInputValue::String(text.clone()),
        Json::List(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Json::Object(members) => {
            CstInputValue::Object(members.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}
