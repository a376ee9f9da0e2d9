//! Test fixture: a handbook whose vectors are in a Chroma in memory, and control of the clock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{advance, pause, resume};
use uuid::Uuid;

use super::super::super::fixture::*;
use super::super::super::{Handbook, follow};
use super::super::State;
use super::super::indexer::PAUSES;
use super::super::tests::{Concepts, DIMENSION, ready};
use super::*;
use crate::chroma::double::Double;
use crate::chroma::{ChromaClient, DatabaseAddress, Records, Vector};
use crate::embedding::Embedding;
use crate::handbook::config;
use crate::handbook::semantic::vector_cache::VectorCache;
use runtime::shutdown::Shutdown;

/// The default name of the fixture's collection.
pub(super) const NAME: &str = "handbook_docs_vectors";

/// Opens a handbook whose vectors are at `double`.
pub(super) async fn at(double: &Double, model: &Arc<Concepts>) -> Fixture {
    let mut fixture = Fixture::with(COMPANY).await;
    fixture.handbook = with_storage(fixture.handbook, double, model);
    fixture
}

pub(super) fn with_storage(handbook: Handbook, double: &Double, model: &Arc<Concepts>) -> Handbook {
    let place = DatabaseAddress::usual(double.url.clone());
    let collection = config::CollectionOptions { place, create_database: false, name: None };
    let link = Link::new(&collection, "docs", &crate::server_context(&Shutdown::new())).expect("usable");
    let model: Arc<dyn Embedding> = Arc::<Concepts>::clone(model);
    handbook.with(
        Box::pin(async { Ok(model) }),
        VectorCache::new(None, ""),
        Some(CollectionMaintenance::new(Arc::new(link))),
    )
}

/// Opens a handbook whose vectors are all at Chroma. Also returns their texts.
pub(super) async fn stored() -> (Double, Arc<Concepts>, Fixture, BTreeSet<String>) {
    let (double, model) = (Double::start().await, Concepts::working());
    let fixture = at(&double, &model).await;
    ready(&fixture).await;
    let known = texts(model.requested());
    holds(&double, &known).await;
    (double, model, fixture, known)
}

/// Opens another gateway over the same folder.
pub(super) async fn restarted(fixture: &Fixture, double: &Double, model: &Arc<Concepts>) -> Fixture {
    let handbook = open(fixture.folder.path(), 100).await.expect("it opens");
    let folder = tempfile::tempdir().expect("a folder");
    Fixture { folder, handbook: with_storage(handbook, double, model) }
}

/// Advances the clock without waiting.
pub(super) async fn later(by: Duration) {
    pause();
    advance(by).await;
    resume();
}

/// Advances the clock in steps, and lets other tasks run in between, until `is_so`.
pub(super) async fn eventually(is_so: impl Fn() -> bool) {
    while !is_so() {
        later(PAUSES.1).await;
        for _ in 0..2_000 {
            tokio::task::yield_now().await;
        }
    }
}

/// Lets the folder be walked again.
pub(super) async fn walked() {
    later(follow::PAUSE * 2).await;
}

pub(super) async fn until(fixture: &Fixture, is_so: impl Fn(&State) -> bool) {
    let mut state = fixture.handbook.semantic.as_ref().expect("a provider").state.clone();
    state.wait_for(is_so).await.expect("the task runs");
}

/// Waits until the collection has exactly these texts.
pub(super) async fn holds(double: &Double, texts: &BTreeSet<String>) {
    let expected: BTreeSet<String> = texts.iter().map(|text| id(text)).collect();
    while double.records(NAME).into_keys().collect::<BTreeSet<_>>() != expected {
        tokio::task::yield_now().await;
    }
}

/// Returns the id of a text, computed independently of the code under test.
pub(super) fn id(text: &str) -> String {
    use sha2::{Digest, Sha256};
    format!("{}-{}", hex::encode(&Sha256::digest("openai\0m")[..4]), hex::encode(&Sha256::digest(text)[..16]))
}

pub(super) fn texts(requested: Vec<Vec<String>>) -> BTreeSet<String> {
    requested.into_iter().flatten().collect()
}

/// Returns the whole answer of a search.
pub(super) async fn answer(fixture: &Fixture, arguments: &Value) -> Value {
    fixture.ask("search_handbook", arguments.clone()).await
}

/// Returns the collection of the fixture's handbook, so that a test can change it directly.
pub(super) async fn collection(double: &Double) -> (ChromaClient, Uuid) {
    let chroma = ChromaClient::new(
        &DatabaseAddress::usual(double.url.clone()),
        &crate::server_context(&Shutdown::new()),
    )
    .expect("usable");
    let id = chroma.collection(NAME).await.expect("asked").expect("there").id;
    (chroma, id)
}

pub(super) async fn insert(double: &Double, ids: &[String], text: &str) {
    let (chroma, collection) = collection(double).await;
    let numbers = Concepts::vector(text);
    let vectors = ids.iter().map(|id| Vector { id: id.clone(), numbers: numbers.clone() }).collect();
    let records = Records::bare(vectors, DIMENSION).expect("good");
    chroma.upsert(collection, &records).await.expect("written");
}
