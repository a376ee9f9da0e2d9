//! What R2R's API answers, as far as the tools read it. Lenient: what may be null or missing somewhere
//! is optional here.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::id::Id;
use crate::rest::plain;

/// `results` of a search, and `search_results` of a generated answer.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Found {
    #[serde(default, deserialize_with = "or_default")]
    pub chunk_search_results: Vec<Chunk>,
}

/// A piece of a document.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Chunk {
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

impl Chunk {
    /// The title that the uploader gave the document.
    pub(super) fn title(&self) -> Option<&str> {
        self.metadata.get("title")?.as_str().filter(|title| !title.trim().is_empty())
    }

    /// The text alone: R2R puts a title, where there is one, before it.
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
    pub search_results: Found,
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: Provider,
}

/// What the provider of the model said of its answer.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Provider {
    #[serde(default)]
    pub model: Option<String>,
    /// The answers it gave, one as a rule; their text stands elsewhere.
    #[serde(default)]
    choices: Value,
}

impl Provider {
    /// Whether the model came to its end by itself. It says so (`stop`), or nothing; it says something
    /// else of an answer that was cut off, such as `length`.
    pub(super) fn has_ended(&self) -> bool {
        let why = self.choices.pointer("/0/finish_reason").and_then(Value::as_str);
        why.is_none_or(|why| why == "stop")
    }
}

/// A document.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Document {
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

impl Document {
    /// Whether it is in `collection`, or will be when it was taken in: R2R shows the collections of a
    /// document only then, so whoever sends one notes them in its metadata too.
    pub(super) fn belongs_to(&self, collection: Id) -> bool {
        let noted = self.metadata.get("collection_ids").and_then(Value::as_array);
        let is_this = |value: &Value| value.as_str().and_then(|text| text.parse().ok()) == Some(collection.0);
        self.collection_ids.contains(&collection) || noted.is_some_and(|ids| ids.iter().any(is_this))
    }

    /// How far it is.
    pub(super) fn stage(&self) -> Stage {
        match self.ingestion_status.as_str() {
            "success" => Stage::Success,
            "failed" => Stage::Failed,
            _ => Stage::Pending,
        }
    }

    /// Why it failed, if R2R says so.
    pub(super) fn reason(&self) -> Option<String> {
        let said = self.metadata.get("failure").and_then(Value::as_str)?;
        Some(plain(said.to_owned(), &[])).filter(|said| !said.is_empty())
    }

    /// Seconds since R2R began with it. R2R does not renew that time while it works.
    pub(super) fn age(&self) -> i64 {
        let begun = self.updated_at.as_deref().and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
        begun.map_or(0, |begun| (OffsetDateTime::now_utc() - begun).whole_seconds())
    }
}

/// How far a document is: everything between its arrival and its end is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Pending,
    Success,
    Failed,
}

/// A collection.
#[derive(Debug, Deserialize)]
pub(super) struct Collection {
    pub id: Id,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub updated_at: Option<String>,
    /// Not to be trusted: it drifts, below zero too.
    #[serde(default, deserialize_with = "or_default")]
    pub document_count: i64,
    #[serde(default, deserialize_with = "or_default")]
    pub user_count: u64,
}

/// R2R's database takes no zero characters, and says so with a status that looks like its own failure.
pub(super) fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(all) => all.iter().any(has_nul),
        Value::Object(members) => members.iter().any(|(name, value)| name.contains('\0') || has_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// `null` is what is usual.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
