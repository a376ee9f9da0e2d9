//! Keeps a Chroma collection equal to the documents: lists it, adds missing vectors, deletes superfluous
//! ones.
//!
//! ```text
//!  closed ──found or to be made, its ids listed──▶ open ──[`CHECK`] later, news, or a failure──▶ closed
//! ```
//!
//! Listing the collection again costs one request for each 5,000 vectors. It finds changes by others: a
//! collection that was deleted, restored from a backup, or emptied by a gateway with a newer folder.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::super::passages::{Digested, Passage};
use super::super::vectors::{Vectors, normalized};
use super::StorageError;
use super::link::{Link, gone, limited};
use super::places::IdPrefix;
use super::stored_vectors::{MOST_NUMBERS, StoredVectors};
use crate::chroma::{BadRecords, Records, Select, Vector};
use crate::embedding::Embedding;
use crate::handbook::semantic::is_made_by;
use crate::rest::unsendable;
use runtime::worker::at;

/// How long a listing of the collection is trusted.
const CHECK: Duration = Duration::from_mins(10);
/// Ids in one response, and in a collection at most. Ids beyond that count as missing and are written again.
const PAGE: usize = 5_000;
const MOST_LISTED: usize = 1_000_000;
/// Ids in one request to delete.
const DELETED_AT_ONCE: usize = 1_000;
/// Approximate size of one write request in bytes, and of a number and an id in it.
const BATCH_BYTES: usize = 8 << 20;
const NUMBER_BYTES: usize = 16;
const ID_BYTES: usize = 64;
/// Most vectors that the mean is computed from.
const SAMPLE: usize = 1_000;
/// The mean is computed again when one vector in this many has changed.
const DRIFT: usize = 10;

/// Origin of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordOrigin {
    /// Switchyard wrote it, or it was there at the start. It is deleted when no document has its text.
    Ours,
    /// Another program wrote it after the start.
    Others,
}

/// Maintenance of one collection, see the head of this file.
pub(in super::super::super) struct CollectionMaintenance {
    link: Arc<Link>,
    open: Option<Open>,
    /// The records of the collection.
    stored: HashMap<Digested, RecordOrigin>,
    /// Whether the collection was listed before.
    is_known: bool,
    /// Whether its vectors are known to be of the current model.
    is_proven: bool,
    stored_vectors: Option<Arc<StoredVectors>>,
    /// Vectors that were added since the mean was computed.
    fresh: usize,
}

/// The collection as it was found.
struct Open {
    naming: IdPrefix,
    /// The collection and its dimension. `None` until there is a vector to put into it.
    collection: Option<(Uuid, usize)>,
    until: Instant,
}

impl CollectionMaintenance {
    pub(in super::super::super) fn new(link: Arc<Link>) -> Self {
        Self {
            link,
            open: None,
            stored: HashMap::new(),
            is_known: false,
            is_proven: false,
            stored_vectors: None,
            fresh: 0,
        }
    }

    /// Lists the collection, unless a listing is still valid.
    pub(in super::super) async fn open(
        &mut self,
        model: &dyn Embedding,
        vectors: &mut Vectors,
    ) -> Result<(), StorageError> {
        if self.open.is_some() {
            return Ok(());
        }
        let naming = IdPrefix::of(model);
        let found = match self.link.find(model).await {
            Err(foreign @ StorageError::Foreign { .. }) => {
                self.stored_vectors = None;
                return Err(foreign);
            }
            found => found?,
        };
        let collection = found.map(|(collection, dimension)| (collection.id, dimension));
        let listed = match collection {
            Some((id, _)) => self.list(id, &naming).await?,
            None => HashSet::new(),
        };
        self.compare(listed);
        let is_whole = |digests: &[Digested]| digests.iter().all(|digest| self.stored.contains_key(digest));
        vectors.by_serial.retain(|_, of| is_whole(&of.digests));
        self.stored_vectors = self
            .stored_vectors
            .take()
            .filter(|stored_vectors| Some(stored_vectors.collection) == collection.map(|(id, _)| id));
        self.open = Some(Open { naming, collection, until: Instant::now() + CHECK });
        Ok(())
    }

