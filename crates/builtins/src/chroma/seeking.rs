//! A search that finds whole documents only, while others are being written.
//!
//! Invariants: of our records those are found that count, which is those of their head's revision
//! (`writing`); records of others count as they are; all that is found of one document is of one revision.
//!
//! Chroma first looks which records are near and reads what they say a moment later, so what comes may be
//! of both moments: the nearest records of before with the texts of after, and nothing at all of records
//! that were deleted in between. The heads that are not among the hits are read behind that. So a document
//! may have been replaced during a query if one of its records is older than its head, or if its
//! head is so young that it may not have been there when the query began; and a record that says nothing
//! may be gone. Then it is asked again, and what is known of heads by then was true before that query.
//! What is still older is a leftover. What is newer than its head, or has none, is not finished or
//! never will be; both are left out by their revision when it is asked for more. Heads only ever grow, so
//! whatever did not count by a head that was read did not count in the query before it either. A document
//! that is replaced again and again while it is searched for is found by its head, which is never gone.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::{Value, json};
use uuid::Uuid;

use super::Chroma;
use super::layout::{Head, Mark, head_id, now};
use super::model::{Hit, Query, Select};
use upstream::api::Error;

/// Queries of one search, before heads stand for documents.
const ROUNDS: usize = 6;
/// Records of one query: with the longest chunks and metadata below what is read of an answer.
const MOST_ASKED: usize = 200;
/// Revisions that are left out by name.
const MOST_DEAD: usize = 100;
/// Microseconds between a revision and the end of a query in which it may have become what counts: what
/// a writer and a query take, and what clocks differ.
const YOUNG: i64 = 2_000_000;

/// What is searched for.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    pub vector: Vec<f32>,
    /// As Chroma takes it.
    pub filter: Option<Value>,
    pub wanted: usize,
}

/// Hits that count, the nearest first, at most as many as are wanted.
pub(super) async fn seek(chroma: &Chroma, collection: Uuid, wish: Wish) -> Result<Vec<Hit>, Error> {
    let limit = wish.wanted.clamp(1, MOST_ASKED);
    let mut seeker = Seeker {
        chroma,
        collection,
        wish,
        limit,
        heads: HashMap::new(),
        dead: BTreeMap::new(),
        bare: HashSet::new(),
    };
    for _ in 0..ROUNDS - 1 {
        let round = seeker.round().await?;
        if round.is_settled {
            return Ok(seeker.best(round.counting));
        }
    }
    let last = seeker.round().await?;
    seeker.with_heads(last).await
}

struct Seeker<'a> {
    chroma: &'a Chroma,
    collection: Uuid,
    wish: Wish,
    limit: usize,
    /// Revisions of heads, as they were read last.
    heads: HashMap<String, i64>,
    /// Revisions that do not count, and whose they are.
    dead: BTreeMap<i64, String>,
    /// Ids of records that said nothing. What is there once more was not deleted.
    bare: HashSet<String>,
}

struct Round {
    counting: Vec<Hit>,
    /// Documents that were replaced between the query and the look at their heads.
    replaced: BTreeSet<String>,
    is_settled: bool,
}

