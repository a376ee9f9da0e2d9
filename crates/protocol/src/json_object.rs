//! The schema that all JSON objects of others have in the `OpenAPI` document. It has a name, so that a generated client
//! has one type for them.

use std::borrow::Cow;

use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

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
