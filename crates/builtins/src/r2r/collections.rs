//! `r2r_list_collections`.
//!
//! R2R's own count of a collection's documents drifts (0 where there are three, and below zero), so each
//! collection is asked for its list, a few at a time.

use futures_util::{StreamExt, stream};
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::answers::Fresh;
use super::model;
use super::model::Id;
use crate::answer::Failure;
use crate::r2r::R2rContext;
use crate::tool::{Effect, ToolInfo};
use json::Raw;

pub(super) const ABOUT: ToolInfo = ToolInfo {
    name: "r2r_list_collections",
    title: "List collections",
    description: "List the collections of documents in R2R with their ids, for collection_id of the other \
        tools.",
    effect: Effect::Reads,
};

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub(super) struct ListCollectionsInput {
    /// How many to leave out before the first one that is shown.
    #[serde(default)]
    offset: u64,
    /// How many at most.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 100))]
    limit: u32,
}

/// Collections that are counted at the same time.
const AT_A_TIME: usize = 8;

const fn twenty() -> u32 {
    20
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ListCollectionsOutput {
    collections: Vec<R2rCollectionItem>,
    /// How many there are.
    total: u64,
    /// Whether this is an answer of shortly before.
    cached: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct R2rCollectionItem {
    collection_id: Id,
    name: String,
    description: Option<String>,
    /// Documents in it, those that failed too.
    document_count: u64,
    user_count: u64,
}

/// The answer of `r2r_list_collections`.
pub(super) async fn list(context: &R2rContext, input: ListCollectionsInput) -> Result<Raw, Failure> {
    let inputs = (ABOUT.name, &input);
    let make = async { ask(context, &input).await.map(Fresh::lasting) };
    context.answers.fetch(context.options.cache_ttl.list, None, &inputs, make).await
}

async fn ask(context: &R2rContext, input: &ListCollectionsInput) -> Result<ListCollectionsOutput, Failure> {
    let page = context
        .client
        .page::<model::R2rCollection>(&["collections"], (input.offset, input.limit.into()), &[])
        .await?;
    let listed = page.results.into_iter().map(|collection| listed(context, collection));
    let collections: Vec<_> = stream::iter(listed).buffered(AT_A_TIME).collect().await;
    let total = page.total_entries.unwrap_or(input.offset + collections.len() as u64);
    Ok(ListCollectionsOutput { collections, total, cached: false })
}

async fn listed(context: &R2rContext, collection: model::R2rCollection) -> R2rCollectionItem {
    let id = collection.id.to_string();
    let counted = context.client.page::<IgnoredAny>(&["collections", &id, "documents"], (0, 1), &[]).await;
    let counted = counted.ok().and_then(|page| page.total_entries);
    R2rCollectionItem {
        collection_id: collection.id,
        name: collection.name,
        description: collection.description,
        // Better a count that may be off than no list.
        document_count: counted.unwrap_or_else(|| u64::try_from(collection.document_count).unwrap_or(0)),
        user_count: collection.user_count,
    }
}
