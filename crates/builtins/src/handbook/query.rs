//! Builds a search query from the words that a person typed, so that no text is a syntax error.
//!
//! A word may occur in the heading, in the place (title, headings above, file name) or in the text. Headings
//! weigh most. Adjacent words of the query that also stand together in a section weigh more (`neighbours`).
//! Stop words count only if there are no others. A word that no document has is taken for a misspelling or
//! the beginning of a known word.

use std::collections::HashSet;
use std::sync::LazyLock;

use tantivy::query::{
    BooleanQuery, BooleanWeight, BoostQuery, ConstScoreQuery, DisjunctionMaxQuery, EnableScoring,
    FuzzyTermQuery, Occur, Query, ScoreCombiner, Scorer, TermQuery, Weight,
};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{Score, Term};

use super::index::{IndexQuery, State};
use super::neighbours::WordPair;
use super::words::{Word, words_of};

/// Most words that are looked for. A longer query is a pasted text, whose beginning shows its topic.
const MOST_WORDS: usize = 48;
/// Words that may be misspelled. Each costs a walk through the dictionary.
const MOST_GUESSES: usize = 6;
/// Share of a word's score in further fields that have it too.
const TIE: f32 = 0.3;
/// Weight of two adjacent words together, compared with the weight of each alone.
const NEIGHBOURS: f32 = 0.6;
/// Score of a guessed word, about that of a found word of medium rarity.
const GUESS: f32 = 2.0;

/// Stop words: words of questions that every text has.
const EMPTY: &str = "a about am an and any are as at be been but by can could did do does for from get \
    had happen happens has have how i if in into is it its me mean means my of on or our please shall \
    should so some such than that the their them then there these they this to us want was way we were \
    what when where which while who whom why will with would you your \
    а без бы в во где для до же за и из или как когда ли на не но о об от по при с со то у что это я";

static EMPTY_WORDS: LazyLock<HashSet<String>> =
    LazyLock::new(|| words_of(EMPTY, usize::MAX).into_iter().map(|word| word.text).collect());

/// Returns the words of a query that are looked for, in order.
pub(super) fn requested(text: &str) -> Vec<Word> {
    let words = words_of(text, 4 * MOST_WORDS);
    let full = |word: &Word| word.whole || !EMPTY_WORDS.contains(&word.text);
    let mut requested: Vec<Word> = words.iter().filter(|word| full(word)).cloned().collect();
    if requested.is_empty() {
        requested = words;
    }
    requested.truncate(MOST_WORDS);
    requested
}

/// Builds the query for these words, within `scope` if there is one. Returns `None` if nothing can match.
pub(super) fn build(
    state: &State,
    words: &[Word],
    scope: Option<&str>,
) -> tantivy::Result<Option<IndexQuery>> {
    let mut clauses: Vec<Box<dyn Query>> = Vec::new();
    let mut seen = HashSet::new();
    let mut guesses = 0;
    for word in words.iter().filter(|word| seen.insert(word.text.as_str())) {
        if state.is_known(&word.text)? {
            clauses.push(anywhere(state, |field| Some(exact(field, &word.text))));
        } else if !word.whole && guesses < MOST_GUESSES {
            guesses += 1;
            clauses.extend(guessed(state, &word.text));
        }
    }
    if clauses.is_empty() {
        return Ok(None);
    }
    let query = within(state, scope, Box::new(CoverageQuery(clauses)));
    Ok(Some(IndexQuery { query, pairs: pairs(state, words)? }))
}

/// Returns the pairs of adjacent words, each once.
fn pairs(state: &State, words: &[Word]) -> tantivy::Result<Vec<WordPair>> {
    let parts: Vec<&Word> = words.iter().filter(|word| !word.whole).collect();
    let mut pairs: Vec<WordPair> = Vec::new();
    for two in parts.windows(2) {
        let (left, right) = (two[0].text.clone(), two[1].text.clone());
        let is_new = !pairs.iter().any(|pair| (&pair.left, &pair.right) == (&left, &right));
        if left != right && is_new && state.is_known(&left)? && state.is_known(&right)? {
            let worth = NEIGHBOURS * (state.rarity(&left)? + state.rarity(&right)?);
            pairs.push(WordPair { left, right, worth });
        }
    }
    Ok(pairs)
}

fn within(state: &State, scope: Option<&str>, query: Box<dyn Query>) -> Box<dyn Query> {
    let Some(scope) = scope else { return query };
    let filter = Box::new(ConstScoreQuery::new(exact(state.fields.scope, scope), 0.0));
    Box::new(BooleanQuery::new(vec![(Occur::Must, query), (Occur::Must, filter)]))
}

/// Scores the best of the fields, and a share of the others.
fn anywhere(state: &State, one: impl Fn(Field) -> Option<Box<dyn Query>>) -> Box<dyn Query> {
    let weighted = |(field, weight)| Some(Box::new(BoostQuery::new(one(field)?, weight)) as Box<dyn Query>);
    let queries = state.fields.weighted().into_iter().filter_map(weighted).collect();
    Box::new(DisjunctionMaxQuery::with_tie_breaker(queries, TIE))
}

fn exact(field: Field, word: &str) -> Box<dyn Query> {
    Box::new(TermQuery::new(Term::from_field_text(field, word), IndexRecordOption::WithFreqs))
}

/// Finds words of the documents that are similar to this one; none for the shortest words, which resemble too
/// many. In a longer word two letters may differ, because stemming makes misspellings differ more.
fn guessed(state: &State, word: &str) -> Option<Box<dyn Query>> {
    let length = word.chars().count();
    if length < 3 {
        return None;
    }
    let near = |field| {
        let term = || Term::from_field_text(field, word);
        let mut alike: Vec<Box<dyn Query>> = vec![
            Box::new(FuzzyTermQuery::new_prefix(term(), 0, true)),
            Box::new(FuzzyTermQuery::new(term(), 1, true)),
        ];
        if length >= 6 {
            let farther = Box::new(FuzzyTermQuery::new(term(), 2, true));
            alike.push(Box::new(BoostQuery::new(farther, 0.5)));
        }
        Some(Box::new(DisjunctionMaxQuery::new(alike)) as Box<dyn Query>)
    };
    Some(Box::new(BoostQuery::new(anywhere(state, near), GUESS)))
}

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
