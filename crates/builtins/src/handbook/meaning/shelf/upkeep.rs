//! Keeping a collection at Chroma as the documents are: what is there, what is missing, what is too much.
//!
//! ```text
//!  closed ──found or to be made, its ids listed──▶ open ──[`CHECK`] later, news, or a failure──▶ closed
//! ```
//!
//! Looking again costs one request for 5,000 vectors and finds what others did: a collection that was deleted,
//! restored from a backup, or emptied by a gateway whose folder was ahead of ours.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::super::passages::{Digested, Passage};
use super::super::vectors::{Vectors, normalized};
use super::Trouble;
use super::link::{Link, gone, limited};
use super::places::Naming;
use super::reach::{MOST_NUMBERS, Reach};
use crate::chroma::{BadRecords, Records, Select, Vector};
use crate::embedding::Embedding;
use crate::handbook::meaning::vector_cache::is_made_by;
use crate::rest::unsendable;
use runtime::worker::at;

/// How long what is known of the collection counts.
const CHECK: Duration = Duration::from_mins(10);
/// Ids in one answer, and of a collection at most; what is beyond counts as missing and is written again.
const PAGE: usize = 5_000;
const MOST_LISTED: usize = 1_000_000;
/// Ids in one request to delete.
const DELETED_AT_ONCE: usize = 1_000;
/// Bytes of one request to write, roughly, and those of a number and of an id in it.
const BATCH_BYTES: usize = 8 << 20;
const NUMBER_BYTES: usize = 16;
const ID_BYTES: usize = 64;
/// Vectors that the mean is made of, at most.
const SAMPLE: usize = 1_000;
/// The mean is made anew when one of so many vectors is another one.
const DRIFT: usize = 10;

/// Who put a record there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// We did, or it was there when we came: it goes when no document has its text.
    Ours,
    /// Somebody else did, after we came.
    Others,
}

/// See the head of this file.
pub(in super::super::super) struct Upkeep {
    link: Arc<Link>,
    open: Option<Open>,
    /// What is in the collection.
    stored: HashMap<Digested, Whose>,
    /// Whether it was looked at before.
    is_known: bool,
    /// Whether the model is known to make what is in it.
    is_proven: bool,
    reach: Option<Arc<Reach>>,
    /// Vectors that were put there since the mean was made.
    fresh: usize,
}

/// What was found.
struct Open {
    naming: Naming,
    /// The collection and its dimension; none until there is something to put into it.
    collection: Option<(Uuid, usize)>,
    until: Instant,
}

impl Upkeep {
    pub(super) fn new(link: Arc<Link>) -> Self {
        Self {
            link,
            open: None,
            stored: HashMap::new(),
            is_known: false,
            is_proven: false,
            reach: None,
            fresh: 0,
        }
    }

