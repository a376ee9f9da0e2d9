//! A tool of a built-in server: what `tools/list` shows of it, and how its arguments are read.
//!
//! Its two schemas come from Rust types, so what is shown, what is checked and what is read can not
//! drift apart.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::refusal::Refusal;
use super::schema;
use crate::schema_validator::Shape;
use json::Raw;

/// What is said about a tool.
#[derive(Debug, Clone, Copy)]
pub(super) struct About<'a> {
    /// The name it is called by.
    pub name: &'a str,
    /// The same for people.
    pub title: &'a str,
    /// What it does and when to use it, for language models.
    pub description: &'a str,
    /// What it does to the world.
    pub effect: Effect,
}

/// What calling a tool changes, as its annotations tell clients and the gateway itself, which calls
/// again after a fault only what may be done twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing.
    Reads,
    /// Nothing either, but a model of somebody else is paid for each call, and may answer otherwise.
    Costs,
    /// Something is new afterwards; twice makes two.
    Adds,
    /// Something is there afterwards, whether it was before or not; twice is as once.
    Puts,
    /// Something is another than before, or gone; twice is as once.
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
    /// A tool that takes an `I` and gives an `O`.
    pub(super) fn new<I: JsonSchema, O: JsonSchema>(about: &About<'_>) -> Self {
        Self::with_schemas(about, &schema::of_input::<I>(), &schema::of_output::<O>())
    }

    /// A tool whose schemas were written by hand.
    pub(super) fn with_schemas(about: &About<'_>, input: &Value, output: &Value) -> Self {
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
                // A store of documents is a world of its own, unlike the web and a model elsewhere.
                "openWorldHint": effect == Effect::Costs,
            },
        });
        Self { name: about.name.to_owned(), definition: Raw::of(&definition), shape: Shape::of(input) }
    }

    /// The name it is called by.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// An element of `tools/list`.
    pub(super) const fn definition(&self) -> &Raw {
        &self.definition
    }

    /// Its arguments, held against its input schema and read. `I` is the type that it was made with.
    pub(super) fn read<I: DeserializeOwned>(&self, arguments: &Raw) -> Result<I, Refusal> {
        let checked = self.shape.arguments(arguments)?;
        serde_json::from_value(Value::Object(checked)).map_err(|error| {
            // Only where a type is narrower than its schema; a test looks for that.
            Refusal::new("invalid_argument", "arguments", arguments)
                .because(&format!("The arguments can not be read: {error}."))
                .valid("what the input schema of the tool says")
                .suggest("Compare them with the schema.")
        })
    }

    /// Whether its input schema uses only words that are checked.
    #[cfg(test)]
    pub(super) fn is_known(&self) -> bool {
        self.shape.is_known()
    }
}
