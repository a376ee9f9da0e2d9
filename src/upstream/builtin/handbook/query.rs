//! What a person typed as a query: built from words, so no text is a syntax error.
//!
//! Each word may stand in the heading, in its place (title, headings above, file name) or in the
//! text; headings weigh most. Neighbours that stand together weigh more. Words that carry no
//! meaning count only when there are no others. A word the documents do not have is taken for a
//! misspelling or the beginning of one they have.

use std::collections::HashSet;
use std::sync::LazyLock;

use tantivy::Term;
use tantivy::query::{
    BooleanQuery, BoostQuery, ConstScoreQuery, DisjunctionMaxQuery, FuzzyTermQuery, Occur, PhraseQuery,
    Query, TermQuery,
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
const WEIGHTS: [f32; 3] = [2.4, 1.6, 1.0];
/// How much a word counts that stands in a second and third field too.
const TIE: f32 = 0.3;
/// Weight of neighbours, against that of the words alone.
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

/// The query for these words, within `scope` if there is one. `None` when nothing can match.
pub(super) fn build(
    state: &State,
    words: &[Word],
    scope: Option<&str>,
) -> tantivy::Result<Option<Box<dyn Query>>> {
    let mut clauses: Vec<Box<dyn Query>> = Vec::new();
    let mut seen = HashSet::new();
    let mut guesses = 0;
    for word in words.iter().filter(|word| seen.insert(word.text.as_str())) {
        if is_known(state, &word.text)? {
            clauses.push(anywhere(state, |field| Some(exact(field, &word.text))));
        } else if !word.whole && guesses < MOST_GUESSES {
            guesses += 1;
            clauses.extend(guessed(state, &word.text));
        }
    }
    if clauses.is_empty() {
        return Ok(None);
    }
    let mut clauses: Vec<Box<dyn Query>> = vec![Box::new(CoverageQuery(clauses))];
    let parts: Vec<&Word> = words.iter().filter(|word| !word.whole).collect();
    for pair in parts.windows(2).filter(|pair| pair[0].text != pair[1].text) {
        clauses.push(neighbours(state, &pair[0].text, &pair[1].text));
    }
    let clauses = clauses.into_iter().map(|clause| (Occur::Should, clause)).collect();
    Ok(Some(within(state, scope, Box::new(BooleanQuery::new(clauses)))))
}

fn within(state: &State, scope: Option<&str>, query: Box<dyn Query>) -> Box<dyn Query> {
    let Some(scope) = scope else { return query };
    let filter = Box::new(ConstScoreQuery::new(exact(state.fields.scope, scope), 0.0));
    Box::new(BooleanQuery::new(vec![(Occur::Must, query), (Occur::Must, filter)]))
}

fn is_known(state: &State, word: &str) -> tantivy::Result<bool> {
    for field in state.fields.with_words() {
        if state.count(field, word)? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
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

fn neighbours(state: &State, left: &str, right: &str) -> Box<dyn Query> {
    let phrase = |field| {
        let terms = [left, right].map(|word| Term::from_field_text(field, word));
        let mut phrase = PhraseQuery::new(terms.to_vec());
        phrase.set_slop(1);
        Some(Box::new(phrase) as Box<dyn Query>)
    };
    Box::new(BoostQuery::new(anywhere(state, phrase), NEIGHBOURS))
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