    /// Looks what is there, unless that is known.
    pub(super) async fn open(&mut self, model: &dyn Embedding, vectors: &mut Vectors) -> Result<(), Trouble> {
        if self.open.is_some() {
            return Ok(());
        }
        let naming = Naming::of(model);
        let found = match self.link.find(model).await {
            Err(foreign @ Trouble::Foreign { .. }) => {
                self.reach = None;
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
        self.reach = self.reach.take().filter(|reach| Some(reach.collection) == collection.map(|(id, _)| id));
        self.open = Some(Open { naming, collection, until: Instant::now() + CHECK });
        Ok(())
    }

    /// Shows by one of `passages` that `model` makes what was there at the start: a name says little of a model.
    pub(super) async fn prove<'a>(
        &mut self,
        model: &dyn Embedding,
        mut passages: impl Iterator<Item = &'a Passage>,
    ) -> Result<(), Trouble> {
        if self.is_proven {
            return Ok(());
        }
        let Some(Open { collection: Some((id, _)), naming, .. }) = &self.open else { return Ok(()) };
        let Some(passage) = passages.find(|passage| self.has(&passage.digest())) else { return Ok(()) };
        let stored = limited(self.link.chroma.vectors(*id, &[naming.id(&passage.digest())])).await;
        let Some(stored) = self.closed_by(stored.map_err(Trouble::from))?.pop() else { return Ok(()) };
        if !is_made_by(model, passage, &stored.numbers).await? {
            return Err(self.link.foreign("its vectors are not those that this model makes"));
        }
        self.is_proven = true;
        Ok(())
    }

    async fn list(&self, collection: Uuid, naming: &Naming) -> Result<HashSet<Digested>, Trouble> {
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

    /// Takes `listed` for what is there.
    fn compare(&mut self, listed: HashSet<Digested>) {
        // What is put there from now on is made by the model that runs.
        self.is_proven |= !self.is_known && listed.is_empty();
        let new = if self.is_known { Whose::Others } else { Whose::Ours };
        let before = std::mem::take(&mut self.stored);
        let whose = |digest: &Digested| before.get(digest).copied().unwrap_or(new);
        self.stored = listed.into_iter().map(|digest| (digest, whose(&digest))).collect();
        self.is_known = true;
    }

    pub(super) fn has(&self, digest: &Digested) -> bool {
        self.stored.contains_key(digest)
    }

    /// Writes vectors, in requests that Chroma takes. A vector that is none is passed over.
    pub(super) async fn put(
        &mut self,
        model: &dyn Embedding,
        digests: &[Digested],
        vectors: Vec<Vec<f32>>,
    ) -> Result<(), Trouble> {
        let written = self.write(model, digests, vectors).await;
        self.closed_by(written)
    }

    async fn write(
        &mut self,
        model: &dyn Embedding,
        digests: &[Digested],
        vectors: Vec<Vec<f32>>,
    ) -> Result<(), Trouble> {
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
    ) -> Result<(), Trouble> {
        let Some(open) = &self.open else { return Err(gone(&self.link.name)) };
        let digests: Vec<Digested> = new.iter().map(|(digest, _)| *digest).collect();
        let record =
            |(digest, numbers): (Digested, Vec<f32>)| Vector { id: open.naming.id(&digest), numbers };
        let records = Records::bare(new.into_iter().map(record).collect(), dimension);
        let records = records.map_err(|bad: BadRecords| unsendable(&bad.to_string()))?;
        limited(self.link.chroma.upsert(collection, &records)).await?;
        self.fresh += digests.len();
        self.stored.extend(digests.into_iter().map(|digest| (digest, Whose::Ours)));
        Ok(())
    }

    /// The collection and its dimension, made if it is not there.
    async fn collection(&mut self, model: &dyn Embedding, length: usize) -> Result<(Uuid, usize), Trouble> {
        let Some(open) = &mut self.open else { return Err(gone(&self.link.name)) };
        if let Some(known) = open.collection {
            return Ok(known);
        }
        let (made, dimension) = self.link.make(model, length).await?;
        open.collection = Some((made.id, dimension));
        Ok((made.id, dimension))
    }

    /// Makes the way for searches, anew where many vectors are others than before.
    pub(super) async fn settle(&mut self, vectors: &Vectors) -> Result<(), Trouble> {
        let Some(Open { collection: Some((id, dimension)), naming, .. }) = &self.open else { return Ok(()) };
        let passages = vectors.passages();
        let is_same = self.fresh * DRIFT <= passages
            && self.reach.as_ref().is_some_and(|reach| reach.collection == *id);
        if passages == 0 || is_same {
            return Ok(());
        }
        let sampled = self.mean(*id, *dimension, naming, vectors).await;
        let reach = sampled.map(|mean| Reach {
            link: Arc::clone(&self.link),
            collection: *id,
            naming: naming.clone(),
            mean,
        });
        match reach {
            Ok(reach) => (self.reach, self.fresh) = (Some(Arc::new(reach)), 0),
            Err(trouble) => return self.closed_by(Err(trouble)),
        }
        Ok(())
    }

    /// The mean of stored vectors, evenly chosen.
    async fn mean(
        &self,
        collection: Uuid,
        dimension: usize,
        naming: &Naming,
        vectors: &Vectors,
    ) -> Result<Vec<f32>, Trouble> {
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

    /// Deletes what is of no document. A folder that has none may be a disk that is not mounted yet, and to
    /// embed everything again costs more than to leave it there.
    pub(super) async fn forget(&mut self, vectors: &Vectors) -> Result<(), Trouble> {
        if vectors.by_serial.is_empty() {
            return Ok(());
        }
        let Some(Open { collection: Some((id, _)), naming, .. }) = &self.open else { return Ok(()) };
        let wanted: HashSet<&Digested> = vectors.by_serial.values().flat_map(|of| &of.digests).collect();
        let is_stale =
            |(digest, whose): &(&Digested, &Whose)| **whose == Whose::Ours && !wanted.contains(digest);
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
        self.closed_by(done.map_err(Trouble::from))
    }

    /// Whatever went wrong, what is there is looked at again before anything else is done.
    fn closed_by<T>(&mut self, outcome: Result<T, Trouble>) -> Result<T, Trouble> {
        if outcome.is_err() {
            self.open = None;
        }
        outcome
    }

    pub(super) fn reach(&self) -> Option<Arc<Reach>> {
        self.reach.clone()
    }

    pub(super) fn is_outage(&self) -> bool {
        self.link.outage.is_on()
    }

    /// Resolves when it is to be looked at again: it is time to, or there is news.
    pub(super) async fn is_due(&mut self) {
        let until = self.open.as_ref().map(|open| open.until);
        tokio::select! {
            () = at(until) => {}
            () = self.link.news.notified() => {}
        }
        self.open = None;
    }

    /// Resolves when there is news.
    pub(super) async fn is_back(&mut self) {
        self.link.news.notified().await;
        self.open = None;
    }
}
