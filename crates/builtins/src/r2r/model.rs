//! Data model of R2R's API and its version, as far as the tools use them, and the form of an id. Fields that may be null or
//! missing are optional.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use crate::rest::plain;

/// The version of the API, first in every path.
pub(super) const VERSION: &str = "v3";

/// The body of R2R's responses.
#[derive(Debug, Deserialize)]
pub(super) struct Results<T> {
    /// The requested value.
    pub(super) results: T,
    /// Number of all entries, including other pages. Only lists have it.
    #[serde(default)]
    pub(super) total_entries: Option<u64>,
}

/// `results` of a search, and `search_results` of a generated answer.
#[derive(Debug, Default, Deserialize)]
pub(super) struct SearchResults {
    #[serde(default, deserialize_with = "or_default")]
    pub chunk_search_results: Vec<R2rChunk>,
}

/// A passage of a document.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct R2rChunk {
    pub id: Id,
    pub document_id: Id,
    #[serde(default, deserialize_with = "or_default")]
    pub collection_ids: Vec<Id>,
    #[serde(default)]
    pub score: Option<f64>,
    #[serde(default, deserialize_with = "or_default")]
    pub text: String,
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: Map<String, Value>,
}

impl R2rChunk {
    /// Returns the title that the uploader gave the document.
    pub(super) fn title(&self) -> Option<&str> {
        self.metadata.get("title")?.as_str().filter(|title| !title.trim().is_empty())
    }

    /// Returns the text without the title, which R2R puts before it.
    pub(super) fn bare_text(&self) -> &str {
        let heading = self.title().map(|title| format!("Document Title: {title}\n\nText: "));
        heading.and_then(|heading| self.text.strip_prefix(&heading)).unwrap_or(&self.text)
    }
}

/// `results` of a generated answer.
#[derive(Debug, Deserialize)]
pub(super) struct Generated {
    #[serde(default, deserialize_with = "or_default", rename = "generated_answer")]
    pub answer: String,
    #[serde(default, deserialize_with = "or_default")]
    pub search_results: SearchResults,
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: ProviderMetadata,
}

/// Metadata from the provider of the language model.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ProviderMetadata {
    #[serde(default)]
    pub model: Option<String>,
    /// The answers of the model, usually one. Their text is in another field.
    #[serde(default)]
    choices: Value,
}

impl ProviderMetadata {
    /// Whether the model finished its answer. It then reports `stop` or nothing. For an answer that was cut
    /// off it reports something else, such as `length`.
    pub(super) fn has_ended(&self) -> bool {
        let why = self.choices.pointer("/0/finish_reason").and_then(Value::as_str);
        why.is_none_or(|why| why == "stop")
    }
}

/// A document.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct R2rDocument {
    pub id: Id,
    #[serde(default, deserialize_with = "or_default")]
    pub collection_ids: Vec<Id>,
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: Map<String, Value>,
    #[serde(default)]
    pub title: Option<String>,
    #[serde(default)]
    pub size_in_bytes: Option<u64>,
    #[serde(default, deserialize_with = "or_default")]
    pub ingestion_status: String,
    #[serde(default, deserialize_with = "or_default")]
    pub extraction_status: String,
    #[serde(default)]
    pub created_at: Option<String>,
    #[serde(default)]
    pub updated_at: Option<String>,
}

impl R2rDocument {
    /// The document `id` that R2R does not show yet, made of the file `title`.
    pub(super) fn promised(id: Id, title: String) -> Self {
        let pending = || "pending".to_owned();
        Self {
            id,
            collection_ids: Vec::new(),
            metadata: Map::new(),
            title: Some(title),
            size_in_bytes: None,
            ingestion_status: pending(),
            extraction_status: pending(),
            created_at: None,
            updated_at: None,
        }
    }

    /// Whether it is in `collection`, or will be after its ingestion. R2R shows the collections of a document
    /// only after that, so Switchyard also notes them in its metadata.
    pub(super) fn belongs_to(&self, collection: Id) -> bool {
        let noted = self.metadata.get("collection_ids").and_then(Value::as_array);
        let is_this = |value: &Value| value.as_str().and_then(|text| text.parse().ok()) == Some(collection.0);
        self.collection_ids.contains(&collection) || noted.is_some_and(|ids| ids.iter().any(is_this))
    }

    /// Returns the stage of the ingestion.
    pub(super) fn stage(&self) -> Stage {
        match self.ingestion_status.as_str() {
            "success" => Stage::Success,
            "failed" => Stage::Failed,
            _ => Stage::Pending,
        }
    }

    /// Returns the share of the ingestion that is done. R2R reports steps, not shares.
    pub(super) fn progress(&self) -> f64 {
        match self.ingestion_status.as_str() {
            "parsing" => 0.1,
            "extracting" => 0.2,
            "chunking" => 0.3,
            "embedding" => 0.5,
            "augmenting" => 0.7,
            "storing" => 0.8,
            "enriching" => 0.9,
            "success" => 1.0,
            _ => 0.0,
        }
    }

    /// Returns why it failed, if R2R says so.
    pub(super) fn reason(&self) -> Option<String> {
        let said = self.metadata.get("failure").and_then(Value::as_str)?;
        Some(plain(said.to_owned(), &[])).filter(|said| !said.is_empty())
    }

    /// Returns the time since R2R began with it. R2R does not update that time while it works.
    pub(super) fn age(&self) -> Duration {
        let started = self.updated_at.as_deref().and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
        let age = started.and_then(|started| (OffsetDateTime::now_utc() - started).try_into().ok());
        age.unwrap_or_default()
    }
}

/// Stage of an ingestion. Everything between its start and its end is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Pending,
    Success,
    Failed,
}

/// A collection.
#[derive(Debug, Deserialize)]
pub(super) struct R2rCollection {
    pub id: Id,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub updated_at: Option<String>,
    /// Unreliable: the count drifts, even below zero.
    #[serde(default, deserialize_with = "or_default")]
    pub document_count: i64,
    #[serde(default, deserialize_with = "or_default")]
    pub user_count: u64,
}

/// Whether a value contains a NUL character. R2R's database refuses these, and R2R reports that as an
/// internal error.
pub(super) fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(all) => all.iter().any(has_nul),
        Value::Object(members) => members.iter().any(|(name, value)| name.contains('\0') || has_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Reads `null` as the default value.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Id of R2R. Displayed in lower case with hyphens, however it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Id(pub Uuid);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Uuid::try_parse(&text).map(Self).map_err(D::Error::custom)
    }
}

impl JsonSchema for Id {
    fn schema_name() -> Cow<'static, str> {
        "Id".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "uuid"})
    }

    fn inline_schema() -> bool {
        true
    }
}