    /// Checks with one of `passages` that `model` made the vectors found at the start. A model's name proves
    /// little.
    pub(in super::super) async fn prove<'a>(
        &mut self,
        model: &dyn Embedding,
        mut passages: impl Iterator<Item = &'a Passage>,
    ) -> Result<(), StorageError> {
        if self.is_proven {
            return Ok(());
        }
        let Some(Open { collection: Some((id, _)), naming, .. }) = &self.open else { return Ok(()) };
        let Some(passage) = passages.find(|passage| self.has(&passage.digest())) else { return Ok(()) };
        let stored = limited(self.link.chroma.vectors(*id, &[naming.id(&passage.digest())])).await;
        let Some(stored) = self.closed_by(stored.map_err(StorageError::from))?.pop() else { return Ok(()) };
        if !is_made_by(model, passage, &stored.numbers).await? {
            return Err(self.link.foreign("its vectors are not those that this model makes"));
        }
        self.is_proven = true;
        Ok(())
    }

    async fn list(&self, collection: Uuid, naming: &IdPrefix) -> Result<HashSet<Digested>, StorageError> {
        let (mut listed, mut offset) = (HashSet::new(), 0);
        while offset < MOST_LISTED {
            let select = Select { limit: Some(PAGE), offset: Some(offset), ..Select::default() };
            let page = limited(self.link.chroma.ids(collection, &select)).await?;
            if page.is_empty() {
                break;
            }
            offset += page.len();
            listed.extend(page.iter().filter_map(|id| naming.digest(id)));
        }
        Ok(listed)
    }

    /// Records `listed` as the content of the collection.
    fn compare(&mut self, listed: HashSet<Digested>) {
        // If the collection is empty, all its vectors will be made by the current model.
        self.is_proven |= !self.is_known && listed.is_empty();
        let new = if self.is_known { RecordOrigin::Others } else { RecordOrigin::Ours };
        let before = std::mem::take(&mut self.stored);
        let whose = |digest: &Digested| before.get(digest).copied().unwrap_or(new);
        self.stored = listed.into_iter().map(|digest| (digest, whose(&digest))).collect();
        self.is_known = true;
    }

    pub(in super::super) fn has(&self, digest: &Digested) -> bool {
        self.stored.contains_key(digest)
    }

    /// Writes vectors, in requests of a size that Chroma accepts. Skips empty vectors, which are stored already.
    pub(in super::super) async fn put(
        &mut self,
        model: &dyn Embedding,
        digests: &[Digested],
        vectors: Vec<Vec<f32>>,
    ) -> Result<(), StorageError> {
        let written = self.write(model, digests, vectors).await;
        self.closed_by(written)
    }

    async fn write(
        &mut self,
        model: &dyn Embedding,
        digests: &[Digested],
        vectors: Vec<Vec<f32>>,
    ) -> Result<(), StorageError> {
        let mut seen = HashSet::new();
        let new =
            digests.iter().zip(vectors).filter(|(digest, made)| !made.is_empty() && seen.insert(**digest));
        let mut new: Vec<(Digested, Vec<f32>)> = new.map(|(digest, made)| (*digest, made)).collect();
        let Some(length) = new.first().map(|(_, vector)| vector.len()) else { return Ok(()) };
        let (collection, dimension) = self.collection(model, length).await?;
        if let Some((_, other)) = new.iter().find(|(_, vector)| vector.len() != dimension) {
            let why =
                format!("its vectors have {dimension} numbers, those that were made now {}", other.len());
            return Err(self.link.foreign(&why));
        }
        let most = limited(self.link.chroma.most_records()).await?;
        let most = most.min(BATCH_BYTES / (dimension * NUMBER_BYTES + ID_BYTES)).max(1);
        while !new.is_empty() {
            let rest = new.split_off(most.min(new.len()));
            self.write_some(collection, dimension, std::mem::replace(&mut new, rest)).await?;
        }
        Ok(())
    }

    async fn write_some(
        &mut self,
        collection: Uuid,
        dimension: usize,
        new: Vec<(Digested, Vec<f32>)>,
    ) -> Result<(), StorageError> {
        let Some(open) = &self.open else { return Err(gone(&self.link.name)) };
        let digests: Vec<Digested> = new.iter().map(|(digest, _)| *digest).collect();
        let record =
            |(digest, numbers): (Digested, Vec<f32>)| Vector { id: open.naming.id(&digest), numbers };
        let records = Records::bare(new.into_iter().map(record).collect(), dimension);
        let records = records.map_err(|bad: BadRecords| unsendable(&bad.to_string()))?;
        limited(self.link.chroma.upsert(collection, &records)).await?;
        self.fresh += digests.len();
        self.stored.extend(digests.into_iter().map(|digest| (digest, RecordOrigin::Ours)));
        Ok(())
    }

    /// Returns the collection and its dimension. Creates it if it is missing.
    async fn collection(
        &mut self,
        model: &dyn Embedding,
        length: usize,
    ) -> Result<(Uuid, usize), StorageError> {
        let Some(open) = &mut self.open else { return Err(gone(&self.link.name)) };
        if let Some(known) = open.collection {
            return Ok(known);
        }
        let (made, dimension) = self.link.make(model, length).await?;
        open.collection = Some((made.id, dimension));
        Ok((made.id, dimension))
    }

    /// Prepares the collection for searches. Does so again after many vectors have changed.
    pub(in super::super) async fn settle(&mut self, vectors: &Vectors) -> Result<(), StorageError> {
        let Some(Open { collection: Some((id, dimension)), naming, .. }) = &self.open else { return Ok(()) };
        let passages = vectors.passages();
        let is_same = self.fresh * DRIFT <= passages
            && self.stored_vectors.as_ref().is_some_and(|stored_vectors| stored_vectors.collection == *id);
        if passages == 0 || is_same {
            return Ok(());
        }
        let sampled = self.mean(*id, *dimension, naming, vectors).await;
        let stored_vectors = sampled.map(|mean| StoredVectors {
            link: Arc::clone(&self.link),
            collection: *id,
            naming: naming.clone(),
            mean,
        });
        match stored_vectors {
            Ok(stored_vectors) => (self.stored_vectors, self.fresh) = (Some(Arc::new(stored_vectors)), 0),
            Err(trouble) => return self.closed_by(Err(trouble)),
        }
        Ok(())
    }

    /// Returns the mean of stored vectors, evenly chosen.
    async fn mean(
        &self,
        collection: Uuid,
        dimension: usize,
        naming: &IdPrefix,
        vectors: &Vectors,
    ) -> Result<Vec<f32>, StorageError> {
        let every = vectors.passages().div_ceil(SAMPLE).max(1);
        let all = vectors.by_serial.values().flat_map(|of| &of.digests);
        let ids: Vec<String> = all.step_by(every).map(|digest| naming.id(digest)).collect();
        let (mut sum, mut count) = (vec![0.0_f32; dimension], 0_u16);
        for ids in ids.chunks((MOST_NUMBERS / dimension).max(1)) {
            for stored in limited(self.link.chroma.vectors(collection, ids)).await? {
                let is_one =
                    stored.numbers.len() == dimension && stored.numbers.iter().all(|one| one.is_finite());
                if is_one {
                    count += 1;
                    sum.iter_mut().zip(normalized(stored.numbers)).for_each(|(sum, one)| *sum += one);
                }
            }
        }
        if count == 0 {
            return Err(gone(&self.link.name));
        }
        Ok(sum.into_iter().map(|sum| sum / f32::from(count)).collect())
    }

    /// Deletes vectors that belong to no document. If there are no documents at all it deletes nothing: the
    /// disk may not be mounted yet, and embedding everything again costs more than keeping the vectors.
    pub(in super::super) async fn forget(&mut self, vectors: &Vectors) -> Result<(), StorageError> {
        if vectors.by_serial.is_empty() {
            return Ok(());
        }
        let Some(Open { collection: Some((id, _)), naming, .. }) = &self.open else { return Ok(()) };
        let desired: HashSet<&Digested> = vectors.by_serial.values().flat_map(|of| &of.digests).collect();
        let is_stale = |(digest, whose): &(&Digested, &RecordOrigin)| {
            **whose == RecordOrigin::Ours && !desired.contains(digest)
        };
        let stale: Vec<Digested> = self.stored.iter().filter(is_stale).map(|(digest, _)| *digest).collect();
        let mut done = Ok(());
        for some in stale.chunks(DELETED_AT_ONCE) {
            let ids: Vec<String> = some.iter().map(|digest| naming.id(digest)).collect();
            done = limited(self.link.chroma.delete(*id, &ids)).await;
            if done.is_err() {
                break;
            }
            for digest in some {
                self.stored.remove(digest);
            }
        }
        self.closed_by(done.map_err(StorageError::from))
    }

    /// After any failure, the collection is listed again before the next step.
    fn closed_by<T>(&mut self, outcome: Result<T, StorageError>) -> Result<T, StorageError> {
        if outcome.is_err() {
            self.open = None;
        }
        outcome
    }

    pub(in super::super) fn stored_vectors(&self) -> Option<Arc<StoredVectors>> {
        self.stored_vectors.clone()
    }

    /// Whether searches have already logged `trouble`.
    pub(in super::super) fn is_told(&self, trouble: &StorageError) -> bool {
        matches!(trouble, StorageError::Chroma(_)) && self.link.outage.is_on()
    }

    /// Resolves when the collection should be listed again: after a time, or when a search asks for it.
    pub(in super::super) async fn is_due(&mut self) {
        let until = self.open.as_ref().map(|open| open.until);
        tokio::select! {
            () = at(until) => {}
            () = self.link.news.notified() => {}
        }
        self.open = None;
    }

    /// Resolves when a search asks for a new listing.
    pub(in super::super) async fn is_back(&mut self) {
        self.link.news.notified().await;
        self.open = None;
    }
}
