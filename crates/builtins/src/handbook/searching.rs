//! Runs a search, from the query to the cached result: work on blocking threads, and the waiting between.
//!
//! Invariant: a result is cached for the state that it was made from. It is not cached if a better result is
//! likely soon.

use std::sync::Arc;

use super::arguments::Search;
use super::semantic::{QueryPlan, Question, SemanticIndex};
use super::snapshot::Snapshot;
use super::{Handbook, answers};
use protocol::Reply;
use upstream::api::Error;

impl Handbook {
    /// Runs a search, and caches the result unless a better one is likely soon.
    pub(super) async fn found(&self, snapshot: Arc<Snapshot>, search: Search) -> Result<Reply, Error> {
        let state = self.semantic.as_ref().map(SemanticIndex::state).unwrap_or_default();
        let moment = (snapshot.generation << u32::BITS) | u64::from(state.version);
        if let Some(known) = self.cache.get(moment, &search) {
            return Ok(Ok(known));
        }
        let asked = match &self.semantic {
            Some(semantic) => semantic.question(&state, &search.query).await,
            None => QueryPlan::ByWords,
        };
        let mut is_lasting = !matches!(asked, QueryPlan::NotNow);
        let wanted = search.clone();
        let reply = match asked.question() {
            Some(question) if question.is_asked_elsewhere() => {
                let (answered, reply) = self.with_chroma(snapshot, wanted, question).await?;
                is_lasting = answered;
                reply
            }
            question => self.work_out(move || answers::search(&snapshot, &wanted, question.as_ref())).await?,
        };
        if let Ok(answer) = reply.as_ref()
            && is_lasting
        {
            self.cache.put(moment, search, answer.clone());
        }
        Ok(reply)
    }

    /// Runs a search whose vectors are at Chroma. Also returns whether Chroma answered. Chroma is asked
    /// between the search by words and the result, outside of blocking threads.
    async fn with_chroma(
        &self,
        snapshot: Arc<Snapshot>,
        search: Search,
        question: Question,
    ) -> Result<(bool, Reply), Error> {
        let question = Arc::new(question);
        let (asked, at, search) = (Arc::clone(&question), Arc::clone(&snapshot), Arc::new(search));
        let wanted = Arc::clone(&search);
        let by_words = move || {
            let found = answers::by_words(&at, &wanted)?;
            let chroma_search = found.chroma_search(&at, &asked);
            Ok((found, chroma_search))
        };
        let (found, chroma_search) = match self.done(by_words).await? {
            Ok(found) => found,
            Err(reply) => return Ok((true, reply)),
        };
        let nearby = question.ask(&chroma_search).await;
        let answered = nearby.is_some();
        let answer = move || Ok(found.answer(&snapshot, &search, Some(&question), nearby));
        Ok((answered, self.work_out(answer).await?))
    }
}
