//! The form of a tool's definition for clients of the legacy revisions, where a valid modern definition is not valid.

use super::output_schema;
use json::Raw;

/// The changes that clients of the legacy revisions need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LegacyForm {
    /// Its `outputSchema` is wrapped, and so are its results (see [`output_schema`]).
    pub wraps_output: bool,
    /// A property whose schema is `true` or `false` gets the same schema as an object: `{}` or `{"not": {}}`.
    pub replaces_booleans: bool,
}

impl LegacyForm {
    /// The legacy form of `definition`; `None` if it needs no changes.
    pub fn of(self, definition: &Raw) -> Option<Raw> {
        let wrapped = if self.wraps_output { output_schema::wrap_definition(definition) } else { None };
        if !self.replaces_booleans {
            return wrapped;
        }
        let definition = wrapped.as_ref().unwrap_or(definition);
        let schemas = ["inputSchema", "outputSchema"]
            .map(|name| (name, definition.get(name).map(|schema| without_booleans(&schema))));
        let changes: Vec<_> = schemas
            .iter()
            .filter(|(_, schema)| schema.is_some())
            .map(|(name, s)| (*name, s.as_ref()))
            .collect();
        Some(definition.edit(&changes))
    }
}

fn without_booleans(schema: &Raw) -> Raw {
    let Some(properties) = schema.get("properties") else { return schema.clone() };
    let (any, none) = (Raw::empty_object(), Raw::of(&serde_json::json!({"not": {}})));
    let members: Vec<_> = properties.members().collect();
    let replaced = |value| match Raw::as_str(value) {
        "true" => &any,
        "false" => &none,
        _ => value,
    };
    let changes: Vec<(&str, Option<&Raw>)> =
        members.iter().map(|(name, value)| (&**name, Some(replaced(value)))).collect();
    schema.with("properties", &Raw::empty_object().edit(&changes))
}
