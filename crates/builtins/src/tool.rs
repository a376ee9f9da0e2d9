//! A tool of a built-in server: its entry in `tools/list`, and the reading of its arguments.
//!
//! Both schemas are generated from Rust types. So the schema that is shown always equals the one that is
//! checked and read.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::refusal::Refusal;
use super::schema;
use crate::schema_validator::Shape;
use json::Raw;

/// Description of a tool.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolInfo<'a> {
    /// Name for calls.
    pub name: &'a str,
    /// Name for people.
    pub title: &'a str,
    /// Explanation for language models: what the tool does, and when to use it.
    pub description: &'a str,
    /// The changes that it makes.
    pub effect: Effect,
}

/// Effect of a call. The annotations of the tool tell it to clients and to the gateway, which retries only
/// calls that may run twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Changes nothing.
    Reads,
    /// Changes nothing, but each call pays for a model, which may answer differently each time.
    Costs,
    /// Adds something; two calls add two.
    Adds,
    /// Makes sure that something exists; a second call changes nothing.
    Puts,
    /// Changes or deletes something; a second call changes nothing.
    Replaces,
}

/// One tool.
#[derive(Debug, Clone)]
pub(super) struct Tool {
    name: String,
    definition: Raw,
    shape: Shape,
}

impl Tool {
    /// A tool with input type `I` and output type `O`.
    pub(super) fn new<I: JsonSchema, O: JsonSchema>(about: &ToolInfo<'_>) -> Self {
        Self::with_schemas(about, &schema::of_input::<I>(), &schema::of_output::<O>())
    }

    /// A tool with schemas written by hand.
    pub(super) fn with_schemas(about: &ToolInfo<'_>, input: &Value, output: &Value) -> Self {
        let effect = about.effect;
        let definition = json!({
            "name": about.name,
            "title": about.title,
            "description": about.description,
            "inputSchema": input,
            "outputSchema": output,
            "annotations": {
                "title": about.title,
                "readOnlyHint": effect == Effect::Reads || effect == Effect::Costs,
                "destructiveHint": effect == Effect::Replaces,
                "idempotentHint": effect != Effect::Adds && effect != Effect::Costs,
                // A document store is a closed world, unlike the web or a remote model.
                "openWorldHint": effect == Effect::Costs,
            },
        });
        Self { name: about.name.to_owned(), definition: Raw::of(&definition), shape: Shape::of(input) }
    }

    /// Returns the name for calls.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the entry of `tools/list`.
    pub(super) const fn definition(&self) -> &Raw {
        &self.definition
    }

    /// Checks the arguments against the input schema and reads them. `I` must be the input type of the tool.
    pub(super) fn read<I: DeserializeOwned>(&self, arguments: &Raw) -> Result<I, Refusal> {
        let checked = self.shape.arguments(arguments)?;
        serde_json::from_value(Value::Object(checked)).map_err(|error| {
            // Only if a type is narrower than its schema. A test looks for such types.
            Refusal::new("invalid_argument", "arguments", arguments)
                .because(&format!("The arguments cannot be read: {error}."))
                .valid("what the input schema of the tool says")
                .suggest("Compare them with the schema.")
        })
    }

    /// Whether the validator knows all keywords of the input schema.
    #[cfg(test)]
    pub(super) fn is_known(&self) -> bool {
        self.shape.is_known()
    }
}
