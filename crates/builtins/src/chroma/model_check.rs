//! Checks that all vectors of a collection are of one embedding model.
//!
//! Invariants: a collection that Switchyard created names provider and model as soon as they are known,
//! before its first vector is written. Vectors of another model are neither written to it nor searched with.
//! Chroma itself checks only the dimension. For a collection that others created, Switchyard too can check
//! only the dimension.

use serde::Serialize;
use serde_json::Value;

use super::model::{Collection, Metadata};
use crate::answer::Failure;
use crate::chroma::context::ChromaContext;
use crate::embedding::Embedding;
use crate::refusal::Refusal;

const PROVIDER: &str = "embedding_provider";
const MODEL: &str = "embedding_model";
const DIMENSION: &str = "embedding_dimension";
/// Metadata key of collections that Switchyard created.
pub(super) const CREATED_AT: &str = "created_at";

/// A model, as the metadata of a collection tell it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub(crate) struct CollectionModel {
    provider: String,
    #[serde(rename = "model")]
    name: String,
    /// Numbers in a vector, where it was known.
    dimension: Option<usize>,
}

impl CollectionModel {
    /// Returns the model in the metadata of a collection, if there is one.
    pub(crate) fn of(collection: &Collection) -> Option<Self> {
        let metadata = collection.metadata.as_ref()?;
        let text = |key| metadata.get(key).and_then(Value::as_str).map(str::to_owned);
        let noted = metadata.get(DIMENSION).and_then(Value::as_u64);
        let noted = noted.and_then(|dimension| usize::try_from(dimension).ok());
        let dimension = noted.or(collection.dimension);
        Some(Self { provider: text(PROVIDER)?, name: text(MODEL)?, dimension })
    }

    /// Returns the configured model, with `dimension` if that is known by now. `None` if there is no
    /// embedding provider.
    pub(crate) fn ours(embedding: &dyn Embedding, dimension: Option<usize>) -> Option<Self> {
        let (provider, name) = (embedding.provider().to_owned(), embedding.model().to_owned());
        let dimension = dimension.or(embedding.dimension());
        (provider != "none").then_some(Self { provider, name, dimension })
    }

    /// Returns the numbers in a vector, if known.
    pub(crate) const fn dimension(&self) -> Option<usize> {
        self.dimension
    }

    /// Writes the model into the metadata of a collection.
    pub(crate) fn write_to(&self, metadata: &mut Metadata) {
        metadata.insert(PROVIDER.into(), self.provider.as_str().into());
        metadata.insert(MODEL.into(), self.name.as_str().into());
        if let Some(dimension) = self.dimension {
            metadata.insert(DIMENSION.into(), dimension.into());
        }
    }

    /// Whether vectors of both models may share a collection.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let may_be = match (self.dimension, other.dimension) {
            (Some(one), Some(two)) => one == two,
            _ => true,
        };
        self.provider == other.provider && self.name == other.name && may_be
    }

    /// Describes the model for people.
    pub(crate) fn words(&self) -> String {
        let dimension = self.dimension.map(|many| format!(", {many} numbers")).unwrap_or_default();
        format!("`{}` of provider `{}`{dimension}", self.name, self.provider)
    }
}

/// Checks that vectors of the configured model, with `dimension` numbers if known, fit `collection`.
pub(super) fn check(
    context: &ChromaContext,
    collection: &Collection,
    dimension: Option<usize>,
) -> Result<(), Refusal> {
    let ours = CollectionModel::ours(&*context.embedding, dimension);
    let (Some(ours), theirs) = (ours, CollectionModel::of(collection)) else { return Ok(()) };
    match theirs {
        Some(theirs) if !theirs.is_same(&ours) => Err(mismatch(context, collection, &theirs.words(), &ours)),
        Some(_) => Ok(()),
        None => match (collection.dimension, ours.dimension) {
            (Some(theirs), Some(own)) if theirs != own => {
                Err(mismatch(context, collection, &format!("vectors of {theirs} numbers"), &ours))
            }
            _ => Ok(()),
        },
    }
}

fn mismatch(
    context: &ChromaContext,
    collection: &Collection,
    theirs: &str,
    ours: &CollectionModel,
) -> Refusal {
    let prefix = context.options.collection_prefix.as_str();
    let name = collection.name.strip_prefix(prefix).unwrap_or(&collection.name);
    Refusal::new("model_mismatch", "collection", name)
        .because(&format!(
            "The collection was filled by {theirs}; this server embeds with {}. Nothing was written.",
            ours.words()
        ))
        .valid("a collection whose vectors are of the model that is configured")
        .suggest("Use another collection, or make a new one and add the documents again.")
}

/// Makes sure that `collection` names the configured model, before anything is written to it.
pub(super) async fn agree(
    context: &ChromaContext,
    collection: &Collection,
    dimension: usize,
) -> Result<(), Failure> {
    check(context, collection, Some(dimension))?;
    let is_told = CollectionModel::of(collection).is_some_and(|model| model.dimension.is_some());
    let Some(metadata) = collection.metadata.as_ref().filter(|metadata| is_ours(metadata) && !is_told) else {
        return Ok(());
    };
    let Some(ours) = CollectionModel::ours(&*context.embedding, Some(dimension)) else { return Ok(()) };
    // Another gateway may have named its model in the meantime.
    let now = context.chroma.collection(&collection.name).await?;
    let said = now.as_ref().and_then(|now| now.metadata.as_ref()).unwrap_or(metadata);
    if let Some(now) = &now {
        check(context, now, Some(dimension))?;
    }
    let mut said = said.clone();
    ours.write_to(&mut said);
    context.chroma.describe(collection.id, &said).await?;
    if let Some(after) = context.chroma.collection(&collection.name).await? {
        check(context, &after, Some(dimension))?;
    }
    Ok(())
}

fn is_ours(metadata: &Metadata) -> bool {
    metadata.contains_key(CREATED_AT)
}
