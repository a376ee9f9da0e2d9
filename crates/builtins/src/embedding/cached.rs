//! Cache of vectors in front of an embedding provider.
//!
//! Invariants: the key of a vector consists of provider, place, model and text. Only texts without a cached
//! vector are embedded, in one request and each once. All returned vectors have one dimension. If the model
//! behind a name has changed, its cached vectors are dropped and everything is embedded again.

use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::time::Instant;

use super::{Dimension, Embedding, EmbeddingFuture, Error, KEPT, Window, is_vector};
use runtime::store::{Group, Key, Store};

/// Most cache lookups at a time: one may be a round trip.
const AT_A_TIME: usize = 32;

/// A cache miss. The caller embeds all missing texts together.
#[derive(Debug, Clone, Copy)]
struct Absent;

/// A provider with a cache in front of it.
pub(crate) struct Cached {
    inner: Arc<dyn Embedding>,
    store: Store,
    group: Group,
    dimension: Dimension,
}

/// The distinct texts of a request.
struct DistinctTexts<'a> {
    texts: Vec<&'a String>,
    /// For each requested text, its index in `texts`.
    places: Vec<usize>,
}

impl Cached {
    /// `place` tells apart models of one name: it stands for their address and settings.
    pub(crate) fn new(inner: Arc<dyn Embedding>, place: &str, store: &Store) -> Self {
        let group = Group::new(&["embed", inner.provider(), place, inner.model()]);
        let dimension = Dimension::configured(inner.dimension());
        Self { inner, store: store.clone(), group, dimension }
    }

    async fn all(&self, requested: &[String], deadline: Instant) -> Result<Vec<Vec<f32>>, Error> {
        let distinct = DistinctTexts::new(requested);
        let mut found = self.look_up(&distinct.texts).await;
        let is_one_length = |found: &[Option<Vec<f32>>]| {
            let mut lengths = found.iter().flatten().map(Vec::len).chain(self.dimension());
            let first = lengths.next();
            lengths.all(|length| Some(length) == first)
        };
        let mut fresh = self.fill(&distinct.texts, &mut found, deadline).await?;
        if !is_one_length(&found) {
            self.store.forget(&self.group).await;
            found.fill(None);
            fresh = self.fill(&distinct.texts, &mut found, deadline).await?;
        }
        let vectors: Vec<Vec<f32>> = found.into_iter().flatten().collect();
        self.dimension.check(self.model(), &vectors)?;
        let stored = |at: usize| (self.key(distinct.texts[at]), encode(&vectors[at]));
        self.keep(fresh.into_iter().map(stored).collect()).await;
        Ok(distinct.spread(&vectors))
    }

    /// Returns the cached vectors of `texts`.
    async fn look_up(&self, texts: &[&String]) -> Vec<Option<Vec<f32>>> {
        let look = |key: Key| async move {
            let found = self.store.fetch(&key, KEPT, ready(Err::<Bytes, _>(Absent))).await;
            found.ok().and_then(|found| decode(&found.value))
        };
        let keys: Vec<Key> = texts.iter().map(|text| self.key(text)).collect();
        stream::iter(keys).map(look).buffered(AT_A_TIME).collect().await
    }

    /// Embeds the missing texts. Returns their indices.
    async fn fill(
        &self,
        texts: &[&String],
        found: &mut [Option<Vec<f32>>],
        deadline: Instant,
    ) -> Result<Vec<usize>, Error> {
        let gaps: Vec<usize> = (0..texts.len()).filter(|at| found[*at].is_none()).collect();
        if gaps.is_empty() {
            return Ok(gaps);
        }
        let missing: Vec<String> = gaps.iter().map(|at| texts[*at].clone()).collect();
        let vectors = self.inner.embed(&missing, deadline).await?;
        for (at, vector) in gaps.iter().zip(vectors) {
            found[*at] = Some(vector);
        }
        Ok(gaps)
    }

    async fn keep(&self, entries: Vec<(Key, Bytes)>) {
        let put = |(key, value): (Key, Bytes)| async move {
            let _ = self.store.fetch(&key, KEPT, ready(Ok::<_, Absent>(value))).await;
        };
        stream::iter(entries).map(put).buffered(AT_A_TIME).collect::<()>().await;
    }

    fn key(&self, text: &str) -> Key {
        Key::new(&self.group, text)
    }
}

impl Embedding for Cached {
    fn embed<'a>(&'a self, texts: &'a [String], deadline: Instant) -> EmbeddingFuture<'a> {
        self.all(texts, deadline).boxed()
    }

    fn embed_uncached<'a>(&'a self, texts: &'a [String], deadline: Instant) -> EmbeddingFuture<'a> {
        self.inner.embed(texts, deadline)
    }

    fn forget_cached(&self) -> BoxFuture<'_, ()> {
        self.store.forget(&self.group).boxed()
    }

    fn provider(&self) -> &'static str {
        self.inner.provider()
    }

    fn model(&self) -> &str {
        self.inner.model()
    }

    fn dimension(&self) -> Option<usize> {
        self.inner.dimension().or(self.dimension.known())
    }

    fn window(&self) -> Window {
        self.inner.window()
    }
}

impl<'a> DistinctTexts<'a> {
    fn new(requested: &'a [String]) -> Self {
        let (mut texts, mut known) = (Vec::new(), HashMap::new());
        let place = |text: &'a String| {
            *known.entry(text).or_insert_with(|| {
                texts.push(text);
                texts.len() - 1
            })
        };
        let places = requested.iter().map(place).collect();
        Self { texts, places }
    }

    fn spread(&self, vectors: &[Vec<f32>]) -> Vec<Vec<f32>> {
        self.places.iter().map(|at| vectors[*at].clone()).collect()
    }
}

fn encode(vector: &[f32]) -> Bytes {
    vector.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Decodes a cached vector. Returns `None` if another program wrote the entry.
fn decode(stored: &[u8]) -> Option<Vec<f32>> {
    let (numbers, rest) = stored.as_chunks::<4>();
    let vector: Vec<f32> = numbers.iter().map(|number| f32::from_le_bytes(*number)).collect();
    (rest.is_empty() && is_vector(&vector)).then_some(vector)
}

#[cfg(test)]
#[path = "cached_tests.rs"]
mod tests;