impl Seeker<'_> {
    async fn round(&mut self) -> Result<Round, Error> {
        let filter = self.filter();
        let query = Query { vector: self.wish.vector.clone(), limit: self.limit, filter };
        let hits = self.chroma.query(self.collection, &query).await?;
        let is_all = hits.len() < self.limit;
        let young = now() - YOUNG;
        let before = self.read_heads(&hits).await?;
        // One that was left out has become what counts.
        let flipped = |(revision, document): (&i64, &String)| self.heads.get(document) == Some(revision);
        let revived: Vec<i64> = self.dead.iter().filter(|entry| flipped(*entry)).map(|(at, _)| *at).collect();
        self.dead.retain(|revision, _| !revived.contains(revision));
        let mut round = Round { counting: Vec::new(), replaced: BTreeSet::new(), is_settled: false };
        let is_known =
            |document: &String, head: i64| before.get(document).is_some_and(|known| *known >= head);
        let may_be_new = |(document, head): &(&String, &i64)| **head > young && !is_known(document, **head);
        round.replaced.extend(self.heads.iter().filter(may_be_new).map(|(document, _)| document.clone()));
        let (many, bare) = (self.dead.len(), self.bare.len());
        for hit in hits {
            self.judge(hit, &is_known, &mut round);
        }
        let is_enough = is_all || round.counting.len() >= self.wish.wanted;
        let is_the_most = self.limit >= MOST_ASKED && self.dead.len() == many;
        let is_still = round.replaced.is_empty() && revived.is_empty() && self.bare.len() == bare;
        round.is_settled = is_still && (is_enough || is_the_most);
        if !is_enough {
            self.limit = (self.limit * 2).min(MOST_ASKED);
        }
        Ok(round)
    }

    /// What the caller wants, without what is known not to count.
    fn filter(&self) -> Option<Value> {
        let dead: Vec<i64> = self.dead.keys().copied().collect();
        let without = (!dead.is_empty()).then(|| json!({"revision": {"$nin": dead}}));
        joined(self.wish.filter.clone(), without)
    }

    /// Notes the heads among the hits and reads those that are not; gives what was known of heads before.
    async fn read_heads(&mut self, hits: &[Hit]) -> Result<HashMap<String, i64>, Error> {
        let inside = heads_among(hits);
        let documents = hits.iter().filter_map(Mark::of).map(|mark| mark.document);
        let outside = documents.filter(|document| !inside.contains_key(document));
        let wanted: BTreeSet<String> = outside.chain(self.dead.values().cloned()).collect();
        let mut heads = inside;
        if !wanted.is_empty() {
            let ids = wanted.iter().map(|document| head_id(document)).collect();
            let select = Select { ids: Some(ids), ..Select::default() };
            let found = self.chroma.marks(self.collection, &select).await?;
            heads.extend(found.iter().filter(|hit| Head::of(hit).is_some()).filter_map(Mark::of).map(pair));
        }
        Ok(std::mem::replace(&mut self.heads, heads))
    }

    fn judge(&mut self, hit: Hit, is_known: &dyn Fn(&String, i64) -> bool, round: &mut Round) {
        if hit.document.is_none() && hit.metadata.is_empty() && self.bare.insert(hit.id.clone()) {
            return; // deleted, or somebody's vector without anything
        }
        let Some(Mark { document, revision }) = Mark::of(&hit) else { return round.counting.push(hit) };
        match self.heads.get(&document).copied() {
            Some(head) if head == revision => round.counting.push(hit),
            Some(head) if head > revision && !is_known(&document, head) => {
                round.replaced.insert(document);
            }
            _ if self.dead.len() < MOST_DEAD => {
                self.dead.insert(revision, document);
            }
            _ => {}
        }
    }

    fn best(&self, mut counting: Vec<Hit>) -> Vec<Hit> {
        let far = |hit: &Hit| hit.distance.unwrap_or(f64::MAX);
        counting.sort_by(|a, b| far(a).total_cmp(&far(b)));
        counting.truncate(self.wish.wanted);
        counting
    }

    /// What counts in `round`, and the heads of what was replaced during it.
    async fn with_heads(&self, round: Round) -> Result<Vec<Hit>, Error> {
        let mut counting = round.counting;
        if !round.replaced.is_empty() {
            let documents: Vec<_> = round.replaced.into_iter().collect();
            counting.retain(|hit| Mark::of(hit).is_none_or(|mark| !documents.contains(&mark.document)));
            let heads = json!({"$and": [{"document_id": {"$in": documents}}, {"chunk_index": {"$eq": 0}}]});
            let filter = joined(self.wish.filter.clone(), Some(heads));
            let query = Query { vector: self.wish.vector.clone(), limit: self.limit, filter };
            counting.extend(self.chroma.query(self.collection, &query).await?);
        }
        Ok(self.best(counting))
    }
}

/// The heads among `hits`, with their revisions.
fn heads_among(hits: &[Hit]) -> HashMap<String, i64> {
    hits.iter().filter(|hit| Head::of(hit).is_some()).filter_map(Mark::of).map(pair).collect()
}

fn pair(mark: Mark) -> (String, i64) {
    (mark.document, mark.revision)
}

fn joined(one: Option<Value>, other: Option<Value>) -> Option<Value> {
    match (one, other) {
        (Some(one), Some(other)) => Some(json!({"$and": [one, other]})),
        (one, other) => one.or(other),
    }
}
