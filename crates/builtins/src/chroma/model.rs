//! Data model of Chroma, as requests and responses carry it.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::bare::Vector;

/// Approximate limit of one request, in bytes: the server accepts 40 MiB.
const MOST_BYTES: usize = 32 << 20;
/// Most bytes that one number of a vector has in JSON.
const NUMBER_BYTES: usize = 16;

/// Metadata of a record or collection. Flat: strings, numbers, booleans, and lists of one of these types.
pub(crate) type Metadata = Map<String, Value>;

/// A collection.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Collection {
    /// Id that its records are requested by.
    pub id: Uuid,
    /// Unique name of the collection.
    pub name: String,
    /// Metadata from its creation.
    #[serde(default)]
    pub metadata: Option<Metadata>,
    /// Numbers in a vector. `None` until the first record.
    #[serde(default)]
    pub dimension: Option<usize>,
    #[serde(default, rename = "configuration_json")]
    configuration: Option<Configuration>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
struct Configuration {
    #[serde(default)]
    hnsw: Option<Hnsw>,
    #[serde(default)]
    spann: Option<Hnsw>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Hnsw {
    #[serde(default)]
    space: Space,
}

/// Distance measure of two vectors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Space {
    /// By their angle. Switchyard creates its collections with it.
    Cosine,
    /// By the square of their distance, the default of Chroma.
    #[default]
    L2,
    /// By their inner product.
    Ip,
}

impl Space {
    /// Converts a distance to a score: larger is better, and 1 means equal (for vectors of length 1).
    pub(crate) fn score(self, distance: f64) -> f64 {
        match self {
            // Chroma rounds: equal vectors may be a little less than nothing apart.
            Self::Cosine => (1.0 - distance).min(1.0),
            Self::Ip => 1.0 - distance,
            Self::L2 => 1.0 - distance / 2.0,
        }
    }
}

impl Collection {
    /// Returns the distance measure of the collection.
    pub(crate) fn space(&self) -> Space {
        let indexes = self.configuration.as_ref();
        let configured = indexes.and_then(|indexes| indexes.hnsw.as_ref().or(indexes.spann.as_ref()));
        configured.map(|index| index.space).unwrap_or_default()
    }
}

/// One record to be stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    /// Its id, never empty.
    pub id: String,
    /// Its vector.
    pub vector: Vec<f32>,
    /// Its text.
    pub document: String,
    /// Its metadata.
    pub metadata: Metadata,
}

/// Records that Chroma accepts. Valid by construction: not empty, ids present and unique, vectors of one
/// dimension and of finite numbers, and the size within the limit. Chroma would silently drop records with a
/// repeated id.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Records {
    ids: Vec<String>,
    embeddings: Vec<Vec<f32>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    documents: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    metadatas: Vec<Metadata>,
}

/// Why records cannot be stored together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadRecords {
    /// There are no records.
    #[error("there is no record to store")]
    None,
    /// An id that Chroma would refuse or drop.
    #[error("the id of record {at} is empty or stands twice")]
    Id {
        /// Index of the record, from 0.
        at: usize,
    },
    /// A vector of another dimension, or with a number that is not finite.
    #[error("the vector of record {at} has {found} finite numbers where {expected} are expected")]
    Vector {
        /// Index of the record, from 0.
        at: usize,
        /// Numbers in the first vector, or in those that are already stored.
        expected: usize,
        /// Finite numbers in this vector.
        found: usize,
    },
    /// The records exceed the limit of one request.
    #[error("the records have about {bytes} bytes, one request takes at most {MOST_BYTES}")]
    TooLarge {
        /// Approximate size.
        bytes: usize,
    },
}

impl Records {
    /// Checks `records` for a collection whose vectors have `dimension` numbers, if that is known.
    pub(crate) fn new(records: Vec<Record>, dimension: Option<usize>) -> Result<Self, BadRecords> {
        check(&records, dimension)?;
        let bytes = records.iter().map(Record::bytes).sum();
        if bytes > MOST_BYTES {
            return Err(BadRecords::TooLarge { bytes });
        }
        let mut all =
            Self { ids: Vec::new(), embeddings: Vec::new(), documents: Vec::new(), metadatas: Vec::new() };
        for record in records {
            all.ids.push(record.id);
            all.embeddings.push(record.vector);
            all.documents.push(record.document);
            all.metadatas.push(record.metadata);
        }
        Ok(all)
    }

    /// Vectors without text and metadata, for a collection whose vectors have `dimension` numbers.
    pub(crate) fn bare(vectors: Vec<Vector>, dimension: usize) -> Result<Self, BadRecords> {
        let bare = |Vector { id, numbers }| Record {
            id,
            vector: numbers,
            document: String::new(),
            metadata: Metadata::new(),
        };
        let all = Self::new(vectors.into_iter().map(bare).collect(), Some(dimension))?;
        Ok(Self { documents: Vec::new(), metadatas: Vec::new(), ..all })
    }
}

fn check(records: &[Record], dimension: Option<usize>) -> Result<(), BadRecords> {
    let first = records.first().ok_or(BadRecords::None)?;
    let expected = dimension.unwrap_or(first.vector.len()).max(1);
    let mut seen = HashSet::new();
    for (at, record) in records.iter().enumerate() {
        if record.id.is_empty() || !seen.insert(record.id.as_str()) {
            return Err(BadRecords::Id { at });
        }
        let found = record.vector.iter().filter(|number| number.is_finite()).count();
        if found != expected || record.vector.len() != expected {
            return Err(BadRecords::Vector { at, expected, found });
        }
    }
    Ok(())
}

impl Record {
    /// Returns the approximate size of the record in a request, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let metadata: usize =
            self.metadata.iter().map(|(key, value)| key.len() + value_bytes(value) + 8).sum();
        self.id.len() + self.vector.len() * NUMBER_BYTES + self.document.len() + metadata + 16
    }
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_bytes).sum(),
        _ => NUMBER_BYTES,
    }
}

/// Filter of the records that are read.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Select {
    /// Records with these ids. Missing ones are skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<String>>,
    /// Records whose metadata match, see [`super::filter`].
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub filter: Option<Value>,
    /// Most records to return.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Records to skip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
}

/// A search for similar vectors.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct VectorQuery {
    /// The vector of the query text.
    pub vector: Vec<f32>,
    /// Most hits to return; 0 finds nothing.
    pub limit: usize,
    /// Filter on metadata, see [`super::filter`].
    pub filter: Option<Value>,
}

/// A record that was found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Hit {
    /// Its id.
    pub id: String,
    /// Its text.
    pub document: Option<String>,
    /// Its metadata.
    pub metadata: Metadata,
    /// Distance to the query. `None` for records that were read without a search.
    pub distance: Option<f64>,
}
