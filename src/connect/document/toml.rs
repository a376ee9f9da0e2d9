//! TOML: edits the document that keeps comments, order and blanks.
//!
//! An entry is a table with its own header, as people write it, unless the servers are an inline table.

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::{Edit, not_servers};
use crate::config::import::json::{Json, Members};

/// Applies `edit` to the table at `key`, and makes the tables on the way.
pub(super) fn apply(text: &str, key: &[&str], edit: &Edit<'_>) -> Result<String, String> {
    let mut document = parse(text)?;
    let mut item = document.as_item_mut();
    for key in key {
        let parent = item.as_table_like_mut().ok_or_else(|| not_servers(key))?;
        item = parent.entry(key).or_insert_with(implicit);
    }
    let is_inline = item.is_inline_table();
    let servers =
        item.as_table_like_mut().ok_or_else(|| not_servers(key.last().copied().unwrap_or_default()))?;
    for name in edit.remove {
        servers.remove(name);
    }
    let entry = if is_inline { Item::Value(value(edit.entry)) } else { Item::Table(table(edit.entry)) };
    put(servers, edit.name, entry);
    Ok(document.to_string())
}

/// Parses a file for its values.
pub(super) fn read(text: &str) -> Result<Json, String> {
    Ok(table_value(parse(text)?.as_table()))
}

fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        let line = error.span().map_or(1, |span| text[..span.start].split('\n').count());
        format!("{line}:1: error: this is not valid TOML: {}", settings::one_line(error.message()))
    })
}

/// A table without a header of its own.
fn implicit() -> Item {
    let mut table = Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

/// Puts `entry` in the place of the one of the same name, with the comments above it.
fn put(servers: &mut dyn TableLike, name: &str, mut entry: Item) {
    let Some(old) = servers.get_mut(name) else {
        servers.insert(name, entry);
        return;
    };
    if let (Some(old), Some(new)) = (old.as_table(), entry.as_table_mut()) {
        *new.decor_mut() = old.decor().clone();
        new.set_position(old.position());
    }
    *old = entry;
}

fn table(entry: &Json) -> Table {
    let mut table = Table::new();
    for (name, member) in members(entry) {
        table.insert(name, Item::Value(value(member)));
    }
    table
}

fn members(value: &Json) -> &[(String, Json)] {
    if let Json::Object(members) = value { members } else { &[] }
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(""),
        Json::Bool(value) => Value::from(*value),
        Json::Number(number) => {
            number.parse::<i64>().map_or_else(|_| Value::from(number.as_str()), Value::from)
        }
        Json::Text(text) => Value::from(text.as_str()),
        Json::List(items) => Value::Array(items.iter().map(value).collect::<Array>()),
        Json::Object(members) => {
            let members = members.iter().map(|(name, member)| (name.as_str(), value(member)));
            Value::InlineTable(members.collect::<InlineTable>())
        }
    }
}

fn table_value(table: &dyn TableLike) -> Json {
    let members = table.iter().map(|(name, item)| (name.to_owned(), item_value(item)));
    Json::Object(members.collect::<Members>())
}

fn item_value(item: &Item) -> Json {
    match item {
        Item::None => Json::Null,
        Item::Value(value) => plain_value(value),
        Item::Table(table) => table_value(table),
        Item::ArrayOfTables(tables) => Json::List(tables.iter().map(|table| table_value(table)).collect()),
    }
}

fn plain_value(value: &Value) -> Json {
    match value {
        Value::String(text) => Json::Text(text.value().clone()),
        Value::Integer(number) => Json::Number(number.value().to_string()),
        Value::Float(number) => Json::Number(number.value().to_string()),
        Value::Boolean(value) => Json::Bool(*value.value()),
        Value::Datetime(time) => Json::Text(time.value().to_string()),
        Value::Array(items) => Json::List(items.iter().map(plain_value).collect()),
        Value::InlineTable(table) => table_value(table),
    }
}
