//! `create_collection`, `list_collections` and `delete_collection`.
//!
//! Chroma's list has neither the number of records nor the creation time of a collection. So records are
//! counted, a few collections at a time, and Switchyard writes the time into the metadata of collections that
//! it creates.

use futures_util::{StreamExt, TryStreamExt, stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::metadata::{self, Subject};
use super::model::{Collection, Metadata};
use super::model_check::{CREATED_AT, CollectionModel};
use super::{layout, names};
use crate::answer::Failure;
use crate::chroma::context::ChromaContext;
use crate::refusal::Refusal;
use crate::schema_validator::NOT_BLANK;
use crate::tool::{Effect, ToolInfo};
use json::Raw;
use upstream::api::Error;

pub(super) const ABOUT_CREATE: ToolInfo = ToolInfo {
    name: "create_collection",
    title: "Create a collection",
    description: "Make a collection that documents can be added to. If it is there already with the same \
        metadata, that is fine; with other metadata it is an error.",
    effect: Effect::Puts,
};

pub(super) const ABOUT_LIST: ToolInfo = ToolInfo {
    name: "list_collections",
    title: "List collections",
    description: "List the collections, for `collection` of the other tools, with how many chunks each has.",
    effect: Effect::Reads,
};

pub(super) const ABOUT_DELETE: ToolInfo = ToolInfo {
    name: "delete_collection",
    title: "Delete a collection",
    description: "Delete a collection with all its documents. There is no way back.",
    effect: Effect::Replaces,
};

/// Most collections in a list, and most that are read for it.
const MOST_LISTED: usize = 500;
const MOST_SEEN: usize = 10_000;
/// Collections whose records are counted at the same time.
const AT_A_TIME: usize = 8;

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct CreateInput {
    /// Letters and digits of ASCII, `.`, `_` and `-`.
    #[schemars(length(min = 1, max = 512), regex(pattern = NOT_BLANK), example = "team-docs")]
    name: String,
    /// Metadata of the collection: flat, with texts, numbers and booleans.
    metadata: Option<Map<String, Value>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CreateOutput {
    name: String,
    /// False: it was there already.
    created: bool,
    metadata: Metadata,
    created_at: Option<String>,
    /// The model that its vectors are of; null until the first document where nothing embeds yet.
    embedding: Option<CollectionModel>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct CollectionListInput {}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CollectionListOutput {
    collections: Vec<CollectionItem>,
    /// How many there are.
    total: usize,
    /// There are more than are listed, or than were looked through.
    incomplete: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CollectionItem {
    name: String,
    /// Chunks in it.
    count: u64,
    metadata: Metadata,
    /// When it was made; null where others made it.
    created_at: Option<String>,
    /// The model that its vectors are of; null where nobody said.
    embedding: Option<CollectionModel>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct DeleteInput {
    /// The collection, as `list_collections` gives it.
    #[schemars(length(min = 1, max = 512))]
    name: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DeleteOutput {
    name: String,
    deleted: bool,
}

/// Returns the result of `create_collection`.
pub(super) async fn create(context: &ChromaContext, input: CreateInput) -> Result<Raw, Failure> {
    let full = names::full(&context.options.collection_prefix, "name", &input.name)?;
    let said = metadata::check(input.metadata.unwrap_or_default(), Subject::Collection)?;
    let mut metadata = said.clone();
    metadata.insert(CREATED_AT.into(), layout::time_of(layout::now()).into());
    if let Some(ours) = CollectionModel::ours(&*context.embedding, None) {
        ours.write_to(&mut metadata);
    }
    let made = match context.chroma.create(&full, Some(&metadata)).await {
        Ok(made) => made,
        Err(Error::Backend { status: 409, .. }) => {
            let there = context.open(&input.name).await?;
            return if metadata_of(&there) == said && created_at(&there).is_some() {
                Ok(created(input.name, &there, false))
            } else {
                Err(taken(&input.name).into())
            };
        }
        Err(error) => return Err(error.into()),
    };
    Ok(created(input.name, &made, true))
}

fn created(name: String, collection: &Collection, created: bool) -> Raw {
    Raw::of(&CreateOutput {
        name,
        created,
        metadata: metadata_of(collection),
        created_at: created_at(collection),
        embedding: CollectionModel::of(collection),
    })
}

fn taken(name: &str) -> Refusal {
    Refusal::new("already_exists", "name", name)
        .because("There is a collection of this name already, with other metadata.")
        .valid("a name that is not taken")
        .suggest("Use it as it is (list_collections shows it), or another name.")
}

/// Returns the result of `list_collections`.
pub(super) async fn list(context: &ChromaContext) -> Result<Raw, Failure> {
    let (mut own, mut seen) = (Vec::new(), 0);
    loop {
        let page = context.chroma.collections(names::PAGE, seen).await?;
        let many = page.len();
        seen += many;
        let is_own = |one: &Collection| one.name.starts_with(&context.options.collection_prefix);
        own.extend(page.into_iter().filter(is_own));
        if many < names::PAGE || seen >= MOST_SEEN {
            break;
        }
    }
    let total = own.len();
    own.sort_by(|one, other| one.name.cmp(&other.name));
    own.truncate(MOST_LISTED);
    let counted = own.into_iter().map(|collection| listed(context, collection));
    let counted: Vec<Option<CollectionItem>> =
        stream::iter(counted).buffered(AT_A_TIME).try_collect().await?;
    let incomplete = total > MOST_LISTED || seen >= MOST_SEEN;
    Ok(Raw::of(&CollectionListOutput {
        collections: counted.into_iter().flatten().collect(),
        total,
        incomplete,
    }))
}

/// Returns the entry of a collection, or `None` if it was deleted in the meantime.
async fn listed(context: &ChromaContext, collection: Collection) -> Result<Option<CollectionItem>, Error> {
    let count = match context.chroma.count(collection.id).await {
        Ok(count) => count,
        Err(Error::Backend { status: 404, .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let name = collection.name.strip_prefix(&context.options.collection_prefix).unwrap_or_default();
    Ok(Some(CollectionItem {
        name: name.to_owned(),
        count,
        metadata: metadata_of(&collection),
        created_at: created_at(&collection),
        embedding: CollectionModel::of(&collection),
    }))
}

/// Returns the result of `delete_collection`.
pub(super) async fn delete(context: &ChromaContext, input: DeleteInput) -> Result<Raw, Failure> {
    let full = names::full(&context.options.collection_prefix, "name", &input.name)?;
    if !context.chroma.drop_collection(&full).await? {
        return Err(context.no_collection("name", &input.name).await.into());
    }
    Ok(Raw::of(&DeleteOutput { name: input.name, deleted: true }))
}

fn metadata_of(collection: &Collection) -> Metadata {
    collection.metadata.as_ref().map(|all| Subject::Collection.without_reserved(all)).unwrap_or_default()
}

fn created_at(collection: &Collection) -> Option<String> {
    collection.metadata.as_ref()?.get(CREATED_AT)?.as_str().map(str::to_owned)
}
