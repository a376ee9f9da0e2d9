//! What Chroma keeps, as it says and takes it.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::bare::Vector;

/// Bytes of one request, roughly: the server takes 40 MiB.
const MOST_BYTES: usize = 32 << 20;
/// Bytes that a number of a vector takes in JSON, at most.
const NUMBER_BYTES: usize = 16;

/// Flat: texts, numbers, booleans, and lists of one of them.
pub type Metadata = Map<String, Value>;

/// A collection.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Collection {
    /// What its records are found by.
    pub id: Uuid,
    /// What it is found by.
    pub name: String,
    /// What was said when it was made.
    #[serde(default)]
    pub metadata: Option<Metadata>,
    /// Numbers in a vector; none until the first record.
    #[serde(default)]
    pub dimension: Option<usize>,
    #[serde(default, rename = "configuration_json")]
    configuration: Configuration,
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

/// How far apart two vectors are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Space {
    /// By their angle: what our collections are made with.
    Cosine,
    /// By the square of their distance: what Chroma takes when nothing is said.
    #[default]
    L2,
    /// By their inner product.
    Ip,
}

impl Space {
    /// A score from a distance: larger is better, 1 is the same (for vectors of length 1).
    pub fn score(self, distance: f64) -> f64 {
        match self {
            // Chroma rounds: equal vectors may be a little less than nothing apart.
            Self::Cosine => (1.0 - distance).min(1.0),
            Self::Ip => 1.0 - distance,
            Self::L2 => 1.0 - distance / 2.0,
        }
    }
}

impl Collection {
    /// How its distances are to be read.
    pub fn space(&self) -> Space {
        let configured = self.configuration.hnsw.as_ref().or(self.configuration.spann.as_ref());
        configured.map(|index| index.space).unwrap_or_default()
    }
}

/// One record to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Its id, which is not empty.
    pub id: String,
    /// Its vector.
    pub vector: Vec<f32>,
    /// Its text.
    pub document: String,
    /// What else is known of it.
    pub metadata: Metadata,
}

/// Records as Chroma takes them. Valid by construction: not none, no id empty or twice (it would keep one
/// and say nothing), vectors of one dimension and of finite numbers, not more bytes than it takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Records {
    ids: Vec<String>,
    embeddings: Vec<Vec<f32>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    documents: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    metadatas: Vec<Metadata>,
}

/// Why records can not be stored together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRecords {
    /// There is none.
    #[error("there is no record to store")]
    None,
    /// An id that Chroma would refuse or drop.
    #[error("the id of record {at} is empty or stands twice")]
    Id {
        /// Which record, from 0.
        at: usize,
    },
    /// Vectors that do not belong together, or are none.
    #[error("the vector of record {at} has {found} finite numbers where {expected} are expected")]
    Vector {
        /// Which record, from 0.
        at: usize,
        /// Numbers in the first one, or in those that are stored already.
        expected: usize,
        /// Finite numbers in it.
        found: usize,
    },
    /// More than one request may have.
    #[error("the records have about {bytes} bytes, one request takes at most {MOST_BYTES}")]
    TooLarge {
        /// About how many.
        bytes: usize,
    },
}

impl Records {
    /// `records` for a collection whose vectors have `dimension` numbers, if that is known.
    pub fn new(records: Vec<Record>, dimension: Option<usize>) -> Result<Self, BadRecords> {
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

    /// Vectors with nothing beside them, for a collection whose vectors have `dimension` numbers.
    pub fn bare(vectors: Vec<Vector>, dimension: usize) -> Result<Self, BadRecords> {
        let bare = |Vector { id, numbers }| Record {
            id,
            vector: numbers,
            document: String::new(),
            metadata: Metadata::new(),
        };
        let all = Self::new(vectors.into_iter().map(bare).collect(), Some(dimension))?;
        Ok(Self { documents: Vec::new(), metadatas: Vec::new(), ..all })
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.ids.len()
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
    /// About how many bytes it takes in a request.
    pub fn bytes(&self) -> usize {
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

/// Which records are read.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Select {
    /// Those of these ids; what is not there is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<String>>,
    /// Those whose metadata fit, see [`super::filter`].
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub filter: Option<Value>,
    /// At most so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// After so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
}

/// What is searched for.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The vector of the question.
    pub vector: Vec<f32>,
    /// At most so many hits; 0 finds nothing.
    pub limit: usize,
    /// Only those whose metadata fit, see [`super::filter`].
    pub filter: Option<Value>,
}

/// A record that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Its id.
    pub id: String,
    /// Its text.
    pub document: Option<String>,
    /// What else is known of it.
    pub metadata: Metadata,
    /// How far it is from what was searched for; none where nothing was.
    pub distance: Option<f64>,
}
