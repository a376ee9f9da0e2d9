//! Searches a collection so that only complete documents are found, even while others are written.
//!
//! Invariants: a record of Switchyard counts only if its revision is that of its document's head (`writing`).
//! Records of other programs always count. All hits of one document have one revision.
//!
//! Chroma selects the nearest records first and reads their content a moment later. So a response may mix two
//! moments: the old records with the new texts, and nothing for records deleted in between. Heads that are
//! not among the hits are read after the query. A document may have been replaced during the query in two
//! cases:
//!
//! - One of its records is older than its head.
//! - Its head is so young that it may not have existed when the query began.
//!
//! A record without content may be deleted. In all these cases the query is repeated, with heads that were
//! read before it. A record that is still older than its head is a leftover. One that is newer, or has no
//! head, belongs to an unfinished write. Both are excluded by revision from the next query. Revisions of
//! heads only grow, so a record that does not count by a head did not count in the query before either. A
//! document that is replaced again and again is found by its head, which always exists.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::{Value, json};
use uuid::Uuid;

use super::ChromaClient;
use super::layout::{Head, RecordMark, head_id, now};
use super::model::{Hit, Select, VectorQuery};
use upstream::api::Error;

/// Queries of one search. After that, heads stand for their documents.
const ROUNDS: usize = 6;
/// Most records of one query. With the longest chunks and metadata they stay within the response limit.
const MOST_ASKED: usize = 200;
/// Most revisions that a query excludes.
const MOST_DEAD: usize = 100;
/// Age in microseconds, at the end of a query, below which a head may have been written during it. Allows for
/// the duration of a write and a query, and for clock differences.
const YOUNG: i64 = 2_000_000;

/// A search for the nearest records.
#[derive(Debug, Clone)]
pub(super) struct NearestSearch {
    pub vector: Vec<f32>,
    /// Filter in the form that Chroma accepts.
    pub filter: Option<Value>,
    pub desired: usize,
}

/// Returns the nearest hits that count, at most as many as wanted.
pub(super) async fn seek(
    chroma: &ChromaClient,
    collection: Uuid,
    search: NearestSearch,
) -> Result<Vec<Hit>, Error> {
    let limit = search.desired.clamp(1, MOST_ASKED);
    let mut run = SearchRun {
        chroma,
        collection,
        search,
        limit,
        heads: HashMap::new(),
        dead: BTreeMap::new(),
        bare: HashSet::new(),
    };
    for _ in 0..ROUNDS - 1 {
        let round = run.round().await?;
        if round.is_settled {
            return Ok(run.best(round.counting));
        }
    }
    let last = run.round().await?;
    run.with_heads(last).await
}

struct SearchRun<'a> {
    chroma: &'a ChromaClient,
    collection: Uuid,
    search: NearestSearch,
    limit: usize,
    /// Revisions of heads, as last read.
    heads: HashMap<String, i64>,
    /// Revisions that do not count, with their documents.
    dead: BTreeMap<i64, String>,
    /// Ids of records without content. One that appears again was not deleted.
    bare: HashSet<String>,
}

struct Round {
    counting: Vec<Hit>,
    /// Documents that were replaced between the query and the reading of their heads.
    replaced: BTreeSet<String>,
    is_settled: bool,
}

impl SearchRun<'_> {
    async fn round(&mut self) -> Result<Round, Error> {
        let filter = self.filter();
        let query = VectorQuery { vector: self.search.vector.clone(), limit: self.limit, filter };
        let hits = self.chroma.query(self.collection, &query).await?;
        let is_all = hits.len() < self.limit;
        let young = now() - YOUNG;
        let before = self.read_heads(&hits).await?;
        // An excluded revision is the head's now.
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
        let is_enough = is_all || round.counting.len() >= self.search.desired;
        let is_the_most = self.limit >= MOST_ASKED && self.dead.len() == many;
        let is_still = round.replaced.is_empty() && revived.is_empty() && self.bare.len() == bare;
        round.is_settled = is_still && (is_enough || is_the_most);
        if !is_enough {
            self.limit = (self.limit * 2).min(MOST_ASKED);
        }
        Ok(round)
    }

    /// Returns the client's filter, without the revisions known not to count.
    fn filter(&self) -> Option<Value> {
        let dead: Vec<i64> = self.dead.keys().copied().collect();
        let without = (!dead.is_empty()).then(|| json!({"revision": {"$nin": dead}}));
        joined(self.search.filter.clone(), without)
    }

    /// Notes the heads among the hits and reads the missing ones. Returns the heads known before.
    async fn read_heads(&mut self, hits: &[Hit]) -> Result<HashMap<String, i64>, Error> {
        let inside = heads_among(hits);
        let documents = hits.iter().filter_map(RecordMark::of).map(|mark| mark.document);
        let outside = documents.filter(|document| !inside.contains_key(document));
        let desired: BTreeSet<String> = outside.chain(self.dead.values().cloned()).collect();
        let mut heads = inside;
        if !desired.is_empty() {
            let ids = desired.iter().map(|document| head_id(document)).collect();
            let select = Select { ids: Some(ids), ..Select::default() };
            let found = self.chroma.marks(self.collection, &select).await?;
            heads.extend(
                found.iter().filter(|hit| Head::of(hit).is_some()).filter_map(RecordMark::of).map(pair),
            );
        }
        Ok(std::mem::replace(&mut self.heads, heads))
    }

    fn judge(&mut self, hit: Hit, is_known: &dyn Fn(&String, i64) -> bool, round: &mut Round) {
        if hit.document.is_none() && hit.metadata.is_empty() && self.bare.insert(hit.id.clone()) {
            return; // deleted, or somebody's vector without anything
        }
        let Some(RecordMark { document, revision }) = RecordMark::of(&hit) else {
            return round.counting.push(hit);
        };
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
        counting.truncate(self.search.desired);
        counting
    }

    /// Returns the hits that count in `round`, and the heads of documents that were replaced during it.
    async fn with_heads(&self, round: Round) -> Result<Vec<Hit>, Error> {
        let mut counting = round.counting;
        if !round.replaced.is_empty() {
            let documents: Vec<_> = round.replaced.into_iter().collect();
            counting.retain(|hit| RecordMark::of(hit).is_none_or(|mark| !documents.contains(&mark.document)));
            let heads = json!({"$and": [{"document_id": {"$in": documents}}, {"chunk_index": {"$eq": 0}}]});
            let filter = joined(self.search.filter.clone(), Some(heads));
            let query = VectorQuery { vector: self.search.vector.clone(), limit: self.limit, filter };
            counting.extend(self.chroma.query(self.collection, &query).await?);
        }
        Ok(self.best(counting))
    }
}

/// Returns the heads among `hits`, with their revisions.
fn heads_among(hits: &[Hit]) -> HashMap<String, i64> {
    hits.iter().filter(|hit| Head::of(hit).is_some()).filter_map(RecordMark::of).map(pair).collect()
}

fn pair(mark: RecordMark) -> (String, i64) {
    (mark.document, mark.revision)
}

fn joined(one: Option<Value>, other: Option<Value>) -> Option<Value> {
    match (one, other) {
        (Some(one), Some(other)) => Some(json!({"$and": [one, other]})),
        (one, other) => one.or(other),
    }
}
