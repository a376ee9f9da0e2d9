//! A query that prefers a section with all words over one with a few frequent words.
//!
//! BM25 adds up the scores of the words, so one rare word in a short section can outweigh a section that
//! answers the whole question. Here the sum is multiplied by a factor that grows with the number of matching
//! clauses.

use tantivy::Score;
use tantivy::query::{BooleanWeight, EnableScoring, Occur, Query, ScoreCombiner, Scorer, Weight};

/// Factor for a section in which almost no clause matches.
const LEAST: Score = 0.4;

/// Matches sections in which at least one of the clauses matches.
#[derive(Debug)]
pub(super) struct CoverageQuery(pub Vec<Box<dyn Query>>);

impl Clone for CoverageQuery {
    fn clone(&self) -> Self {
        Self(self.0.iter().map(|clause| clause.box_clone()).collect())
    }
}

impl Query for CoverageQuery {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        let weights = self.0.iter().map(|clause| Ok((Occur::Should, clause.weight(scoring)?)));
        let clauses = weights.collect::<tantivy::Result<Vec<_>>>()?;
        // A query has a few dozen clauses at most.
        let total = u16::try_from(self.0.len()).unwrap_or(u16::MAX);
        let combiner = move || Coverage { total: total.max(1), matched: 0, sum: 0.0 };
        let is_scored = scoring.is_scoring_enabled();
        let weight =
            BooleanWeight::with_minimum_number_should_match(clauses, 1, is_scored, Box::new(combiner));
        Ok(Box::new(weight))
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Coverage {
    total: u16,
    matched: u16,
    sum: Score,
}

impl ScoreCombiner for Coverage {
    fn update<S: Scorer>(&mut self, scorer: &mut S) {
        self.matched = self.matched.saturating_add(1);
        self.sum += scorer.score();
    }

    fn clear(&mut self) {
        (self.matched, self.sum) = (0, 0.0);
    }

    fn score(&self) -> Score {
        let share = Score::from(self.matched) / Score::from(self.total.max(1));
        self.sum * (LEAST + (1.0 - LEAST) * share)
    }
}

#[cfg(test)]
mod tests {
    use tantivy::Term;
    use tantivy::query::TermQuery;
    use tantivy::schema::IndexRecordOption;

    use super::*;
    use crate::handbook::document::{Document, Origin};
    use crate::handbook::git::Blob;
    use crate::handbook::index::IndexQuery;
    use crate::handbook::index::SearchIndex;

    #[test]
    fn all_words_once_are_worth_more_than_one_word_often() {
        let index = SearchIndex::new().expect("an index");
        let edit = index.change().expect("a writer");
        for (serial, text) in
            [(1, "gate gate gate gate"), (2, "open the gate slowly now"), (3, "x"), (4, "y")]
        {
            let modified = std::time::SystemTime::UNIX_EPOCH;
            let blob = Blob::of(text.as_bytes());
            let origin = Origin { serial, file_path: format!("{serial}.md"), modified, blob };
            let (document, bodies) = Document::parse(origin, text.to_owned());
            edit.add(&document, &bodies).expect("added");
        }
        edit.commit().expect("committed");
        let state = index.state();
        let word = |word: &str| {
            let term = Term::from_field_text(state.fields.body, word);
            Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs)) as Box<dyn Query>
        };
        let query = CoverageQuery(vec![word("gate"), word("slowli"), word("nowher"), word("nothing")]);
        let found =
            state.search(&IndexQuery { query: Box::new(query), pairs: Vec::new() }).expect("searched");
        assert_eq!(found.iter().map(|found| found.document).collect::<Vec<_>>(), [2, 1]);
    }
}
