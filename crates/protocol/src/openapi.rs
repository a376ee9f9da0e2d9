//! Schemas of the `OpenAPI` document that error codes and JSON of others have.
//!
//! Invariants: the enumerations are made from the table (`error_code`), so they cannot lack a code. All JSON objects that
//! pass through the API have one schema with a name, so that a generated client has one type for them.

use std::borrow::Cow;

use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::error_code::{ErrorCode, Row, Surface, TABLE};

/// The schema of `code` in problem documents.
impl PartialSchema for ErrorCode {
    fn schema() -> RefOr<Schema> {
        enumeration("What kind of problem it is. Stable: programs may decide by it.", Row::is_of_rest)
    }
}

impl ToSchema for ErrorCode {
    fn name() -> Cow<'static, str> {
        "Code".into()
    }
}

/// Schema of `code` in failed results of `/call`.
#[derive(Debug)]
pub struct CallCode;

impl PartialSchema for CallCode {
    fn schema() -> RefOr<Schema> {
        enumeration("Why `success` is false. Stable: programs may decide by it.", |row| {
            row.surface == Surface::Call
        })
    }
}

impl ToSchema for CallCode {
    fn name() -> Cow<'static, str> {
        "CallCode".into()
    }
}

/// Schema of an object of which the API defines no member.
#[derive(Debug)]
pub struct JsonObject;

impl PartialSchema for JsonObject {
    fn schema() -> RefOr<Schema> {
        let free = AdditionalProperties::FreeForm(true);
        let says = "A JSON object as somebody else wrote it, such as a server or a client of MCP.";
        let schema = ObjectBuilder::new().schema_type(Type::Object).description(Some(says));
        schema.additional_properties(Some(free)).build().into()
    }
}

impl ToSchema for JsonObject {
    fn name() -> Cow<'static, str> {
        "JsonObject".into()
    }
}

/// The codes that `is_of_it`, each with its meaning.
fn enumeration(says: &str, is_of_it: fn(&Row) -> bool) -> RefOr<Schema> {
    let rows = || TABLE.iter().filter(|row| is_of_it(row));
    let lines = rows().map(|row| format!("\n- `{}`: {}", row.name, row.meaning));
    let text = format!("{says}\n{}", lines.collect::<String>());
    let schema = ObjectBuilder::new().schema_type(Type::String).description(Some(text));
    schema.enum_values(Some(rows().map(|row| row.name))).build().into()
}
