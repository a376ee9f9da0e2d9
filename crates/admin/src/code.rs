//! Error codes of the REST API as the `OpenAPI` document enumerates them.
//!
//! Invariant: the enumerations are made from the table (`protocol::error_code`), so they cannot lack a code.

use std::borrow::Cow;

use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use protocol::error_code::{Row, Surface, TABLE};

/// Schema of `code` in problem documents.
pub(super) struct ProblemCode;

impl PartialSchema for ProblemCode {
    fn schema() -> RefOr<Schema> {
        enumeration("What kind of problem it is. Stable: programs may decide by it.", Row::is_of_rest)
    }
}

impl ToSchema for ProblemCode {
    fn name() -> Cow<'static, str> {
        "Code".into()
    }
}

/// Schema of `code` in failed results of `/call`.
pub(super) struct CallCode;

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

/// The codes that `is_of_it`, each with its meaning.
fn enumeration(says: &str, is_of_it: fn(&Row) -> bool) -> RefOr<Schema> {
    let rows = || TABLE.iter().filter(|row| is_of_it(row));
    let lines = rows().map(|row| format!("\n- `{}`: {}", row.name, row.meaning));
    let text = format!("{says}\n{}", lines.collect::<String>());
    let schema = ObjectBuilder::new().schema_type(Type::String).description(Some(text));
    schema.enum_values(Some(rows().map(|row| row.name))).build().into()
}
