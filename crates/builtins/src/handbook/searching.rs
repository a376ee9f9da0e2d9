//! A search, from the question to the answer that is remembered: what is done on threads that may block, and what
//! is waited for between.
//!
//! Invariant: an answer is remembered for the state it was made from, and not where the same would soon be
//! answered better.

use std::sync::Arc;

use super::arguments::Search;
use super::corpus::Snapshot;
use super::meaning::{Asked, Meaning, Question};
use super::{Handbook, answers};
use protocol::Reply;
use upstream::api::Error;

impl Handbook {
    /// What a search finds, which is remembered unless the same would soon be answered better.
    pub(super) async fn found(&self, snapshot: Arc<Snapshot>, search: Search) -> Result<Reply, Error> {
        let state = self.meaning.as_ref().map(Meaning::state).unwrap_or_default();
        let moment = (snapshot.generation << u32::BITS) | u64::from(state.version);
        if let Some(known) = self.cache.get(moment, &search) {
            return Ok(Ok(known));
        }
        let asked = match &self.meaning {
            Some(meaning) => meaning.question(&state, &search.query).await,
            None => Asked::ByWords,
        };
        let mut is_lasting = !matches!(asked, Asked::NotNow);
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

    /// What a search finds whose vectors are at Chroma, and whether Chroma answered: it is asked between the
    /// search for words and the answer, on no thread that may block.
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
            let wish = found.wish(&at, &asked);
            Ok((found, wish))
        };
        let (found, wish) = match self.done(by_words).await? {
            Ok(found) => found,
            Err(reply) => return Ok((true, reply)),
        };
        let nearby = question.ask(&wish).await;
        let answered = nearby.is_some();
        let answer = move || Ok(found.answer(&snapshot, &search, Some(&question), nearby));
        Ok((answered, self.work_out(answer).await?))
    }
}
