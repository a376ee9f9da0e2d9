//! What a person typed as a query: built from words, so no text is a syntax error.
//!
//! Each word may stand in the heading, in its place (title, headings above, file name) or in the
//! text; headings weigh most. Neighbours that stand together weigh more (`neighbours`). Words that carry no
//! meaning count only when there are no others. A word the documents do not have is taken for a
//! misspelling or the beginning of one they have.

use std::collections::HashSet;
use std::sync::LazyLock;

use tantivy::Term;
use tantivy::query::{
    BooleanQuery, BoostQuery, ConstScoreQuery, DisjunctionMaxQuery, FuzzyTermQuery, Occur, Query, TermQuery,
};
use tantivy::schema::{Field, IndexRecordOption};

use super::coverage::CoverageQuery;
use super::index::State;
use super::words::{Word, words_of};

/// Words of a query that are looked for; a longer one is a pasted text, and its beginning tells
/// what it is about.
const MOST_WORDS: usize = 48;
/// Words that may be misspelled, each of which costs a walk through the dictionary.
const MOST_GUESSES: usize = 6;
/// Weights of heading, place and text.
pub(super) const WEIGHTS: [f32; 3] = [2.4, 1.6, 1.0];
/// How much a word counts that stands in a second and third field too.
const TIE: f32 = 0.3;
/// What two neighbours are worth together, against what each is worth alone.
const NEIGHBOURS: f32 = 0.6;
/// Score of a word found by guessing; a found word of medium rarity has about as much.
const GUESS: f32 = 2.0;

/// Words of questions that are in every text and about none.
const EMPTY: &str = "a about am an and any are as at be been but by can could did do does for from get \
    had happen happens has have how i if in into is it its me mean means my of on or our please shall \
    should so some such than that the their them then there these they this to us want was way we were \
    what when where which while who whom why will with would you your \
    а без бы в во где для до же за и из или как когда ли на не но о об от по при с со то у что это я";

static EMPTY_WORDS: LazyLock<HashSet<String>> =
    LazyLock::new(|| words_of(EMPTY, usize::MAX).into_iter().map(|word| word.text).collect());

/// The words of a query that are looked for, in order.
pub(super) fn asked(text: &str) -> Vec<Word> {
    let words = words_of(text, 4 * MOST_WORDS);
    let full = |word: &Word| word.whole || !EMPTY_WORDS.contains(&word.text);
    let mut asked: Vec<Word> = words.iter().filter(|word| full(word)).cloned().collect();
    if asked.is_empty() {
        asked = words;
    }
    asked.truncate(MOST_WORDS);
    asked
}

/// What to look for, and what makes a section that was found fit better.
pub(super) struct Asked {
    /// Finds the sections.
    pub query: Box<dyn Query>,
    /// Words that stand together in the question.
    pub pairs: Vec<Pair>,
}

/// Two words that stand together.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pair {
    /// The first.
    pub left: String,
    /// The second.
    pub right: String,
    /// What a section gets for it, times the weight of the field.
    pub worth: f32,
}

/// The query for these words, within `scope` if there is one. `None` when nothing can match.
pub(super) fn build(state: &State, words: &[Word], scope: Option<&str>) -> tantivy::Result<Option<Asked>> {
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
    Ok(Some(Asked { query, pairs: pairs(state, words)? }))
}

/// The neighbours among the words, each pair once.
fn pairs(state: &State, words: &[Word]) -> tantivy::Result<Vec<Pair>> {
    let parts: Vec<&Word> = words.iter().filter(|word| !word.whole).collect();
    let mut pairs: Vec<Pair> = Vec::new();
    for two in parts.windows(2) {
        let (left, right) = (two[0].text.clone(), two[1].text.clone());
        let is_new = !pairs.iter().any(|pair| (&pair.left, &pair.right) == (&left, &right));
        if left != right && is_new && state.is_known(&left)? && state.is_known(&right)? {
            let worth = NEIGHBOURS * (state.rarity(&left)? + state.rarity(&right)?);
            pairs.push(Pair { left, right, worth });
        }
    }
    Ok(pairs)
}

fn within(state: &State, scope: Option<&str>, query: Box<dyn Query>) -> Box<dyn Query> {
    let Some(scope) = scope else { return query };
    let filter = Box::new(ConstScoreQuery::new(exact(state.fields.scope, scope), 0.0));
    Box::new(BooleanQuery::new(vec![(Occur::Must, query), (Occur::Must, filter)]))
}

/// The best of the fields, and a little of the others.
fn anywhere(state: &State, one: impl Fn(Field) -> Option<Box<dyn Query>>) -> Box<dyn Query> {
    let weighted = |(field, weight)| Some(Box::new(BoostQuery::new(one(field)?, weight)) as Box<dyn Query>);
    let queries = state.fields.with_words().into_iter().zip(WEIGHTS).filter_map(weighted).collect();
    Box::new(DisjunctionMaxQuery::with_tie_breaker(queries, TIE))
}

fn exact(field: Field, word: &str) -> Box<dyn Query> {
    Box::new(TermQuery::new(Term::from_field_text(field, word), IndexRecordOption::WithFreqs))
}

/// Words the documents have that look like this one; none for the shortest, which look like many.
/// Two letters may differ in a longer word: without its ending a misspelled one differs more.
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
